//! Conversion between documents and types that derive miniserde's traits, without intermediate
//! text.
//!
//! Drives miniserde's visitors from a document and a [`Writer`] from miniserde's fragments. Nothing
//! is converted between kinds of values.
//!
//! Invariant: a visitor of miniserde borrows its parent, so the chain of visitors must be on the
//! stack; it is at most [`DEPTH`] calls long. A deeper document is an error. A deeper value is
//! written by miniserde's own writer, whose chain is on the heap.

use std::fmt;

use miniserde::de::{Deserialize, Visitor};
use miniserde::ser::{Fragment, Serialize};

use super::Kind;
use super::value::Value;
use super::writer::Writer;

/// Deepest nesting on the stack: the default depth of [`ParseLimits`](super::ParseLimits).
const DEPTH: u32 = 128;

/// Error of a value that does not match the type.
///
/// ```
/// use miniserde::Deserialize;
/// use tinymcp::json::{self, Json};
///
/// #[derive(Deserialize, Debug)]
/// struct Pin { number: u8 }
///
/// let doc = Json::parse(r#"[{"number": 4}, {"number": "x"}]"#)?.to_doc();
/// let error = json::from_value::<Vec<Pin>>(doc.root()).unwrap_err();
/// assert_eq!(error.pointer(), "/1/number");
/// # Ok::<(), json::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedError {
    pointer: String,
}

impl TypedError {
    /// JSON Pointer (RFC 6901) from the given value to the mismatch; for a missing member, to its
    /// object.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str("the value does not match its type"),
            pointer => write!(f, "the value at {pointer} does not match its type"),
        }
    }
}

impl std::error::Error for TypedError {}

/// Reads a value as a type.
///
/// # Errors
/// The position of the first value with a wrong kind or range, with a missing member, or nested
/// deeper than 128 levels.
pub fn from_value<T: Deserialize>(v: Value<'_>) -> Result<T, TypedError> {
    let mut out = None;
    let mut path = Vec::new();
    let read = visit(v, T::begin(&mut out), DEPTH, &mut path);
    let wrong = |path: &[Step<'_>]| TypedError { pointer: pointer(path) };
    read.map_err(|_| wrong(&path))?;
    out.ok_or_else(|| wrong(&[]))
}

/// One step from a container to its content; collected in reverse while an error returns.
enum Step<'d> {
    Name(&'d str),
    Index(usize),
}

fn pointer(upwards: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in upwards.iter().rev() {
        pointer.push('/');
        match step {
            Step::Name(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Index(i) => pointer.push_str(&i.to_string()),
        }
    }
    pointer
}

fn visit<'d>(
    v: Value<'d>,
    visitor: &mut dyn Visitor,
    levels: u32,
    path: &mut Vec<Step<'d>>,
) -> miniserde::Result<()> {
    match v.kind() {
        Kind::Null => visitor.null(),
        Kind::Bool => visitor.boolean(v.as_bool().unwrap_or_default()),
        Kind::String => visitor.string(v.as_str().unwrap_or_default()),
        Kind::Number => {
            if let Some(n) = v.as_u64() {
                visitor.nonnegative(n)
            } else if let Some(n) = v.as_i64() {
                visitor.negative(n)
            } else {
                visitor.float(v.as_f64().ok_or(miniserde::Error)?)
            }
        }
        Kind::Array => {
            let levels = levels.checked_sub(1).ok_or(miniserde::Error)?;
            let mut seq = visitor.seq()?;
            for (i, item) in v.items().enumerate() {
                seq.element()
                    .and_then(|element| visit(item, element, levels, path))
                    .inspect_err(|_| path.push(Step::Index(i)))?;
            }
            seq.finish()
        }
        Kind::Object => {
            let levels = levels.checked_sub(1).ok_or(miniserde::Error)?;
            let mut map = visitor.map()?;
            for (name, value) in v.members() {
                map.key(name)
                    .and_then(|member| visit(value, member, levels, path))
                    .inspect_err(|_| path.push(Step::Name(name)))?;
            }
            map.finish()
        }
    }
}

/// Writes a typed value.
pub fn to_writer<T: Serialize + ?Sized>(w: &mut Writer, t: &T) {
    // A reference to any type is sized, so it can be a trait object.
    write(w, &t, DEPTH);
}

fn write(w: &mut Writer, t: &dyn Serialize, levels: u32) {
    match t.begin() {
        Fragment::Null => {
            w.null();
        }
        Fragment::Bool(b) => {
            w.bool(b);
        }
        Fragment::Str(s) => {
            w.string(&s);
        }
        Fragment::U64(n) => {
            w.u64(n);
        }
        Fragment::I64(n) => {
            w.i64(n);
        }
        Fragment::F64(n) => {
            w.f64(n);
        }
        Fragment::Seq(_) | Fragment::Map(_) if levels == 0 => {
            w.raw(&miniserde::json::to_string(t));
        }
        Fragment::Seq(mut seq) => {
            w.begin_array();
            while let Some(element) = seq.next() {
                write(w, element, levels - 1);
            }
            w.end_array();
        }
        Fragment::Map(mut map) => {
            w.begin_object();
            while let Some((name, value)) = map.next() {
                w.key(&name);
                write(w, value, levels - 1);
            }
            w.end_object();
        }
    }
}
