//! Connector of one server of a hub, used for the first connection and for each restart.
//!
//! An [`Upstream`] gets a [`ClientBuilder`](crate::ClientBuilder) with the hub's handlers for each
//! connection.

use std::process::Command;

use crate::client::{Client, ClientBuilder};
use crate::error::Error;
use crate::transport::Stderr;

/// The way to connect to a server.
pub struct Upstream {
    connect: Box<Connect>,
    stderr: Option<Stderr>,
    inherit_env: bool,
}

type Connect = dyn Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync;

impl Upstream {
    /// A program, started for each connection.
    pub fn command(command: impl Fn() -> Command + Send + Sync + 'static) -> Upstream {
        Upstream::with(move |client| client.spawn(command()))
    }

    /// A URL.
    #[cfg(feature = "http-client")]
    pub fn url(endpoint: impl Into<crate::Endpoint>) -> Upstream {
        let endpoint = endpoint.into();
        Upstream::with(move |client| client.connect(endpoint.clone()))
    }

    /// A closure that connects: over a link, or to a server in this process.
    pub fn with(
        connect: impl Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync + 'static,
    ) -> Upstream {
        Upstream { connect: Box::new(connect), stderr: None, inherit_env: false }
    }

    /// Sets the use of a program's stderr. By default each line is written to the stderr of this
    /// process, after the server's key.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Upstream {
        self.stderr = Some(stderr);
        self
    }

    /// Passes the whole environment of this process to a program, see
    /// [`ClientBuilder::inherit_env`](crate::ClientBuilder::inherit_env). By default a program gets
    /// the default variables only.
    #[must_use]
    pub fn inherit_env(mut self, inherit: bool) -> Upstream {
        self.inherit_env = inherit;
        self
    }

    pub(super) fn connect(&self, mut client: ClientBuilder) -> Result<Client, Error> {
        if let Some(stderr) = self.stderr {
            client = client.stderr(stderr);
        }
        if self.inherit_env {
            client = client.inherit_env(true);
        }
        (self.connect)(client)
    }
}
