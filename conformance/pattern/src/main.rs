//! Compares our patterns with V8: reads the verdicts of `cases.mjs` and prints differences.
//!
//! A line contains a verdict and texts, separated by tabs and in hexadecimal. The verdict is `u` if
//! V8 accepts the pattern with the flag u, `p` if only without it, and `x` otherwise. The pattern
//! follows, then each text with `+` or `-`.

// The library does not export its patterns separately, so their source is compiled in.
#[path = "../../../src/schema"]
mod schema {
    #[allow(dead_code)]
    pub(crate) mod pattern;
}

use std::collections::BTreeMap;
use std::io::BufRead;

use schema::pattern::{Pattern, is_pattern};

fn text(hex: &str) -> String {
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    String::from_utf8(bytes).unwrap()
}

fn main() {
    let (mut patterns, mut lenient, mut pairs, mut matches, mut faults) = (0, 0, 0, 0, 0);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut slowest = (std::time::Duration::ZERO, String::new());
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut parts = line.split('\t');
        let taken = parts.next().unwrap();
        let source = text(parts.next().unwrap());
        patterns += 1;
        let started = std::time::Instant::now();
        let compiled = Pattern::compile(&source);
        if started.elapsed() > slowest.0 {
            slowest = (started.elapsed(), source.clone());
        }
        let fault = match (&compiled, taken, is_pattern(&source)) {
            (Ok(_), "x", _) | (_, "x", true) => Some("we accept a pattern that V8 rejects in both modes"),
            (_, "u", false) if compiled.as_ref().is_err_and(|e| !e.to_string().contains("the pattern ")) => {
                Some("we reject it as invalid")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            faults += 1;
            println!("{fault}: {source:?} {:?}", compiled.as_ref().err().map(|e| e.to_string()));
            continue;
        }
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                if taken == "u" {
                    let why = error.to_string().split(": ").nth(1).unwrap_or("").chars().take(60).collect();
                    *refused.entry(why).or_default() += 1;
                }
                continue;
            }
        };
        lenient += usize::from(taken == "p");
        for part in parts {
            let (verdict, hex) = part.split_at(1);
            let text = text(hex);
            pairs += 1;
            let ours = compiled.is_match(&text);
            matches += usize::from(ours);
            if ours != (verdict == "+") {
                faults += 1;
                println!("V8 says {verdict}, we {ours}: {source:?} on {text:?}");
            }
        }
    }
    println!(
        "{patterns} patterns ({lenient} that V8 takes only without u), {pairs} pairs ({matches} matches), {faults} disagreements"
    );
    println!("slowest to compile: {:?} {:?}", slowest.0, slowest.1);
    for (why, times) in refused {
        println!("refused {times:>6}  {why}");
    }
    std::process::exit(i32::from(faults > 0 || pairs == 0));
}
