//! Typed tool arguments and structured results: one definition gives the struct, its JSON Schema
//! and the reading and writing.
//!
//! [`record!`](crate::record!) defines objects, [`choice!`](crate::choice!) string enums;
//! [`decode`] reads a value as one of them, [`schema`] is the JSON Schema (2020-12) it is checked
//! against, and [`ToJson`] writes it. The reading is what stands between a
//! model and a handler, so it checks everything the definition states, and a [`Violation`] says
//! what would have been right. What it does not do: validate against a schema from elsewhere, or
//! convert between types.
//!
//! The macros' output is small: a table with one row per field, and calls into code that is
//! compiled once (`field.rs`). A type joins in by implementing [`FromJson`] and `ToJson` by hand:
//!
//! ```
//! use tinymcp::json::{ToJson, Value, Writer};
//! use tinymcp::record::{self, FromJson, Constraint, Violation};
//!
//! /// A colour written `#rrggbb`.
//! struct Colour(u32);
//!
//! impl FromJson for Colour {
//!     fn schema(w: &mut Writer, rule: &Constraint) {
//!         rule.begin(w, "string");
//!         w.key("pattern").string("^#[0-9a-f]{6}$");
//!     }
//!     fn from_json(value: Value<'_>, _: &Constraint) -> Result<Colour, Box<Violation>> {
//!         value
//!             .as_str()
//!             .and_then(|text| text.strip_prefix('#').filter(|digits| digits.len() == 6))
//!             .and_then(|digits| u32::from_str_radix(digits, 16).ok())
//!             .map(Colour)
//!             .ok_or_else(|| Violation::new("pattern", "expected a colour like \"#00ff80\""))
//!     }
//! }
//! impl ToJson for Colour {
//!     fn write_json(&self, w: &mut Writer) {
//!         w.string_fmt(format_args!("#{:06x}", self.0));
//!     }
//! }
//!
//! tinymcp::record! {
//!     struct Lamp { colour: Colour }
//! }
//! let doc = tinymcp::json!({"colour": "blue"}).to_doc();
//! let violation = record::decode::<Lamp>(doc.root()).err().unwrap();
//! assert_eq!((violation.path.as_str(), violation.keyword), ("/colour", "pattern"));
//! ```
//!
//! # Invariants
//!
//! - Reading a value that fits allocates nothing but its own strings, arrays and maps.
//! - Nothing recurses deeper than the types are nested, and no record contains itself.
//! - The schema of a type accepts what reading accepts, but for two things: reading takes `null`
//!   for an optional member, and refuses numbers its type cannot hold where the schema states no
//!   bound (beyond 64 bits, or beyond `f32`).

mod constraint;
mod container;
mod field;
mod macros;
mod scalar;
mod violation;

use crate::json::{Json, ToJson, Value, Writer};

pub use constraint::Constraint;
pub use violation::Violation;
#[cfg(feature = "schema")]
pub(crate) use violation::{nearest, push_count, push_got, push_number, push_short, push_start};

/// What the macros' output is made of; not for use by hand.
#[doc(hidden)]
pub mod generated {
    pub use super::constraint::{Counted, Ends, Measured, Ranged, is_float, items, length};
    pub use super::field::{
        Field, Members, choice_schema, distinct, largest, object_schema, plain, preset, write_member,
        write_preset,
    };
    pub use super::violation::not_a_word;

    /// What reading gives when the value does not fit.
    pub type Failure = Box<super::Violation>;
}

/// A type that can be read from a JSON value and that knows its schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from JSON",
    note = "define it with `record!` or `choice!`, or implement `FromJson` and `ToJson` for it"
)]
pub trait FromJson: Sized {
    /// Whether a record's field of this type may be left out.
    #[doc(hidden)]
    const OPTIONAL: bool = false;

    /// How many arrays and objects are nested in values of this type, as far as the types say.
    #[doc(hidden)]
    const NESTING: u32 = 0;

    /// Writes the members of this type's schema into an object that the caller opens and closes.
    /// Starts with [`Constraint::begin`], directly or by way of another type's `schema`.
    fn schema(w: &mut Writer, rule: &Constraint);

    /// Reads a value, checking it against the type and the rule.
    ///
    /// # Errors
    /// The first thing that does not fit, its path counted from this value.
    fn from_json(value: Value<'_>, rule: &Constraint) -> Result<Self, Box<Violation>>;

    /// The value of a field that is not there and has no default.
    #[doc(hidden)]
    fn absent() -> Option<Self> {
        None
    }

    /// Whether this is that value.
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }
}

/// A type made by [`record!`](crate::record!): an object in JSON, as tool arguments must be.
pub trait Record: FromJson + ToJson {
    /// The doc comment of the definition.
    #[doc(hidden)]
    const DOC: &'static str;

    /// The fields in the order of the definition.
    #[doc(hidden)]
    const FIELDS: &'static [generated::Field];
}

/// Reads a value as a `T`.
///
/// # Errors
/// The first thing that does not fit: unknown members before missing ones, those before the
/// values, which are read in the order of the definition.
pub fn decode<T: FromJson>(value: Value<'_>) -> Result<T, Box<Violation>> {
    T::from_json(value, &Constraint::NONE)
}

/// What is wrong with a definition: a default that does not fit the bounds of its own field.
/// Tools with such a type are refused when they are registered.
pub fn flaw<T: FromJson>() -> Option<String> {
    field::flaw(T::schema)
}

/// The JSON Schema (2020-12) of `T`.
pub fn schema<T: FromJson>() -> Json {
    let mut w = Writer::new();
    w.begin_object();
    T::schema(&mut w, &Constraint::NONE);
    w.end_object();
    w.into_json()
}
