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
//! sent it. `server/dispatch.rs` finds the tool in `server/registry.rs` and hands document and
//! query to `pool.rs`; a worker runs the handler through `server/job.rs` with a [`Context`]. The
//! outcome is encoded by the same era into the worker's buffer and leaves through the link's
//! outlet. An inline tool skips the hand-over.
//!
//! Over HTTP the bytes come in through `transport/http_server/` as one request; `server/http/` finds
//! the session or does without, and its `Reply` is the outlet: plain JSON, or an event stream as
//! soon as something is said before the answer.
//!
//! # Layers
//!
//! Each line may use those below it: `server` → `pool`, `transport` → `era` → `model` → `rpc` →
//! `json`. Everything below `transport` is free of input, output, locks, threads and clocks. The
//! protocol's dates and the names that only one era has appear nowhere but in `era/`;
//! `tests/tidy.rs` checks both.
//!
//! # Asking the user
//!
//! No thread waits for the client. A handler that needs an answer asks its [`Context`] and passes
//! the failure on with `?`; when the answer is there the handler runs again from the start. So
//! side effects come after the answers. See [`Context::elicit`].

mod era;
mod error;
pub mod json;
mod limits;
#[cfg(feature = "lint")]
pub mod lint;
mod model;
mod pool;
pub mod record;
mod rpc;
#[cfg(feature = "schema")]
pub mod schema;
mod server;
mod transport;

pub use error::{Error, ErrorKind};
#[cfg(feature = "http-server")]
pub use limits::HttpLimits;
pub use limits::Limits;
pub use model::ask::{
    Action, Block, Field, Form, FormAnswer, Root, SampleAnswer, Sampling, ToolChoice, ToolUse,
};
pub use model::catalog::{Annotations, Argument, Icon, Prompt, Resource, Template, Tool, ToolHints};
pub use model::content::{
    Completion, Content, PromptOutput, ReadOutput, ResourceContents, Role, Structured, ToolOutput,
};
pub use model::uri_template::{TemplateError, TemplateErrorKind, UriTemplate, Variables};
pub use model::{CacheHint, ClientCapabilities, Level};
pub use server::{
    Arguments, CompletionRequest, Context, Failure, Handle, LocalServer, SchemaCheck, SchemaCompiler, Server,
    ToolArguments, ToolResult,
};
#[cfg(feature = "http-server")]
pub use server::{BoundServer, HttpServer, ResourceMetadata, TokenRefusal};
pub use transport::{Link, MemoryEnd, memory};

/// The code of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
