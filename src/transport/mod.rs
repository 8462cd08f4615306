//! Transports: bytes to frames and back.
//!
//! | module | contents |
//! |---|---|
//! | [`framing`] | frames over byte streams, over standard input and output, and in memory |
//! | `client` | the [`client::Transport`] trait, links and child processes |
//! | `http_client` | Streamable HTTP and HTTP+SSE, client side |
//! | `http_server` | HTTP/1.1 server engine |
//! | `sse` | event streams, parser and writer |
//! | `tap` | observation of frames |
//!
//! A transport moves frames. It never reads the content of a message.

#[cfg(feature = "client")]
pub(crate) mod client;
pub(crate) mod framing;
#[cfg(feature = "http-client")]
pub(crate) mod http_client;
#[cfg(feature = "http-server")]
pub(crate) mod http_server;
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) mod sse;
pub(crate) mod tap;

#[cfg(feature = "client")]
pub use client::Stderr;
#[cfg(feature = "client")]
pub(crate) use client::StreamTransport;
#[cfg(feature = "client")]
pub(crate) use client::{ChildConnector, ChildSettings};
#[cfg(feature = "observe")]
pub(crate) use framing::RequestEvent;
pub(crate) use framing::{FrameSink, FrameSource, Input, ReplySink, StdinProbe, is_gone, own_stdio};
pub use framing::{Link, MemoryEnd, memory, memory_links};
pub use tap::{Direction, Frame};
