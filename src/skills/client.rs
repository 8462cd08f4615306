//! Skills of a server, loaded and verified by a client.

use std::time::Instant;

use crate::client::{Client, Request};
use crate::era::{decode, skills as codec};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value, Writer};
use crate::model::catalog::Resource;
use crate::model::content::Body;
use crate::model::skill::{SKILL_MD, Skill, resolved, uri_below};

use super::{frontmatter, verify};

/// Skills (SEP-2640).
///
/// No method requests more than it needs: a list of skills or an entry reads no file.
///
/// Text of a skill is untrusted input for a model. A digest shows that a file matches its entry,
/// not that the file or the entry can be trusted. The manual lists the duties of a host.
impl Client {
    /// All skills that the server lists, without invalid entries. A server may have more:
    /// [`Client::skill`] gets any by its URI.
    ///
    /// # Errors
    /// As [`Client::tools`]; [`ErrorKind::PeerIncompatible`] if the server does not declare the
    /// extension.
    pub fn skills(&self) -> Result<Vec<Skill>, Error> {
        self.skill_settings()?;
        self.pages(codec::LIST, "skills", None, |entry| decode::skill(entry).ok())
    }

    /// The entry of one skill, by the URI of its `SKILL.md`. Request it again when a file does not
    /// match the entry: the skill may have been changed.
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::PeerMisbehaved`] for an invalid entry;
    /// [`ErrorKind::PeerIncompatible`] if the server does not declare the extension.
    pub fn skill(&self, uri: &str) -> Result<Skill, Error> {
        self.skill_settings()?;
        let result = self.request(codec::GET, parameters(Some(uri), None))?;
        let skill = decode::one_skill(result.to_doc().root()).map_err(misbehaved)?;
        match skill.uri == uri {
            true => Ok(skill),
            false => Err(misbehaved(format!("the server sent the skill {:?} for {uri:?}", skill.uri))),
        }
    }

    /// Reads the `SKILL.md` of a skill and verifies its size, its digest and its frontmatter
    /// against the entry. The digest of a generated skill cannot be verified.
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::PeerMisbehaved`] if the entry breaks a rule or the file
    /// does not match it; [`ErrorKind::Limit`] for a skill with more than [`Skill::MAX_FILES`]
    /// files or [`Skill::MAX_BYTES`] bytes.
    pub fn load_skill(&self, skill: &Skill) -> Result<String, Error> {
        let bytes = self.read_skill_file(skill, SKILL_MD)?;
        let problem = match frontmatter::parse(&bytes) {
            Ok(found) => verify::difference(&found, &skill.frontmatter)
                .map(|name| format!("its frontmatter differs from that of the entry: {name:?}")),
            Err(why) => Some(why),
        };
        match problem {
            Some(problem) => Err(unfit(skill, &problem)),
            None => String::from_utf8(bytes).map_err(|_| unfit(skill, "its SKILL.md is not UTF-8")),
        }
    }

    /// Reads a file of a skill by its relative path, as the text of the skill names it, and
    /// verifies its size and its digest against the entry. Only listed files are read.
    ///
    /// # Errors
    /// As [`Client::load_skill`]; [`ErrorKind::Invalid`] if the skill does not list the file.
    pub fn read_skill_file(&self, skill: &Skill, path: &str) -> Result<Vec<u8>, Error> {
        if let Some(flaw) = verify::rejection_reason(skill) {
            return Err(unfit(skill, &flaw));
        }
        let listed = match (&skill.files, skill.file(path)) {
            (_, Some(file)) => Some(file),
            (None, _) => None,
            (Some(_), None) => {
                let message = format!("the skill {:?} does not list the file {path:?}", skill.uri);
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        let uri = match listed {
            Some(file) => file.uri.clone(),
            None => skill.generated(path)?,
        };
        // A cached text could be older than the entry.
        let output = self.request_read(&uri).bypass_cache().wait()?;
        let contents = output.contents.into_iter().find(|contents| contents.uri == uri);
        let bytes = match contents.map(|contents| contents.body) {
            Some(Body::Text(text)) => text.into_bytes(),
            Some(Body::Bytes(bytes)) => bytes,
            None => return Err(unfit(skill, &format!("the server sent no contents for {uri:?}"))),
        };
        match listed.and_then(|file| verify::mismatch(file, &bytes)) {
            Some(problem) => Err(unfit(skill, &problem)),
            None => Ok(bytes),
        }
    }

    /// The children of a folder of the server's resources, such as `skill://calibration/tables`.
    /// The result is the current content; the files of a skill are those in its entry.
    ///
    /// # Errors
    /// As [`Client::tools`]; [`ErrorKind::PeerIncompatible`] if the server does not declare that it
    /// lists folders.
    pub fn read_directory(&self, uri: &str) -> Result<Vec<Resource>, Error> {
        if !self.skill_settings()? {
            return Err(Error::new(ErrorKind::PeerIncompatible, "the server does not list folders"));
        }
        self.pages(codec::READ_DIRECTORY, "resources", Some(uri), decode::resource)
    }

    /// Returns whether the server lists folders.
    fn skill_settings(&self) -> Result<bool, Error> {
        decode::skills_capability(self.server().capabilities_json.to_doc().root())
            .ok_or_else(|| Error::new(ErrorKind::PeerIncompatible, "the server does not offer skills"))
    }

    /// Reads all pages of a list.
    fn pages<T>(
        &self,
        method: &str,
        member: &str,
        uri: Option<&str>,
        read: fn(Value<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let limits = self.limits();
        let limit = |what| Err(Error::new(ErrorKind::Limit, format!("the list exceeds the limit of {what}")));
        let started = Instant::now();
        let (mut all, mut bytes, mut cursor) = (Vec::new(), 0, None);
        for _ in 0..limits.client.list_pages {
            // All pages share one timeout, because the caller sees one call.
            let left = limits.client.call_timeout.saturating_sub(started.elapsed());
            let request: Request<Json> = self.request_method(method, parameters(uri, cursor.as_deref()));
            let page = request.timeout(left).wait()?;
            bytes += page.as_str().len();
            let page = page.to_doc();
            let Some(entries) = page.root().get(member) else {
                return Err(misbehaved(format!("the result of {method} has no {member:?}")));
            };
            all.extend(entries.items().filter_map(read));
            if all.len() > limits.client.list_entries {
                return limit("entries");
            }
            if bytes > limits.client.list_bytes {
                return limit("bytes");
            }
            let next = page.root().get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            match next {
                None => return Ok(all),
                next if next == cursor => return Err(misbehaved("the server repeats the cursor of a list")),
                next => cursor = next,
            }
        }
        limit("pages")
    }
}

impl Skill {
    /// The URI of a file that is not listed, because the skill is generated.
    fn generated(&self, path: &str) -> Result<String, Error> {
        match resolved(path).filter(|path| !path.is_empty()) {
            Some(path) => Ok(uri_below(self.uri.strip_suffix(SKILL_MD).unwrap_or_default(), &path)),
            None => Err(Error::new(ErrorKind::Invalid, format!("{path:?} is not a path below the skill"))),
        }
    }
}

fn parameters(uri: Option<&str>, cursor: Option<&str>) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    for (name, value) in [("uri", uri), ("cursor", cursor)] {
        if let Some(value) = value {
            w.key(name).string(value);
        }
    }
    w.end_object();
    w.into_json()
}

fn misbehaved(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::PeerMisbehaved, message)
}

/// The error for a skill that must not be loaded.
fn unfit(skill: &Skill, why: &str) -> Error {
    let over = skill.files.as_ref().is_some_and(|files| files.len() > Skill::MAX_FILES)
        || skill.bytes() > Skill::MAX_BYTES;
    let kind = if over { ErrorKind::Limit } else { ErrorKind::PeerMisbehaved };
    Error::new(kind, format!("the skill {:?} is rejected: {why}", skill.uri))
}
