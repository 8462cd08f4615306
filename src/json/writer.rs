//! Writing JSON text into one buffer.
//!
//! It puts commas and escapes where they belong and cannot fail. It does not check that the
//! calls make sense: a value without its key, or an object left open, is text that is not JSON.
//!
//! Invariants: one flag, whether the next item needs a comma, is all it remembers, so nesting
//! costs nothing; the buffer is all the memory it takes; the buffer holds UTF-8.

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
    /// Whether the next item follows another one in the same container.
    comma: bool,
    /// Where the current line starts.
    line: usize,
    /// The current line holds text that was spliced into it and may have line ends.
    spliced: bool,
}

impl Writer {
    /// An empty writer; no memory is taken until something is written.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty writer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer::reuse(Vec::with_capacity(bytes))
    }

    /// An empty writer in the memory of `buf`, whose contents are dropped.
    pub fn reuse(mut buf: Vec<u8>) -> Writer {
        buf.clear();
        Writer { buf, ..Writer::default() }
    }

    /// The comma the next item may need, and the promise that the one after it does.
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

    /// Closes the object opened last.
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

    /// Closes the array opened last.
    pub fn end_array(&mut self) -> &mut Self {
        self.buf.push(b']');
        self.comma = true;
        self
    }

    /// A member's name; its value comes next.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.item();
        quote(&mut self.buf, name);
        self.buf.push(b':');
        self.comma = false;
        self
    }

    /// A string.
    pub fn string(&mut self, s: &str) -> &mut Self {
        self.item();
        quote(&mut self.buf, s);
        self
    }

    /// A string put together by `format_args!`, without one in between.
    pub fn string_fmt(&mut self, args: fmt::Arguments<'_>) -> &mut Self {
        self.item();
        self.buf.push(b'"');
        // OK to drop: the escaper itself never fails; a failing Display leaves what it wrote.
        let _ = fmt::write(&mut Escaper(&mut self.buf), args);
        self.buf.push(b'"');
        self
    }

    /// `true` or `false`.
    pub fn bool(&mut self, b: bool) -> &mut Self {
        self.solid(if b { "true" } else { "false" })
    }

    /// `null`.
    pub fn null(&mut self) -> &mut Self {
        self.solid("null")
    }

    /// A signed integer.
    pub fn i64(&mut self, n: i64) -> &mut Self {
        self.item();
        if n < 0 {
            self.buf.push(b'-');
        }
        decimal(&mut self.buf, n.unsigned_abs());
        self
    }

    /// An unsigned integer.
    pub fn u64(&mut self, n: u64) -> &mut Self {
        self.item();
        decimal(&mut self.buf, n);
        self
    }

    /// A number in the shortest form that reads back the same; `null` when it is not finite.
    pub fn f64(&mut self, n: f64) -> &mut Self {
        if !n.is_finite() {
            return self.null();
        }
        self.item();
        float::write(&mut self.buf, n);
        self
    }

    /// What is known to format as one JSON value without a string in it.
    pub(super) fn raw_fmt(&mut self, args: fmt::Arguments<'_>) -> &mut Self {
        self.item();
        // OK to drop: writing to a Vec cannot fail.
        let _ = self.buf.write_fmt(args);
        self
    }

    /// A value of some document, byte for byte.
    pub fn value(&mut self, v: Value<'_>) -> &mut Self {
        self.raw(v.raw())
    }

    /// Finished JSON, byte for byte.
    pub fn json(&mut self, j: &Json) -> &mut Self {
        self.raw(j.as_str())
    }

    /// A text that is known to be one JSON value, byte for byte.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.spliced = true;
        self.solid(text)
    }

    /// Like [`Writer::raw`] and its sisters, for a text that is known to have no line end, such as a
    /// string, a number or what stands in the program: [`Writer::newline`] need not look for one.
    pub(crate) fn solid(&mut self, text: &str) -> &mut Self {
        self.item();
        self.buf.extend_from_slice(text.as_bytes());
        self
    }

    /// The same for a text that ends where a value comes next.
    pub(crate) fn solid_open(&mut self, text: &str) -> &mut Self {
        self.solid(text);
        self.comma = false;
        self
    }

    /// A text that is known to be members without their braces, `"a":1,"b":2`, byte for byte. An
    /// empty text is no member.
    pub fn raw_members(&mut self, text: &str) -> &mut Self {
        if !text.is_empty() {
            self.raw(text);
        }
        self
    }

    /// A text that ends where a value comes next, `"a":1,"b":` or `"a":[`, byte for byte.
    pub fn raw_open(&mut self, text: &str) -> &mut Self {
        self.raw(text);
        self.comma = false;
        self
    }

    /// Ends a line; what follows is a value of its own. Line ends that came in with spliced text,
    /// where JSON allows them only as whitespace, become spaces: each line is one frame for a
    /// transport whose frames are lines.
    pub fn newline(&mut self) -> &mut Self {
        let line = self.buf.get_mut(self.line..).unwrap_or_default();
        if std::mem::take(&mut self.spliced) {
            let mut from = 0;
            while let Some(at) = memchr::memchr2(b'\n', b'\r', &line[from..]) {
                line[from + at] = b' ';
                from += at + 1;
            }
        }
        debug_assert!(!line.contains(&b'\n'), "what is called solid has a line end");
        self.buf.push(b'\n');
        self.line = self.buf.len();
        self.comma = false;
        self
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf
    }

    /// What was written. Checks that it is UTF-8; [`Writer::as_bytes`] is free.
    pub fn as_str(&self) -> &str {
        // OK to default: only UTF-8 is ever written.
        std::str::from_utf8(&self.buf).unwrap_or_default()
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Forgets what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.comma = false;
        self.line = 0;
        self.spliced = false;
    }

    /// Goes back to an earlier [`Writer::len`]. More than was written changes nothing, and a
    /// length inside a character means the start of that character.
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

    /// The buffer.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buf
    }

    /// What was written, as JSON; `null` when that is nothing.
    pub fn into_json(self) -> Json {
        if self.buf.is_empty() {
            return Json::NULL;
        }
        // OK to default: only UTF-8 is ever written.
        Json::trusted(String::from_utf8(self.buf).unwrap_or_default())
    }
}

/// Escapes whatever is formatted into it.
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

/// Appends `s` with quotes, backslashes and control characters escaped, which are just the bytes
/// the parser stops at.
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
    // From the last pair of digits to the first one or two; 20 digits are the most.
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
