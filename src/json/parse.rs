//! Parser: text to node table, in one pass and without a stack.
//!
//! Checks the grammar, decodes strings with escapes and fills the table. Numbers are not converted,
//! and names are compared only if the limits require it.
//!
//! Invariants: open containers form a list through their own nodes, so nesting takes no memory; the
//! table never exceeds the limit of nodes.

use super::scan::byte;
use super::sort::sort;
use super::{Doc, Kind, MAX_BYTES, ParseLimits, scan, unescape};
use super::{ErrorKind, ParseError};

/// A value or a member name.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) struct Node {
    /// Start of the raw text.
    pub(super) start: u32,
    /// End of the raw text (open container: see [`Builder::seen`]).
    pub(super) end: u32,
    /// Container: the node after the subtree (while open: the enclosing container). String with
    /// escapes: start of its decoded form.
    pub(super) link: u32,
    /// Low three bits: the tag. The rest: number of elements or members, or decoded bytes, or
    /// whether a number is an integer.
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
    /// The node of an empty document; its text is `null`.
    pub(super) const NULL: Node = Node { start: 0, end: 4, link: 0, meta: NULL };

    pub(super) fn tag(self) -> u32 {
        self.meta & 7
    }

    /// Number of elements, members or decoded bytes.
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

    /// Index of the node after this one, which has index `at`, and its content.
    #[inline]
    pub(super) fn behind(self, at: u32) -> u32 {
        if self.is_container() { self.link } else { at + 1 }
    }

    /// Position of a string's decoded form: whether in the text or among the decoded strings, start
    /// and length.
    #[inline(always)]
    pub(super) fn spelling<'d>(self, text: &'d str, decoded: &'d str) -> (&'d str, usize, usize) {
        if self.tag() == STRING {
            (text, self.start as usize + 1, (self.end - self.start) as usize - 2)
        } else {
            (decoded, self.link as usize, self.count() as usize)
        }
    }

    /// The decoded bytes of a string; `None` for other values.
    #[inline(always)]
    pub(super) fn string_bytes(self, doc: &Doc) -> &[u8] {
        let found = match self.tag() {
            STRING => doc.text.as_bytes().get(self.start as usize + 1..self.end as usize - 1),
            DECODED => {
                let start = self.link as usize;
                doc.decoded.as_bytes().get(start..start + self.count() as usize)
            }
            _ => None,
        };
        found.unwrap_or_default()
    }

    /// The decoded string.
    #[inline]
    pub(super) fn string<'d>(self, text: &'d str, decoded: &'d str) -> &'d str {
        let (arena, start, len) = self.spelling(text, decoded);
        arena.get(start..start + len).unwrap_or_default()
    }
}

pub(super) fn check_size(text: &[u8], limits: &ParseLimits) -> Result<(), ParseError> {
    let most = limits.bytes.min(MAX_BYTES);
    if text.len() > most {
        return Err(ParseError::new(ErrorKind::Bytes, most));
    }
    Ok(())
}

/// Length from which on the vectorised UTF-8 check is faster.
#[cfg(target_arch = "x86_64")]
const VECTORS_FROM: usize = 1 << 8;

pub(super) fn utf8(text: &[u8]) -> Result<&str, ParseError> {
    #[cfg(target_arch = "x86_64")]
    if text.len() >= VECTORS_FROM {
        if let Ok(text) = simdutf8::basic::from_utf8(text) {
            return Ok(text);
        }
    }
    std::str::from_utf8(text).map_err(utf8_error)
}

/// Size of the pieces that are checked and copied: small enough for the first-level cache.
const PIECE: usize = 8 << 10;

/// Appends the text, which must be UTF-8. After an error, `into` contains a part of it.
#[inline(always)]
pub(super) fn copy(text: &[u8], into: &mut String) -> Result<(), ParseError> {
    if text.len() > PIECE {
        return copy_long(text, into);
    }
    into.push_str(utf8(text)?);
    Ok(())
}

#[inline(never)]
fn copy_long(text: &[u8], into: &mut String) -> Result<(), ParseError> {
    into.reserve(text.len());
    let mut done = 0;
    while done < text.len() {
        let mut end = text.len().min(done + PIECE);
        // At a character boundary: at most three bytes follow a first byte.
        for _ in 0..3 {
            end -= usize::from(text.get(end).is_some_and(|b| b & 0xc0 == 0x80));
        }
        let Ok(piece) = utf8(text.get(done..end).unwrap_or_default()) else { break };
        into.push_str(piece);
        done = end;
    }
    // An error is located in the whole rest, because the cut may have moved it.
    let rest = text.get(done..).unwrap_or_default();
    into.push_str(utf8(rest).map_err(|e| ParseError::new(ErrorKind::Utf8, done + e.offset()))?);
    Ok(())
}

