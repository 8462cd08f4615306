//! Tool arguments and results of types that derive miniserde's traits.

use crate::json::{Json, Kind, Value, Writer, from_value, to_writer};
use crate::model::content::ToolOutput;
use crate::record::{Violation, push_got};

use super::handler::{ToolArguments, ToolResult};

/// Tool arguments or a structured result of a type that derives miniserde's traits (feature
/// `miniserde`). miniserde has no schemas, so give the tool its own:
///
/// ```
/// use miniserde::{Deserialize, Serialize};
/// use tinymcp::json::Json;
/// use tinymcp::{Miniserde, Server, Tool};
///
/// #[derive(Deserialize)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// #[derive(Serialize)]
/// struct Sum {
///     sum: f64,
/// }
///
/// const ADD: Json = Json::constant(
///     r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}"#,
/// );
///
/// # fn main() -> Result<(), tinymcp::Error> {
/// let mut server = Server::new("adder", "1.0.0");
/// server.tool(Tool::new("add").input_schema(ADD), |_, Miniserde(add): Miniserde<Add>| {
///     Ok(Miniserde(Sum { sum: add.a + add.b }))
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// An error names the place, but not the expected type. With the feature `schema` the schema is
/// checked first, and its errors name both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miniserde<T>(pub T);

impl<T: miniserde::Deserialize + 'static> ToolArguments for Miniserde<T> {
    fn schema() -> Option<Json> {
        None
    }

    fn read(arguments: Value<'_>) -> Result<Miniserde<T>, Box<Violation>> {
        from_value(arguments).map(Miniserde).map_err(|error| mismatch(arguments, error.pointer()))
    }
}

/// A structured result without a schema.
impl<T: miniserde::Serialize + 'static> ToolResult for Miniserde<T> {
    fn into_output(self) -> ToolOutput {
        let mut w = Writer::new();
        to_writer(&mut w, &self.0);
        ToolOutput::structured(w.into_json())
    }
}

/// Creates the error for a mismatch. miniserde reports only its place.
#[cold]
fn mismatch(arguments: Value<'_>, pointer: &str) -> Box<Violation> {
    let mut message = String::from("expected a value of another type or range, got ");
    match arguments.pointer(pointer) {
        // The error of a missing member has the place of its object.
        Some(value) if value.kind() == Kind::Object => {
            message = String::from("a member is missing, or the object is in place of another value");
        }
        Some(value) => push_got(&mut message, value),
        None => message.push_str("nothing"),
    }
    let mut violation = Violation::new("type", message);
    pointer.clone_into(&mut violation.path);
    violation
}
