//! JSON Schemas of types that derive schemars' trait.
//!
//! Schemas are in the dialect of MCP, 2020-12. Types are written in place where possible, because
//! many hosts reject `$ref`; only a type that contains itself gets an entry in `$defs`.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::json::Json;

/// The schema of tool arguments.
pub(crate) fn input_schema<T: JsonSchema>() -> Json {
    let mut schema = generator(Contract::Deserialize).into_root_schema_for::<T>();
    // Arguments are always an object. schemars does not repeat that at the root of an enum.
    if schema.get("type").is_none() {
        schema.insert("type".to_owned(), "object".into());
    }
    published(schema)
}

/// The schema of a structured result.
pub(crate) fn output_schema<T: JsonSchema>() -> Json {
    published(generator(Contract::Serialize).into_root_schema_for::<T>())
}

fn generator(contract: Contract) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    settings.contract = contract;
    settings.into_generator()
}

/// Removes the name of the Rust type, which means nothing to a model.
fn published(mut schema: Schema) -> Json {
    schema.remove("title");
    Json::from(schema.as_value())
}
