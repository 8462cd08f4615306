//! Manual: pages about subjects that concern more than one item.
//!
//! | page | subject |
//! |---|---|
//! | [`serve_command`] | `tinymcp serve`: tools from programs and files, without Rust |
//! | [`proxy_command`] | `tinymcp proxy`: other transports, other revisions, many servers as one |
//! | [`command_line`] | `tinymcp list`, `call`, …: servers at a command line |
//! | [`serve`] | stdio servers: end of input, signals, threads, asking the user |
//! | [`types`] | arguments and results: `record!`, serde with schemars, miniserde |
//! | [`http`] | HTTP servers: sessions, hosts and origins, tokens, proxies |
//! | [`callers`] | entries that only some callers see, limits on the calls of each caller |
//! | [`observe`] | observing a server: summaries of requests, functions around tools, logs, metrics, spans |
//! | [`testing`] | tests of your server: results, bad arguments, questions, cancellation |
//! | [`hosts`] | how to register a server in Claude Code, VS Code, Cursor, Codex and others |
//! | [`client`] | clients and hubs: deadlines, child processes, URLs, threads, many servers as one |
//! | [`sign_in`] | servers that require sign-in: `tinymcp login`, the feature `oauth` |
//! | [`tasks`] | tools whose results clients fetch later, also after a restart |
//! | [`extensions`] | methods and notifications that the protocol does not define; skills; apps |
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

#[doc = include_str!("manual/command_line.md")]
pub mod command_line {}

#[doc = include_str!("manual/serve.md")]
pub mod serve {}

#[doc = include_str!("manual/types.md")]
pub mod types {}

#[doc = include_str!("manual/http.md")]
pub mod http {}

#[doc = include_str!("manual/callers.md")]
pub mod callers {}

#[doc = include_str!("manual/observe.md")]
pub mod observe {}

#[doc = include_str!("manual/testing.md")]
pub mod testing {}

#[doc = include_str!("manual/hosts.md")]
pub mod hosts {}

#[doc = include_str!("manual/client.md")]
pub mod client {}

#[doc = include_str!("manual/sign_in.md")]
pub mod sign_in {}

#[doc = include_str!("manual/tasks.md")]
pub mod tasks {}

#[doc = include_str!("manual/extensions.md")]
pub mod extensions {}

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
