//! Hub builder: the name of the host, and its handlers for all servers.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::client::{Client, ClientBuilder, Forwarded, LogEntry, Relay};
use crate::error::Error;
use crate::json::Json;
use crate::limits::Limits;
use crate::model::client_request::{
    ElicitAction, ElicitResponse, Form, InputRequest, Refusal, Root, SampleResponse, Sampling, UrlElicitation,
};
use crate::model::{Change, ClientCapabilities, Level};
use crate::sync::{lock, wait_for};
use crate::transport::Frame;
use crate::transport::tap::{Observer, Tap};

use super::member::ServerStatus;
use super::proxy::Exports;
use super::{Hub, Shared};

type OnForm = Arc<dyn Fn(&str, &Form) -> Result<ElicitResponse, Refusal> + Send + Sync>;
type OnUrl = Arc<dyn Fn(&str, &UrlElicitation) -> Result<ElicitAction, Refusal> + Send + Sync>;
type OnSample = Arc<dyn Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync>;
type OnLog = Arc<dyn Fn(&str, &LogEntry) + Send + Sync>;
type OnChange = Arc<dyn Fn(&str, &Change) + Send + Sync>;
type OnStatus = Arc<dyn Fn(&ServerStatus) + Send + Sync>;
type Instructions = Arc<dyn Fn(&[ServerStatus]) -> Option<String> + Send + Sync>;

/// The host's name and its handlers.
pub(super) struct Handlers {
    name: String,
    version: String,
    title: Option<String>,
    limits: Limits,
    form: Option<OnForm>,
    url: Option<OnUrl>,
    sample: Option<OnSample>,
    sample_tools: bool,
    roots: Option<Vec<Root>>,
    trace: bool,
    lazy_tools: bool,
    instructions: Option<Instructions>,
    observer: Option<Arc<dyn Observer>>,
    log: Option<(Level, OnLog)>,
    change: Option<OnChange>,
    status: Option<OnStatus>,
    /// Longest wait of a server for the first client of the served hub.
    client_wait: Option<Duration>,
    clients: Mutex<Clients>,
    client_arrived: Condvar,
    /// The exports of this hub; `None` before the first one.
    exports: Mutex<Option<Weak<Exports>>>,
}

/// Clients of a served hub.
#[derive(Default)]
struct Clients {
    /// Capabilities that at least one client declared; `None` before the first client.
    able: Option<ClientCapabilities>,
    /// Deadline of the clients' wait for the servers' lists.
    until: Option<Instant>,
    /// The wait for the first client has ended, with a client or without.
    over: bool,
}

/// Configures a hub. Handlers get the key of the server that calls them. They are registered before
/// the first server is added, because the capabilities are declared in the first message.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{ElicitResponse, Hub, Level, Upstream, stderr};
///
/// let hub = Hub::builder("host", "1.0.0")
///     .on_elicit(|server, form| {
///         stderr::write(format!("{server} asks: {}\n", form.message));
///         Ok(ElicitResponse::decline())
///     })
///     .on_log(Level::Warning, |server, entry| stderr::write(format!("{server}: {}\n", entry.data)))
///     .on_status(|status| stderr::write(format!("{}: {:?}\n", status.server, status.state)))
///     .build()?;
/// hub.add("board", Upstream::command(|| Command::new("board_server")))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use]
pub struct HubBuilder {
    handlers: Handlers,
    chosen: Option<Limits>,
}

