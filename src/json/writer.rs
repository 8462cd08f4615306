//! Writer of JSON text into one buffer.
//!
//! Adds commas and escapes, and cannot fail. It does not check the sequence of calls: a value
//! without its key, or an open object, results in invalid JSON.
//!
//! Invariants: the only state is whether the next item needs a comma, so nesting costs nothing; the
//! buffer is its only memory and contains UTF-8.

use std::fmt;
use std::io::Write as _;

use super::float;
use super::json::Json;
use super::scan;
use super::value::Value;

/// Writes JSON text.
///
/// ```
/// let mut w = tinymcp::json::Writer::new();
/// w.begin_object().key("ok").bool(true).key("list").begin_array();
/// w.i64(1).string("a\n").end_array().end_object();
/// assert_eq!(w.as_str(), r#"{"ok":true,"list":[1,"a\n"]}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writer {
    buf: Vec<u8>,
    /// True if an item precedes the next one in the same container.
    comma: bool,
    /// Start of the current line.
    line: usize,
    /// The current line contains spliced text that may have line ends.
    spliced: bool,
}

impl Writer {
    /// An empty writer without memory.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty writer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer::reuse(Vec::with_capacity(bytes))
    }

    /// An empty writer that reuses the memory of `buf`.
    pub fn reuse(mut buf: Vec<u8>) -> Writer {
        buf.clear();
        Writer { buf, ..Writer::default() }
    }

    /// Writes the comma before an item if needed, and requests one before the next.
    #[inline]
    fn item(&mut self) {
        if self.comma {
            self.buf.push(b',');
        }
        self.comma = true;
    }

    /// Opens an object.
    pub fn begin_object(&mut self) -> &mut Self {
        self.item();
        self.buf.push(b'{');
        self.comma = false;
        self
    }

    /// Closes the innermost object.
    pub fn end_object(&mut self) -> &mut Self {
        self.buf.push(b'}');
        self.comma = true;
        self
    }

    /// Opens an array.
    pub fn begin_array(&mut self) -> &mut Self {
        self.item();
        self.buf.push(b'[');
        self.comma = false;
        self
    }

    /// Closes the innermost array.
    pub fn end_array(&mut self) -> &mut Self {
        self.buf.push(b']');
        self.comma = true;
        self
    }

    /// Writes a member's name; its value must follow.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.item();
        quote(&mut self.buf, name);
        self.buf.push(b':');
        self.comma = false;
        self
    }

    /// Writes a string.
    pub fn string(&mut self, s: &str) -> &mut Self {
        self.item();
        quote(&mut self.buf, s);
        self
    }

    /// Writes a string from `format_args!`, without an intermediate one.
    pub fn string_fmt(&mut self, args: fmt::Arguments<'_>) -> &mut Self {
        self.item();
        self.buf.push(b'"');
        // OK to drop: the escaper never fails; a failing Display leaves its partial output.
        let _ = fmt::write(&mut Escaper(&mut self.buf), args);
        self.buf.push(b'"');
        self
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, b: bool) -> &mut Self {
        self.solid(if b { "true" } else { "false" })
    }

    /// Writes `null`.
    pub fn null(&mut self) -> &mut Self {
        self.solid("null")
    }

    /// Writes a signed integer.
    pub fn i64(&mut self, n: i64) -> &mut Self {
        self.item();
        if n < 0 {
            self.buf.push(b'-');
        }
        decimal(&mut self.buf, n.unsigned_abs());
        self
    }

    /// Writes an unsigned integer.
    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.item();
        decimal(&mut self.buf, n);
        self
    }

    /// Writes a number in the shortest form that reads back equal; `null` if it is not finite.
    pub fn f64(&mut self, n: f64) -> &mut Self {
        if !n.is_finite() {
            return self.null();
        }
        self.item();
        float::write(&mut self.buf, n);
        self
    }

    /// Writes a type whose Display form is one JSON value without strings.
    pub(super) fn raw_fmt(&mut self, args: fmt::Arguments<'_>) -> &mut Self {
        self.item();
        // OK to drop: writing to a Vec cannot fail.
        let _ = self.buf.write_fmt(args);
        self
    }

    /// Writes a value of a document, byte for byte.
    pub fn value(&mut self, v: Value<'_>) -> &mut Self {
        self.raw(v.raw())
    }

    /// Writes finished JSON, byte for byte.
    pub fn json(&mut self, j: &Json) -> &mut Self {
        self.raw(j.as_str())
    }

    /// Writes a text that must be one JSON value, byte for byte.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.spliced = true;
        self.solid(text)
    }

    /// Like [`Writer::raw`], for a text without line ends, such as a string, a number or a constant
    /// of the program; [`Writer::newline`] need not search it.
    pub(crate) fn solid(&mut self, text: &str) -> &mut Self {
        self.item();
        self.buf.extend_from_slice(text.as_bytes());
        self
    }

    /// Like [`Writer::solid`], for a text that ends before a value.
    pub(crate) fn solid_open(&mut self, text: &str) -> &mut Self {
        self.solid(text);
        self.comma = false;
        self
    }

    /// Writes members without their braces, such as `"a":1,"b":2`, byte for byte. An empty text is
    /// not a member.
    pub fn raw_members(&mut self, text: &str) -> &mut Self {
        if !text.is_empty() {
            self.raw(text);
        }
        self
    }

    /// Writes a text that ends before a value, such as `"a":1,"b":` or `"a":[`, byte for byte.
    pub fn raw_open(&mut self, text: &str) -> &mut Self {
        self.raw(text);
        self.comma = false;
        self
    }

    /// Ends a line; the next value is a separate one. Line ends of spliced text, which JSON allows
    /// only as whitespace, become spaces, so that each line is one frame for line-based transports.
    pub fn newline(&mut self) -> &mut Self {
        let line = self.buf.get_mut(self.line..).unwrap_or_default();
        if std::mem::take(&mut self.spliced) {
            let mut from = 0;
            while let Some(at) = memchr::memchr2(b'\n', b'\r', &line[from..]) {
                line[from + at] = b' ';
                from += at + 1;
            }
        }
        debug_assert!(!line.contains(&b'\n'), "text that was written as solid has a line end");
        self.buf.push(b'\n');
        self.line = self.buf.len();
        self.comma = false;
        self
    }

    /// The bytes written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf
    }

    /// The text written. Checks UTF-8; [`Writer::as_bytes`] is free.
    pub fn as_str(&self) -> &str {
        // OK to default: only UTF-8 is written.
        std::str::from_utf8(&self.buf).unwrap_or_default()
    }

    /// Number of bytes written.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns `true` if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Clears the writer and keeps its memory.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.comma = false;
        self.line = 0;
        self.spliced = false;
    }

    /// Truncates to an earlier [`Writer::len`]. A larger length changes nothing; a length within a
    /// character means its start.
    pub fn truncate(&mut self, len: usize) {
        let mut len = len.min(self.buf.len());
        // A byte 0b10xxxxxx continues a character.
        while self.buf.get(len).is_some_and(|b| b & 0xc0 == 0x80) {
            len -= 1;
        }
        self.buf.truncate(len);
        self.line = self.line.min(len);
        self.comma = !matches!(self.buf.last(), None | Some(b'{' | b'[' | b':' | b',' | b'\n'));
    }

    /// Returns the buffer.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buf
    }

    /// The text written, as JSON; `null` if nothing was written.
    pub fn into_json(self) -> Json {
        if self.buf.is_empty() {
            return Json::NULL;
        }
        // OK to default: only UTF-8 is written.
        Json::trusted(String::from_utf8(self.buf).unwrap_or_default())
    }
}

