//! Text to node table, in one pass and without a stack.
//!
//! It checks the grammar, decodes strings with escapes and fills the table. It does not read
//! numbers as numbers, nor compare names unless the limits ask for it.
//!
//! Invariants: the containers still open are a list threaded through their own nodes, so depth
//! costs no memory; the table never holds more nodes than the limits allow.

use super::error::{ErrorKind, ParseError};
use super::value::Kind;
use super::{MAX_BYTES, ParseLimits, scan};

/// One value or member name.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// Where the raw text starts.
    pub(super) start: u32,
    /// Where the raw text ends.
    pub(super) end: u32,
    /// Container: the node behind the subtree (while open: the container around it).
    /// String with escapes: where its decoded form starts.
    pub(super) link: u32,
    /// Low three bits: the tag. The rest: number of elements or members, or bytes decoded.
    meta: u32,
}

pub(super) const NULL: u32 = 0;
pub(super) const FALSE: u32 = 1;
pub(super) const TRUE: u32 = 2;
pub(super) const NUMBER: u32 = 3;
pub(super) const STRING: u32 = 4;
pub(super) const DECODED: u32 = 5;
pub(super) const ARRAY: u32 = 6;
pub(super) const OBJECT: u32 = 7;

impl Node {
    /// What a document without nodes holds; its text is `null`.
    pub(super) const NULL: Node = Node { start: 0, end: 4, link: 0, meta: NULL };

    pub(super) fn tag(self) -> u32 {
        self.meta & 7
    }

    /// Elements, members or decoded bytes.
    pub(super) fn count(self) -> u32 {
        self.meta >> 3
    }

    pub(super) fn kind(self) -> Kind {
        match self.tag() {
            NULL => Kind::Null,
            FALSE | TRUE => Kind::Bool,
            NUMBER => Kind::Number,
            STRING | DECODED => Kind::String,
            ARRAY => Kind::Array,
            _ => Kind::Object,
        }
    }

    pub(super) fn is_container(self) -> bool {
        self.tag() >= ARRAY
    }
}

/// Memory the check for duplicate names works in.
#[derive(Clone, Default)]
pub(super) struct Scratch {
    names: Vec<u32>,
}

impl Scratch {
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        self.names.clear();
        self.names.shrink_to(bytes / size_of::<u32>());
    }
}

pub(super) fn check_size(text: &[u8], limits: &ParseLimits) -> Result<(), ParseError> {
    let most = limits.bytes.min(MAX_BYTES);
    if text.len() > most {
        return Err(ParseError::new(ErrorKind::Bytes, most));
    }
    Ok(())
}

pub(super) fn utf8(text: &[u8]) -> Result<&str, ParseError> {
    std::str::from_utf8(text).map_err(|e| utf8_error(text, e))
}

pub(super) fn utf8_error(_text: &[u8], e: std::str::Utf8Error) -> ParseError {
    ParseError::new(ErrorKind::Utf8, e.valid_up_to())
}

/// The same memory, holding nothing.
pub(super) fn emptied(mut bytes: Vec<u8>) -> String {
    bytes.clear();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The parent of the root.
const NOWHERE: u32 = u32::MAX;

/// Fills the table from `text`; `nodes` and `decoded` are empty.
pub(super) fn build(
    text: &str,
    nodes: &mut Vec<Node>,
    decoded: &mut String,
    scratch: &mut Scratch,
    limits: &ParseLimits,
) -> Result<(), ParseError> {
    let bytes = text.as_bytes();
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(ParseError::new(ErrorKind::ByteOrderMark, 0));
    }
    let mut b = Builder { text, bytes, nodes, decoded, limits };
    // The innermost open container and how many elements or members it has so far.
    let mut parent = NOWHERE;
    let mut count = 0u32;
    let mut depth = 0u32;
    let mut i = scan::whitespace(bytes, 0);
    if i == bytes.len() {
        return Err(ParseError::new(ErrorKind::Empty, i));
    }
    'value: loop {
        // At the first byte of a value, or of the first element or name, or of a closing bracket.
        let Some(&first) = bytes.get(i) else {
            return Err(ParseError::new(ErrorKind::UnexpectedEnd, i));
        };
        match first {
            b'"' => i = b.string(i)?,
            b'-' | b'0'..=b'9' => {
                let end = scan::number(bytes, i)?;
                b.push(NUMBER, i, end, 0)?;
                i = end;
            }
            b't' => i = b.literal(TRUE, i, b"true")?,
            b'f' => i = b.literal(FALSE, i, b"false")?,
            b'n' => i = b.literal(NULL, i, b"null")?,
            b'{' | b'[' => {
                if depth >= limits.depth {
                    return Err(ParseError::new(ErrorKind::Depth, i));
                }
                depth += 1;
                if let Some(open) = b.nodes.get_mut(parent as usize) {
                    open.meta = open.tag() | count << 3;
                }
                let tag = if first == b'{' { OBJECT } else { ARRAY };
                let at = b.push(tag, i, i, parent)?;
                parent = at;
                count = 0;
                i = scan::whitespace(bytes, i + 1);
                if bytes.get(i) != Some(&(first + 2)) {
                    if tag == OBJECT {
                        i = b.name(i)?;
                    }
                    continue 'value;
                }
                count = u32::MAX; // becomes 0 below: this container has no element to count
            }
            _ => return Err(ParseError::new(ErrorKind::UnexpectedByte, i)),
        }
        // Behind a value: close what ends here, then find the next value.
        loop {
            count = count.wrapping_add(1);
            let here = b.nodes.len() as u32;
            let Some(open) = b.nodes.get_mut(parent as usize) else {
                i = scan::whitespace(bytes, i);
                return if i == bytes.len() { Ok(()) } else { Err(ParseError::new(ErrorKind::Trailing, i)) };
            };
            i = scan::whitespace(bytes, i);
            let is_object = open.tag() == OBJECT;
            match bytes.get(i) {
                Some(b',') => {
                    i = scan::whitespace(bytes, i + 1);
                    if is_object {
                        i = b.name(i)?;
                    }
                    continue 'value;
                }
                Some(c) if *c == if is_object { b'}' } else { b']' } => {
                    i += 1;
                    let closed = parent;
                    parent = open.link;
                    open.end = i as u32;
                    open.link = here;
                    open.meta = open.tag() | count << 3;
                    if is_object && limits.unique_names && count > 1 {
                        b.unique(closed, scratch)?;
                    }
                    depth -= 1;
                    count = b.nodes.get(parent as usize).map_or(0, |n| n.count());
                }
                Some(_) => return Err(ParseError::new(ErrorKind::ExpectedComma, i)),
                None => return Err(ParseError::new(ErrorKind::UnexpectedEnd, i)),
            }
        }
    }
}

