//! Builder of a client: identity, handlers, limits, and the server to connect to.

use std::process::Command;
use std::sync::Arc;

use crate::error::Error;
use crate::limits::Limits;
use crate::model::client_request::{
    Action, Form, FormResponse, Refusal, Root, SampleResponse, Sampling, UrlRequest,
};
use crate::model::{Change, Identity, Level};
#[cfg(unix)]
use crate::transport::ChildConnector;
use crate::transport::client::{Connector, Transport};
use crate::transport::{ChildSettings, Stderr};
use crate::transport::{Link, StreamTransport};

#[cfg(feature = "http-client")]
use crate::transport::http_client::{Endpoint, HttpConnector};

use super::Client;
use super::abort::Abort;
use super::connect::{Plan, Protocol};
use super::handlers::{HandlerPool, Handlers, LogEntry};

/// Builder of a [`Client`]. Register all handlers here: the client declares its capabilities in its
/// first message.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, FormResponse, json};
///
/// let client = Client::builder("inspector", "1.0.0")
///     .on_form(|form| {
///         println!("{}", form.message);
///         Ok(FormResponse::accept(json!({"zone": "a"})))
///     })
///     .spawn(Command::new("board_server"))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use]
pub struct ClientBuilder {
    identity: Identity,
    pub(super) handlers: Handlers,
    protocol: Option<Protocol>,
    abort: Abort,
    #[cfg(feature = "schema")]
    pub(super) checks: bool,
    limits: Option<Limits>,
    pub(super) log_level: Option<Level>,
    child: ChildSettings,
}

