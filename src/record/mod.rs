//! Typed tool arguments and structured results: one definition gives the struct, its JSON Schema,
//! the reader and the writer.
//!
//! [`record!`](crate::record!) defines objects, [`choice!`](crate::choice!) string enums.
//! [`decode`] reads a value, [`schema`] returns the JSON Schema (2020-12), and [`ToJson`] writes a
//! value. Reading checks everything the definition states. A [`Violation`] states what is accepted,
//! for the model to correct its call. Values are never converted between types, and schemas from
//! other sources are the task of the module `schema`.
//!
//! The output of the macros is small: a table with one row per field, and calls into shared code
//! (`field.rs`). Implement [`FromJson`] and `ToJson` for types of your own:
//!
//! ```
//! use tinymcp::json::{ToJson, Value, Writer};
//! use tinymcp::record::{self, FromJson, Constraint, Violation};
//!
//! /// A colour written `#rrggbb`.
//! struct Colour(u32);
//!
//! impl FromJson for Colour {
//!     fn schema(w: &mut Writer, constraint: &Constraint) {
//!         constraint.begin(w, "string");
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
//! - Reading a valid value allocates only its own strings, arrays and maps.
//! - Recursion is bounded by the nesting of the types, and no record contains itself.
//! - The schema of a type accepts the same values as the reader, with two exceptions: the reader
//!   accepts `null` for an optional member, and rejects numbers that its type cannot hold where the
//!   schema states no bound (beyond 64 bits, or beyond `f32`).

mod choice;
mod constraint;
mod container;
mod field;
mod macros;
mod scalar;
mod violation;

use crate::json::{Json, ToJson, Value, Writer};

pub use constraint::Constraint;
pub use violation::Violation;
pub(crate) use violation::nearest;
#[cfg(any(feature = "miniserde", feature = "schema", feature = "serde"))]
pub(crate) use violation::push_got;
#[cfg(any(feature = "schema", feature = "serde"))]
pub(crate) use violation::push_short;
#[cfg(feature = "schema")]
pub(crate) use violation::{push_count, push_number, push_start};

/// Support for the output of the macros; not for direct use.
#[doc(hidden)]
pub mod generated {
    pub use super::constraint::{Counted, Ends, Measured, Ranged, is_float, items, length};
    pub use super::field::{
        Field, Members, Tagged, Variant, choice_schema, distinct, largest, most_fields, object_schema, plain,
        preset, variants_schema, write_member, write_preset,
    };
    pub use super::violation::not_a_word;

    /// Error of reading a value.
    pub type ReadError = Box<super::Violation>;
}

/// A type that can be read from a JSON value and has a schema.
///
/// [`record!`](crate::record!) and [`choice!`](crate::choice!) implement it. The [module](self)
/// shows an implementation by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from JSON",
    note = "define it with `record!` or `choice!`, or implement `FromJson` and `ToJson` for it"
)]
pub trait FromJson: Sized {
    /// True if a record field of this type is optional.
    #[doc(hidden)]
    const OPTIONAL: bool = false;

    /// Nesting of arrays and objects in values of this type, as far as the types determine it.
    #[doc(hidden)]
    const NESTING: u32 = 0;

    /// Writes the members of this type's schema into an object that the caller opens and closes.
    /// Starts with [`Constraint::begin`], directly or through the `schema` of another type.
    fn schema(w: &mut Writer, constraint: &Constraint);

    /// Reads a value and checks it against the type and the constraint.
    ///
    /// # Errors
    /// The first violation; its path starts at this value.
    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<Self, Box<Violation>>;

    /// The value of an absent field without default.
    #[doc(hidden)]
    fn absent() -> Option<Self> {
        None
    }

    /// Returns `true` if this is the value of an absent field.
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }
}

/// A type defined by [`record!`](crate::record!): a JSON object, as tool arguments must be.
///
/// ```
/// use tinymcp::json::ToJson;
/// use tinymcp::record::{self, Record};
///
/// tinymcp::record! {
///     struct Switch { pin: u8 [0..=27], on: bool = true }
/// }
///
/// /// Stores any record.
/// fn store<R: Record>(value: &R) -> String {
///     value.to_json().as_str().to_owned()
/// }
/// let doc = tinymcp::json!({"pin": 4}).to_doc();
/// let switch = record::decode::<Switch>(doc.root()).expect("the value fits");
/// assert_eq!(store(&switch), r#"{"pin":4,"on":true}"#);
/// ```
pub trait Record: FromJson + ToJson {
    /// The doc comment of the definition.
    #[doc(hidden)]
    const DOC: &'static str;

    /// The fields, in the order of the definition.
    #[doc(hidden)]
    const FIELDS: &'static [generated::Field];
}

/// Reads a value as a `T`.
///
/// # Errors
/// The first violation: unknown members before missing ones, missing ones before invalid values,
/// and values in the order of the definition.
pub fn decode<T: FromJson>(value: Value<'_>) -> Result<T, Box<Violation>> {
    T::from_json(value, &Constraint::NONE)
}

/// The error in a definition: a default that violates the bounds of its own field. Tools with such
/// a type are rejected at registration.
pub fn definition_error<T: FromJson>() -> Option<String> {
    field::definition_error(T::schema)
}

/// The JSON Schema (2020-12) of `T`.
pub fn schema<T: FromJson>() -> Json {
    let mut w = Writer::new();
    w.begin_object();
    T::schema(&mut w, &Constraint::NONE);
    w.end_object();
    w.into_json()
}
