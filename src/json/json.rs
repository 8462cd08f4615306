//! JSON values as checked text, and conversions to it.
//!
//! [`Json`] is the text of one value that was checked or written by a [`Writer`](super::Writer).
//! [`json!`](crate::json!) and [`ToJson`] create it. It is not a tree: [`Json::to_doc`] parses it
//! for access.
//!
//! Invariant: the text is one JSON value, if the callers of the writer followed its rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;

use super::ParseError;
use super::const_check::is_json;
use super::value::Value;
use super::writer::Writer;
use super::{Doc, ParseLimits};

/// One JSON value as text. Constants are free to create and to copy. Two values are equal if their
/// texts are equal, including whitespace and order.
///
/// ```
/// use tinymcp::json;
/// use tinymcp::json::Json;
///
/// let size = 17;
/// let made = json!({"name": "log", "size": size});
/// let received = Json::parse(r#"{"name":"log","size":17}"#)?;
/// assert_eq!(made, received);
/// assert_eq!(received.to_doc().root().get("size").and_then(|size| size.as_u64()), Some(17));
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Cow<'static, str>);

impl Json {
    /// `null`.
    pub const NULL: Json = Json(Cow::Borrowed("null"));

    /// Checks a text of at most 512 MiB. Other limits do not apply.
    ///
    /// # Errors
    /// The first error in the text, with its position.
    pub fn parse(text: impl Into<Cow<'static, str>>) -> Result<Json, ParseError> {
        let text = text.into();
        Doc::default().parse_again(text.as_bytes(), &ParseLimits::UNBOUNDED)?;
        Ok(Json(text))
    }

    /// Creates a constant from a checked text. In a `const` an error stops the compilation;
    /// elsewhere it panics. Nesting beyond 128 levels is an error.
    ///
    /// ```
    /// use tinymcp::json::Json;
    /// const EMPTY: Json = Json::constant(r#"{"type": "object"}"#);
    /// ```
    ///
    /// ```compile_fail
    /// use tinymcp::json::Json;
    /// const WRONG: Json = Json::constant(r#"{"type": "object",}"#);
    /// ```
    pub const fn constant(text: &'static str) -> Json {
        assert!(is_json(text), "the text must be one JSON value");
        Json(Cow::Borrowed(text))
    }

    /// `null`.
    pub const fn null() -> Json {
        Json::NULL
    }

