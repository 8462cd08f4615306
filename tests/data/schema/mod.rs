//! Tests of the JSON Schema validator: the cost of hostile schemas and values, rejected schemas,
//! and messages.

mod blow_up;
mod message;
mod name;
mod output;
mod refuse;

use tinymcp::json::{Doc, ParseLimits};

/// Parses without limits, like a host with limits of its own.
fn doc(text: &str) -> Doc {
    let mut doc = Doc::default();
    doc.parse_again(text.as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
    doc
}
