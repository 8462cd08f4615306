//! Validates pairs of schema and value, for comparisons with other validators.
//!
//! Reads lines `{"schema": …, "value": …}` and writes one line for each: `{"valid":true}`,
//! `{"valid":false,"path":…,"keyword":…,"message":…}`, or `{"error":…}` for a rejected schema.
//! Formats are asserted.

use std::error::Error;
use std::io::{BufRead, Write};

use tinymcp::json::{Doc, Json, ParseLimits};
use tinymcp::schema::{Formats, Options, Schema};

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::new().formats(Formats::Assert);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut doc = Doc::default();
    // Pairs with the same schema are adjacent.
    let mut last: Option<(String, Result<Schema, String>)> = None;
    for line in std::io::stdin().lock().lines() {
        doc.parse_again(line?.as_bytes(), &ParseLimits::UNBOUNDED)?;
        let schema = doc.root().get("schema").ok_or("a line without schema")?;
        let value = doc.root().get("value").ok_or("a line without value")?;
        if last.as_ref().is_none_or(|(text, _)| text != schema.raw()) {
            last = Some((schema.raw().to_owned(), options.compile(schema).map_err(|e| e.to_string())));
        }
        let answer: Json = match &last {
            Some((_, Ok(schema))) => match schema.check(value) {
                Ok(()) => tinymcp::json!({"valid": true}),
                Err(v) => tinymcp::json!({"valid": false, "path": v.path, "keyword": v.keyword, "message": v.message}),
            },
            Some((_, Err(error))) => tinymcp::json!({"error": error}),
            None => unreachable!("set above"),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
