//! Store of tasks in one file that survives power cuts.
//!
//! The file is a log. Each line contains a checksum and a JSON document:
//!
//! | document | meaning |
//! |---|---|
//! | `{"accept":ID,"task":…}` | a task was accepted |
//! | `{"finish":ID,"outcome":…}` | a task has ended |
//! | `{"remove":ID}` | a task was removed |
//!
//! # Invariants
//! - `accept` and `finish` return after their line is on the disk: two synchronizations for each
//!   task. `remove` writes without one. A compaction has two more.
//! - Lines are only appended. A compaction copies the lines of the remaining tasks to a second file
//!   and renames it, so that one complete file exists at any time.
//! - The file has at most twice the bytes of these lines, and [`SLACK`] more.
//! - A line that is torn or damaged is skipped when the file is read. A failed write is undone. If
//!   that fails too, no further line is written.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hmac_sha256::Hash;

use super::store::{StoredTask, TaskStore};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};
use crate::sync::lock;

/// Bytes of obsolete lines that may stay in the file.
const SLACK: u64 = 64 << 10;
/// Hexadecimal digits of a line's checksum.
const CHECKSUM: usize = 16;

/// Store of tasks in a file, made for flash memory: two small synchronized writes for each task,
/// and few rewrites. It survives power cuts.
///
/// One process may use the file at a time. It locks a second file with the suffix `.lock`. A new
/// file is readable by its owner only, because it contains the arguments and results of the calls.
///
/// ```no_run
/// # use tinymcp::{FileTaskStore, Server};
/// # fn main() -> Result<(), tinymcp::Error> {
/// let mut server = Server::new("board", "1.0.0");
/// server.tasks(FileTaskStore::open("/var/lib/board/tasks")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileTaskStore {
    path: PathBuf,
    log: Mutex<Log>,
    /// Locked while the store exists.
    _lock_file: LockedFile,
}

/// The file.
#[derive(Debug)]
struct Log {
    file: LockedFile,
    index: Index,
    /// Set if a failed write could not be undone.
    broken: bool,
}

/// Contents of the file.
#[derive(Debug, Default)]
struct Index {
    /// Length of the file in bytes.
    length: u64,
    /// Places of the lines of each remaining task, in the order in which they were accepted.
    tasks: BTreeMap<u64, Lines>,
    order: HashMap<String, u64>,
    next: u64,
    /// Bytes of the lines of `tasks`.
    used: u64,
    /// Set if lines were skipped.
    damaged: bool,
}

/// Places of the lines of one task in the file.
#[derive(Clone, Debug)]
struct Lines {
    accept: Range<u64>,
    finish: Option<Range<u64>>,
}

impl Lines {
    fn bytes(&self) -> u64 {
        let length = |line: &Range<u64>| line.end - line.start;
        length(&self.accept) + self.finish.as_ref().map_or(0, length)
    }
}

impl FileTaskStore {
    /// Opens the file, or creates it. The folder must exist.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`]: another process uses the file. [`ErrorKind::Io`]: the file cannot be
    /// read or written, or it is not a file of tasks.
    pub fn open(path: impl Into<PathBuf>) -> Result<FileTaskStore, Error> {
        let path = path.into();
        // Reading a pipe or a device may never end.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(failure(&path, why));
        }
        let lock_path = with_suffix(&path, ".lock");
        // With a lock file, the file belongs to a store, and a file without intact lines is a
        // damaged store.
        if !lock_path.exists() && fs::read(&path).is_ok_and(|bytes| is_foreign(&bytes)) {
            let why = io::Error::new(io::ErrorKind::InvalidData, "it exists and is not a file of tasks");
            return Err(failure(&path, why));
        }
        let opened = lock_file(&lock_path).and_then(|file| Ok((file, Log::open(&path)?)));
        let (lock_file, log) = opened.map_err(|error| failure(&path, error))?;
        Ok(FileTaskStore { path, log: Mutex::new(log), _lock_file: lock_file })
    }

    /// Appends a line and applies it. Then compacts the file if most of its lines are obsolete.
    fn write(&self, line: &str, durable: bool) -> Result<(), Error> {
        let mut log = lock(&self.log);
        log.append(line, durable).map_err(|error| failure(&self.path, error))?;
        log.index.add(line.as_bytes());
        if log.index.is_wasteful() {
            // A failed compaction leaves the old file. The next line attempts it again.
            let _ = log.compact(&self.path);
        }
        Ok(())
    }
}

