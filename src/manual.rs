//! Manual: pages about subjects that concern more than one item.
//!
//! | page | subject |
//! |---|---|
//! | [`security`] | threat model: trust boundaries, promises, their tests |
//! | [`elsewhere`] | known bugs of MCP libraries, and the tests that keep them out of this one |

#[doc = include_str!("manual/elsewhere.md")]
pub mod elsewhere {}

#[doc = include_str!("manual/security.md")]
pub mod security {}