/// Escapes formatted text.
struct Escaper<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaper<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        escape(self.0, s);
        Ok(())
    }
}

fn quote(buf: &mut Vec<u8>, s: &str) {
    buf.reserve(s.len() + 2);
    buf.push(b'"');
    escape(buf, s);
    buf.push(b'"');
}

/// Appends `s` with quotes, backslashes and control characters escaped, the same bytes at which the
/// parser stops.
fn escape(buf: &mut Vec<u8>, s: &str) {
    let mut rest = s.as_bytes();
    loop {
        let (plain, special) = rest.split_at(scan::plain(rest, 0));
        buf.extend_from_slice(plain);
        let Some((b, behind)) = special.split_first() else {
            return;
        };
        rest = behind;
        let short = match b {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                let digit = |n: u8| b"0123456789abcdef"[usize::from(n & 0xf)];
                buf.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(b >> 4), digit(*b)]);
                continue;
            }
        };
        buf.extend_from_slice(&[b'\\', short]);
    }
}

/// The digits of 0 to 99, two each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

pub(super) fn decimal(buf: &mut Vec<u8>, mut n: u64) {
    // From the last pair of digits to the first one or two; at most 20 digits.
    let mut digits = [0; 20];
    let mut used = 0;
    for pair in digits.rchunks_exact_mut(2) {
        let last = (n % 100) as usize;
        pair.copy_from_slice(&PAIRS[last]);
        n /= 100;
        used += 2;
        if n == 0 {
            used -= usize::from(last < 10);
            break;
        }
    }
    buf.extend_from_slice(&digits[digits.len() - used..]);
}
