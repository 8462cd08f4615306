//! Pages beside the endpoint, for monitoring.

use crate::pool::guard;
use crate::transport::http_server::Head;

use super::rejection::Rejection;

/// A page beside the endpoint, for monitoring; see
/// [`HttpServer::page`](super::HttpServer::page).
///
/// Without [`StatusPage::public`] it requires an allowed host and a token, as the endpoint does.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tinymcp::{Server, StatusPage, Tool};
///
/// let calls = Arc::new(AtomicU64::new(0));
/// let mut server = Server::new("board", "1.0.0");
/// let counted = Arc::clone(&calls);
/// server.tool(Tool::new("reset"), move |_, ()| {
///     counted.fetch_add(1, Ordering::Relaxed);
///     Ok("the board restarts")
/// })?;
/// let http = server
///     .http()
///     .page(StatusPage::new("/health", "text/plain", || "ok".to_owned()).public())
///     .page(StatusPage::new("/metrics", "text/plain; version=0.0.4", move || {
///         format!("resets_total {}\n", calls.load(Ordering::Relaxed))
///     }));
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use = "a page is served by `HttpServer::page`"]
pub struct StatusPage {
    pub(super) path: String,
    pub(super) is_public: bool,
    respond: Box<Respond>,
}

/// Responds to a request for a page.
type Respond = dyn Fn(&Head<'_>) -> Rejection + Send + Sync;

impl StatusPage {
    /// Creates a page at this path, such as `/status`, with this media type.
    ///
    /// `body` is called for each GET and HEAD request on the thread of the event loop, so it must
    /// not wait. If it panics, the response has the status 500.
    pub fn new(
        path: impl Into<String>,
        media_type: impl Into<String>,
        body: impl Fn() -> String + Send + Sync + 'static,
    ) -> StatusPage {
        let media_type = media_type.into();
        StatusPage::responding(path.into(), move |head| {
            if !matches!(head.method, "GET" | "HEAD") {
                return Rejection::new(405).with("allow", "GET, HEAD");
            }
            match guard(&body) {
                Ok(body) => {
                    let mut page = Rejection::new(200)
                        .with("content-type", media_type.as_str())
                        .with("cache-control", "no-store");
                    page.response.body = body.into_bytes();
                    page
                }
                Err(_) => Rejection::new(500),
            }
        })
    }

    /// Creates a page with its own responses.
    pub(super) fn responding(
        path: String,
        respond: impl Fn(&Head<'_>) -> Rejection + Send + Sync + 'static,
    ) -> StatusPage {
        StatusPage { path, is_public: false, respond: Box::new(respond) }
    }

    /// Serves the page for every host and without a token: the probe of a load balancer addresses
    /// a server by its IP address and has no token. Pages of other origins cannot read it.
    pub fn public(mut self) -> StatusPage {
        self.is_public = true;
        self
    }

    /// Returns the response to a request.
    pub(super) fn response(&self, head: &Head<'_>) -> Rejection {
        (self.respond)(head)
    }
}
