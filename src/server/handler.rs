//! Typed tool handlers: conversion of arguments and results.
//!
//! All functions are generic over the types of the handler, so they are short: decode, call,
//! convert.

use crate::json::{Json, Value};
use crate::model::content::{Content, Structured, ToolOutput};
use crate::record::{self, FromJson, Record, Violation};

use super::call::Output;
use super::context::Context;
use super::tool_error::ToolError;

/// Argument type of a tool's handler.
///
/// Types of [`record!`](crate::record!), `()` and [`Json`] implement it. Implement it by hand for
/// types that are described in another way:
///
/// ```
/// use tinymcp::json::{Json, Value};
/// use tinymcp::record::Violation;
/// use tinymcp::{Server, Tool, ToolArguments, json};
///
/// struct Celsius(f64);
///
/// impl ToolArguments for Celsius {
///     fn schema() -> Option<Json> {
///         let properties = json!({"celsius": {"type": "number", "minimum": -273.15}});
///         Some(json!({"type": "object", "properties": properties, "required": ["celsius"]}))
///     }
///     fn read(arguments: Value<'_>) -> Result<Celsius, Box<Violation>> {
///         let celsius = arguments.get("celsius").and_then(|value| value.as_f64());
///         celsius.map(Celsius).ok_or_else(|| Violation::new("required", "expected a number `celsius`"))
///     }
/// }
///
/// let mut server = Server::new("weather", "1.0.0");
/// server.tool(Tool::new("fahrenheit"), |_, Celsius(celsius)| Ok((celsius * 1.8 + 32.0).to_string()))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    note = "define a type with `record!`, whose fields are the arguments; or take `Json`, or `()` for none",
    note = "a type that derives serde's and schemars' traits is taken as `Serde(args): Serde<T>` (feature `schemars`)"
)]
pub trait ToolArguments: Sized + 'static {
    /// Returns the schema of the arguments, for a tool without
    /// [`Tool::input_schema`](crate::Tool::input_schema). It is published and, like that one,
    /// checked before [`ToolArguments::read`] is called.
    fn schema() -> Option<Json>;

    /// Returns `true` if [`ToolArguments::read`] rejects all values that the schema rejects, so
    /// that the schema is not checked first.
    fn enforces_schema() -> bool {
        false
    }

    /// Describes an error of the type itself, which makes registration fail.
    fn definition_error() -> Option<String> {
        None
    }

    /// Reads the arguments.
    ///
    /// # Errors
    /// The first mismatch, with a message for the model.
    fn read(arguments: Value<'_>) -> Result<Self, Box<Violation>>;
}

impl<T: Record + 'static> ToolArguments for T {
    fn schema() -> Option<Json> {
        Some(record::schema::<T>())
    }

    fn enforces_schema() -> bool {
        true
    }

    fn definition_error() -> Option<String> {
        record::definition_error::<T>()
    }

    fn read(arguments: Value<'_>) -> Result<T, Box<Violation>> {
        record::decode(arguments)
    }
}

