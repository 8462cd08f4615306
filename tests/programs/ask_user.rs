//! The example `ask_user`: its own tests. They stand here and not behind `test = true`, so that
//! `cargo test` also builds the program, which other tests start.
#![allow(dead_code)]

#[path = "../../examples/ask_user.rs"]
mod program;
