//! Storage of grants: the trait and a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::sync::lock;

/// Storage of grants, by the URL of their server.
///
/// The stored texts are secrets: they contain tokens. A store does not need to parse them, so a key
/// ring of the system can store them as passwords. [`Grant::load`](super::Grant::load) parses them.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
/// use tinymcp::Error;
/// use tinymcp::oauth::{OAuth, TokenStore};
///
/// /// Stand-in for a key ring of the system.
/// #[derive(Default)]
/// struct KeyRing(Mutex<BTreeMap<String, String>>);
///
/// impl TokenStore for KeyRing {
///     fn load(&self, server: &str) -> Result<Option<String>, Error> {
///         Ok(self.0.lock().unwrap().get(server).cloned())
///     }
///     fn save(&self, server: &str, grant: Option<&str>) -> Result<(), Error> {
///         let mut secrets = self.0.lock().unwrap();
///         match grant {
///             Some(text) => secrets.insert(server.to_owned(), text.to_owned()),
///             None => secrets.remove(server),
///         };
///         Ok(())
///     }
///     fn servers(&self) -> Result<Vec<String>, Error> {
///         Ok(self.0.lock().unwrap().keys().cloned().collect())
///     }
/// }
/// let oauth = OAuth::new(KeyRing::default());
/// ```
pub trait TokenStore: Send + Sync {
    /// Returns the stored text for a server.
    ///
    /// # Errors
    /// The store cannot be read.
    fn load(&self, server: &str) -> Result<Option<String>, Error>;

    /// Replaces the stored text for a server, or removes it.
    ///
    /// # Errors
    /// The store cannot be written.
    fn save(&self, server: &str, grant: Option<&str>) -> Result<(), Error>;

    /// Returns the servers that have a stored text.
    ///
    /// # Errors
    /// The store cannot be read.
    fn servers(&self) -> Result<Vec<String>, Error>;

    /// Locks the tokens of a server for a renewal, until the returned value is dropped. `None` if
    /// another thread or process holds the lock; the library then tries again. The default does not
    /// lock.
    ///
    /// # Errors
    /// The store cannot be locked.
    fn try_lock(&self, _server: &str) -> Result<Option<Box<dyn Send>>, Error> {
        Ok(Some(Box::new(())))
    }
}

impl<S: TokenStore + ?Sized> TokenStore for Arc<S> {
    fn load(&self, server: &str) -> Result<Option<String>, Error> {
        (**self).load(server)
    }

    fn save(&self, server: &str, grant: Option<&str>) -> Result<(), Error> {
        (**self).save(server, grant)
    }

    fn servers(&self) -> Result<Vec<String>, Error> {
        (**self).servers()
    }

    fn try_lock(&self, server: &str) -> Result<Option<Box<dyn Send>>, Error> {
        (**self).try_lock(server)
    }
}

/// Store in memory. Its grants are lost when the process ends.
///
/// See [`TokenStore`], and [`OAuth`](super::OAuth) for its use.
#[derive(Clone, Default)]
pub struct MemoryStore {
    grants: Arc<Mutex<BTreeMap<String, String>>>,
    locked: Arc<Mutex<BTreeSet<String>>>,
}

impl MemoryStore {
    /// Creates an empty store. Clones share their content.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }
}

impl TokenStore for MemoryStore {
    fn load(&self, server: &str) -> Result<Option<String>, Error> {
        Ok(lock(&self.grants).get(server).cloned())
    }

    fn save(&self, server: &str, grant: Option<&str>) -> Result<(), Error> {
        let mut grants = lock(&self.grants);
        match grant {
            Some(grant) => grants.insert(server.to_owned(), grant.to_owned()),
            None => grants.remove(server),
        };
        Ok(())
    }

    fn servers(&self) -> Result<Vec<String>, Error> {
        Ok(lock(&self.grants).keys().cloned().collect())
    }

    fn try_lock(&self, server: &str) -> Result<Option<Box<dyn Send>>, Error> {
        let taken = lock(&self.locked).insert(server.to_owned());
        let unlock = || Unlock { locked: Arc::clone(&self.locked), server: server.to_owned() };
        Ok(taken.then(|| Box::new(unlock()) as Box<dyn Send>))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// Guard that releases a lock of a [`MemoryStore`] when dropped.
struct Unlock {
    locked: Arc<Mutex<BTreeSet<String>>>,
    server: String,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        lock(&self.locked).remove(&self.server);
    }
}
