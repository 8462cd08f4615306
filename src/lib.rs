//! Model Context Protocol servers, clients and hubs: blocking threads, no async runtime, small
//! programs, every revision of the protocol from one handler.
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
//! # Start here
//!
//! | task | start with | feature |
//! |---|---|---|
//! | offer tools, resources and prompts | [`Server`], [`Tool`], [`record!`](crate::record!) | – |
//! | report progress, ask the user, notice a cancellation | [`Context`] | – |
//! | change what a running server offers, stop it | [`Handle`] | – |
//! | serve over HTTP | `Server::http` | `http-server` |
//! | call a server | `Client` | `client`, `http-client` |
//! | use or offer many servers | `Hub` | `hub` |
//! | validate by JSON Schema; check tool schemas | `schema`, `lint` | `schema`, `lint` |
//! | set limits | [`Limits`] | – |
//!
//! The manual, module `manual`, has a page for each subject: serving over stdio and HTTP, clients
//! and hubs, limits, revisions, boards, security, architecture.

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
pub mod manual;
mod model;
mod pool;
pub mod record;
mod rpc;
#[cfg(feature = "schema")]
pub mod schema;
mod server;
pub mod stderr;
mod sync;
mod tool_name;
mod transport;

#[cfg(feature = "client")]
pub use client::{
    Abort, Call, Canceller, Client, ClientBuilder, ClientStats, CompletionTarget, InputRequired, LogEntry,
    Outcome, Page, Progress, Protocol, Request, ServerInfo,
};
pub use error::{Error, ErrorKind};
#[cfg(feature = "hub")]
pub use hub::{Config, Entry, Hub, HubBuilder, Merged, Missing, ServerState, Skipped, Status, Upstream};
#[cfg(feature = "http-server")]
pub use limits::HttpLimits;
pub use limits::Limits;
pub use model::catalog::{Annotations, Argument, Icon, Prompt, Resource, Template, Tool, ToolHints};
pub use model::client_request::{
    Action, Block, Field, FieldKind, Form, FormResult, Naming, Root, SampleResult, Sampling, ToolChoice,
    ToolUse,
};
#[cfg(feature = "client")]
pub use model::client_request::{FormResponse, Refusal, SampleResponse, UrlRequest};
pub use model::content::{
    Body, Completion, Content, PromptOutput, ReadOutput, ResourceContents, Role, Structured, ToolOutput,
};
#[cfg(feature = "client")]
pub use model::task::{Task, TaskStatus};
pub use model::uri_template::{TemplateError, TemplateErrorKind, UriTemplate, Variables};
pub use model::{CacheHint, Change, ClientCapabilities, Level, ServerCapabilities};
pub use server::{
    Arguments, Changes, CompletionRequest, Context, Handle, LocalServer, SchemaCheck, SchemaCompiler, Server,
    ToolArguments, ToolError, ToolResult,
};
#[cfg(feature = "http-server")]
pub use server::{
    BoundServer, HttpRejection, HttpServer, Mounts, ResourceMetadata, StatusPage, TokenRefusal,
};
#[cfg(feature = "client")]
pub use transport::Stderr;
#[cfg(feature = "http-client")]
pub use transport::http_client::Endpoint;
pub use transport::{Direction, Frame, Link, MemoryEnd, memory, memory_links};

/// The code of the README, compiled.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
struct Readme;
