//! Setting a hub up: who the host is, and what it answers and hears, for all servers.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::client::{Client, ClientBuilder, LogEntry, Question, Relay};
use crate::error::Error;
use crate::json::Json;
use crate::limits::Limits;
use crate::model::ask::{
    Action, AskRequest, Form, FormResponse, Refusal, Root, SampleResponse, Sampling, UrlRequest,
};
use crate::model::{Change, ClientCapabilities, Level};

use super::member::Status;
use super::proxy::Export;
use super::{Hub, Shared, lock};

type OnForm = Arc<dyn Fn(&str, &Form) -> Result<FormResponse, Refusal> + Send + Sync>;
type OnUrl = Arc<dyn Fn(&str, &UrlRequest) -> Result<Action, Refusal> + Send + Sync>;
type OnSample = Arc<dyn Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync>;
type OnLog = Arc<dyn Fn(&str, &LogEntry) + Send + Sync>;
type OnChange = Arc<dyn Fn(&str, &Change) + Send + Sync>;
type OnStatus = Arc<dyn Fn(&Status) + Send + Sync>;

/// What the host registered, and who it is.
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
    log: Option<(Level, OnLog)>,
    change: Option<OnChange>,
    status: Option<OnStatus>,
    /// How long a server that is not connected waits for the first client of the served hub.
    client_wait: Option<Duration>,
    clients: Mutex<Clients>,
    client_came: Condvar,
    /// Servers that offer what this hub's servers do.
    exports: Mutex<Vec<Weak<Export>>>,
}

/// What is known of the clients of a served hub.
#[derive(Default)]
struct Clients {
    /// What one or another of them can be asked, once one came.
    able: Option<ClientCapabilities>,
    /// Nobody waits for one any more.
    over: bool,
}

/// A hub to be. Handlers get the key of the server that asks or tells, and are registered before
/// the first server is added, because a server is told with the first message what can be answered.
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
                log: None,
                change: None,
                status: None,
                client_wait: None,
                clients: Mutex::default(),
                client_came: Condvar::new(),
                exports: Mutex::default(),
            },
            chosen: None,
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> HubBuilder {
        self.handlers.title = Some(title.into());
        self
    }

    /// Other caps and timeouts than those of the environment ([`Limits::from_env`]); each
    /// connection has them.
    pub fn limits(mut self, limits: Limits) -> HubBuilder {
        self.chosen = Some(limits);
        self
    }

    /// Fills in forms for servers, as [`ClientBuilder::on_form`].
    pub fn on_form(
        mut self,
        answer: impl Fn(&str, &Form) -> Result<FormResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.form = Some(Arc::new(answer));
        self
    }

    /// Sends the user to a page that a server names, as [`ClientBuilder::on_url`].
    pub fn on_url(
        mut self,
        answer: impl Fn(&str, &UrlRequest) -> Result<Action, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.url = Some(Arc::new(answer));
        self
    }

    /// Asks the model for servers, as [`ClientBuilder::on_sample`].
    pub fn on_sample(
        mut self,
        answer: impl Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.sample = Some(Arc::new(answer));
        self
    }

    /// Like [`HubBuilder::on_sample`], for a model that can be offered tools.
    pub fn on_sample_with_tools(
        self,
        answer: impl Fn(&str, &Sampling) -> Result<SampleResponse, Refusal> + Send + Sync + 'static,
    ) -> HubBuilder {
        let mut builder = self.on_sample(answer);
        builder.handlers.sample_tools = true;
        builder
    }

    /// The folders that servers may work in.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> HubBuilder {
        self.handlers.roots = Some(roots.into_iter().collect());
        self
    }

    /// Where the hub is served ([`Hub::export`]): passes on what a request says of the trace it belongs
    /// to, the members `traceparent`, `tracestate` and `baggage` of its `_meta`, to the server that is
    /// called. Otherwise they stay here: they tell a server who else is at work, and the baggage whatever
    /// the client put there. What is not of the form of W3C Trace Context and W3C Baggage goes no further.
    pub fn pass_trace(mut self) -> HubBuilder {
        self.handlers.trace = true;
        self
    }

    /// Where the hub is served ([`Hub::export`]) over stdio or a link: connects the servers when the first
    /// client has come, at the latest after `time`, so that servers with sessions learn what that client
    /// can be asked. The client's first message waits for the servers' lists, again `time` at most.
    pub fn wait_for_client(mut self, time: Duration) -> HubBuilder {
        self.handlers.client_wait = Some(time);
        self
    }

    /// Hears log entries of servers from this level on.
    pub fn on_log(
        mut self,
        level: Level,
        hear: impl Fn(&str, &LogEntry) + Send + Sync + 'static,
    ) -> HubBuilder {
        self.handlers.log = Some((level, Arc::new(hear)));
        self
    }

    /// Hears of changes of servers' lists and of resources that were subscribed to.
    pub fn on_change(mut self, hear: impl Fn(&str, &Change) + Send + Sync + 'static) -> HubBuilder {
        self.handlers.change = Some(Arc::new(hear));
        self
    }

    /// Hears how a server is whenever that is settled anew: it runs, it is down, it was taken out.
    pub fn on_status(mut self, hear: impl Fn(&Status) + Send + Sync + 'static) -> HubBuilder {
        self.handlers.status = Some(Arc::new(hear));
        self
    }

    /// The hub, without servers.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] when a limit in the environment cannot be read.
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
                closed: AtomicBool::new(false),
                handlers,
                limits,
            }),
        })
    }
}