impl HubBuilder {
    pub(super) fn new(name: impl Into<String>, version: impl Into<String>) -> HubBuilder {
        HubBuilder {
            handlers: Handlers {
                name: name.into(),
                version: version.into(),
                title: None,
                limits: Limits::default(),
                form: None,
                url: None,
                sample: None,
                sample_tools: false,
                roots: None,
                trace: false,
                lazy_tools: false,
                instructions: None,
                observer: None,
                log: None,
                change: None,
                status: None,
                client_wait: None,
                clients: Mutex::default(),
                client_arrived: Condvar::new(),
                exports: Mutex::default(),
            },
            chosen: None,
        }
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> HubBuilder {
        self.handlers.title = Some(title.into());
        self
    }

    /// Sets the limits, instead of those of the environment ([`Limits::from_env`]). They apply to
    /// each connection.
    pub fn limits(mut self, limits: Limits) -> HubBuilder {
        self.chosen = Some(limits);
        self
    }

    /// Sets the handler for form elicitation, as [`ClientBuilder::on_elicit`].
    pub fn on_elicit(
        mut self,
        answer: impl Fn(&str, &Form) -> Result<ElicitResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.form = Some(Arc::new(answer));
        self
    }

    /// Sets the handler for URL elicitation, as [`ClientBuilder::on_elicit_url`].
    pub fn on_elicit_url(
        mut self,
        answer: impl Fn(&str, &UrlElicitation) -> Result<ElicitAction, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.url = Some(Arc::new(answer));
        self
    }

    /// Sets the handler for sampling requests, as [`ClientBuilder::on_sample`].
    pub fn on_sample(
        mut self,
        answer: impl Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.sample = Some(Arc::new(answer));
        self
    }

    /// Like [`HubBuilder::on_sample`], for a model that supports tools.
    pub fn on_sample_with_tools(
        self,
        answer: impl Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        let mut builder = self.on_sample(answer);
        builder.handlers.sample_tools = true;
        builder
    }

    /// Sets the roots: folders that the servers may work in.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> HubBuilder {
        self.handlers.roots = Some(roots.into_iter().collect());
        self
    }

    /// Forwards the trace context of a request to the called server, with an exported hub
    /// ([`Hub::export`]): `traceparent`, `tracestate` and `baggage` of `_meta`.
    ///
    /// Off by default, because a trace reveals other servers to a server, and the baggage may
    /// contain anything. Values that do not follow W3C Trace Context and W3C Baggage are dropped.
    pub fn forward_trace(mut self) -> HubBuilder {
        self.handlers.trace = true;
        self
    }

    /// Offers three tools instead of all tools of the servers, with an exported hub
    /// ([`Hub::export`]), so that hundreds of descriptions do not fill the context of a model.
    /// Prompts and resources stay as they are.
    ///
    /// | tool | arguments | result |
    /// |---|---|---|
    /// | `tool_list` | `query`, `page` | names with the start of their descriptions, 50 per page; with a query the best matches first |
    /// | `tool_schema` | `names` | full descriptions and schemas of at most 16 tools |
    /// | `tool_invoke` | `name`, `arguments` | result of the tool |
    ///
    /// `tool_invoke` forwards the call as a direct one, with progress, cancellation and requests to
    /// the client. The error for an unknown name contains the nearest names. Descriptions are cut
    /// after 120 characters in `tool_list` and after 8192 in `tool_schema`, and contain no control
    /// characters.
    ///
    /// A host sees `tool_invoke` only, so it cannot allow or approve single tools by their names.
    /// Use [`crate::Upstream::allow_tools`] to select the tools that can be called.
    pub fn lazy_tools(mut self) -> HubBuilder {
        self.handlers.lazy_tools = true;
        self
    }

    /// Sets the function that returns the instructions for a client over stdio or a link, from the
    /// state of the servers, with an exported hub ([`Hub::export`]). With
    /// [`HubBuilder::wait_for_client`] the response to the client's first message waits for the
    /// servers; pings get their responses meanwhile. If the function returns `None`, the client
    /// gets the instructions of the exporting server, which clients over HTTP always get.
    pub fn instructions(
        mut self,
        instructions: impl Fn(&[ServerStatus]) -> Option<String> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.instructions = Some(Arc::new(instructions));
        self
    }

    /// Connects the servers after the first client has connected, at the latest after `time`. With
    /// an exported hub ([`Hub::export`]) over stdio or a link, servers of the session protocol then
    /// get the capabilities that this client declares. The client's first message waits for the
    /// servers' lists, at most `time`.
    pub fn wait_for_client(mut self, time: Duration) -> HubBuilder {
        self.handlers.client_wait = Some(time);
        self
    }

    /// Sets the handler for log entries of servers of this level and above.
    pub fn on_log(
        mut self,
        level: Level,
        handler: impl Fn(&str, &LogEntry) + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.log = Some((level, Arc::new(handler)));
        self
    }

    /// Sets the handler for changes of lists, and of resources with a subscription.
    pub fn on_change(mut self, handler: impl Fn(&str, &Change) + Send + Sync + 'static) -> HubBuilder {
        self.handlers.change = Some(Arc::new(handler));
        self
    }