pub(super) fn utf8_error(e: std::str::Utf8Error) -> ParseError {
    ParseError::new(ErrorKind::Utf8, e.valid_up_to())
}

/// Empties a buffer and keeps its memory.
pub(super) fn emptied(mut bytes: Vec<u8>) -> String {
    bytes.clear();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Marks that the root has no parent.
const NOWHERE: u32 = u32::MAX;

/// Fills the table from `text`; `nodes` and `decoded` must be empty.
#[inline(never)]
pub(super) fn build(
    text: &str,
    nodes: &mut Vec<Node>,
    decoded: &mut String,
    names: &mut Vec<Name>,
    limits: &ParseLimits,
) -> Result<(), ParseError> {
    if nodes.capacity() > limits.nodes as usize {
        nodes.shrink_to(limits.nodes as usize);
    }
    // Moved out and back, so that its length and address stay in registers.
    let mut b = Builder { nodes: std::mem::take(nodes), decoded, limits, seen: 0 };
    let built = values(text, &mut b, names);
    *nodes = b.nodes;
    built
}

#[inline(always)]
fn values(text: &str, b: &mut Builder<'_>, names: &mut Vec<Name>) -> Result<(), ParseError> {
    let bytes = text.as_bytes();
    // The innermost open container, its closing byte, and its number of elements or members so far.
    // Outside of all containers, the closing byte is one that no text contains.
    let mut parent = NOWHERE;
    let mut close = NEVER;
    let mut count = 0u32;
    let mut depth = 0u32;
    let (mut i, mut found) = scan::solid(bytes, 0);
    'value: loop {
        // At the first byte of a value; strings are the most frequent.
        match found {
            _ if found == b'"' => (i, _) = b.string(text, i)?,
            b'-' | b'0'..=b'9' => {
                let (end, integer) = scan::number(bytes, i)?;
                b.push(NUMBER | u32::from(integer) << 3, i, end, 0)?;
                i = end;
            }
            b'{' | b'[' => {
                if depth >= b.limits.depth {
                    return Err(ParseError::new(ErrorKind::Depth, i));
                }
                depth += 1;
                if let Some(open) = b.nodes.get_mut(parent as usize) {
                    open.meta = open.meta & 7 | count << 3;
                    open.end = b.seen;
                }
                let at = b.nodes.len() as u32;
                b.push(if found == b'{' { OBJECT } else { ARRAY }, i, i, parent)?;
                parent = at;
                count = 0;
                b.seen = 0;
                // In ASCII, each closing bracket is two after its opening one.
                close = found + 2;
                (i, found) = scan::solid(bytes, i + 1);
                if found != close {
                    if close == b'}' {
                        (i, found) = b.name(text, i, found)?;
                    }
                    continue 'value;
                }
                // No element to count.
                count = u32::MAX;
            }
            b't' => i = b.literal(bytes, TRUE, i, b"true")?,
            b'f' => i = b.literal(bytes, FALSE, i, b"false")?,
            b'n' => i = b.literal(bytes, NULL, i, b"null")?,
            _ => return Err(no_value(bytes, i)),
        }
        // After a value: close finished containers, then find the next value.
        loop {
            count = count.wrapping_add(1);
            found = byte(bytes, i);
            if found <= b' ' {
                (i, found) = scan::solid(bytes, i);
            }
            if found == b',' && close != NEVER {
                (i, found) = scan::solid(bytes, i + 1);
                if close == b'}' {
                    (i, found) = b.name(text, i, found)?;
                }
                continue 'value;
            }
            if found != close {
                return end(bytes, i, close, &b.nodes);
            }
            i += 1;
            depth -= 1;
            let closed = parent;
            let here = b.nodes.len() as u32;
            if let Some(node) = b.nodes.get_mut(closed as usize) {
                parent = node.link;
                node.end = i as u32;
                node.link = here;
                node.meta = node.meta & 7 | count << 3;
            }
            if b.seen == SUSPICIOUS && b.limits.unique_names {
                unique(text, b.decoded, &b.nodes, closed, names)?;
            }
            match b.nodes.get(parent as usize) {
                Some(node) => {
                    count = node.count();
                    b.seen = node.end;
                    close = if node.tag() == OBJECT { b'}' } else { b']' };
                }
                None => close = NEVER,
            }
        }
    }
}

