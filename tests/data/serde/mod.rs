//! Conversion of types that derive serde's traits.

mod numbers;
mod read;
#[cfg(feature = "serde_json")]
mod trees;
mod write;

use serde::Deserialize;
use tinymcp::json::Doc;

/// Reads a text as a type, and returns its Debug form or the message of the violation.
fn read<T: for<'d> Deserialize<'d> + std::fmt::Debug>(text: &str) -> String {
    let doc = Doc::parse(text).unwrap();
    match tinymcp::serde::from_value::<T>(doc.root()) {
        Ok(value) => format!("{value:?}"),
        Err(violation) => violation.to_string(),
    }
}

/// Reads a text as serde_json does; `None` if it rejects it.
fn oracle<T: for<'d> Deserialize<'d> + std::fmt::Debug>(text: &str) -> Option<String> {
    serde_json::from_str::<T>(text).ok().map(|value| format!("{value:?}"))
}

/// Checks that a text is read as serde_json reads it.
#[track_caller]
fn agrees<T: for<'d> Deserialize<'d> + std::fmt::Debug>(text: &str) {
    let expected = oracle::<T>(text);
    assert!(expected.is_some(), "serde_json rejects {text}");
    assert_eq!(Some(read::<T>(text)), expected, "{text}");
}
