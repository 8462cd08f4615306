//! Tests of the example `board_server`. They are a module here instead of `test = true` of the
//! example, so that `cargo test` also builds the program, which other tests start.
#![allow(dead_code)]

#[path = "../../examples/board_server/main.rs"]
mod program;
