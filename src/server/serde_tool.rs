//! Tool arguments and results of types that derive the traits of serde and schemars.

use schemars::JsonSchema;
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::json::{Json, Value};
use crate::model::content::{Content, ToolOutput};
use crate::record::Violation;
use crate::serde::{self, Serde};

use super::handler::{ToolArguments, ToolResult};

impl<T: DeserializeOwned + JsonSchema + 'static> ToolArguments for Serde<T> {
    fn schema() -> Option<Json> {
        Some(serde::input_schema::<T>())
    }

    fn read(arguments: Value<'_>) -> Result<Serde<T>, Box<Violation>> {
        serde::from_value(arguments).map(Serde)
    }
}

/// A structured result with the schema of its type. A value that has no JSON form, such as a
/// map whose keys are not strings, becomes a failed result that names the reason.
impl<T: Serialize + JsonSchema + 'static> ToolResult for Serde<T> {
    fn schema() -> Option<Json> {
        Some(serde::output_schema::<T>())
    }

    fn into_output(self) -> ToolOutput {
        output(serde::to_json(&self.0))
    }
}

/// A structured result with a separate content block.
impl<T: Serialize + JsonSchema + 'static> ToolResult for (Serde<T>, Content) {
    fn schema() -> Option<Json> {
        Some(serde::output_schema::<T>())
    }

    fn into_output(self) -> ToolOutput {
        let output = self.0.into_output();
        // The reason of a failure is content already.
        if output.is_error { output } else { output.content(self.1) }
    }
}

fn output(written: Result<Json, Box<Violation>>) -> ToolOutput {
    match written {
        Ok(json) => ToolOutput::structured(json),
        Err(violation) => {
            ToolOutput::failed(format!("The result of the tool cannot be written as JSON: {violation}"))
        }
    }
}