/// Rejects the object at `object` if two of its names are equal.
#[inline(never)]
fn unique(
    text: &str,
    decoded: &str,
    nodes: &[Node],
    object: u32,
    names: &mut Vec<Name>,
) -> Result<(), ParseError> {
    let again = repeated(text, decoded, nodes, object, names);
    match again.and_then(|at| nodes.get(at as usize)) {
        Some(node) => Err(ParseError::new(ErrorKind::DuplicateName, node.start as usize)),
        None => Ok(()),
    }
}

/// Closing byte of the text itself: never part of UTF-8.
const NEVER: u8 = 0xff;

/// The error for a byte at `i` that starts no value.
#[cold]
fn no_value(text: &[u8], i: usize) -> ParseError {
    let kind = if i < text.len() {
        if text.starts_with(b"\xef\xbb\xbf") && i == 0 {
            ErrorKind::ByteOrderMark
        } else {
            ErrorKind::UnexpectedByte
        }
    } else if text.iter().all(u8::is_ascii_whitespace) {
        ErrorKind::Empty
    } else {
        ErrorKind::UnexpectedEnd
    };
    ParseError::new(kind, i)
}

/// The end of the text, or the error for the byte after the value before `i`.
#[cold]
fn end(text: &[u8], i: usize, close: u8, nodes: &[Node]) -> Result<(), ParseError> {
    let Some(found) = text.get(i) else {
        return if close == NEVER { Ok(()) } else { Err(ParseError::new(ErrorKind::UnexpectedEnd, i)) };
    };
    let number = nodes.last().is_some_and(|n| n.tag() == NUMBER && n.end as usize == i);
    let kind = if number && (found.is_ascii_alphanumeric() || b".+-".contains(found)) {
        ErrorKind::Number
    } else if close == NEVER {
        ErrorKind::Trailing
    } else {
        ErrorKind::ExpectedComma
    };
    Err(ParseError::new(kind, i))
}

/// Value of [`Builder::seen`] once two names of an object may be equal.
const SUSPICIOUS: u32 = u32::MAX;

struct Builder<'a> {
    nodes: Vec<Node>,
    decoded: &'a mut String,
    limits: &'a ParseLimits,
    /// A bit for each name of the innermost object so far, at a position that depends on the name.
    /// The bits of enclosing objects are stored in their nodes, in place of the end.
    seen: u32,
}

impl Builder<'_> {
    /// Adds a node. The table never grows beyond the limit, so only a full table needs a check.
    #[inline(always)]
    fn push(&mut self, meta: u32, start: usize, end: usize, link: u32) -> Result<(), ParseError> {
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes = grown(std::mem::take(&mut self.nodes), self.limits, start)?;
        }
        self.nodes.push(Node { start: start as u32, end: end as u32, link, meta });
        Ok(())
    }

    #[inline(always)]
    fn literal(&mut self, text: &[u8], tag: u32, i: usize, word: &[u8]) -> Result<usize, ParseError> {
        let end = scan::literal(text, i, word)?;
        self.push(tag, i, end, 0)?;
        Ok(end)
    }

    /// Parses the member name that starts with the byte `found` at `i`, its colon and the
    /// whitespace. Returns the start of the value and the byte there.
    #[inline(always)]
    fn name(&mut self, text: &str, start: usize, found: u8) -> Result<(usize, u8), ParseError> {
        let bytes = text.as_bytes();
        if found != b'"' {
            return Err(scan::missing(bytes, start, ErrorKind::ExpectedName));
        }
        let (mut i, plain) = self.string(text, start)?;
        // Length, first and last byte distinguish most names.
        let ends = (usize::from(byte(bytes, start + 1)) * 15) ^ usize::from(byte(bytes, i - 2));
        let bit = 1 << ((((i - start) * 21) ^ ends) % 32);
        self.seen = if !plain || self.seen & bit != 0 { SUSPICIOUS } else { self.seen | bit };
        if byte(bytes, i) != b':' {
            let (colon, found) = scan::solid(bytes, i);
            if found != b':' {
                return Err(scan::missing(bytes, colon, ErrorKind::ExpectedColon));
            }
            i = colon;
        }
        Ok(scan::solid(bytes, i + 1))
    }

    /// Parses the string with its opening quote at `start`. Returns the position after it, and
    /// whether it has no escapes.
    #[inline(always)]
    fn string(&mut self, text: &str, start: usize) -> Result<(usize, bool), ParseError> {
        let i = scan::plain(text.as_bytes(), start + 1);
        if byte(text.as_bytes(), i) == b'"' {
            self.push(STRING, start, i + 1, 0)?;
            return Ok((i + 1, true));
        }
        Ok((self.escaped(text, start, i)?, false))
    }

    /// The rest of a string, from the first special byte at `i`.
    #[cold]
    #[inline(never)]
    fn escaped(&mut self, text: &str, start: usize, i: usize) -> Result<usize, ParseError> {
        let decoded_start = self.decoded.len();
        let i = unescape::string(text, start, i, self.decoded)?;
        let len = (self.decoded.len() - decoded_start) as u32;
        self.push(DECODED | len << 3, start, i + 1, decoded_start as u32)?;
        Ok(i + 1)
    }
}

