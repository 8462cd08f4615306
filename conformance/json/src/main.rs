//! Compares the parser with the cases of JSONTestSuite on standard input.
//!
//! Names that start with `y_` must be accepted, names with `n_` rejected. The suite leaves `i_` to
//! the implementation. The rules of `tinymcp::json` decide each of them; the list here makes a
//! change of a rule visible.
//!
//! # Invariants
//! - The suite is complete (95 + 188 + 35 cases), or the run fails.

use std::io::Read;
use std::process::ExitCode;

use tinymcp::json::Doc;

/// The `i_` cases that we accept: numbers of any size, whose text is kept. We reject lone
/// surrogates, bytes that are not UTF-8, byte order marks and nesting beyond 128 levels.
const ACCEPTED: &[&str] = &[
    "i_number_double_huge_neg_exp.json",
    "i_number_huge_exp.json",
    "i_number_neg_int_huge_exp.json",
    "i_number_pos_double_huge_exp.json",
    "i_number_real_neg_overflow.json",
    "i_number_real_pos_overflow.json",
    "i_number_real_underflow.json",
    "i_number_too_big_neg_int.json",
    "i_number_too_big_pos_int.json",
    "i_number_very_big_negative_int.json",
];

fn main() -> ExitCode {
    let mut input = String::new();
    if std::io::stdin().read_to_string(&mut input).is_err() {
        eprintln!("the cases are not text");
        return ExitCode::FAILURE;
    }
    let (mut accept, mut refuse, mut free, mut wrong) = (0, 0, 0, 0);
    for (name, hex) in input.lines().filter_map(|line| line.split_once('\t')) {
        let (count, expected) = match name.as_bytes().first() {
            Some(b'y') => (&mut accept, true),
            Some(b'n') => (&mut refuse, false),
            _ => (&mut free, ACCEPTED.contains(&name)),
        };
        *count += 1;
        let parsed = Doc::parse(bytes(hex));
        if parsed.is_ok() != expected {
            wrong += 1;
            println!("{name}: accepting it should be {expected}, got {parsed:?}");
        }
    }
    println!("must accept {accept}, must refuse {refuse}, ours to say {free}: {wrong} wrong");
    if (accept, refuse, free, wrong) == (95, 188, 35, 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}
