//! Connector of one server of a hub, used for the first connection and for each restart.
//!
//! An [`Upstream`] gets a [`ClientBuilder`](crate::ClientBuilder) with the hub's handlers for each
//! connection.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, ClientBuilder};
use crate::error::Error;
use crate::transport::Stderr;

use super::names::UpstreamNames;

/// Settings of a server of a hub: how to connect, names and filters.
///
/// ```no_run
/// use std::process::Command;
/// use std::time::Duration;
/// use tinymcp::{Hub, Upstream};
///
/// let hub = Hub::builder("host", "1.0.0").build()?;
/// let board = Upstream::command(|| {
///     let mut command = Command::new("board_server");
///     command.arg("--quiet").env("LEVEL", "2");
///     command
/// });
/// hub.add("board", board.allow_tools("gpio_*").call_timeout(Duration::from_secs(5)))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct Upstream {
    connect: Box<Connect>,
    secrets: Box<Secrets>,
    stderr: Option<Stderr>,
    inherit_env: bool,
    pub(super) names: UpstreamNames,
    /// Timeout of each call. `None` means the timeout of the hub's limits.
    pub(super) call_timeout: Option<Duration>,
}

type Connect = dyn Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync;
type Secrets = dyn Fn() -> Vec<String> + Send + Sync;

impl Upstream {
    /// Starts a program for each connection.
    pub fn command(command: impl Fn() -> Command + Send + Sync + 'static) -> Upstream {
        let command = Arc::new(command);
        let made = Arc::clone(&command);
        let secrets = move || {
            let values = |command: Command| {
                let values = command.get_envs().filter_map(|(_, value)| value?.to_str().map(str::to_owned));
                values.collect()
            };
            values(made())
        };
        Upstream { secrets: Box::new(secrets), ..Upstream::from_fn(move |client| client.spawn(command())) }
    }

    /// Connects to a URL.
    #[cfg(feature = "http-client")]
    pub fn url(endpoint: impl Into<crate::Endpoint>) -> Upstream {
        let endpoint = endpoint.into();
        let secrets = endpoint.header_values();
        let secrets = Box::new(move || secrets.clone());
        Upstream { secrets, ..Upstream::from_fn(move |client| client.connect(endpoint.clone())) }
    }

    /// Connects with a closure: over a link, or to a server in this process. The closure runs for
    /// each connection, also after a restart.
    ///
    /// ```
    /// use tinymcp::{Hub, Server, Tool, Upstream, memory_links};
    ///
    /// let hub = Hub::builder("host", "1.0.0").build()?;
    /// let clock = Upstream::from_fn(|client| {
    ///     let mut server = Server::new("clock", "1.0.0");
    ///     server.tool(Tool::new("now"), |_, ()| Ok("noon"))?;
    ///     let (theirs, ours) = memory_links();
    ///     std::thread::spawn(move || server.serve(theirs));
    ///     client.over(ours)
    /// });
    /// hub.add("clock", clock)?;
    /// assert_eq!(hub.call_tool("clock__now", ())?.texts(), "noon");
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn from_fn(
        connect: impl Fn(ClientBuilder) -> Result<Client, Error> + Send + Sync + 'static,
    ) -> Upstream {
        let names = UpstreamNames::default();
        Upstream {
            connect: Box::new(connect),
            secrets: Box::new(Vec::new),
            stderr: None,
            inherit_env: false,
            names,
            call_timeout: None,
        }
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

    /// Sets the prefix of the names of the server's tools and prompts. The default is its key and
    /// `__`. With an empty prefix they keep their names; [`crate::Hub::skipped`] then lists the
    /// entries whose names another server already has.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Upstream {
        self.names.prefix = Some(prefix.into());
        self
    }

    /// Offers the tools whose names at the server match this pattern: `*` stands for any
    /// characters, `?` for one. May be repeated; without it all tools are offered. A tool that is
    /// not offered cannot be called either. Prompts and resources are not filtered.
    #[must_use]
    pub fn allow_tools(mut self, pattern: impl Into<String>) -> Upstream {
        self.names.allowed.push(pattern.into());
        self
    }

    /// Does not offer the tools whose names at the server match this pattern, see
    /// [`Upstream::allow_tools`]. Takes precedence over allowed tools.
    #[must_use]
    pub fn deny_tools(mut self, pattern: impl Into<String>) -> Upstream {
        self.names.denied.push(pattern.into());
        self
    }

    /// Gives a tool of the server another name, which the prefix precedes. The tool can no longer
    /// be called by its own name, and a tool that has the new name at the server is not offered.
    /// Patterns match the name at the server.
    #[must_use]
    pub fn rename_tool(mut self, name: impl Into<String>, to: impl Into<String>) -> Upstream {
        self.names.renamed.push((name.into(), to.into()));
        self
    }

    /// Sets the timeout of this server's calls, instead of [`crate::ClientLimits::call_timeout`].
    #[must_use]
    pub fn call_timeout(mut self, time: Duration) -> Upstream {
        self.call_timeout = Some(time);
        self
    }

    /// Returns the values of the variables that the `Command` sets, or of the headers of the
    /// `Endpoint`. They may be credentials, which a log should not contain. Inherited variables and
    /// headers of `Endpoint::header_source` are not included.
    pub fn secrets(&self) -> Vec<String> {
        (self.secrets)()
    }

    /// Connects to the server, without a hub. Names, filters and the timeout of calls take effect
    /// in a hub only.
    ///
    /// # Errors
    /// As [`ClientBuilder::spawn`] for a program, as [`ClientBuilder::over`] otherwise.
    pub fn connect(&self, mut client: ClientBuilder) -> Result<Client, Error> {
        if let Some(stderr) = self.stderr {
            client = client.stderr(stderr);
        }
        if self.inherit_env {
            client = client.inherit_env(true);
        }
        (self.connect)(client)
    }
}
