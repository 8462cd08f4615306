//! History file of `shell`: `tinymcp/history` in the user's state folder, for its owner only.
//!
//! Credentials are masked: values of arguments that are named like a credential or that the tool's
//! schema marks (`format: password`, `writeOnly`), and values of `--header`, `--bearer` and
//! `--env`.

use std::env;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tinymcp::json::Value;

use super::super::schema::Input;
use crate::mask::{MASKED, Mask, is_credential};
use crate::shell_words::{Dialect, quoted, split};

/// Largest number of stored lines.
const LINES: usize = 1000;
/// Largest number of bytes of the file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// A history that lines are added to.
pub(super) struct History {
    file: Option<File>,
    mask: Mask,
}

impl History {
    /// Opens the file and returns its lines. Without a file, nothing is stored.
    pub(super) fn open(mask: Mask) -> (History, Vec<String>) {
        let path =
            path(env::var_os("XDG_STATE_HOME").map(PathBuf::from), env::var_os("HOME").map(PathBuf::from));
        // OK to drop: the shell also works without a history.
        match path.and_then(|path| load(&path).ok()) {
            Some((file, lines)) => (History { file: Some(file), mask }, lines),
            None => (History { file: None, mask }, Vec::new()),
        }
    }

    /// Adds a line. `schema` is that of the tool that the line calls.
    pub(super) fn add(&mut self, line: &str, schema: Option<Input<'_>>) {
        let line = masked(line, schema, &self.mask);
        if let (Some(file), Some(line)) = (&mut self.file, line) {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Returns the path of the file (XDG base directory specification: a relative folder is ignored).
fn path(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = state.filter(|folder| folder.is_absolute());
    Some(state.or_else(|| Some(home?.join(".local/state")))?.join("tinymcp/history"))
}

/// Opens the file for appending. Only its last lines are kept.
fn load(path: &Path) -> io::Result<(File, Vec<String>)> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let start = found.len().saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    Read::by_ref(&mut file).take(MAX_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The first line may have lost its start.
    let lines: Vec<&str> = text.lines().skip(usize::from(start > 0)).collect();
    let kept = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    if start > 0 || lines.len() > 2 * LINES {
        file.set_len(0)?;
        file.write_all(format!("{}\n", kept.join("\n")).as_bytes())?;
    }
    Ok((file, kept.iter().map(|line| (*line).to_owned()).collect()))
}

/// Returns a line without credentials; `None` for a line that cannot be split into words.
fn masked(line: &str, schema: Option<Input<'_>>, mask: &Mask) -> Option<String> {
    let words = split(line, Dialect::Shlex).ok()?;
    let mut changed = false;
    let masked: Vec<String> = words
        .iter()
        .map(|word| {
            let text = masked_word(word, schema, mask);
            changed |= text != *word;
            text
        })
        .collect();
    match changed {
        false => Some(line.replace(['\n', '\r'], " ")),
        true => Some(masked.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

fn masked_word(word: &str, schema: Option<Input<'_>>, mask: &Mask) -> String {
    let is_marked = |name: &str| {
        let argument = schema.and_then(|schema| schema.argument(name));
        let keyword = |name: &str| argument.and_then(|argument| argument.keyword(name));
        is_credential(name)
            || keyword("writeOnly").and_then(Value::as_bool) == Some(true)
            || keyword("format").and_then(Value::as_str) == Some("password")
    };
    match word.split_once('=') {
        _ if word.starts_with('{') => {
            mask.frame(word.as_bytes(), usize::MAX).map_or_else(
                |_| MASKED.to_owned(),
                |(text, _)| {
                    // A member that the schema marks may not be named like a credential.
                    let marked = schema.is_some_and(|schema| schema.arguments().any(|a| is_marked(a.name)));
                    if marked {
                        MASKED.to_owned()
                    } else if mask.text(word) == word && !text.contains(MASKED) {
                        word.to_owned()
                    } else {
                        text
                    }
                },
            )
        }
        Some((name, value)) if !value.is_empty() && is_marked(name.trim_end_matches(':')) => {
            format!("{name}={MASKED}")
        }
        // A value may be JSON with credentials.
        Some((name, value)) => match mask.frame(value.as_bytes(), usize::MAX) {
            Ok((text, _)) if text.contains(MASKED) => format!("{name}={text}"),
            _ => mask.text(word).into_owned(),
        },
        None => mask.text(word).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use tinymcp::json::Doc;

    use super::*;
    use crate::mask::parts;

    #[test]
    fn credentials_are_not_kept() {
        let schema = r#"{"properties":{"pin":{"type":"string","format":"password"},"x":{"writeOnly":true}}}"#;
        let doc = Doc::parse(schema).unwrap();
        let mask = Mask::new(parts("sk-0123456789"));
        let of = |line: &str, schema: bool| masked(line, schema.then_some(Input(doc.root())), &mask);
        for (line, expected) in [
            ("login user=me  password=x", "login user=me 'password=[masked]'"),
            ("login token:=7 'note=a b'", "login 'token:=[masked]' 'note=a b'"),
            ("login note=sk-0123456789", "login 'note=[masked]'"),
            (r#"login '{"password":"x","a":1}'"#, r#"login '{"password":"[masked]","a":1}'"#),
            (r#"login 'a:={"apiKey":"x"}'"#, r#"login 'a:={"apiKey":"[masked]"}'"#),
            ("login  a='b  c'", "login  a='b  c'"),
            ("login '{bad'", "login '[masked]'"),
        ] {
            assert_eq!(of(line, false).as_deref(), Some(expected), "{line}");
        }
        assert_eq!(of("t pin=1234 x:=2", true).as_deref(), Some("t 'pin=[masked]' 'x:=[masked]'"));
        assert_eq!(of(r#"t '{"pin":"1234"}'"#, true).as_deref(), Some("t '[masked]'"));
        assert_eq!(of("t 'a", false), None);
    }

    #[test]
    fn the_file_is_private_and_bounded() {
        let folder = env::temp_dir().join(format!("tinymcp-history-{}", std::process::id()));
        let path = path(Some(folder.clone()), None).unwrap();
        let (mut file, lines) = load(&path).unwrap();
        assert!(lines.is_empty());
        for n in 0..2500 {
            file.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let (_, lines) = load(&path).unwrap();
        assert_eq!((lines.len(), lines[0].as_str(), lines[999].as_str()), (1000, "line 1500", "line 2499"));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1000);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_relative_state_folder_is_ignored() {
        let home = || Some(PathBuf::from("/home/x"));
        assert_eq!(
            path(Some("relative".into()), home()),
            Some("/home/x/.local/state/tinymcp/history".into())
        );
        assert_eq!(path(Some("/state".into()), None), Some("/state/tinymcp/history".into()));
        assert_eq!(path(None, None), None);
    }

    #[test]
    fn the_last_lines_of_a_large_file_are_kept() {
        let folder = env::temp_dir().join(format!("tinymcp-large-history-{}", std::process::id()));
        let path = path(Some(folder.clone()), None).unwrap();
        let (mut file, _) = load(&path).unwrap();
        for n in 0..3000 {
            file.write_all(format!("{n} {}\n", "x".repeat(500)).as_bytes()).unwrap();
        }
        let (_, lines) = load(&path).unwrap();
        assert_eq!(lines.len(), LINES);
        assert!(lines[0].starts_with("2000 x") && lines[LINES - 1].starts_with("2999 x"));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), LINES);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