/// No arguments.
impl ToolArguments for () {
    fn schema() -> Option<Json> {
        Some(Json::constant(r#"{"type":"object","additionalProperties":false}"#))
    }

    fn enforces_schema() -> bool {
        true
    }

    fn read(arguments: Value<'_>) -> Result<(), Box<Violation>> {
        match arguments.members().next() {
            None => Ok(()),
            Some((name, _)) => Err(Violation::new(
                "additionalProperties",
                format!("{name:?} is not expected: the tool takes no arguments"),
            )),
        }
    }
}

/// Arguments as received, for tools with a hand-written schema.
impl ToolArguments for Json {
    fn schema() -> Option<Json> {
        None
    }

    fn read(arguments: Value<'_>) -> Result<Json, Box<Violation>> {
        Ok(arguments.to_json())
    }
}

/// Result type of a tool's handler.
///
/// Text, [`Json`], types of [`record!`](crate::record!), [`Structured`] and [`ToolOutput`]
/// implement it. Implement it by hand for other types:
///
/// ```
/// use tinymcp::{Content, Server, Tool, ToolOutput, ToolResult};
///
/// struct Photo(Vec<u8>);
///
/// impl ToolResult for Photo {
///     fn into_output(self) -> ToolOutput {
///         ToolOutput::new().content(Content::image(self.0, "image/jpeg"))
///     }
/// }
///
/// let mut server = Server::new("camera", "1.0.0");
/// server.tool(Tool::new("photo"), |_, ()| Ok(Photo(vec![0xff, 0xd8])))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "return text, `Json`, a type defined with `record!`, `Structured(…)` around other types such as `Vec<String>`, or a `ToolOutput`",
    note = "a type that derives serde's and schemars' traits is returned as `Serde(value)` (feature `schemars`)"
)]
pub trait ToolResult: 'static {
    /// Returns the schema of the structured result, for a tool without
    /// [`Tool::output_schema`](crate::Tool::output_schema). It is published, and results are
    /// checked against it like against that one.
    fn schema() -> Option<Json> {
        None
    }

    /// Returns `true` if every value of this type matches the schema, so that results are not
    /// checked.
    fn fits_schema() -> bool {
        false
    }

    /// Describes an error of the type itself, which makes registration fail.
    fn definition_error() -> Option<String> {
        None
    }

    /// Converts to the result of a tool.
    fn into_output(self) -> ToolOutput;
}

impl ToolResult for ToolOutput {
    fn into_output(self) -> ToolOutput {
        self
    }
}

impl ToolResult for String {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl ToolResult for &'static str {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl ToolResult for Content {
    fn into_output(self) -> ToolOutput {
        self.into()
    }
}

/// An empty result: the call succeeded.
impl ToolResult for () {
    fn into_output(self) -> ToolOutput {
        ToolOutput::new()
    }
}

/// A structured result with the schema of its type.
impl<T: Record + 'static> ToolResult for T {
    fn schema() -> Option<Json> {
        Some(record::schema::<T>())
    }

    fn fits_schema() -> bool {
        true
    }

    fn definition_error() -> Option<String> {
        record::definition_error::<T>()
    }

    fn into_output(self) -> ToolOutput {
        Structured(self).into()
    }
}

/// A structured result without a schema.
impl ToolResult for Json {
    fn into_output(self) -> ToolOutput {
        ToolOutput::structured(self)
    }
}

/// A structured result of a type that is not a record, such as a list or a number.
impl<T: FromJson + crate::json::ToJson + 'static> ToolResult for Structured<T> {
    fn schema() -> Option<Json> {
        Some(record::schema::<T>())
    }

    fn fits_schema() -> bool {
        true
    }

    fn definition_error() -> Option<String> {
        record::definition_error::<T>()
    }

    fn into_output(self) -> ToolOutput {
        self.into()
    }
}

/// A structured result with a separate content block.
impl<T: FromJson + crate::json::ToJson + 'static> ToolResult for (Structured<T>, Content) {
    fn schema() -> Option<Json> {
        Some(record::schema::<T>())
    }

    fn fits_schema() -> bool {
        true
    }

    fn definition_error() -> Option<String> {
        record::definition_error::<T>()
    }

    fn into_output(self) -> ToolOutput {
        ToolOutput::from(self.0).content(self.1)
    }
}

/// Wraps the handler of a tool that runs on workers.
pub(super) fn pooled<A: ToolArguments, R: ToolResult>(
    handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError>,
) -> impl Fn(&mut Context<'_>, Value<'_>) -> Result<Output, ToolError> {
    move |ctx, arguments| match A::read(arguments) {
        Ok(arguments) => handler(ctx, arguments).map(|result| Output::Tool(result.into_output())),
        Err(violation) => Err(ctx.bad_arguments(&violation)),
    }
}

/// Wraps the handler of an inline tool, which runs on the reader thread.
pub(super) fn inline<A: ToolArguments, R: ToolResult>(
    mut handler: impl FnMut(&mut Context<'_>, A) -> Result<R, ToolError>,
) -> impl FnMut(&mut Context<'_>, Value<'_>) -> Result<Output, ToolError> {
    move |ctx, arguments| match A::read(arguments) {
        Ok(arguments) => handler(ctx, arguments).map(|result| Output::Tool(result.into_output())),
        Err(violation) => Err(ctx.bad_arguments(&violation)),
    }
}
