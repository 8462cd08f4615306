//! Pages of apps (SEP-1865).

/// A page that a host shows beside the result of a tool, see
/// [`Server::app`](crate::Server::app).
#[derive(Clone, Debug)]
#[must_use]
pub struct AppPage {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) html: String,
    pub(crate) domains: Vec<(Domain, String)>,
    pub(crate) prefers_border: Option<bool>,
}

/// Use of a domain by a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Domain {
    Connect,
    Resource,
}

impl Domain {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Domain::Connect => "connectDomains",
            Domain::Resource => "resourceDomains",
        }
    }
}

impl AppPage {
    /// Creates an HTML page at a URI such as `ui://board/gauge`, with a name. Hosts show it in a
    /// sandbox, without network access except to the domains that it names.
    pub fn new(uri: impl Into<String>, name: impl Into<String>, html: impl Into<String>) -> AppPage {
        AppPage {
            uri: uri.into(),
            name: name.into(),
            html: html.into(),
            domains: Vec::new(),
            prefers_border: None,
        }
    }

    /// Adds an origin to which scripts of the page connect, such as `https://api.example.com`.
    pub fn connect_domain(mut self, origin: impl Into<String>) -> AppPage {
        self.domains.push((Domain::Connect, origin.into()));
        self
    }

    /// Adds an origin from which the page loads images, scripts, styles and fonts.
    pub fn resource_domain(mut self, origin: impl Into<String>) -> AppPage {
        self.domains.push((Domain::Resource, origin.into()));
        self
    }

    /// States whether the host should draw a border around the page.
    pub fn prefers_border(mut self, border: bool) -> AppPage {
        self.prefers_border = Some(border);
        self
    }
}