struct Builder<'a> {
    text: &'a str,
    bytes: &'a [u8],
    nodes: &'a mut Vec<Node>,
    decoded: &'a mut String,
    limits: &'a ParseLimits,
}

impl Builder<'_> {
    fn push(&mut self, tag: u32, start: usize, end: usize, link: u32) -> Result<u32, ParseError> {
        let at = self.nodes.len();
        if at >= self.limits.nodes as usize {
            return Err(ParseError::new(ErrorKind::Nodes, start));
        }
        self.nodes.push(Node { start: start as u32, end: end as u32, link, meta: tag });
        Ok(at as u32)
    }

    fn literal(&mut self, tag: u32, i: usize, word: &[u8]) -> Result<usize, ParseError> {
        let end = scan::literal(self.bytes, i, word)?;
        self.push(tag, i, end, 0)?;
        Ok(end)
    }

    /// A member name, its colon and the whitespace around; returns where the value starts.
    fn name(&mut self, i: usize) -> Result<usize, ParseError> {
        match self.bytes.get(i) {
            Some(b'"') => {}
            Some(_) => return Err(ParseError::new(ErrorKind::ExpectedName, i)),
            None => return Err(ParseError::new(ErrorKind::UnexpectedEnd, i)),
        }
        let i = self.string(i)?;
        let i = scan::whitespace(self.bytes, i);
        match self.bytes.get(i) {
            Some(b':') => Ok(scan::whitespace(self.bytes, i + 1)),
            Some(_) => Err(ParseError::new(ErrorKind::ExpectedColon, i)),
            None => Err(ParseError::new(ErrorKind::UnexpectedEnd, i)),
        }
    }

    /// The string whose opening quote is at `start`; returns the position behind it.
    fn string(&mut self, start: usize) -> Result<usize, ParseError> {
        let mut i = scan::string(self.bytes, start + 1)?;
        if self.bytes.get(i) == Some(&b'"') {
            self.push(STRING, start, i + 1, 0)?;
            return Ok(i + 1);
        }
        let decoded_start = self.decoded.len();
        let mut run = start + 1;
        while self.bytes.get(i) == Some(&b'\\') {
            self.decoded.push_str(self.text.get(run..i).unwrap_or_default());
            let (c, next) = scan::escape(self.bytes, i)?;
            self.decoded.push(c);
            run = next;
            i = scan::string(self.bytes, next)?;
        }
        self.decoded.push_str(self.text.get(run..i).unwrap_or_default());
        let len = (self.decoded.len() - decoded_start) as u32;
        let at = self.push(DECODED, start, i + 1, decoded_start as u32)?;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.meta |= len << 3;
        }
        Ok(i + 1)
    }

    /// Refuses the object at `object` when two of its names are equal.
    fn unique(&self, object: u32, scratch: &mut Scratch) -> Result<(), ParseError> {
        let names = &mut scratch.names;
        names.clear();
        let mut at = object as usize + 1;
        while let Some(value) = self.nodes.get(at + 1) {
            names.push(at as u32);
            at = if value.is_container() { value.link as usize } else { at + 2 };
        }
        names.sort_unstable_by(|a, b| self.name_at(*a).cmp(self.name_at(*b)).then(a.cmp(b)));
        let twice = names.windows(2).filter(|w| self.name_at(w[0]) == self.name_at(w[1])).map(|w| w[1]).min();
        match twice.and_then(|at| self.nodes.get(at as usize)) {
            Some(node) => Err(ParseError::new(ErrorKind::DuplicateName, node.start as usize)),
            None => Ok(()),
        }
    }

    fn name_at(&self, at: u32) -> &str {
        match self.nodes.get(at as usize) {
            Some(node) => string_of(self.text, self.decoded, *node),
            None => "",
        }
    }
}

/// The decoded form of a string node.
#[inline]
pub(super) fn string_of<'d>(text: &'d str, decoded: &'d str, node: Node) -> &'d str {
    let found = if node.tag() == STRING {
        text.get(node.start as usize + 1..node.end as usize - 1)
    } else {
        let start = node.link as usize;
        decoded.get(start..start + node.count() as usize)
    };
    found.unwrap_or_default()
}
