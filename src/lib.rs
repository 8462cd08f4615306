//! Model Context Protocol servers, clients and hubs: blocking threads, no async runtime, small
//! programs, every revision of the protocol from one handler.
//!
//! ```no_run
//! use tinymcp::{Server, Tool};
//!
//! tinymcp::record! {
//!     /// Two numbers.
//!     struct Add {
//!         a: f64,
//!         /// At least 0.
//!         b: f64 [0.0..] = 1.0,
//!     }
//! }
//!
//! fn main() -> Result<(), tinymcp::Error> {
//!     let mut server = Server::new("adder", "1.0.0");
//!     server.tool(Tool::new("add").description("Adds two numbers"), |_, add: Add| {
//!         Ok((add.a + add.b).to_string())
//!     })?;
//!     server.serve_stdio()
//! }
//! ```
//!
//! # Start here
//!
//! | task | start with | feature |
//! |---|---|---|
//! | offer tools, resources and prompts | [`Server`], [`Tool`], [`Resource`], [`Prompt`] | – |
//! | define arguments and results | [`record!`](crate::record!), [`choice!`](crate::choice!), [`json!`](crate::json!) | – |
//! | use types of serde and schemars | [`Serde`], module [`serde`] | `schemars` |
//! | return text, images, links, errors | [`ToolOutput`], [`Content`], [`ToolError`] | – |
//! | report progress, ask the user, notice a cancellation | [`Context`], [`Form`] | – |
//! | change what a running server offers, stop it | [`Handle`] | – |
//! | set limits and timeouts | [`Limits`] | – |
//! | test a server in one process | [`memory_links`], [`memory()`] | – |
//! | serve over HTTP | [`Server::http`] | `http-server` |
//! | call a server | [`Client`] | `client`, `http-client`, `tls` |
//! | sign in at a server | module [`oauth`] | `oauth`, `oauth-jwt` |
//! | offer skills, load and verify those of a server | module [`skills`] | `skills` |
//! | use or offer many servers | [`Hub`] | `hub` |
//! | validate by JSON Schema | module [`schema`] | `schema`, `pattern` |
//! | check and simplify tool schemas | module [`lint`] | `lint` |
//!
//! # A tour
//!
//! **A server** is a [`Server`] with entries. A tool has a [`Tool`], which describes it, and a
//! handler: a function of a [`Context`] and the arguments. Handlers are ordinary functions that may
//! block; they run on a small pool of threads. `?` works on any [`std::error::Error`] in a handler:
//! the model reads the message as the result of the tool. [`ErrorContext`] adds what was attempted.
//!
//! **Arguments** are a type that [`record!`](crate::record!) defines. The macro generates the
//! struct, its JSON Schema and a validator, so arguments that reach a handler are valid. A tool
//! without arguments takes `()`, one with a schema written by hand takes [`Json`](json::Json). A
//! type of serde and schemars is an argument as well, in [`Serde`].
//!
//! **A handler may ask the user** with [`Context::elicit`]. Until the answer is known, `?` returns
//! early and no thread waits. Then the handler runs again from its start, so side effects belong
//! below the last question.
//!
//! **One handler serves all revisions.** Up to 2025-11-25 a client opens a session; with 2026-07-28
//! each request stands alone. The library encodes results for the client at hand, and
//! [`manual::revisions`] lists the differences.
//!
//! **Serving** blocks: [`Server::serve_stdio`] returns when the input ends, a signal arrives or
//! [`Handle::stop`] is called. Calls in flight finish first. Every queue, buffer and wait has a
//! limit.
//!
//! **A client** has the same calls for both protocols:
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # fn main() -> Result<(), tinymcp::Error> {
//! use std::process::Command;
//! use tinymcp::{Client, json};
//!
//! let client = Client::spawn(Command::new("./adder"))?;
//! let sum = client.call_tool("add", json!({"a": 2, "b": 40}))?;
//! println!("{}", sum.texts());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "client"))]
//! # fn main() {}
//! ```
//!
//! # Manual
//!
//! The module [`manual`] has a page for each subject. Read these first:
//!
//! | page | subject |
//! |---|---|
//! | [`serve`](manual::serve), [`http`](manual::http) | behaviour of servers: end of input, signals, threads, access control |
//! | [`types`](manual::types) | arguments and results: `record!`, serde, miniserde |
//! | [`callers`](manual::callers) | entries that only some callers see, limits on calls |
//! | [`observe`](manual::observe) | observing a server: logs, metrics, spans |
//! | [`testing`](manual::testing) | tests of your server |
//! | [`hosts`](manual::hosts) | how to register a server in Claude Code, VS Code, Cursor, Codex and others |
//! | [`client`](manual::client) | clients and hubs |
//! | [`limits`](manual::limits) | every limit with its default and variable |
//! | [`serve_command`](manual::serve_command), [`proxy_command`](manual::proxy_command), [`command_line`](manual::command_line) | the program `tinymcp` |
//!
//! # Features
//!
//! No feature is on by default: a stdio server needs none. An item that needs a feature is labelled
//! with it.
//!
//! | feature | adds |
//! |---|---|
//! | `http-server` | Streamable HTTP servers |
//! | `tiny_http` | servers in a program that runs the HTTP server of the crate tiny_http |
//! | `token-introspection`, `token-jwt` | checks of tokens of an authorization server: by RFC 7662; by their signature |
//! | `client` | clients of child processes and byte streams |
//! | `http-client`, `tls`, `oauth`, `oauth-jwt` | clients of URLs; of `https:` URLs; sign-in; its keys |
//! | `hub`, `skills` | many servers as one; folders with instructions for models |
//! | `extensions`, `tasks` | methods of your own and apps; results that come later |
//! | `schema`, `pattern`, `unicode-pattern`, `idn` | JSON Schema; its keyword `pattern`; Unicode in patterns; host names in Unicode |
//! | `observe` | observers of requests, functions around tools |
//! | `access-log`, `prometheus`, `otlp`, `log`, `tracing` | ready-made observers |
//! | `visibility`, `rate-limits` | entries that only some callers see; limits on the calls of each caller |
//! | `lint` | checks of tool schemas, autofix, simplified schemas for strict hosts |
//! | `schemars`, `miniserde` | arguments and results of types that derive the traits of serde and schemars; of miniserde |
//! | `serde`, `serde_json` | conversions of JSON to such types; to `serde_json::Value` |
//! | `serve`, `proxy`, `cli` | the program `tinymcp` with one command, two, all |
//! | `full` | all except `tls`, `tiny_http`, `oauth-jwt`, `token-jwt`, `unicode-pattern` and `idn` |
//!

