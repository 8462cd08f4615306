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
        Upstream { connect: Box::new(connect), stderr: None }
    }

    /// What happens to the stderr of a program; by default it goes where that of this process goes.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Upstream {
        self.stderr = Some(stderr);
        self
    }

    pub(super) fn connect(&self, mut client: ClientBuilder) -> Result<Client, Error> {
        if let Some(stderr) = self.stderr {
            client = client.stderr(stderr);
        }
        (self.connect)(client)
    }
}