impl ClientBuilder {
    pub(super) fn new(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            identity: Identity { name: name.into(), version: version.into(), ..Identity::default() },
            handlers: Handlers::default(),
            protocol: None,
            abort: Abort::new(),
            #[cfg(feature = "schema")]
            checks: true,
            limits: None,
            log_level: None,
            child: ChildSettings::default(),
        }
    }

    fn unnamed() -> ClientBuilder {
        ClientBuilder::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> ClientBuilder {
        self.identity.title = Some(title.into());
        self
    }

    /// Sets the protocol. By default the client detects it with a probe, which costs one round
    /// trip, or [`Limits::probe_timeout`] with an older server that does not respond to it.
    pub fn protocol(mut self, protocol: Protocol) -> ClientBuilder {
        self.protocol = Some(protocol);
        self
    }

    /// Sets an [`Abort`] that closes the connection from another thread, also while it is being
    /// established. A child process that was started by then is terminated.
    pub fn abort(mut self, abort: &Abort) -> ClientBuilder {
        self.abort = abort.clone();
        self
    }

    /// Disables the validation of structured results. By default, after the list of tools was read,
    /// a result that does not match the `outputSchema` of its tool is an error of the kind
    /// [`crate::ErrorKind::PeerMisbehaved`]. A schema that cannot be compiled is ignored. A served
    /// hub does not validate the results that it forwards; its clients do.
    #[cfg(feature = "schema")]
    pub fn unchecked_results(mut self) -> ClientBuilder {
        self.checks = false;
        self
    }

    /// Sets the limits. The default is [`Limits::from_env`].
    pub fn limits(mut self, limits: Limits) -> ClientBuilder {
        self.limits = Some(limits);
        self
    }

    /// Sets the destination of a child's stderr. The default is the stderr of this process.
    pub fn stderr(mut self, stderr: Stderr) -> ClientBuilder {
        self.child.stderr = stderr;
        self
    }

    /// Writes each line of a child's inherited stderr to that of this process, after `tag` and
    /// `: `.
    pub fn stderr_tag(mut self, tag: impl Into<String>) -> ClientBuilder {
        self.child.tag = Some(Arc::from(tag.into()));
        self
    }

    /// Starts child processes with the whole environment of this process. By default a child gets
    /// only `PATH`, `HOME`, `USER`, `LANG`, `LC_*`, `TERM`, `TMPDIR` and `SHELL`, and the variables
    /// that its [`Command`] sets, because other variables may hold secrets. A `Command::env_clear`
    /// stays in force.
    pub fn inherit_env(mut self, inherit: bool) -> ClientBuilder {
        self.child.inherit_env = inherit;
        self
    }

    /// Sets the handler for form elicitation. The response gets the defaults of the form and is
    /// validated against the form.
    pub fn on_form(
        mut self,
        answer: impl Fn(&Form) -> Result<FormResponse, Refusal> + Send + Sync + 'static,
    ) -> ClientBuilder {
        self.handlers.form = Some(Box::new(answer));
        self
    }

    /// Sets the handler for URL elicitation. Show the URL and the name of the server, and open the
    /// URL only after the user agrees.
    pub fn on_url(
        mut self,
        answer: impl Fn(&UrlRequest) -> Result<Action, Refusal> + Send + Sync + 'static,
    ) -> ClientBuilder {
        self.handlers.url = Some(Box::new(answer));
        self
    }

    /// Sets the handler for sampling requests. Let the user review and reject each request. A
    /// response with a block whose `_meta` is not valid for
    /// [`ToolOutput::meta`](crate::ToolOutput::meta) is not sent.
    pub fn on_sample(
        mut self,
        answer: impl Fn(&Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> ClientBuilder {
        self.handlers.sample = Some(Box::new(answer));
        self
    }

    /// Like [`ClientBuilder::on_sample`], for a model that supports tools.
    pub fn on_sample_with_tools(
        self,
        answer: impl Fn(&Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> ClientBuilder {
        let mut builder = self.on_sample(answer);
        builder.handlers.sample_tools = true;
        builder
    }

    /// Sets the folders that the server may work in. [`Client::set_roots`] changes them.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> ClientBuilder {
        self.handlers.roots = Some(roots.into_iter().collect());
        self
    }

    /// Sets the handler for log entries of this level and above.
    pub fn on_log(mut self, level: Level, f: impl Fn(&LogEntry) + Send + Sync + 'static) -> ClientBuilder {
        self.log_level = Some(level);
        self.handlers.log = Some(Box::new(f));
        self
    }

    /// Sets the handler for list changes that the server reports and for updates of subscribed
    /// resources. After a lost session or a broken stream, all of them are reported as changed,
    /// because notifications may have been missed.
    pub fn on_change(mut self, f: impl Fn(&Change) + Send + Sync + 'static) -> ClientBuilder {
        self.handlers.change = Some(Box::new(f));
        self
    }

    /// Sets the handler for an unexpected end of the connection, with the reason, such as the exit
    /// of the child. Not called if this client closes the connection.
    pub fn on_end(mut self, f: impl Fn(&Error) + Send + Sync + 'static) -> ClientBuilder {
        self.handlers.end = Some(Box::new(f));
        self
    }

    /// Sets the handler for received text that is not a valid message, such as stray output of the
    /// server, shortened. It also receives a message of this library when the client abandons a
    /// listen request because the server ended it repeatedly.
    pub fn on_noise(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> ClientBuilder {
        self.handlers.noise = Some(Box::new(f));
        self
    }

    /// Starts a child process and connects to it over stdin and stdout. The child gets its own
    /// process group, which is terminated with the connection, and a reduced environment: see
    /// [`ClientBuilder::inherit_env`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`] if the program cannot be started; [`crate::ErrorKind::Closed`] if
    /// it exits before its first response, with the end of stderr if that is captured;
    /// [`crate::ErrorKind::PeerIncompatible`] if it supports no revision of this client;
    /// [`crate::ErrorKind::Misuse`] on systems other than Unix.
    pub fn spawn(self, command: Command) -> Result<Client, Error> {
        #[cfg(unix)]
        {
            let limits = self.chosen_limits()?;
            let mut dial = ChildConnector::new(command, self.child.clone(), limits.clone());
            self.dial(limits, &mut dial)
        }
        #[cfg(not(unix))]
        {
            let program = command.get_program().to_string_lossy();
            let message = format!("cannot start {program:?}: child processes are supported on Unix only");
            Err(Error::new(crate::ErrorKind::Misuse, message))
        }
    }

    /// Connects over a [`Link`]: a socket, a serial line, a server in this process.
    ///
    /// A blocking read of a stream cannot be interrupted. The reader thread ends only when the
    /// stream ends, so shut a socket down after use. Closing the client does not wait for that.
    ///
    /// # Errors
    /// As [`ClientBuilder::spawn`], except the errors about the child process.
    pub fn over(self, link: Link) -> Result<Client, Error> {
        let limits = self.chosen_limits()?;
        self.dial(limits, &mut LinkConnector(Some(Arc::new(StreamTransport::over(link)))))
    }

    /// Connects to a URL over Streamable HTTP.
    ///
    /// ```no_run
    /// use tinymcp::{Client, Endpoint};
    ///
    /// let endpoint = Endpoint::new("http://127.0.0.1:8080/mcp").bearer_token("…");
    /// let client = Client::builder("inspector", "1.0.0").connect(endpoint)?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for an invalid URL or header; [`crate::ErrorKind::Io`] if the
    /// connection cannot be established; [`crate::ErrorKind::Refused`] if the server rejects the
    /// request with an HTTP status, such as 401; [`crate::ErrorKind::PeerIncompatible`] if it
    /// supports no revision of this client.
    #[cfg(feature = "http-client")]
    pub fn connect(self, endpoint: impl Into<Endpoint>) -> Result<Client, Error> {
        let limits = self.chosen_limits()?;
        let mut dial = HttpConnector::new(endpoint.into(), &limits)?;
        self.dial(limits, &mut dial)
    }

    fn chosen_limits(&self) -> Result<Limits, Error> {
        match &self.limits {
            Some(limits) => Ok(limits.clone().clamped()),
            None => Limits::from_env(),
        }
    }

    pub(super) fn dial(self, limits: Limits, dial: &mut dyn Connector) -> Result<Client, Error> {
        let handlers = Arc::new(HandlerPool::new(self.handlers, &limits));
        let plan = Plan {
            limits,
            identity: self.identity,
            protocol: self.protocol,
            abort: self.abort,
            #[cfg(feature = "schema")]
            checks: self.checks,
            handlers,
            log_level: self.log_level,
        };
        plan.connect(dial).map(Client::of)
    }
}

/// Connector of an existing link, which cannot be opened again.
struct LinkConnector(Option<Arc<dyn Transport>>);

impl Connector for LinkConnector {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        let gone = || Error::new(crate::ErrorKind::Closed, "the link cannot be reused");
        self.0.take().ok_or_else(gone)
    }

    fn again(&self) -> bool {
        false
    }
}

impl Client {
    /// Starts a program and connects to it, without handlers.
    ///
    /// # Errors
    /// As [`ClientBuilder::spawn`].
    pub fn spawn(command: Command) -> Result<Client, Error> {
        ClientBuilder::unnamed().spawn(command)
    }

    /// Connects to a URL over Streamable HTTP, without handlers.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    #[cfg(feature = "http-client")]
    pub fn connect(endpoint: impl Into<Endpoint>) -> Result<Client, Error> {
        ClientBuilder::unnamed().connect(endpoint)
    }

    /// Connects over a link, without handlers.
    ///
    /// # Errors
    /// As [`ClientBuilder::over`].
    pub fn over(link: Link) -> Result<Client, Error> {
        ClientBuilder::unnamed().over(link)
    }
}