// Links of the table above to items that this build does not have.
#![cfg_attr(
    not(feature = "full"),
    doc = "[`Client`]: #features\n[`Hub`]: #features\n[`Server::http`]: #features\n[`oauth`]: #features\n\
           [`schema`]: #features\n[`lint`]: #features\n[`Serde`]: #features\n[`serde`]: #features\n\
           [`skills`]: #features"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
mod client;
mod era;
mod error;
#[cfg(all(any(test, fuzzing), feature = "http-server", feature = "http-client"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "hub")]
mod hub;
pub mod json;
mod limits;
#[cfg(feature = "lint")]
pub mod lint;
#[cfg(all(doc, any(not(doctest), feature = "full")))]
// Not an item that a feature enables.
#[cfg_attr(docsrs, doc(auto_cfg = false))]
pub mod manual;
mod model;
#[cfg(feature = "oauth")]
pub mod oauth;
#[cfg(feature = "observe")]
mod observe;
mod pool;
pub mod record;
mod rpc;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod serde;
mod server;
#[cfg(feature = "skills")]
pub mod skills;
pub mod stderr;
mod sync;
#[cfg(any(feature = "client", feature = "access-log", feature = "otlp"))]
mod terminal;
mod tool_name;
mod transport;

pub use error::{Error, ErrorKind};
pub use limits::{HubLimits, Limits};
pub use model::catalog::{Annotations, Argument, Icon, Prompt, Resource, Template, Tool, ToolHints};
pub use model::client_request::{
    ElicitAction, ElicitResult, Field, FieldKind, Form, Root, SampleResult, Sampling, SamplingBlock,
    TitleEncoding, ToolChoice, ToolUse,
};
pub use model::content::{
    Body, Completion, Content, PromptOutput, ReadOutput, ResourceContents, Role, Structured, ToolOutput,
};
pub use model::uri_template::{TemplateError, TemplateErrorKind, UriTemplate, Variables};
pub use model::{CacheHint, Change, ClientCapabilities, Level, ServerCapabilities};
pub use server::{
    Arguments, Changes, CompletionRequest, Context, ErrorContext, Handle, IntoToolError, LocalServer,
    Overflow, SchemaCheck, SchemaCompiler, Server, ToolArguments, ToolError, ToolResult,
};
pub use transport::{Direction, Frame, Link, MemoryEnd, memory, memory_links};

