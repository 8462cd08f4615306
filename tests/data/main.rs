//! Tests of the data layers: JSON, typed records, schemas, lint.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod json;
#[cfg(feature = "lint")]
mod lint;
mod record;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "serde")]
mod serde;
