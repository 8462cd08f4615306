//! Command `skills`: lists the skills of a server, prints them, and writes them to a folder.
//!
//! # Invariants
//! - Contents are printed or written only after their size and digest were compared with the entry.
//! - Files are written into a new folder with the name of the skill. A path from the server that
//!   has a special meaning on this system is an error, so nothing is written outside of that
//!   folder.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Component, Path, PathBuf};

use tinymcp::json::{Json, Writer};
use tinymcp::skills::{Skill, SkillFile};
use tinymcp::{Client, Error, ErrorKind, stderr};

use super::args::Args;
use super::failure::{FAILED, Failure, Result};
use super::output::Output;
use super::{connect, lists};
use crate::escape::{one_line, plain};
use crate::out;

/// The file of a skill that is loaded first.
const SKILL_MD: &str = "SKILL.md";

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let (name, file) = match words {
        ["list"] => (None, None),
        ["get", name] => (Some(*name), None),
        ["get", name, file] => (Some(*name), Some(*file)),
        _ => {
            return Err(
                "expected `skills list` or `skills get SKILL [FILE]`; see `tinymcp help skills`".into()
            );
        }
    };
    if file.is_some() && (args.output.is_some() || output_is_entry(args)) {
        return Err("FILE excludes --output and the options for JSON".into());
    }
    let server = Server { args, client: connect::connect(connect::builder(args)?, args)? };
    let Some(name) = name else { return server.list(output) };
    let skill = server.find(name)?;
    if args.has("verify") {
        server.verify(&skill)?;
    }
    match file {
        _ if args.output.is_some() => server.write(&skill),
        None if output_is_entry(args) => output.print(json(|w| entry(w, &skill)).to_doc().root()).map(|()| 0),
        file => server.print(&skill, file.unwrap_or(SKILL_MD)),
    }
}

/// Returns whether `get` prints the entry of the skill instead of a file.
fn output_is_entry(args: &Args) -> bool {
    args.field.is_some() || ["json", "raw", "pretty"].iter().any(|flag| args.has(flag))
}

/// A server with skills.
struct Server<'a> {
    args: &'a Args,
    client: Client,
}