/// Passes on what one server asks and says.
struct Passer {
    handlers: Arc<Handlers>,
    key: String,
}

impl Relay for Passer {
    fn question(&self, question: Question) -> Result<(), Question> {
        let mut question = question;
        for export in self.handlers.exports() {
            match export.question(&self.key, question) {
                Ok(()) => return Ok(()),
                Err(back) => question = back,
            }
        }
        // Roots were declared: without a client to ask, and without the host's own, there are none.
        if matches!(question.request, AskRequest::Roots) && self.handlers.roots.is_none() {
            question.answer(Ok(&Json::constant(r#"{"roots":[]}"#)));
            return Ok(());
        }
        Err(question)
    }

    fn capabilities(&self) -> ClientCapabilities {
        let able = lock(&self.handlers.clients).able;
        able.map_or(ClientCapabilities::ALL, |able| able.union(self.handlers.able()))
    }

    fn log(&self, entry: &LogEntry) {
        for export in self.handlers.exports() {
            export.logged(&self.key, entry);
        }
    }
}

impl Handlers {
    /// What the host's own handlers can answer.
    fn able(&self) -> ClientCapabilities {
        ClientCapabilities {
            form: self.form.is_some(),
            url: self.url.is_some(),
            sampling: self.sample.is_some(),
            sampling_tools: self.sample_tools,
            roots: self.roots.is_some(),
        }
    }

    /// Waits for the first client where that was asked for.
    pub(super) fn wait_for_client(&self) {
        let Some(time) = self.client_wait else { return };
        let until = Instant::now() + time;
        let mut clients = lock(&self.clients);
        while clients.able.is_none() && !clients.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Those that come later do not wait again.
                clients.over = true;
                return;
            }
            clients = self.client_came.wait_timeout(clients, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the wait for a client.
    pub(super) fn stop_waiting(&self) {
        lock(&self.clients).over = true;
        self.client_came.notify_all();
    }

    /// A client came that can be asked this. For the first one: how long it may wait for the servers.
    pub(super) fn client_came(&self, able: ClientCapabilities) -> Option<Duration> {
        let mut clients = lock(&self.clients);
        let first = clients.able.is_none();
        clients.able = Some(clients.able.unwrap_or_default().union(able));
        drop(clients);
        self.client_came.notify_all();
        self.client_wait.filter(|_| first)
    }

    /// A client to be, with everything the host registered, under a server's key.
    pub(super) fn client(self: &Arc<Self>, key: &str) -> ClientBuilder {
        let mut client =
            Client::builder(&*self.name, &*self.version).limits(self.limits.clone()).stderr_tag(key);
        let key: Arc<str> = Arc::from(key);
        if let Some(title) = &self.title {
            client = client.title(&**title);
        }
        if let Some(form) = &self.form {
            let (form, key) = (Arc::clone(form), Arc::clone(&key));
            client = client.on_form(move |asked| form(&key, asked));
        }
        if let Some(url) = &self.url {
            let (url, key) = (Arc::clone(url), Arc::clone(&key));
            client = client.on_url(move |asked| url(&key, asked));
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
        let exported = !self.exports().is_empty();
        if exported {
            client = client.relays(Arc::new(Passer { handlers: Arc::clone(self), key: key.to_string() }));
        }
        if exported || self.change.is_some() {
            let handlers = Arc::clone(self);
            client = client.on_change(move |told| handlers.changed(&key, told));
        }
        client
    }

    /// Whether traces go on to the servers.
    pub(super) fn traces(&self) -> bool {
        self.trace
    }

    /// Adds a server that offers what this hub's servers do.
    pub(super) fn add_export(&self, export: &Arc<Export>) {
        let mut exports = lock(&self.exports);
        exports.retain(|e| e.strong_count() > 0);
        exports.push(Arc::downgrade(export));
    }

    pub(super) fn exports(&self) -> Vec<Arc<Export>> {
        lock(&self.exports).iter().filter_map(Weak::upgrade).collect()
    }

    fn changed(&self, key: &str, change: &Change) {
        if let Some(hear) = &self.change {
            hear(key, change);
        }
        for export in self.exports() {
            export.changed(key, change);
        }
    }

    /// Tells the host how a server is.
    pub(super) fn told(&self, status: &Status) {
        if let Some(hear) = &self.status {
            hear(status);
        }
        for export in self.exports() {
            export.settled(&status.server);
        }
    }
}
