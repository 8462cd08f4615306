//! Builder of a client: identity, handlers, limits, and the server to connect to.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::json::Json;
use crate::limits::Limits;
use crate::model::client_request::{
    ElicitAction, ElicitResponse, Form, Refusal, Root, SampleResponse, Sampling, UrlElicitation,
};
use crate::model::{Change, Identity, Level};
#[cfg(feature = "observe")]
use crate::observe::RequestSummary;
use crate::transport::ChildConnector;
use crate::transport::client::{Connector, Transport, tagged};
use crate::transport::tap::{Observer, Tap};
use crate::transport::{ChildSettings, Frame, Link, Stderr, StreamTransport};

#[cfg(feature = "http-client")]
use crate::transport::http_client::{Endpoint, HttpConnector};

use super::Client;
use super::abort::Abort;
use super::connect::{ConnectOptions, Protocol};
use super::handlers::{HandlerPool, Handlers, LogEntry};

/// Builder of a [`Client`]. Register all handlers here: the client declares its capabilities in its
/// first message.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, ElicitResponse, json};
///
/// let client = Client::builder("inspector", "1.0.0")
///     .on_elicit(|form| {
///         println!("{}", form.message);
///         Ok(ElicitResponse::accept(json!({"zone": "a"})))
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
    remembered: Option<Json>,
    tap: Option<Tap>,
    connect_timeout: Option<Duration>,
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
            remembered: None,
            tap: None,
            connect_timeout: None,
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
    /// trip, or [`ClientLimits::probe_timeout`](crate::ClientLimits::probe_timeout) if an older
    /// server does not respond to it.
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
        self.child.on_stderr = Some(tagged(tag.into()));
        self
    }

    /// Sets a function that receives each line of a child's inherited stderr instead of this
    /// process's stderr. Control characters are replaced by `?`. The function runs on the thread
    /// that reads the connection, so it must not block.
    pub fn on_stderr(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> ClientBuilder {
        self.child.on_stderr = Some(Arc::new(f));
        self
    }

    /// Starts child processes with the whole environment of this process. By default a child gets
    /// only `PATH`, `HOME`, `USER`, `LANG`, `LC_*`, `TERM`, `TMPDIR` and `SHELL`, and the variables
    /// that its [`Command`] sets, because other variables may contain secrets. With
    /// `Command::env_clear` it gets only the variables that its [`Command`] sets.
    pub fn inherit_env(mut self, inherit: bool) -> ClientBuilder {
        self.child.inherit_env = inherit;
        self
    }

    /// Sets the handler for form elicitation. The response gets the defaults of the form and is
    /// validated against the form.
    pub fn on_elicit(
        mut self,
        answer: impl Fn(&Form) -> Result<ElicitResponse, Refusal> + Send + Sync + 'static,
    ) -> ClientBuilder {
        self.handlers.form = Some(Box::new(answer));
        self
    }

    /// Sets the handler for URL elicitation. Show the URL and the name of the server, and open the
    /// URL only after the user agrees.
    pub fn on_elicit_url(
        mut self,
        answer: impl Fn(&UrlElicitation) -> Result<ElicitAction, Refusal> + Send + Sync + 'static,
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
    pub fn on_stray_output(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> ClientBuilder {
        self.handlers.stray_output = Some(Box::new(f));
        self
    }

    /// Sets a function that gets each frame of the connection, in both directions. Frames may
    /// contain credentials. The function runs on the threads of the connection, so it must not
    /// block. Over HTTP it gets the JSON-RPC messages, not the requests that carry them.
    pub fn on_frame(self, observe: impl Fn(&Frame<'_>) + Send + Sync + 'static) -> ClientBuilder {
        let observer: Arc<dyn Observer> = Arc::new(observe);
        self.tap(Tap::new(&observer, "server", None))
    }

    /// Adds a function that gets a summary of each request of the client after its end, also of
    /// those of the handshake: method, name, outcome, duration, bytes, trace. A call with several
    /// rounds is several requests; a result from the cache is not a request.
    ///
    /// The function runs on the thread that receives the response, so it must not block.
    ///
    /// ```
    /// use tinymcp::{Client, stderr};
    ///
    /// let client = Client::builder("host", "1.0.0").observe(|request| {
    ///     stderr::write(format!("{} took {:?}\n", request.method, request.duration));
    /// });
    /// ```
    #[cfg(feature = "observe")]
    pub fn observe(mut self, observe: impl Fn(&RequestSummary<'_>) + Send + Sync + 'static) -> ClientBuilder {
        self.handlers.observers.add(Box::new(observe));
        self
    }

    /// Sets the observer of the frames.
    pub(crate) fn tap(mut self, tap: Tap) -> ClientBuilder {
        self.tap = Some(tap);
        self
    }

    /// Sets the timeout of connecting, including the handshake. The default is
    /// [`ClientLimits::call_timeout`](crate::ClientLimits::call_timeout).
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn connect_timeout(mut self, time: Duration) -> ClientBuilder {
        self.connect_timeout = Some(time);
        self
    }

    /// Connects without a request, with the description of the server from an earlier connection:
    /// [`Client::discovery`]. Only the stateless protocol has one. The client requests the
    /// description as usual if the value is not a valid one, and after the server has rejected the
    /// first call. If the server then requires the session protocol, the client opens a session and
    /// sends the call again; other calls in flight at that time fail. With
    /// [`ClientBuilder::protocol`] the client returns the first error instead.
    ///
    /// ```no_run
    /// use tinymcp::Client;
    ///
    /// let first = Client::connect("http://127.0.0.1:8080/mcp")?;
    /// let known = first.discovery();
    /// // Later, perhaps in another process:
    /// let mut builder = Client::builder("inspector", "1.0.0");
    /// if let Some(known) = known {
    ///     builder = builder.discovery(known);
    /// }
    /// let client = builder.connect("http://127.0.0.1:8080/mcp")?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn discovery(mut self, known: Json) -> ClientBuilder {
        self.remembered = Some(known);
        self
    }

    /// Starts a child process and connects to it over stdin and stdout. The child gets its own
    /// process group, on Windows its own job object, which is terminated with the connection, and a
    /// reduced environment: see [`ClientBuilder::inherit_env`].
    ///
    /// When the connection is closed, the input of the child ends. After
    /// [`ClientLimits::child_exit`](crate::ClientLimits::child_exit) it gets SIGTERM, and after the
    /// same time again SIGKILL. Windows has no SIGTERM, so the second step is left out there.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`] if the program cannot be started; [`crate::ErrorKind::Closed`] if
    /// it exits before its first response, with the end of stderr if that is captured;
    /// [`crate::ErrorKind::PeerIncompatible`] if it supports no revision of this client.
    pub fn spawn(self, command: Command) -> Result<Client, Error> {
        let limits = self.chosen_limits()?;
        let mut dial = ChildConnector::new(command, self.child.clone(), limits.clone());
        self.dial(limits, &mut dial)
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
        self.handlers.extensions.check()?;
        let handlers = Arc::new(HandlerPool::new(self.handlers, &limits));
        let plan = ConnectOptions {
            connect_timeout: self.connect_timeout.unwrap_or(limits.client.call_timeout),
            limits,
            identity: self.identity,
            protocol: self.protocol,
            abort: self.abort,
            #[cfg(feature = "schema")]
            checks: self.checks,
            handlers,
            log_level: self.log_level,
            remembered: self.remembered,
            tap: self.tap,
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

    fn can_reconnect(&self) -> bool {
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

/// Methods of a build without the feature `http-client`: the compiler names the feature instead of
/// a method with a similar name.
#[cfg(not(feature = "http-client"))]
mod without_http {
    use crate::error::{Error, ErrorKind};

    use super::{Client, ClientBuilder};

    /// Implemented by no type.
    #[doc(hidden)]
    #[diagnostic::on_unimplemented(
        message = "this method needs the feature `http-client` of tinymcp",
        label = "run `cargo add tinymcp --features http-client`, or `tls` for https"
    )]
    pub trait HttpClientFeature {}

    #[doc(hidden)]
    impl ClientBuilder {
        pub fn connect<E: HttpClientFeature>(self, _endpoint: E) -> Result<Client, Error> {
            Err(missing())
        }
    }

    #[doc(hidden)]
    impl Client {
        pub fn connect<E: HttpClientFeature>(_endpoint: E) -> Result<Client, Error> {
            Err(missing())
        }
    }

    fn missing() -> Error {
        Error::new(ErrorKind::Misuse, "the feature `http-client` is off")
    }
}

/// A method of a build without the feature `observe`, for the same.
#[cfg(not(feature = "observe"))]
mod without_observe {
    use super::ClientBuilder;

    /// Implemented by no type.
    #[doc(hidden)]
    #[diagnostic::on_unimplemented(
        message = "this method needs the feature `observe` of tinymcp",
        label = "run `cargo add tinymcp --features observe`"
    )]
    pub trait ClientObserveFeature {}

    #[doc(hidden)]
    impl ClientBuilder {
        // A bound of `F` would be checked after the closure, whose types are not known.
        pub fn observe<'a, F>(self, _observe: F) -> ClientBuilder
        where
            &'a ClientBuilder: ClientObserveFeature,
        {
            self
        }
    }
}

#[cfg(feature = "extensions")]
/// Extensions of the protocol.
impl ClientBuilder {
    /// Declares an extension of the protocol, such as `com.example/board`, with its settings: an
    /// object, often empty. [`ServerInfo::capabilities`](super::ServerInfo::capabilities) shows
    /// whether the server declares it too; [`Client::request`](super::Client::request) sends its
    /// methods. Tasks need no declaration: see [`Request::as_task`](super::Request::as_task).
    pub fn extension(mut self, id: impl Into<String>, settings: impl crate::json::ToJson) -> ClientBuilder {
        self.handlers.extensions.declared.push((id.into(), settings.to_json()));
        self
    }

    /// Declares that this host shows pages of apps (SEP-1865): see
    /// [`Tool::app_page`](crate::Tool::app_page).
    pub fn shows_apps(self) -> ClientBuilder {
        self.extension(crate::era::apps::ID, crate::era::apps::host_settings())
    }

    /// Sets the handler for a notification of an extension. It gets the parameters, an empty object
    /// if there are none.
    pub fn on_notification(
        mut self,
        method: impl Into<String>,
        f: impl Fn(&Json) + Send + Sync + 'static,
    ) -> ClientBuilder {
        self.handlers.extensions.handlers.push((method.into(), Box::new(f)));
        self
    }
}
