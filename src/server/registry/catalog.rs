//! Catalog of a server: the current registry, the announced capabilities, the schema compiler, and
//! the trait [`Delegate`] for entries that belong to other servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind};
use crate::model::catalog::{Prompt, Tool};
use crate::model::{Change, ClientCapabilities, ServerCapabilities};
use crate::server::tool_error::ToolError;
use crate::sync::lock;

use super::{PromptEntry, PromptFn, ReadFn, Registry, Row, SchemaCompiler, ToolEntry, ToolFn, ToolHandler};

/// Removed and rejected handlers. A clone is empty.
#[derive(Default)]
pub(crate) struct Dropped(Vec<Box<dyn Send + Sync>>);

impl Dropped {
    pub(crate) fn add(&mut self, dropped: impl Send + Sync + 'static) {
        self.0.push(Box::new(dropped));
    }
}

impl Clone for Dropped {
    fn clone(&self) -> Dropped {
        Dropped::default()
    }
}

/// Prepared change of a registry. Returns whether the registry changed.
pub(crate) type Edit = Box<dyn FnOnce(&mut Registry) -> Result<bool, Error> + Send>;

/// Catalog of a server. It may change while the server runs.
pub(crate) struct Catalog {
    registry: Mutex<Arc<Registry>>,
    /// Number of changes, so that readers notice one without a lock.
    version: AtomicUsize,
    announced: Mutex<ServerCapabilities>,
    compiler: Mutex<Option<Arc<dyn SchemaCompiler>>>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        #[cfg(feature = "schema")]
        // Serving reports an invalid variable when it starts.
        let compiler = Some(super::validation::standard(&crate::Limits::from_env().unwrap_or_default()));
        #[cfg(not(feature = "schema"))]
        let compiler = None;
        Catalog {
            registry: Mutex::default(),
            version: AtomicUsize::new(0),
            announced: Mutex::default(),
            compiler: Mutex::new(compiler),
        }
    }
}

impl Catalog {
    /// Returns the current registry.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&lock(&self.registry))
    }

    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Acquire)
    }

    /// Changes the registry. Readers keep the previous one until they load it again.
    ///
    /// `edit` runs under the lock, so it must not call code of the program, and must not drop
    /// handlers: it passes them to [`Registry::dropped`].
    pub(crate) fn change<R>(&self, edit: impl FnOnce(&mut Registry) -> R) -> R {
        // Declared before the guard, so that it is dropped after unlocking.
        let mut dropped = Dropped::default();
        let mut registry = lock(&self.registry);
        let registry = Arc::make_mut(&mut registry);
        let result = edit(registry);
        std::mem::swap(&mut dropped, &mut registry.dropped);
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    /// Makes all of these edits in order, or none. Returns which of them changed the registry.
    ///
    /// # Errors
    /// The error of the first edit that fails.
    pub(crate) fn change_all(&self, edits: Vec<Edit>) -> Result<Vec<bool>, Error> {
        // Edits after a failed one contain handlers, so they are dropped after unlocking.
        let mut edits = edits.into_iter();
        self.change(|registry| {
            let mut next = registry.clone();
            match edits.by_ref().map(|edit| edit(&mut next)).collect() {
                Ok(changed) => {
                    let mut dropped = std::mem::take(&mut next.dropped);
                    dropped.add(std::mem::replace(registry, next));
                    registry.dropped = dropped;
                    Ok(changed)
                }
                Err(error) => {
                    registry.dropped.add(next);
                    Err(error)
                }
            }
        })
    }

    /// Returns the capabilities that the server announces regardless of its entries.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        *lock(&self.announced)
    }

    /// Announces capabilities.
    pub(crate) fn announce(&self, edit: impl FnOnce(&mut ServerCapabilities)) {
        edit(&mut lock(&self.announced));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn compiler(&self) -> Option<Arc<dyn SchemaCompiler>> {
        lock(&self.compiler).clone()
    }

    pub(crate) fn set_compiler(&self, compiler: Arc<dyn SchemaCompiler>) {
        let previous = lock(&self.compiler).replace(compiler);
        // Dropped after unlocking, because the destructor may be code of the program.
        drop(previous);
    }

    /// Checks that this kind of change was announced to clients.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`]: it was not announced.
    pub(crate) fn check_announced(&self, change: &Change) -> Result<(), Error> {
        let announced = self.capabilities();
        let (announced, method) = match change {
            Change::Tools => (announced.tools_changed, "tools_may_change"),
            Change::Prompts => (announced.prompts_changed, "prompts_may_change"),
            Change::Resources => (announced.resources_changed, "resources_may_change"),
            Change::ResourceUpdated(_) => (announced.subscribe, "resource_updates"),
        };
        if announced {
            return Ok(());
        }
        let why = format!("this change was not announced to clients: call Server::{method} first");
        Err(Error::new(ErrorKind::Misuse, why))
    }
}

