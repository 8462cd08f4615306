//! Tests of the example `ask_user`. They are a module here instead of `test = true` of the example,
//! so that `cargo test` also builds the program, which other tests start.
#![allow(dead_code)]

#[path = "../../examples/ask_user.rs"]
mod program;
