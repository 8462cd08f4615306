//! Manual: pages about subjects that concern more than one item.
//!
//! | page | subject |
//! |---|---|
//! | [`serve_command`] | `tinymcp serve`: tools from programs and files, without Rust |
//! | [`proxy_command`] | `tinymcp proxy`: other transports, other revisions, many servers as one |
//! | [`serve`] | stdio servers: end of input, signals, threads, asking the user, tests |
//! | [`http`] | HTTP servers: sessions, hosts and origins, tokens, proxies |
//! | [`client`] | clients and hubs: deadlines, child processes, URLs, threads, many servers as one |
//! | [`limits`] | every limit with default, range and environment variable |
//! | [`revisions`] | what each revision of the protocol has |
//! | [`boards`] | small computers: build, sizes, memory |
//! | [`security`] | threat model: trust boundaries, promises, their tests |
//! | [`elsewhere`] | known bugs of MCP libraries, and the tests that keep them out of this one |
//! | [`architecture`] | layers, decisions, the path of a call, for readers of the code |
//! | [`requirements`] | the protocol's requirements that comments and tests cite by id |

#[doc = include_str!("manual/serve_command.md")]
pub mod serve_command {}

#[doc = include_str!("manual/proxy_command.md")]
pub mod proxy_command {}

#[doc = include_str!("manual/serve.md")]
pub mod serve {}

#[doc = include_str!("manual/http.md")]
pub mod http {}

#[doc = include_str!("manual/client.md")]
pub mod client {}

#[doc = include_str!("manual/limits.md")]
pub mod limits {}

#[doc = include_str!("manual/revisions.md")]
pub mod revisions {}

#[doc = include_str!("manual/boards.md")]
pub mod boards {}

#[doc = include_str!("manual/security.md")]
pub mod security {}

#[doc = include_str!("manual/elsewhere.md")]
pub mod elsewhere {}

#[doc = include_str!("manual/architecture.md")]
pub mod architecture {}

#[doc = include_str!("manual/requirements.md")]
pub mod requirements {}
