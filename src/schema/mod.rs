//! JSON Schema: here only the patterns, until the validator around them lands.

#[cfg(feature = "pattern")]
#[allow(dead_code)]
mod pattern;