impl TaskStore for FileTaskStore {
    fn load(&self) -> Result<Vec<StoredTask>, Error> {
        let mut log = lock(&self.log);
        log.stored().map_err(|error| failure(&self.path, error))
    }

    fn accept(&self, id: &str, task: &Json) -> Result<(), Error> {
        let line = line(|w| {
            w.key("accept").string(id);
            w.key("task").json(task);
        });
        self.write(&line, true)
    }

    fn finish(&self, id: &str, outcome: &Json) -> Result<(), Error> {
        let line = line(|w| {
            w.key("finish").string(id);
            w.key("outcome").json(outcome);
        });
        self.write(&line, true)
    }

    fn remove(&self, id: &str) {
        let line = line(|w| {
            w.key("remove").string(id);
        });
        // A task that cannot be removed now is removed after a restart.
        let _ = self.write(&line, false);
    }
}

impl Index {
    /// Reads the bytes of a file.
    fn read(bytes: &[u8]) -> Index {
        let mut index = Index::default();
        bytes.split_inclusive(|byte| *byte == b'\n').for_each(|line| index.add(line));
        index
    }

    /// Adds the next line of the file.
    fn add(&mut self, line: &[u8]) {
        let start = self.length;
        self.length += line.len() as u64;
        match intact(line).and_then(document) {
            Some(doc) => self.apply(&doc, start..self.length),
            None => self.damaged = true,
        }
    }

    /// Applies the document of a line.
    fn apply(&mut self, doc: &Doc, place: Range<u64>) {
        let member = |name: &str| doc.root().get(name).and_then(Value::as_str);
        if let Some(id) = member("accept") {
            let order = self.take(id).map_or(self.next, |(order, _)| order);
            self.next = self.next.max(order + 1);
            self.put(id, order, Lines { accept: place, finish: None });
        } else if let Some(id) = member("finish") {
            if let Some((order, lines)) = self.take(id) {
                self.put(id, order, Lines { finish: Some(place), ..lines });
            }
        } else if let Some(id) = member("remove") {
            self.take(id);
        }
    }

    fn take(&mut self, id: &str) -> Option<(u64, Lines)> {
        let order = self.order.remove(id)?;
        let lines = self.tasks.remove(&order)?;
        self.used -= lines.bytes();
        Some((order, lines))
    }

    fn put(&mut self, id: &str, order: u64, lines: Lines) {
        self.used += lines.bytes();
        self.order.insert(id.to_owned(), order);
        self.tasks.insert(order, lines);
    }

    fn is_wasteful(&self) -> bool {
        self.length > 2 * self.used + SLACK
    }