impl Server<'_> {
    fn list(&self, output: &Output) -> Result<u8> {
        let skills = self.client.skills().map_err(|error| self.failure(&error))?;
        if output.is_text() {
            output.write(&skills.iter().map(line).collect::<String>())?;
        } else {
            let list = json(|w| {
                w.begin_object().key("skills").begin_array();
                skills.iter().for_each(|skill| entry(w, skill));
                w.end_array().end_object();
            });
            output.print(list.to_doc().root())?;
        }
        let mut status = 0;
        for skill in skills.iter().filter(|_| self.args.has("verify")) {
            if let Err(failure) = self.verify(skill) {
                failure.print();
                status = status.max(failure.status);
                if failure.ends_all() {
                    break;
                }
            }
        }
        Ok(status)
    }

    /// Returns the skill with this URI, or the only one with this name.
    fn find(&self, name: &str) -> Result<Skill> {
        if name.contains("://") {
            return self.client.skill(name).map_err(|error| self.failure(&error));
        }
        let skills = self.client.skills().map_err(|error| self.failure(&error))?;
        let hint = lists::suggestion(name, skills.iter().map(|skill| skill.name.as_str()));
        let mut found: Vec<Skill> = skills.into_iter().filter(|skill| skill.name == name).collect();
        match (found.len(), found.pop()) {
            (1, Some(skill)) => Ok(skill),
            (_, None) => Err(self.failed(&format!("no skill {name:?}{hint}"))),
            (_, Some(last)) => {
                found.push(last);
                let uris: Vec<&str> = found.iter().map(|skill| skill.uri.as_str()).collect();
                Err(self.failed(&format!("several skills {name:?}: give a URI: {}", lists::shown(&uris))))
            }
        }
    }

    /// Reads all files, and compares them with the entry.
    fn verify(&self, skill: &Skill) -> Result<()> {
        let files = self.files(skill, "it cannot be verified")?;
        for file in files {
            self.read(skill, &file.path)?;
        }
        if !self.args.has("quiet") {
            let (count, bytes) = (files.len(), skill.bytes());
            let digest = skill.fingerprint().unwrap_or_default();
            let text = format!("tinymcp: verified {:?}: {count} files, {bytes} bytes, {digest}", skill.uri);
            stderr::write(format!("{}\n", one_line(&text)));
        }
        Ok(())
    }

    /// Returns the files of a skill. An error without them ends with `consequence`.
    fn files<'s>(&self, skill: &'s Skill, consequence: &str) -> Result<&'s [SkillFile]> {
        let name = &skill.uri;
        match &skill.files {
            Some(files) if files.iter().any(|file| file.path == SKILL_MD) => Ok(files),
            Some(_) => Err(self.failed(&format!("the skill {name:?} has no {SKILL_MD}, so {consequence}"))),
            None => Err(self.failed(&format!("the skill {name:?} is generated, so {consequence}"))),
        }
    }

    /// Reads a file. The frontmatter of the `SKILL.md` is verified, too.
    fn read(&self, skill: &Skill, path: &str) -> Result<Vec<u8>> {
        let read = match path {
            SKILL_MD => self.client.load_skill(skill).map(String::into_bytes),
            path => self.client.read_skill_file(skill, path),
        };
        read.map_err(|error| self.failure(&error))
    }

    fn print(&self, skill: &Skill, path: &str) -> Result<u8> {
        let bytes = self.read(skill, path)?;
        match String::from_utf8(bytes) {
            Ok(text) if io::stdout().is_terminal() => out(plain(&text).as_bytes())?,
            Ok(text) => out(text.as_bytes())?,
            Err(bytes) if io::stdout().is_terminal() => {
                let length = bytes.as_bytes().len();
                return Err(self.failed(&format!("{path:?} is not text: {length} bytes; write it to a file")));
            }
            Err(bytes) => out(bytes.as_bytes())?,
        }
        Ok(0)
    }

    /// Writes all files of a skill into a new folder with its name.
    fn write(&self, skill: &Skill) -> Result<u8> {
        let files = self.files(skill, "its files are not known")?;
        let folder = self.args.output.clone().unwrap_or_default().join(component(&skill.name)?);
        let failed = |path: &Path, error: &io::Error| Failure::from(format!("{}: {error}", path.display()));
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        }
        fs::create_dir(&folder).map_err(|error| failed(&folder, &error))?;
        let fill = || -> Result<()> {
            for file in files {
                let path = file.path.split('/').map(component).collect::<Result<PathBuf>>()?;
                let path = folder.join(path);
                let bytes = self.read(skill, &file.path)?;
                let written = fs::create_dir_all(path.parent().unwrap_or(&folder))
                    .and_then(|()| File::create_new(&path)?.write_all(&bytes));
                written.map_err(|error| failed(&path, &error))?;
            }
            Ok(())
        };
        fill().inspect_err(|_| {
            // A host must not load half a skill. OK to drop: the first error is the reason.
            let _ = fs::remove_dir_all(&folder);
        })?;
        if !self.args.has("quiet") {
            let text = format!("tinymcp: wrote {} files to {}", files.len(), folder.display());
            stderr::write(format!("{}\n", one_line(&text)));
        }
        Ok(0)
    }

    fn failed(&self, message: &str) -> Failure {
        Failure::new(FAILED, format!("{}: {message}", connect::name(self.args)))
    }

    /// The failure of a request. A skill that does not match its entry is a finding, not a broken
    /// connection.
    fn failure(&self, error: &Error) -> Failure {
        let mut failure = lists::request_failure(self.args, error, String::new);
        if matches!(error.kind(), ErrorKind::PeerMisbehaved | ErrorKind::Limit) {
            failure.status = FAILED;
        }
        failure
    }
}

/// Checks a name from the server as one component of a path.
fn component(name: &str) -> Result<&Path> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(Path::new(name)),
        _ => Err(Failure::new(FAILED, format!("{name:?} is not a file name on this system"))),
    }
}

/// Returns the lines of a skill in a list.
fn line(skill: &Skill) -> String {
    let size = match &skill.files {
        Some(files) => format!("{} files, {} bytes", files.len(), skill.bytes()),
        None => "generated".to_owned(),
    };
    let heading = one_line(&format!("{}: {}", skill.name, skill.description));
    format!("{heading}\n  {}, {size}\n", one_line(&skill.uri))
}

fn json(write: impl FnOnce(&mut Writer)) -> Json {
    let mut w = Writer::new();
    write(&mut w);
    w.into_json()
}

/// Writes an entry in the form of the protocol, and the digest of all its files.
fn entry(w: &mut Writer, skill: &Skill) {
    w.begin_object().key("uri").string(&skill.uri);
    w.key("frontmatter").json(&skill.frontmatter).key("resources");
    match &skill.files {
        None => _ = w.string("dynamic"),
        Some(files) => {
            w.begin_array();
            for file in files {
                w.begin_object().key("uri").string(&file.uri);
                w.key("digest").string(&file.digest).key("size").u64(file.size).end_object();
            }
            w.end_array();
        }
    }
    if let Some(digest) = skill.fingerprint() {
        w.key("fingerprint").string(&digest);
    }
    w.end_object();
}
