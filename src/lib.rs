//! Model Context Protocol for places where tokio, Node and Python do not fit: blocking threads, no
//! async, small binaries, little memory; every revision of the protocol from one handler.
//!
//! ```no_run
//! use tinymcp::{Server, Tool};
//!
//! tinymcp::record! {
//!     struct Add { a: f64, b: f64 }
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
//! # The path of one `tools/call`
//!
//! Bytes come in through `transport/line.rs` as one frame. `json/parse.rs` turns the frame into a
//! [`json::Doc`], `rpc/mod.rs` into a message, `era/` into a neutral query with the peer that
//! sent it. `server/dispatch.rs` finds the tool in `server/registry.rs`, `server/start.rs` hands
//! document and query to `pool.rs`; a worker runs the handler through `server/job.rs` with a [`Context`]. The
//! outcome is encoded by the same era into the worker's buffer and leaves through the link's
//! outlet. An inline tool skips the hand-over.
//!
//! Over HTTP the bytes come in through `transport/http_server/` as one request; `server/http/` finds
//! the session or does without, and its `Reply` is the outlet: plain JSON, or an event stream as
//! soon as something is said before the answer.
//!
//! # The path of one call of a client
//!
//! With the feature `client`, `client/calls.rs` writes down what is wanted as an order of
//! `era/order.rs`; `client/exchange.rs` registers it in the table of `rpc/pending.rs`, has its era
//! write the frame, and hands that to a carrier (`transport/carrier.rs`). The thread that reads
//! brings answers to `client/core.rs`, which fills the slot that the caller waits at
//! (`client/slot.rs`); the server's questions and news go to `client/desk.rs`.
//!
//! # Layers
//!
//! Each line may use those below it: `server`, `client` → `pool`, `transport` → `era` → `model` → `rpc` →
//! `json`. Everything below `transport` is free of input, output, locks, threads and clocks. The
//! protocol's dates and the names that only one era has appear nowhere but in `era/`;
//! `tests/tidy/main.rs` checks both.
//!
//! # Asking the user
//!
//! No thread waits for the client. A handler that needs an answer asks its [`Context`] and passes
//! the failure on with `?`; when the answer is there the handler runs again from the start. So
//! side effects come after the answers. See [`Context::elicit`].

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
#[cfg(all(doc, any(not(doctest), all(feature = "http-server", feature = "http-client", feature = "hub"))))]
pub mod manual;
mod model;
mod pool;
pub mod record;
mod rpc;
#[cfg(feature = "schema")]
pub mod schema;
mod server;
mod sync;
mod tool_name;
mod transport;

#[cfg(feature = "client")]
pub use client::{
    Abort, Call, Canceller, Client, ClientBuilder, ClientStats, CompletionTarget, Era, InputRequired,
    LogEntry, Outcome, Page, Progress, Request, ServerInfo,
};
pub use error::{Error, ErrorKind};
#[cfg(feature = "hub")]
pub use hub::{Config, Entry, Hub, HubBuilder, Merged, Missing, ServerState, Skipped, Status, Upstream};
#[cfg(feature = "http-server")]
pub use limits::HttpLimits;
pub use limits::Limits;
pub use model::ask::{
    Action, Block, Field, FieldKind, Form, FormResult, Naming, Root, SampleResult, Sampling, ToolChoice,
    ToolUse,
};
#[cfg(feature = "client")]
pub use model::ask::{FormResponse, Refusal, SampleResponse, UrlRequest};
pub use model::catalog::{Annotations, Argument, Icon, Prompt, Resource, Template, Tool, ToolHints};
pub use model::content::{
    Body, Completion, Content, PromptOutput, ReadOutput, ResourceContents, Role, Structured, ToolOutput,
};
#[cfg(feature = "client")]
pub use model::task::{Task, TaskStatus};
pub use model::uri_template::{TemplateError, TemplateErrorKind, UriTemplate, Variables};
pub use model::{CacheHint, Change, ClientCapabilities, Level, ServerCapabilities};
pub use server::{
    Arguments, CompletionRequest, Context, Handle, LocalServer, SchemaCheck, SchemaCompiler, Server,
    ToolArguments, ToolError, ToolResult,
};
#[cfg(feature = "http-server")]
pub use server::{BoundServer, HttpServer, ResourceMetadata, TokenRefusal};
#[cfg(feature = "client")]
pub use transport::Stderr;
#[cfg(feature = "http-client")]
pub use transport::http_client::Endpoint;
pub use transport::{Link, MemoryEnd, memory, memory_links};

/// The code of the README, compiled.
#[cfg(all(doctest, feature = "http-server", feature = "http-client", feature = "hub"))]
#[doc = include_str!("../README.md")]
struct Readme;
