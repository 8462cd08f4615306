//! Types that derive serde's traits as tool arguments, structured results and client results.
//!
//! [`from_value`] drives a type's `Deserialize` from a cursor on a document, and [`to_writer`] lets
//! its `Serialize` write into a [`Writer`]: there is no text and no tree in between. With the
//! feature `schemars`, [`Serde`] makes such a type the arguments or the result of a tool:
//!
#![cfg_attr(feature = "schemars", doc = "```")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use tinymcp::{Serde, Server, Tool};
//!
//! /// Adds two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     /// First number
//!     a: f64,
//!     b: f64,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Sum {
//!     sum: f64,
//! }
//!
//! # fn main() -> Result<(), tinymcp::Error> {
//! let mut server = Server::new("adder", "1.0.0");
//! server.tool(Tool::new("add"), |_, Serde(add): Serde<Add>| Ok(Serde(Sum { sum: add.a + add.b })))?;
//! # Ok(())
//! # }
//! ```
//!
//! A client passes `to_json(&add)?` as arguments and reads a result by
//! [`ToolOutput::deserialize`](crate::ToolOutput::deserialize).
//!
//! # Rules
//!
//! | Rust | JSON |
//! |---|---|
//! | integers | numbers without a fraction, in any notation: `1.0` and `1e2` are integers, as in JSON Schema |
//! | integers beyond 64 bits | `i128` and `u128` exactly; `serde_json::Number` keeps the text if its feature `arbitrary_precision` is on; as `f64` otherwise |
//! | `f64`, `f32` | numbers; values that are not finite are written as `null` |
//! | `Option` | the value or `null`; a missing member is `None` |
//! | struct | an object only, never an array |
//! | unit, unit struct | `null` |
//! | tuple, `[T; N]` | an array of exactly this length |
//! | enum | as its serde attributes state: external, internal, adjacent or no tag |
//! | map keys | strings, integers, floats, booleans, characters and unit variants, as strings; other keys are an error |
//! | `&str`, `&[u8]` | borrow from the document, also strings with escapes |
//! | bytes | written as an array of numbers; read from such an array or from a string |
//!
//! # Errors
//!
//! A [`Violation`] has the path, what is expected and what was found, as for types of
//! [`record!`](crate::record!). An internally tagged, untagged or flattened type is buffered by
//! serde, so the path ends at the buffered value.
//!
//! # Invariants
//!
//! - Each array, object, `Option` and newtype is one level. More than 128 levels are an error, so
//!   the depth of recursion does not depend on input, also for types that contain themselves.
//! - A value that is not read, such as an unknown member, is skipped without recursion.

mod access;
mod deserialize;
mod error;
mod map_key;
#[cfg(feature = "schemars")]
mod schema;
#[cfg(feature = "serde_json")]
mod serde_json;
mod serialize;

use serde_core::Serialize;
use serde_core::de::{Deserialize, DeserializeOwned};

use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value, Writer};
use crate::model::content::ToolOutput;
use crate::record::Violation;

use self::deserialize::Deserializer;
use self::serialize::Serializer;

#[cfg(feature = "schemars")]
pub(crate) use self::schema::{input_schema, output_schema};

/// Deepest nesting of a typed value: the default of `Limits::json_depth`.
const DEPTH: u32 = 128;

/// Struct under whose name serde_json passes numbers as text, if its feature `arbitrary_precision`
/// is on. Also the name of its only member.
const NUMBER: &str = "$serde_json::private::Number";

/// The same for `serde_json::value::RawValue`.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Tool arguments or a structured result of a type that derives the traits of serde and schemars
/// (feature `schemars`). The schema is that of `schemars::JsonSchema`. See the module
/// [`serde`](crate::serde).
///
/// The input schema is checked before the arguments are read if the feature `schema` is on or the
/// server has a schema compiler, and results against the output schema likewise. Without them,
/// bounds such as `#[schemars(range(min = 0))]` are published and not checked.
#[cfg(feature = "schemars")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serde<T>(pub T);

/// Reads a value as a type. Strings and bytes may borrow from the document.
///
/// ```
/// use tinymcp::json::Doc;
///
/// #[derive(serde::Deserialize)]
/// struct Switch<'a> {
///     pin: u8,
///     label: &'a str,
/// }
/// let doc = Doc::parse(r#"{"pin": 17, "label": "L\u00e4mp"}"#)?;
/// let switch: Switch = tinymcp::serde::from_value(doc.root())?;
/// assert_eq!((switch.pin, switch.label), (17, "Lämp"));
///
/// let doc = Doc::parse(r#"{"pin": 300, "label": ""}"#)?;
/// let violation = tinymcp::serde::from_value::<Switch>(doc.root()).err().unwrap();
/// assert_eq!(violation.to_string(), "/pin: expected an integer from 0 to 255, got 300 (maximum)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The first mismatch in the order of the document.
pub fn from_value<'d, T: Deserialize<'d>>(value: Value<'d>) -> Result<T, Box<Violation>> {
    T::deserialize(Deserializer::new(value)).map_err(error::Error::into_violation)
}

/// Reads a JSON text as a type that borrows nothing.
///
/// # Errors
/// As [`from_value`].
pub fn from_json<T: DeserializeOwned>(json: &Json) -> Result<T, Box<Violation>> {
    from_value(json.to_doc().root())
}

/// Writes a typed value. After an error the writer is as before.
///
/// # Errors
/// A map key that cannot be a string, more than 128 levels, or an error of the type.
pub fn to_writer<T: Serialize + ?Sized>(w: &mut Writer, value: &T) -> Result<(), Box<Violation>> {
    let start = w.len();
    value.serialize(Serializer::new(w)).map_err(|error| {
        w.truncate(start);
        error.into_violation()
    })
}

/// Converts a typed value to JSON, for example to the arguments of a call:
/// `client.call_tool("add", to_json(&add)?)`.
///
/// # Errors
/// As [`to_writer`].
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Json, Box<Violation>> {
    let mut w = Writer::new();
    to_writer(&mut w, value)?;
    Ok(w.into_json())
}

impl ToolOutput {
    /// Reads the structured result as a type that derives serde's `Deserialize` (feature `serde`).
    ///
    /// # Errors
    /// [`ErrorKind::Remote`]: the tool failed; the message is its text.
    /// [`ErrorKind::PeerMisbehaved`]: there is no structured result, or it does not match the type.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if self.is_error {
            return Err(Error::new(ErrorKind::Remote, self.texts()));
        }
        let Some(structured) = &self.structured else {
            return Err(Error::new(ErrorKind::PeerMisbehaved, "the result has no structured content"));
        };
        from_json(structured).map_err(|violation| {
            Error::new(ErrorKind::PeerMisbehaved, "the structured content does not match its type")
                .with_source(*violation)
        })
    }
}
