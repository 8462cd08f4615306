//! Writing JSON text into one buffer.
//!
//! It puts commas and escapes where they belong and cannot fail. It does not check that the
//! calls make sense: a value without its key, or an object left open, is text that is not JSON.
//!
//! Invariant: one flag, whether the next item needs a comma, is all it remembers; nesting costs
//! nothing.

use std::fmt::{self, Write as _};

use super::text::Json;
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
    buf: String,
    /// Whether the next item follows another one in the same container.
    comma: bool,
}

impl Writer {
    /// An empty writer; no memory is taken until something is written.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty writer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { buf: String::with_capacity(bytes), comma: false }
    }

    /// An empty writer in the memory of `buf`, whose contents are dropped.
    pub fn reuse(mut buf: Vec<u8>) -> Writer {
        buf.clear();
        Writer { buf: String::from_utf8(buf).unwrap_or_default(), comma: false }
    }

    /// The comma the next item may need, and the promise that the one after it does.
    #[inline]
    fn item(&mut self) {
        if self.comma {
            self.buf.push(',');
        }
        self.comma = true;
    }

    /// Opens an object.
    pub fn begin_object(&mut self) -> &mut Self {
        self.item();
        self.buf.push('{');
        self.comma = false;
        self
    }

    /// Closes the object opened last.
    pub fn end_object(&mut self) -> &mut Self {
        self.buf.push('}');
        self.comma = true;
        self
    }

    /// Opens an array.
    pub fn begin_array(&mut self) -> &mut Self {
        self.item();
        self.buf.push('[');
        self.comma = false;
        self
    }

    /// Closes the array opened last.
    pub fn end_array(&mut self) -> &mut Self {
        self.buf.push(']');
        self.comma = true;
        self
    }

    /// A member's name; its value comes next.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.item();
        quote(&mut self.buf, name);
        self.buf.push(':');
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
        self.buf.push('"');
        // OK to drop: the escaper itself never fails; a failing Display leaves what it wrote.
        let _ = Escaper(&mut self.buf).write_fmt(args);
        self.buf.push('"');
        self
    }

    /// `true` or `false`.
    pub fn bool(&mut self, b: bool) -> &mut Self {
        self.raw(if b { "true" } else { "false" })
    }

    /// `null`.
    pub fn null(&mut self) -> &mut Self {
        self.raw("null")
    }

    /// A signed integer.
    pub fn i64(&mut self, n: i64) -> &mut Self {
        self.item();
        if n < 0 {
            self.buf.push('-');
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
        // The debug form switches to an exponent for very small and very large numbers.
        // OK to drop: writing to a String cannot fail.
        let _ = write!(self.buf, "{n:?}");
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
        self.item();
        self.buf.push_str(text);
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

    /// Ends a line; what follows is a new value of its own.
    pub fn newline(&mut self) -> &mut Self {
        self.buf.push('\n');
        self.comma = false;
        self
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        self.buf.as_bytes()
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.buf
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
    }

    /// Goes back to an earlier [`Writer::len`]. More than was written changes nothing, and a
    /// length inside a character means the start of that character.
    pub fn truncate(&mut self, len: usize) {
        let mut len = len.min(self.buf.len());
        while !self.buf.is_char_boundary(len) {
            len -= 1;
        }
        self.buf.truncate(len);
        self.comma = !matches!(self.buf.as_bytes().last(), None | Some(b'{' | b'[' | b':' | b',' | b'\n'));
    }

    /// The buffer.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buf.into_bytes()
    }

    /// What was written, as JSON; `null` when that is nothing.
    pub fn into_json(self) -> Json {
        if self.buf.is_empty() {
            return Json::NULL;
        }
        Json::trusted(self.buf)
    }
}

/// Escapes whatever is formatted into it.
struct Escaper<'a>(&'a mut String);

impl fmt::Write for Escaper<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        escape(self.0, s);
        Ok(())
    }
}

fn quote(buf: &mut String, s: &str) {
    buf.push('"');
    escape(buf, s);
    buf.push('"');
}

/// Appends `s` with quotes, backslashes and control characters escaped.
fn escape(buf: &mut String, s: &str) {
    let mut plain = 0;
    for (i, b) in s.bytes().enumerate() {
        let short = match b {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x8 => "\\b",
            0xc => "\\f",
            0..=0x1f => "",
            _ => continue,
        };
        buf.push_str(s.get(plain..i).unwrap_or_default());
        plain = i + 1;
        if short.is_empty() {
            // OK to drop: writing to a String cannot fail.
            let _ = write!(buf, "\\u{b:04x}");
        } else {
            buf.push_str(short);
        }
    }
    buf.push_str(s.get(plain..).unwrap_or_default());
}

fn decimal(buf: &mut String, n: u64) {
    // OK to drop: writing to a String cannot fail.
    let _ = write!(buf, "{n}");
}