/// Entries of a [`Delegate`].
impl Registry {
    /// Creates an entry for a tool outside the registry, without checks of arguments and results.
    #[cold]
    pub(crate) fn unlisted_tool(name: &str, run: Arc<ToolFn>) -> Arc<Row<ToolEntry>> {
        Row::alone(ToolEntry {
            tool: Tool::new(name),
            handler: ToolHandler::Pooled(run),
            input: None,
            output: None,
            #[cfg(feature = "http-server")]
            mirrors: Box::default(),
        })
    }

    /// Creates an entry for a prompt outside the registry, without checks of arguments.
    #[cold]
    pub(crate) fn unlisted_prompt(name: &str, fill: Arc<PromptFn>) -> Arc<Row<PromptEntry>> {
        Row::alone(PromptEntry { prompt: Prompt::new(name), fill })
    }
}

/// Callback for the result of [`Delegate::watch`]: each URI, with an error if it has no updates.
pub(crate) type OnWatched = Box<dyn FnOnce(Vec<(String, Result<(), ToolError>)>) + Send>;

/// Callback for the result of [`Delegate::instructions`].
pub(crate) type OnInstructions = Box<dyn FnOnce(Option<String>) + Send>;

/// Provider of entries that belong to other servers: a hub. Only [`Delegate::client_arrived`] and
/// [`Delegate::wait`] may block.
#[allow(dead_code)] // Implemented by the hub.
pub(crate) trait Delegate: Send + Sync {
    /// Returns the handler of a tool that is not in the registry but may exist.
    fn tool(&self, name: &str) -> Option<Arc<ToolFn>>;

    /// Returns the handler of a prompt that is not in the registry but may exist.
    fn prompt(&self, name: &str) -> Option<Arc<PromptFn>>;

    /// Returns the handler of a URI that is not in the registry but may exist.
    fn reader(&self, uri: &str) -> Option<Arc<ReadFn>>;

    /// Subscribes to updates of these resources, which have subscribers. Calls `done` with the
    /// result, on any thread.
    fn watch(&self, uris: Vec<String>, done: OnWatched);

    /// The set of resources with subscribers changed.
    fn listeners_changed(&self);

    /// The log level of a session changed.
    fn level_changed(&self);

    /// The roots of a client with a session changed.
    fn roots_changed(&self);

    /// A session opened, or a request without a session arrived, with these client capabilities.
    /// Called before the response to the message is sent. With `waits` this may block.
    fn client_arrived(&self, capabilities: ClientCapabilities, waits: bool);

    /// Returns whether [`Delegate::instructions`] has instructions for a client on a stream.
    fn has_instructions(&self) -> bool;

    /// Calls `done` with the instructions for a client, on any thread and within a bounded time.
    fn instructions(&self, done: OnInstructions);

    /// Waits until the entries are complete, within a bounded time after the first client.
    fn wait(&self);
}
