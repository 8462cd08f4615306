//! Tests of the JSON parser and writer.

mod accepted;
mod alloc;
mod blocks;
mod comments;
mod limits;
#[cfg(feature = "miniserde")]
mod miniserde;
mod random;
mod refused;
mod tables;
mod value;
mod writer;