    /// Returns the stored tasks. `read` returns the line at a place.
    fn stored<E>(
        &self,
        mut read: impl FnMut(&Range<u64>) -> Result<String, E>,
    ) -> Result<Vec<StoredTask>, E> {
        let ids: HashMap<u64, &String> = self.order.iter().map(|(id, order)| (*order, id)).collect();
        let mut all = Vec::new();
        for (order, lines) in &self.tasks {
            let mut member = |line: &Range<u64>, name: &str| -> Result<Option<Json>, E> {
                Ok(document(&read(line)?).and_then(|doc| doc.root().get(name).map(Value::to_json)))
            };
            let task = member(&lines.accept, "task")?;
            let outcome = lines.finish.as_ref().map(|line| member(line, "outcome")).transpose()?;
            if let (Some(id), Some(task)) = (ids.get(order), task) {
                all.push(StoredTask { id: (*id).clone(), task, outcome: outcome.flatten() });
            }
        }
        Ok(all)
    }
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        // The same file may be open under another name, with another lock file.
        let mut file = LockedFile::lock(private_options().truncate(false).open(path)?)?;
        sync_folder(path)?;
        let mut bytes = Vec::new();
        file.0.read_to_end(&mut bytes)?;
        let mut log = Log { file, index: Index::read(&bytes), broken: false };
        // A line that is appended to a torn line would be damaged, too.
        if log.index.damaged || log.index.is_wasteful() {
            log.compact(path)?;
        }
        Ok(log)
    }

    fn append(&mut self, line: &str, durable: bool) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier write failed and could not be undone"));
        }
        let length = self.index.length;
        let place = SeekFrom::Start(length);
        let written = self.file.0.seek(place).and_then(|_| self.file.0.write_all(line.as_bytes()));
        let written = written.and_then(|()| if durable { self.file.0.sync_data() } else { Ok(()) });
        if written.is_err() {
            self.broken = self.file.0.set_len(length).is_err();
        }
        written
    }

    fn read(&mut self, line: &Range<u64>) -> io::Result<String> {
        let length = usize::try_from(line.end - line.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.0.seek(SeekFrom::Start(line.start))?;
        self.file.0.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    /// Replaces the file by one with the lines of the remaining tasks.
    fn compact(&mut self, path: &Path) -> io::Result<()> {
        let next = with_suffix(path, ".new");
        // A file of an interrupted compaction. OK to continue: the next call fails if it still
        // exists.
        let _ = fs::remove_file(&next);
        let mut file = LockedFile::lock(private_options().create_new(true).open(&next)?)?;
        let mut index = Index::default();
        for lines in self.index.tasks.values().cloned().collect::<Vec<_>>() {
            for line in [Some(lines.accept), lines.finish].into_iter().flatten() {
                let text = self.read(&line)?;
                file.0.write_all(text.as_bytes())?;
                index.add(text.as_bytes());
            }
        }
        file.0.sync_data()?;
        fs::rename(&next, path)?;
        // From here on the new file is used, even if the folder cannot be synchronized.
        *self = Log { file, index, broken: false };
        sync_folder(path)
    }

    fn stored(&mut self) -> io::Result<Vec<StoredTask>> {
        let index = std::mem::take(&mut self.index);
        let stored = index.stored(|line| self.read(line));
        self.index = index;
        stored
    }
}

/// Returns whether a file has lines, but no line that begins like a line of a store.
fn is_foreign(bytes: &[u8]) -> bool {
    let begins = |line: &[u8]| {
        line.get(CHECKSUM) == Some(&b' ') && line.iter().take(CHECKSUM).all(u8::is_ascii_hexdigit)
    };
    bytes.contains(&b'\n') && !bytes.split(|byte| *byte == b'\n').any(begins)
}

/// Options for a new file that only its owner can read, because it contains the arguments and
/// results of calls.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create(true);
    options
}

/// Returns the path with this suffix.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// A file that is locked while this exists.
#[derive(Debug)]
struct LockedFile(File);

impl LockedFile {
    /// Locks a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: it is locked already.
    fn lock(file: File) -> io::Result<LockedFile> {
        #[cfg(unix)]
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(LockedFile(file))
    }
}

/// Unlocks the file: closing it is not enough while another thread starts a process, which has a
/// copy of each descriptor until it runs its program.
#[cfg(unix)]
impl Drop for LockedFile {
    fn drop(&mut self) {
        // OK to ignore: the file is closed next.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Creates and locks the file that marks the store as in use.
fn lock_file(path: &Path) -> io::Result<LockedFile> {
    LockedFile::lock(OpenOptions::new().write(true).create(true).truncate(false).open(path)?)
}

/// Synchronizes the folder, so that a new name in it survives a power cut.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn failure(path: &Path, error: io::Error) -> Error {
    let (kind, what) = match error.kind() {
        io::ErrorKind::WouldBlock => (ErrorKind::Busy, "is in use by another process"),
        _ => (ErrorKind::Io, "cannot be read or written"),
    };
    Error::new(kind, format!("the file of tasks {} {what}", path.display())).with_source(error)
}

/// Returns a line with its checksum and its line end.
fn line(fill: impl FnOnce(&mut Writer)) -> String {
    let mut w = Writer::new();
    w.begin_object();
    fill(&mut w);
    w.end_object();
    // `newline` replaces line ends within the document.
    w.newline();
    format!("{} {}", checksum(w.as_str().trim_end_matches('\n')), w.as_str())
}

fn checksum(document: &str) -> String {
    Hash::hash(document.as_bytes()).iter().take(CHECKSUM / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the text of a line if the line is complete and undamaged.
fn intact(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?;
    let (sum, document) = text.strip_suffix('\n')?.split_once(' ')?;
    (sum == checksum(document)).then_some(text)
}

/// Returns the document of a line.
fn document(line: &str) -> Option<Doc> {
    Doc::parse(line.get(CHECKSUM + 1..)?).ok()
}

#[cfg(test)]
mod tests;
