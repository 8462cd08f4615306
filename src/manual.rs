//! Manual: pages about subjects that concern more than one item.
//!
//! | page | subject |
//! |---|---|
//! | [`security`] | threat model: trust boundaries, promises, their tests |
//! | [`requirements`] | the protocol's requirements that comments and tests cite by id |
//! | [`elsewhere`] | known bugs of MCP libraries, and the tests that keep them out of this one |

#[doc = include_str!("manual/elsewhere.md")]
pub mod elsewhere {}

#[doc = include_str!("manual/security.md")]
pub mod security {}

#[doc = include_str!("manual/requirements.md")]
pub mod requirements {}
