//! How a server of a hub is reached, again and again.
//!
//! An [`Upstream`] makes connections; the hub decides when. Each time it gets a
//! [`ClientBuilder`](crate::ClientBuilder) with the hub's handlers on it.

use std::process::Command;

use crate::client::{Client, ClientBuilder};
use crate::error::Error;
use crate::transport::Stderr;

/// How a server is reached.
pub struct Upstream {
    connect: Box<Connect>,
    stderr: Option<Stderr>,
    inherit_env: bool,
}

type Connect = dyn Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync;

impl Upstream {
    /// A program, started anew for each connection.
    pub fn command(command: impl Fn() -> Command + Send + Sync + 'static) -> Upstream {
        Upstream::with(move |client| client.spawn(command()))
    }

    /// A URL.
    #[cfg(feature = "http-client")]
    pub fn url(endpoint: impl Into<crate::Endpoint>) -> Upstream {
        let endpoint = endpoint.into();
        Upstream::with(move |client| client.connect(endpoint.clone()))
    }

    /// Whatever makes a client of the builder: a link, a server in this process.
    pub fn with(
        connect: impl Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync + 'static,
    ) -> Upstream {
        Upstream { connect: Box::new(connect), stderr: None, inherit_env: false }
    }

    /// What happens to the stderr of a program. By default its lines go to that of this process, each after
    /// the server's key.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Upstream {
        self.stderr = Some(stderr);
        self
    }

    /// Starts a program with the whole environment of this process, as
    /// [`ClientBuilder::inherit_env`](crate::ClientBuilder::inherit_env). By default it gets a small,
    /// fixed part.
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