#[cfg(feature = "oauth")]
pub use error::challenge::Challenge;
#[cfg(feature = "hub")]
pub use hub::{
    Config, Entry, Hub, HubBuilder, Merged, Missing, ServerState, ServerStatus, Skipped, UnusedPattern,
    Upstream,
};
#[cfg(any(feature = "client", feature = "tasks"))]
pub use model::task::TaskStatus;
#[cfg(feature = "otlp")]
pub use observe::OtlpSpans;
#[cfg(feature = "prometheus")]
pub use observe::RequestMetrics;
#[cfg(feature = "log")]
pub use observe::log_requests;
#[cfg(feature = "tracing")]
pub use observe::trace_requests;
#[cfg(feature = "access-log")]
pub use observe::{access_log, access_log_line};
#[cfg(feature = "schemars")]
pub use serde::Serde;
#[cfg(feature = "rate-limits")]
pub use server::CallLimit;
#[cfg(feature = "token-introspection")]
pub use server::Introspection;
#[cfg(feature = "token-jwt")]
pub use server::JwtVerifier;
#[cfg(feature = "miniserde")]
pub use server::Miniserde;
#[cfg(feature = "visibility")]
pub use server::{Caller, CatalogEntry};
#[cfg(feature = "client")]
pub use {
    client::{
        Abort, Call, Canceller, Client, ClientBuilder, ClientStats, CompletionTarget, FollowedTask,
        InputRequired, LogEntry, Outcome, Page, Progress, Protocol, Request, ServerInfo,
    },
    limits::ClientLimits,
    model::client_request::{ElicitResponse, Refusal, SampleResponse, UrlElicitation},
    model::task::Task,
    transport::Stderr,
};
#[cfg(feature = "http-client")]
pub use {limits::HttpClientLimits, transport::http_client::Endpoint};
#[cfg(feature = "http-server")]
pub use {
    limits::HttpLimits,
    server::{
        BoundServer, HttpBody, HttpEndpoint, HttpEvents, HttpRejection, HttpRequest, HttpResponse,
        HttpServer, Mounts, Principal, RejectedMessage, ResourceMetadata, ServerCard, StatusPage,
        TokenRefusal, TokenVerifier,
    },
    transport::http_server::{Peer, PeerCredentials},
};
#[cfg(feature = "tasks")]
pub use {
    limits::TaskLimits,
    model::task::TaskSupport,
    server::{FileTaskStore, MemoryTaskStore, StoredTask, TaskStore},
};
#[cfg(feature = "extensions")]
pub use {model::app::AppPage, server::Notification};
#[cfg(feature = "observe")]
pub use {
    model::trace::TraceParent,
    observe::{RequestOutcome, RequestSide, RequestSummary},
    server::{NextHandler, ToolCall, ToolReply},
};

/// The code of the README, compiled.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
struct Readme;
