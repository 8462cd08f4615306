//! Grants in a file of the user.
//!
//! # Invariants
//! - The file and its locks are readable by their owner only. A file that other users can access is
//!   rejected.
//! - The file is replaced as a whole, so a reader sees the old content or the new one.
//! - Locks are `flock` locks: the system releases them when their process ends.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmac_sha256::Hash;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::TokenStore;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Writer};

/// Size limit of the file in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of attempts to lock the file for a change, and the pause between two attempts.
const ATTEMPTS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// Grants in a file, by default `~/.config/tinymcp/tokens.json`.
///
/// The file and its directory are created when a grant is stored. Several processes may use the
/// file at the same time: with lock files beside it, one process at a time changes the file or
/// renews the tokens of a server.
///
/// ```no_run
/// use tinymcp::oauth::{FileStore, Grant, TokenStore};
///
/// let store = FileStore::user()?;
/// for server in store.servers()? {
///     if let Some(grant) = Grant::load(&store, &server)? {
///         println!("{server}: {}", grant.issuer());
///     }
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Uses the file `tinymcp/tokens.json` in `$XDG_CONFIG_HOME`, or in `~/.config`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if neither `XDG_CONFIG_HOME` nor `HOME` is an absolute path.
    pub fn user() -> Result<FileStore, Error> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        let config = config.ok_or_else(|| {
            let why = "no directory for tokens: set HOME or XDG_CONFIG_HOME to an absolute path";
            Error::new(ErrorKind::Invalid, why)
        })?;
        Ok(FileStore::at(config.join("tinymcp/tokens.json")))
    }

    /// Uses the file at this path.
    pub fn at(path: impl Into<PathBuf>) -> FileStore {
        FileStore { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. `None` if it does not exist.
    fn read(&self) -> Result<Option<Doc>, Error> {
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("cannot open", error)),
        };
        let about = file.metadata().map_err(|error| self.failed("cannot read", error))?;
        let reject = |why: &str| {
            Err(Error::new(ErrorKind::Invalid, format!("token file {}: {why}", self.path.display())))
        };
        if !about.is_file() || about.len() > MAX_BYTES {
            return reject("it is not a regular file, or it is too large");
        }
        if about.mode() & 0o077 != 0 {
            return reject("other users can access it: run `chmod 600` and, if one did, sign in again");
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return reject("it belongs to another user");
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(|error| self.failed("cannot read", error))?;
        match Doc::parse(&text) {
            Ok(doc) => Ok(Some(doc)),
            // Without the parse error, which could quote the secret text.
            Err(_) => reject("it is not valid JSON; remove it and sign in again"),
        }
    }

    /// Replaces the file.
    fn replace(&self, text: &[u8]) -> Result<(), Error> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let failed = |error| self.failed("cannot write", error);
        // This process holds the lock, so an existing file is from a process that has ended.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != IoErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        file.write_all(text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &self.path).map_err(failed)
    }

    /// Locks the lock file with this suffix. `None` if another process holds the lock.
    fn lock(&self, ending: &str) -> Result<Option<File>, Error> {
        if let Some(folder) = self.path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| self.failed("cannot create the directory of", error))?;
        }
        let mut name = self.path.as_os_str().to_owned();
        name.push(ending);
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(name);
        let file = options.map_err(|error| self.failed("cannot lock", error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(self.failed("cannot lock", error.into())),
        }
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{what} the token file {}", self.path.display())).with_source(error)
    }
}

impl TokenStore for FileStore {
    fn load(&self, server: &str) -> Result<Option<String>, Error> {
        let doc = self.read()?;
        Ok(doc.and_then(|doc| doc.root().get(server).map(|grant| grant.raw().to_owned())))
    }

    fn save(&self, server: &str, grant: Option<&str>) -> Result<(), Error> {
        let mut attempt = 0;
        let _locked = loop {
            match self.lock(".lock")? {
                Some(locked) => break locked,
                None if attempt == ATTEMPTS => {
                    let why = format!("another process locks the token file {}", self.path.display());
                    return Err(Error::new(ErrorKind::Busy, why));
                }
                None => std::thread::sleep(PAUSE),
            }
            attempt += 1;
        };
        let doc = self.read()?.unwrap_or_default();
        let mut w = Writer::new();
        w.begin_object();
        for (name, value) in doc.root().members().filter(|(name, _)| *name != server) {
            w.key(name).value(value);
        }
        if let Some(grant) = grant {
            w.key(server).json(&Json::parse(grant.to_owned())?);
        }
        w.end_object();
        let mut text = w.into_bytes();
        text.push(b'\n');
        self.replace(&text)
    }

    fn servers(&self) -> Result<Vec<String>, Error> {
        let doc = self.read()?.unwrap_or_default();
        Ok(doc.root().members().map(|(name, _)| name.to_owned()).collect())
    }

    fn try_lock(&self, server: &str) -> Result<Option<Box<dyn Send>>, Error> {
        let hash = Hash::hash(server.as_bytes());
        let ending: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let locked = self.lock(&format!(".{ending}.lock"))?;
        Ok(locked.map(|file| Box::new(file) as Box<dyn Send>))
    }
}