/// Grows the table, up to the limit.
#[cold]
#[inline(never)]
fn grown(mut nodes: Vec<Node>, limits: &ParseLimits, start: usize) -> Result<Vec<Node>, ParseError> {
    let used = nodes.len();
    let most = limits.nodes as usize;
    if used >= most {
        return Err(ParseError::new(ErrorKind::Nodes, start));
    }
    let more = used.max(32);
    nodes.reserve_exact(more.min(most - used));
    Ok(nodes)
}

// Duplicate member names. Names are compared decoded, one object at a time, without the objects
// inside. The cost is at most that of sorting the names.

/// Key of a name while its object is checked.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// Equal for equal names, and rarely for different ones.
    key: u64,
    node: u32,
}

/// With more names, they are sorted at once; with fewer, a filter mostly shows that all differ.
const FEW: u32 = 64;

/// The node of the first name in the object at `object` that repeats an earlier one.
pub(super) fn repeated(
    text: &str,
    decoded: &str,
    nodes: &[Node],
    object: u32,
    names: &mut Vec<Name>,
) -> Option<u32> {
    let count = nodes.get(object as usize).map_or(0, |n| n.count());
    names.clear();
    // One bit for each key, at a position that depends on the whole key.
    let mut filter = [0u64; 16];
    let mut suspicious = count > FEW;
    let mut at = object + 1;
    for _ in 0..count {
        let name = nodes.get(at as usize)?;
        let key = key(text, decoded, name);
        let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let bit = 1 << (place % 64);
        if let Some(word) = filter.get_mut(place as usize / 64) {
            if *word & bit != 0 {
                suspicious = suspicious || names.iter().any(|n| n.key == key);
            }
            *word |= bit;
        }
        names.push(Name { key, node: at });
        let value = nodes.get(at as usize + 1)?;
        at = value.behind(at + 1);
    }
    if suspicious { sorted(text, decoded, nodes, names) } else { None }
}

/// Exact check for any number of names.
#[cold]
fn sorted(text: &str, decoded: &str, nodes: &[Node], names: &mut [Name]) -> Option<u32> {
    let spelled = |n: &Name| match nodes.get(n.node as usize) {
        Some(node) => node.string(text, decoded),
        None => "",
    };
    sort(names, |a, b| (a.key, a.node).cmp(&(b.key, b.node)));
    let mut first: Option<u32> = None;
    for run in names.chunk_by_mut(|a, b| a.key == b.key) {
        if run.len() > 1 {
            sort(run, |a, b| spelled(a).cmp(spelled(b)).then(a.node.cmp(&b.node)));
            let later = run
                .windows(2)
                .filter(|pair| spelled(&pair[0]) == spelled(&pair[1]))
                .map(|pair| pair[1].node)
                .min();
            first = match (first, later) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    first
}

/// Mixes the first and last eight bytes of a name and its length.
#[inline(always)]
fn key(text: &str, decoded: &str, name: &Node) -> u64 {
    let (arena, start, len) = name.spelling(text, decoded);
    let arena = arena.as_bytes();
    let head = word(arena, start);
    if len < 8 {
        return head & !(u64::MAX << (8 * len));
    }
    head ^ word(arena, start + len - 8).rotate_left(23) ^ ((len as u64) << 56)
}

/// Eight bytes from `i` on; zero after the end of the arena.
#[inline(always)]
fn word(arena: &[u8], i: usize) -> u64 {
    let rest = arena.get(i..).unwrap_or_default();
    scan::word(arena, i).unwrap_or_else(|| rest.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_node_takes_16_bytes() {
        assert!(size_of::<super::Node>() <= 16);
    }
}
