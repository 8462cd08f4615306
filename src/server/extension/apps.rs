//! Apps (SEP-1865): pages that a host shows beside the results of tools.
//!
//! A page is a resource that a tool names in its metadata. The messages between page and host never
//! reach the server, except calls of tools, which are ordinary calls.

use crate::era::apps as codec;
use crate::error::{Error, ErrorKind};
use crate::json;
use crate::model::app::AppPage;
use crate::model::catalog::{Resource, Tool};
use crate::model::content::ResourceContents;

use crate::server::Server;
use crate::server::context::Context;

/// Apps (SEP-1865).
impl Server {
    /// Offers a page for tools ([`Tool::app`]), and declares the extension
    /// `io.modelcontextprotocol/ui`.
    ///
    /// ```
    /// use tinymcp::{AppPage, Server, Tool, json};
    ///
    /// const GAUGE: &str = "<!doctype html><meter id=gauge max=100></meter>";
    ///
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// let mut server = Server::new("board", "1.0.0");
    /// server.app(AppPage::new("ui://board/gauge", "Gauge", GAUGE))?;
    /// let tool = Tool::new("moisture").description("In per cent").app("ui://board/gauge");
    /// // Hosts without pages show the text only.
    /// server.tool(tool, |_, ()| Ok(json!({"percent": 41})))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the URI does not begin with `ui://`. [`ErrorKind::Misuse`]: a
    /// resource with this URI is registered.
    pub fn app(&mut self, page: AppPage) -> Result<&mut Server, Error> {
        if !page.uri.starts_with("ui://") {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("invalid URI {:?}: must begin with ui://", page.uri),
            ));
        }
        match self.extension(codec::ID, json!({})) {
            Err(error) if error.kind() != ErrorKind::Misuse => return Err(error),
            // An earlier page has declared the extension.
            _ => {}
        }
        let meta = codec::page_meta(&page);
        let resource = Resource::new(page.uri, page.name).mime_type(codec::MEDIA_TYPE);
        let html = page.html;
        self.resource(resource, move |_, uri| {
            let contents = ResourceContents::text(uri, html.as_str()).mime_type(codec::MEDIA_TYPE);
            Ok(match &meta {
                Some(meta) => contents.meta(meta.clone()),
                None => contents,
            })
        })
    }
}

impl Tool {
    /// Names the page that hosts show with results of this tool, see [`Server::app`]. Call it after
    /// [`Tool::meta`]. The result must have a text as well, for hosts without pages.
    #[must_use]
    pub fn app(self, uri: &str) -> Tool {
        let meta = codec::tool_meta(self.meta.as_ref(), uri, &[]);
        self.meta(meta)
    }

    /// As [`Tool::app`], for a tool that only the page calls: hosts do not show it to the model.
    #[must_use]
    pub fn only_for_app(self, uri: &str) -> Tool {
        let meta = codec::tool_meta(self.meta.as_ref(), uri, &["app"]);
        self.meta(meta)
    }
}

impl Context<'_> {
    /// Returns whether the client shows pages of apps. `false` if the server offers no page.
    pub fn client_shows_apps(&self) -> bool {
        self.client_extension(codec::ID).is_some_and(|settings| codec::shows_pages(settings.to_doc().root()))
    }
}
