//! Definition files as JSON documents. Each value has its line and JSON pointer.
//!
//! Invariant: a file is a regular file of at most 4 MiB, so that reading it ends.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tinymcp::json::{Doc, ErrorKind, Kind, Value, without_comments};

use super::super::files::open;
use super::super::place::Place;
use super::{Problem, reason};

/// Largest definition file, in bytes; the limit of the JSON parser, too.
const MAX_BYTES: u64 = 4 << 20;

/// A parsed definition file.
pub(super) struct Document {
    path: Arc<Path>,
    /// Absolute folder of the file. Relative paths start there.
    pub(super) folder: PathBuf,
    doc: Doc,
    /// Offsets of the line ends.
    line_ends: Vec<usize>,
}

impl Document {
    /// Reads and parses a file.
    pub(super) fn read(path: &Path) -> Result<Document, Problem> {
        let shared: Arc<Path> = Arc::from(path);
        let whole_file = |message: String| Problem {
            place: Place { file: shared.clone(), line: 1, pointer: String::new() },
            message,
        };
        let text = read_bounded(path).map_err(whole_file)?;
        let folder = std::path::absolute(path).map_err(|e| whole_file(e.to_string()))?;
        let folder = folder.parent().unwrap_or(Path::new("/")).to_path_buf();
        let line_ends: Vec<usize> =
            text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
        // Offsets are those of the file: comments become spaces.
        let doc = Doc::parse(without_comments(&text)).map_err(|error| {
            let line = line_ends.partition_point(|end| *end < error.offset()) + 1;
            let start = line.checked_sub(2).and_then(|l| line_ends.get(l)).map_or(0, |end| end + 1);
            let column = error.offset().saturating_sub(start) + 1;
            let cure = cure(error.kind(), text.get(error.offset()).copied().unwrap_or_default());
            let message = format!("invalid JSON at column {column}: {}{cure}", error.kind());
            Problem { place: Place { file: shared.clone(), line, pointer: String::new() }, message }
        })?;
        Ok(Document { path: shared, folder, doc, line_ends })
    }

    pub(super) fn root(&self) -> Node<'_> {
        let value = self.doc.root();
        Node { document: self, value, offset: value.offset(), pointer: String::new() }
    }

    /// Returns all duplicate members of objects: the later member and the line of the first one.
    pub(super) fn duplicates(&self) -> Vec<(Node<'_>, usize)> {
        let mut found = Vec::new();
        let mut open = vec![self.root()];
        while let Some(node) = open.pop() {
            let mut members: Vec<(&str, Node<'_>)> = node.members().collect();
            // A stable sort, so members of the same name stay in their order.
            members.sort_by_key(|(name, _)| *name);
            for pair in members.windows(2) {
                let [(a, first), (b, second)] = pair else { continue };
                if a == b {
                    found.push((second.clone(), first.place().line));
                }
            }
            let containers = |n: &Node<'_>| matches!(n.value.kind(), Kind::Object | Kind::Array);
            open.extend(members.into_iter().map(|(_, node)| node).filter(containers));
            open.extend(node.items().filter(containers));
        }
        found
    }
}

/// Explains the usual reason of a syntax error at this byte.
fn cure(kind: ErrorKind, byte: u8) -> &'static str {
    match kind {
        ErrorKind::ExpectedName | ErrorKind::UnexpectedByte if byte == b'#' => {
            "; comments are // … or /* … */"
        }
        // The first byte of typographic quotes in UTF-8.
        ErrorKind::ExpectedName | ErrorKind::UnexpectedByte if byte == 0xe2 => "; write straight quotes: \"",
        ErrorKind::UnexpectedByte if byte.is_ascii_uppercase() => {
            "; true, false and null are in small letters, texts in double quotes"
        }
        ErrorKind::ExpectedComma => "; a comma may be missing before it",
        ErrorKind::ExpectedName => "; names are in double quotes",
        ErrorKind::UnexpectedByte => "; texts are in double quotes",
        ErrorKind::UnexpectedEnd => "; a bracket or quote is not closed",
        ErrorKind::ControlCharacter => "; close the text with \", or write a line break as \\n",
        ErrorKind::Escape => "; write a backslash as \\\\",
        ErrorKind::ByteOrderMark => "; save the file as UTF-8 without it",
        _ => "",
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text)).map_err(|e| reason(&e))?;
    if text.len() as u64 > MAX_BYTES {
        return Err("longer than 4 MiB; split it into several files".to_owned());
    }
    Ok(text)
}

/// A value of a document.
#[derive(Clone)]
pub(super) struct Node<'d> {
    document: &'d Document,
    pub(super) value: Value<'d>,
    /// Offset of the member's name, or of the value.
    offset: usize,
    pointer: String,
}

impl<'d> Node<'d> {
    pub(super) fn place(&self) -> Place {
        let line = self.document.line_ends.partition_point(|end| *end < self.offset) + 1;
        Place { file: self.document.path.clone(), line, pointer: self.pointer.clone() }
    }

    pub(super) fn document(&self) -> &'d Document {
        self.document
    }

    /// Returns the member with this name.
    pub(super) fn get(&self, name: &str) -> Option<Node<'d>> {
        // Skip the allocation of pointers for the other members.
        self.value.get(name)?;
        self.members().find(|(other, _)| *other == name).map(|(_, node)| node)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'d str, Node<'d>)> + use<'d, '_> {
        self.value.member_values().map(|(name, value)| {
            let text = name.as_str().unwrap_or_default();
            let pointer = format!("{}/{}", self.pointer, text.replace('~', "~0").replace('/', "~1"));
            (text, Node { document: self.document, value, offset: name.offset(), pointer })
        })
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Node<'d>> + use<'d, '_> {
        self.value.items().enumerate().map(|(at, value)| Node {
            document: self.document,
            value,
            offset: value.offset(),
            pointer: format!("{}/{at}", self.pointer),
        })
    }

    /// Returns the value at a JSON pointer below this one, or this value if none exists there.
    pub(super) fn below(&self, pointer: &str) -> Node<'d> {
        match self.value.pointer(pointer) {
            Some(value) => Node {
                document: self.document,
                value,
                offset: value.offset(),
                pointer: format!("{}{pointer}", self.pointer),
            },
            None => self.clone(),
        }
    }
}
