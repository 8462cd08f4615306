//! Pages beside the endpoint, for monitoring.

use crate::pool::guard;

use super::rejection::Rejection;

/// A page beside the endpoint, for monitoring; see
/// [`HttpServer::page`](super::HttpServer::page).
///
/// Without [`StatusPage::public`] it requires an allowed host and a token, as the endpoint does.
#[must_use = "a page is served by `HttpServer::page`"]
pub struct StatusPage {
    pub(super) path: String,
    pub(super) is_public: bool,
    media_type: String,
    body: Box<dyn Fn() -> String + Send + Sync>,
}

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
        StatusPage {
            path: path.into(),
            is_public: false,
            media_type: media_type.into(),
            body: Box::new(body),
        }
    }

    /// Serves the page for every host and without a token: the probe of a load balancer addresses
    /// a server by its IP address and has no token. Pages of other origins cannot read it.
    pub fn public(mut self) -> StatusPage {
        self.is_public = true;
        self
    }

    /// The response to a request with this method.
    pub(super) fn response(&self, method: &str) -> Rejection {
        if !matches!(method, "GET" | "HEAD") {
            return Rejection::new(405).with("allow", "GET, HEAD");
        }
        match guard(|| (self.body)()) {
            Ok(body) => {
                let mut page = Rejection::new(200)
                    .with("content-type", self.media_type.as_str())
                    .with("cache-control", "no-store");
                page.response.body = body.into_bytes();
                page
            }
            Err(_) => Rejection::new(500),
        }
    }
}
