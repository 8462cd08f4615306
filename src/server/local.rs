//! Servers whose inline handlers may own values that are not `Send`.

use crate::error::Error;
use crate::model::catalog::Tool;
use crate::transport::Link;

use super::call::InlineFn;
use super::context::Context;
use super::handler::{self, ToolArguments, ToolResult};
#[cfg(feature = "http-server")]
use super::http::{self, HttpServer};
use super::registry::ToolHandler;
use super::tool_error::ToolError;
use super::{Server, changes, serve};

/// A server whose inline tools need not be [`Send`]. It serves on the thread that created it: one
/// connection, or over HTTP any number of clients.
///
/// ```
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use tinymcp::{Server, Tool};
///
/// tinymcp::record! {
///     struct Note { text: String }
/// }
///
/// let notes = Rc::new(RefCell::new(Vec::new()));
/// let all = Rc::clone(&notes);
/// let mut server = Server::new("notes", "1.0.0").into_local();
/// server.inline_tool(Tool::new("add"), move |_, note: Note| {
///     notes.borrow_mut().push(note.text);
///     Ok("stored")
/// })?;
/// server.inline_tool(Tool::new("list"), move |_, ()| Ok(all.borrow().join("\n")))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct LocalServer {
    pub(super) server: Server,
    /// Inline handlers after those of `server`.
    pub(super) inline: Vec<Box<InlineFn>>,
}

impl LocalServer {
    /// Registers an inline tool whose handler may own values that are not `Send`, such as `Rc`.
    ///
    /// # Errors
    /// As with [`Server::tool`].
    pub fn inline_tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl FnMut(&mut Context<'_>, A) -> Result<R, ToolError> + 'static,
    ) -> Result<&mut LocalServer, Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        let place = self.server.inline.len() + self.inline.len();
        let edit = changes::tool_of::<A, R>(&self.server.shared.catalog, tool, ToolHandler::Inline(place));
        self.server.register(edit)?;
        self.inline.push(Box::new(handler::inline::<A, R>(handler)));
        Ok(self)
    }

    /// As [`Server::serve_stdio`], on the calling thread. A blocked read cannot be interrupted, so
    /// SIGTERM ends the process with status 0 after the responses are written and
    /// [`Server::on_shutdown`] has run.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve_stdio(self) -> Result<(), Error> {
        serve::local_stdio(self)
    }

    /// As [`Server::serve_http`], with inline handlers on the calling thread, which also runs the
    /// event loop. After SIGTERM, SIGINT or [`Handle::stop`](crate::Handle::stop) this method
    /// returns when the running handlers have ended.
    ///
    /// # Errors
    /// As with [`HttpServer::bind`] and [`BoundServer::serve`](crate::BoundServer::serve).
    #[cfg(feature = "http-server")]
    pub fn serve_http(self, address: &str) -> Result<(), Error> {
        self.serve_http_with(address, |http| http)
    }

    /// As [`LocalServer::serve_http`], with settings such as [`HttpServer::tokens`].
    ///
    /// ```no_run
    /// # let server = tinymcp::Server::new("notes", "1.0.0").into_local();
    /// server.serve_http_with("0.0.0.0:8080", |http| http.allow_host("board.example"))?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    ///
    /// # Errors
    /// As with [`LocalServer::serve_http`].
    #[cfg(feature = "http-server")]
    pub fn serve_http_with(
        self,
        address: &str,
        settings: impl FnOnce(HttpServer) -> HttpServer,
    ) -> Result<(), Error> {
        http::serve_here(settings(self.server.http()), self.inline, address)
    }

    /// As [`Server::serve`], on the calling thread. After [`Handle::stop`](crate::Handle::stop) the
    /// client gets no further responses. With a link in memory this method then returns at once.
    /// Over byte streams it returns when the next message or the end of input arrives, because the
    /// library cannot interrupt a blocked `read` of the program's stream. For a socket, shut it
    /// down.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve(self, link: Link) -> Result<(), Error> {
        serve::local(self, link)
    }
}