    /// Sets the handler for the state of a server that is running, is down or was removed.
    pub fn on_status(mut self, handler: impl Fn(&ServerStatus) + Send + Sync + 'static) -> HubBuilder {
        self.handlers.status = Some(Arc::new(handler));
        self
    }

    /// Sets a function that gets each frame of the connections to servers, with the server's key.
    /// [`Server::on_frame`](crate::Server::on_frame) observes the connections to clients. Values
    /// that the program gives to a server ([`crate::Upstream::secrets`]) and other credentials are
    /// not masked.
    pub fn on_frame(mut self, observe: impl Fn(&Frame<'_>) + Send + Sync + 'static) -> HubBuilder {
        self.handlers.observer = Some(Arc::new(observe));
        self
    }

    /// Builds the hub, without servers.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] when a limit in the environment is not valid.
    pub fn build(mut self) -> Result<Hub, Error> {
        let limits = match self.chosen {
            Some(limits) => limits.clamped(),
            None => Limits::from_env()?,
        };
        self.handlers.limits = limits.clone();
        let handlers = Arc::new(self.handlers);
        Ok(Hub {
            shared: Arc::new(Shared {
                members: Mutex::default(),
                retiring: Mutex::default(),
                closed: AtomicBool::new(false),
                handlers,
                limits,
            }),
        })
    }
}

/// Forwards requests and log entries of one server to the clients of the served hub.
struct ServerRelay {
    handlers: Arc<Handlers>,
    key: String,
}

impl Relay for ServerRelay {
    fn forward(&self, request: Forwarded) -> Result<(), Forwarded> {
        let mut request = request;
        if let Some(exports) = self.handlers.exports() {
            match exports.forward_request(&self.key, request) {
                Ok(()) => return Ok(()),
                Err(back) => request = back,
            }
        }
        // Roots were declared, so the request needs a response. Without a client and own roots it
        // is an empty list.
        if matches!(request.request, InputRequest::Roots) && self.handlers.roots.is_none() {
            request.answer(Ok(&Json::constant(r#"{"roots":[]}"#)));
            return Ok(());
        }
        Err(request)
    }

    fn capabilities(&self) -> ClientCapabilities {
        let able = lock(&self.handlers.clients).able;
        able.map_or(ClientCapabilities::ALL, |able| able.union(self.handlers.capabilities()))
    }

    fn log(&self, entry: &LogEntry) {
        if let Some(exports) = self.handlers.exports() {
            exports.logged(&self.key, entry);
        }
    }
}

impl Handlers {
    /// Returns the capabilities of the host's own handlers.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            form: self.form.is_some(),
            url: self.url.is_some(),
            sampling: self.sample.is_some(),
            sampling_tools: self.sample_tools,
            roots: self.roots.is_some(),
        }
    }

    /// Waits for the first client, with [`HubBuilder::wait_for_client`].
    pub(super) fn wait_for_client(&self) {
        let Some(time) = self.client_wait else { return };
        let until = Instant::now() + time;
        let mut clients = lock(&self.clients);
        while clients.able.is_none() && !clients.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Servers that are added later do not wait again.
                clients.over = true;
                return;
            }
            clients = wait_for(&self.client_arrived, clients, left);
        }
    }

    /// Ends the wait for a client.
    pub(super) fn stop_waiting(&self) {
        lock(&self.clients).over = true;
        self.client_arrived.notify_all();
    }

    /// Adds the capabilities of a client.
    pub(super) fn client_arrived(&self, able: ClientCapabilities) {
        let mut clients = lock(&self.clients);
        if clients.able.is_none() {
            clients.until = self.client_wait.map(|time| Instant::now() + time);
        }
        clients.able = Some(clients.able.unwrap_or_default().union(able));
        drop(clients);
        self.client_arrived.notify_all();
    }

    /// Returns the deadline of the clients' wait for the servers' lists, if it has not passed.
    pub(super) fn clients_wait_until(&self) -> Option<Instant> {
        lock(&self.clients).until.filter(|until| Instant::now() < *until)
    }

    /// Returns whether [`HubBuilder::instructions`] was called.
    pub(super) fn has_instructions(&self) -> bool {
        self.instructions.is_some()
    }