    pub(super) fn trusted(text: String) -> Json {
        Json(Cow::Owned(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the value.
    pub fn to_doc(&self) -> Doc {
        let mut doc = Doc::default();
        // OK to drop: the text is JSON; if a caller of Writer::raw violated that, the document is
        // `null`.
        let _ = doc.parse_again(self.0.as_bytes(), &ParseLimits::UNBOUNDED);
        doc
    }
}

impl Default for Json {
    fn default() -> Json {
        Json::NULL
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A type that can be written as one JSON value.
///
/// [`record!`](crate::record!) and [`choice!`](crate::choice!) implement it. By hand:
///
/// ```
/// use tinymcp::json::{ToJson, Writer};
///
/// struct Point { x: f64, y: f64 }
///
/// impl ToJson for Point {
///     fn write_json(&self, w: &mut Writer) {
///         w.begin_array().f64(self.x).f64(self.y).end_array();
///     }
/// }
/// assert_eq!(vec![Point { x: 1.0, y: 2.5 }].to_json().as_str(), "[[1.0,2.5]]");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as JSON",
    note = "define it with `record!` or `choice!`, make the value with `json!`, or implement `ToJson` for it",
    note = "for a type that implements `serde::Serialize`, pass `tinymcp::serde::to_json(&value)?` (feature `serde`); \
            for `serde_json::Value`, turn on the feature `serde_json`"
)]
pub trait ToJson {
    /// Writes exactly one value.
    fn write_json(&self, w: &mut Writer);

    /// Returns the value as text.
    fn to_json(&self) -> Json {
        let mut w = Writer::new();
        self.write_json(&mut w);
        w.into_json()
    }
}

/// Types that are written by one [`Writer`] method, and the type of its parameter.
macro_rules! scalars {
    ($($type:ty => $method:ident($wide:ty)),* $(,)?) => {$(
        impl ToJson for $type {
            fn write_json(&self, w: &mut Writer) {
                w.$method(<$wide>::from(*self));
            }
        }

        impl From<$type> for Json {
            fn from(value: $type) -> Json {
                ToJson::to_json(&value)
            }
        }
    )*};
}

scalars! {
    bool => bool(bool),
    i8 => i64(i64),
    i16 => i64(i64),
    i32 => i64(i64),
    i64 => i64(i64),
    u8 => u64(u64),
    u16 => u64(u64),
    u32 => u64(u64),
    u64 => u64(u64),
    f64 => f64(f64),
}

impl ToJson for usize {
    fn write_json(&self, w: &mut Writer) {
        w.u64(*self as u64);
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Json {
        ToJson::to_json(&value)
    }
}

impl ToJson for isize {
    fn write_json(&self, w: &mut Writer) {
        w.i64(*self as i64);
    }
}

impl ToJson for f32 {
    /// Writes the shortest digits that round-trip as `f32`: `0.1` instead of
    /// `0.10000000149011612`.
    fn write_json(&self, w: &mut Writer) {
        if self.is_finite() {
            w.raw_fmt(format_args!("{self:?}"));
        } else {
            w.null();
        }
    }
}

impl ToJson for str {
    fn write_json(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl ToJson for String {
    fn write_json(&self, w: &mut Writer) {
        w.string(self);
    }
}

impl ToJson for char {
    fn write_json(&self, w: &mut Writer) {
        w.string(self.encode_utf8(&mut [0; 4]));
    }
}

impl ToJson for () {
    fn write_json(&self, w: &mut Writer) {
        w.null();
    }
}

impl ToJson for Json {
    fn write_json(&self, w: &mut Writer) {
        w.json(self);
    }
}

impl ToJson for Doc {
    fn write_json(&self, w: &mut Writer) {
        w.value(self.root());
    }
}

impl ToJson for Value<'_> {
    fn write_json(&self, w: &mut Writer) {
        w.value(*self);
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn write_json(&self, w: &mut Writer) {
        (**self).write_json(w);
    }
}

impl<T: ToJson + ?Sized> ToJson for Box<T> {
    fn write_json(&self, w: &mut Writer) {
        (**self).write_json(w);
    }
}

impl<T: ToJson + ToOwned + ?Sized> ToJson for Cow<'_, T> {
    fn write_json(&self, w: &mut Writer) {
        (**self).write_json(w);
    }
}

impl<T: ToJson> ToJson for Option<T> {
    /// `None` is `null`.
    fn write_json(&self, w: &mut Writer) {
        match self {
            Some(value) => value.write_json(w),
            None => {
                w.null();
            }
        }
    }
}

impl<T: ToJson> ToJson for [T] {
    fn write_json(&self, w: &mut Writer) {
        w.begin_array();
        for item in self {
            item.write_json(w);
        }
        w.end_array();
    }
}

impl<T: ToJson, const N: usize> ToJson for [T; N] {
    fn write_json(&self, w: &mut Writer) {
        self.as_slice().write_json(w);
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn write_json(&self, w: &mut Writer) {
        self.as_slice().write_json(w);
    }
}

/// Members are sorted by name, so that equal maps have equal texts.
impl<K: AsRef<str>, T: ToJson, S> ToJson for HashMap<K, T, S> {
    fn write_json(&self, w: &mut Writer) {
        let mut members: Vec<(&str, &T)> = self.iter().map(|(name, value)| (name.as_ref(), value)).collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        w.begin_object();
        for (name, value) in members {
            w.key(name);
            value.write_json(w);
        }
        w.end_object();
    }
}

/// A path as a string. Characters that are not Unicode are replaced by U+FFFD.
impl ToJson for PathBuf {
    fn write_json(&self, w: &mut Writer) {
        w.string(&self.to_string_lossy());
    }
}

impl<K: AsRef<str>, T: ToJson> ToJson for BTreeMap<K, T> {
    fn write_json(&self, w: &mut Writer) {
        w.begin_object();
        for (name, value) in self {
            w.key(name.as_ref());
            value.write_json(w);
        }
        w.end_object();
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Json {
        value.to_json()
    }
}

impl From<String> for Json {
    fn from(value: String) -> Json {
        ToJson::to_json(value.as_str())
    }
}

impl From<()> for Json {
    fn from((): ()) -> Json {
        Json::NULL
    }
}

impl From<Value<'_>> for Json {
    fn from(value: Value<'_>) -> Json {
        value.to_json()
    }
}

/// Creates [`Json`](crate::json::Json) from JSON-like syntax.
///
/// A value may be any expression of a type that implements [`ToJson`](crate::json::ToJson). A name
/// is a literal or an expression in parentheses. Everything is written to one buffer.
///
/// ```
/// use tinymcp::json;
/// let (name, sizes) = ("disk", vec![1, 2]);
/// let made = json!({
///     "tool": name, "sizes": sizes, "half": sizes.len() / 2, ("x-".to_owned() + name): [null, {}]
/// });
/// assert_eq!(made.as_str(), r#"{"tool":"disk","sizes":[1,2],"half":1,"x-disk":[null,{}]}"#);
/// ```
#[macro_export]
macro_rules! json {
    ($($value:tt)+) => {{
        let mut writer = $crate::json::Writer::new();
        $crate::json_write!(@value writer $($value)+);
        writer.into_json()
    }};
}

/// Implementation of [`json!`]: consumes one value, element or member at a time.
#[doc(hidden)]
#[macro_export]
macro_rules! json_write {
    (@value $w:ident null) => { $w.null(); };
    (@value $w:ident [$($inside:tt)*]) => {
        $w.begin_array();
        $crate::json_write!(@items $w $($inside)*);
        $w.end_array();
    };
    (@value $w:ident {$($inside:tt)*}) => {
        $w.begin_object();
        $crate::json_write!(@members $w $($inside)*);
        $w.end_object();
    };
    (@value $w:ident $value:expr) => { $crate::json::ToJson::write_json(&$value, &mut $w); };

    (@items $w:ident) => {};
    (@items $w:ident null $(, $($rest:tt)*)?) => {
        $crate::json_write!(@value $w null);
        $crate::json_write!(@items $w $($($rest)*)?);
    };
    (@items $w:ident [$($inside:tt)*] $(, $($rest:tt)*)?) => {
        $crate::json_write!(@value $w [$($inside)*]);
        $crate::json_write!(@items $w $($($rest)*)?);
    };
    (@items $w:ident {$($inside:tt)*} $(, $($rest:tt)*)?) => {
        $crate::json_write!(@value $w {$($inside)*});
        $crate::json_write!(@items $w $($($rest)*)?);
    };
    (@items $w:ident $value:expr $(, $($rest:tt)*)?) => {
        $crate::json_write!(@value $w $value);
        $crate::json_write!(@items $w $($($rest)*)?);
    };

    (@members $w:ident) => {};
    (@members $w:ident $name:tt : null $(, $($rest:tt)*)?) => {
        $crate::json_write!(@name $w $name);
        $crate::json_write!(@value $w null);
        $crate::json_write!(@members $w $($($rest)*)?);
    };
    (@members $w:ident $name:tt : [$($inside:tt)*] $(, $($rest:tt)*)?) => {
        $crate::json_write!(@name $w $name);
        $crate::json_write!(@value $w [$($inside)*]);
        $crate::json_write!(@members $w $($($rest)*)?);
    };
    (@members $w:ident $name:tt : {$($inside:tt)*} $(, $($rest:tt)*)?) => {
        $crate::json_write!(@name $w $name);
        $crate::json_write!(@value $w {$($inside)*});
        $crate::json_write!(@members $w $($($rest)*)?);
    };
    (@members $w:ident $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $crate::json_write!(@name $w $name);
        $crate::json_write!(@value $w $value);
        $crate::json_write!(@members $w $($($rest)*)?);
    };

    (@name $w:ident ($name:expr)) => { $w.key(::core::convert::AsRef::<str>::as_ref(&$name)); };
    (@name $w:ident $name:expr) => { $w.key(::core::convert::AsRef::<str>::as_ref(&$name)); };
}
