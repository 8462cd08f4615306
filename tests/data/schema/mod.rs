//! The JSON Schema validator from outside: what hostile schemas and values cost, what is refused
//! and how, and what the messages say.

mod blow_up;
mod message;
mod name;
mod output;
mod refuse;

use tinymcp::json::{Doc, ParseLimits};

/// Parses without limits, as a host with its own limits would.
fn doc(text: &str) -> Doc {
    let mut doc = Doc::default();
    doc.parse_again(text.as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
    doc
}