    /// Returns the instructions for a client.
    pub(super) fn instructions(&self, servers: &[ServerStatus]) -> Option<String> {
        self.instructions.as_ref().and_then(|instructions| instructions(servers))
    }

    /// Returns a client builder with the host's handlers, for the server with this key.
    /// `call_timeout` replaces the timeout of the limits for calls. Connecting has the longer one
    /// of the two.
    pub(super) fn client(self: &Arc<Self>, key: &str, call_timeout: Option<Duration>) -> ClientBuilder {
        let mut limits = self.limits.clone();
        let usual = limits.client.call_timeout;
        limits.client.call_timeout = call_timeout.unwrap_or(usual);
        let connect = limits.client.call_timeout.max(usual);
        let mut client = Client::builder(&*self.name, &*self.version).limits(limits).stderr_tag(key);
        client = client.connect_timeout(connect);
        if let Some(observer) = &self.observer {
            client = client.tap(Tap::new(observer, key, None));
        }
        let key: Arc<str> = Arc::from(key);
        if let Some(title) = &self.title {
            client = client.title(&**title);
        }
        if let Some(form) = &self.form {
            let (form, key) = (Arc::clone(form), Arc::clone(&key));
            client = client.on_elicit(move |asked| form(&key, asked));
        }
        if let Some(url) = &self.url {
            let (url, key) = (Arc::clone(url), Arc::clone(&key));
            client = client.on_elicit_url(move |asked| url(&key, asked));
        }
        if let Some(sample) = &self.sample {
            let (sample, key) = (Arc::clone(sample), Arc::clone(&key));
            let answer = move |asked: &Sampling| sample(&key, asked);
            client = match self.sample_tools {
                true => client.on_sample_with_tools(answer),
                false => client.on_sample(answer),
            };
        }
        if let Some(roots) = &self.roots {
            client = client.roots(roots.iter().cloned());
        }
        if let Some((level, log)) = &self.log {
            let (log, key) = (Arc::clone(log), Arc::clone(&key));
            client = client.on_log(*level, move |entry| log(&key, entry));
        }
        let exported = self.is_exported();
        if exported {
            client =
                client.relays(Arc::new(ServerRelay { handlers: Arc::clone(self), key: key.to_string() }));
        }
        if exported || self.change.is_some() {
            let handlers = Arc::clone(self);
            client = client.on_change(move |change| handlers.changed(&key, change));
        }
        client
    }

    /// Returns the lowest log level that the host's own handler receives.
    pub(super) fn log_level(&self) -> Option<Level> {
        self.log.as_ref().map(|(level, _)| *level)
    }

    /// Returns whether traces are forwarded.
    pub(super) fn traces(&self) -> bool {
        self.trace
    }

    /// Returns whether [`HubBuilder::lazy_tools`] was called.
    pub(super) fn has_lazy_tools(&self) -> bool {
        self.lazy_tools
    }

    /// Returns the exports of the hub, if there are any.
    pub(super) fn exports(&self) -> Option<Arc<Exports>> {
        lock(&self.exports).as_ref().and_then(Weak::upgrade)
    }

    /// Returns the exports of the hub. Creates them with `make` for the first export.
    pub(super) fn exports_or(&self, make: impl FnOnce() -> Exports) -> Arc<Exports> {
        let mut exports = lock(&self.exports);
        exports.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| {
            let made = Arc::new(make());
            *exports = Some(Arc::downgrade(&made));
            made
        })
    }

    /// Returns whether the hub is or was exported; then servers receive the capabilities of
    /// clients.
    pub(super) fn is_exported(&self) -> bool {
        lock(&self.exports).is_some()
    }

    fn changed(&self, key: &str, change: &Change) {
        if let Some(handler) = &self.change {
            handler(key, change);
        }
        if let Some(exports) = self.exports() {
            exports.changed(key, change);
        }
    }

    /// Reports a server's state to the host and the exports.
    pub(super) fn notify_status(&self, status: &ServerStatus) {
        if let Some(handler) = &self.status {
            handler(status);
        }
        self.server_changed(&status.server);
    }

    /// Reports to the exports that the server with this key has changed.
    pub(super) fn server_changed(&self, key: &str) {
        if let Some(exports) = self.exports() {
            exports.server_state_changed(key);
        }
    }
}
