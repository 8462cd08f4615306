//! Command `validate`: values against JSON Schemas.
//!
//! Invariant: a line of a batch is bounded, and each gets one result line, in order.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use tinymcp::json::{self, Doc, ParseLimits, Writer};
use tinymcp::record::Violation;
use tinymcp::schema::{Formats, Schema};

use super::args::Args;

use super::{MAX_BYTES, json_error, read};
use crate::escape::{self, one_line};
use crate::{Result, out};

/// Largest number of failures that `validate --all` prints.
const MAX_FAILURES: usize = 1000;

fn parse(path: &Path, text: &[u8]) -> Result<Doc> {
    let mut doc = Doc::default();
    doc.parse_again(text, &limits()).map_err(|e| json_error(path, text, e))?;
    Ok(doc)
}

/// Limits of the parser. Its depth is not limited: it does not recurse, and the validator has its
/// own limit.
fn limits() -> ParseLimits {
    ParseLimits { bytes: MAX_BYTES as usize, depth: u32::MAX, nodes: 1 << 24, unique_names: false }
}

fn formats(args: &Args) -> Formats {
    if args.has("format-assert") { Formats::Assert } else { Formats::Annotate }
}

pub(crate) fn validate(args: &Args) -> Result<u8> {
    if let Some(path) = &args.batch {
        if !args.files.is_empty() || args.has("all") {
            return Err("--batch cannot be combined with SCHEMA, INSTANCE or --all".to_owned());
        }
        return batch(path, formats(args));
    }
    let (schema_path, value_path) = match args.files.as_slice() {
        [schema] => (schema.as_path(), Path::new("-")),
        [schema, value] => (schema.as_path(), value.as_path()),
        _ => return Err("expected SCHEMA and at most one INSTANCE".to_owned()),
    };
    if schema_path == Path::new("-") && value_path == Path::new("-") {
        return Err("schema and instance cannot both come from standard input".to_owned());
    }
    let doc = parse(schema_path, &read(schema_path)?)?;
    let schema = Schema::options().formats(formats(args)).compile(doc.root());
    let schema = schema.map_err(|e| format!("{}: {e}", schema_path.display()))?;
    let doc = parse(value_path, &read(value_path)?)?;
    let failures = if args.has("all") {
        schema.check_all(doc.root(), MAX_FAILURES)
    } else {
        schema.check(doc.root()).err().map(|v| *v).into_iter().collect()
    };
    let mut w = Writer::new();
    if args.has("json") {
        match failures.first() {
            Some(first) if !args.has("all") => verdict(&mut w, first),
            _ => {
                w.begin_object().key("valid").bool(failures.is_empty());
                if !failures.is_empty() {
                    w.key("errors").begin_array();
                    failures.iter().for_each(|v| violation(&mut w, v));
                    w.end_array();
                }
                w.end_object();
            }
        }
        w.newline();
        out(escape::json(w.as_str()).as_bytes())?;
    } else {
        let lines: String = failures.iter().map(|v| one_line(&v.to_string()) + "\n").collect();
        out(if failures.is_empty() { b"valid\n" } else { lines.as_bytes() })?;
    }
    Ok(u8::from(!failures.is_empty()))
}

fn members(w: &mut Writer, violation: &Violation) {
    w.key("path").string(&violation.path);
    w.key("keyword").string(violation.keyword);
    w.key("message").string(&violation.message);
}

fn violation(w: &mut Writer, violation: &Violation) {
    w.begin_object();
    members(w, violation);
    w.end_object();
}

fn verdict(w: &mut Writer, violation: &Violation) {
    w.begin_object().key("valid").bool(false);
    members(w, violation);
    w.end_object();
}

/// Validates each input line and writes one result line for it, in order. Flushes when no more
/// input is buffered.
fn batch(path: &Path, formats: Formats) -> Result<u8> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?)
    };
    let error = |e: io::Error| format!("{}: {e}", path.display());
    let mut reader = BufReader::with_capacity(1 << 16, source);
    let mut results = Writer::new();
    let mut line = Vec::new();
    let mut doc = Doc::default();
    let mut cached: Option<(String, Schema)> = None;
    let mut worst = 0;
    loop {
        line.clear();
        let got = reader.by_ref().take(MAX_BYTES).read_until(b'\n', &mut line).map_err(error)?;
        if got == 0 {
            break;
        }
        let status = if line.len() as u64 == MAX_BYTES && line.last() != Some(&b'\n') {
            skip_line(&mut reader).map_err(error)?;
            Err(format!("the line is longer than {MAX_BYTES} bytes"))
        } else {
            validate_line(&line, &mut doc, &mut cached, formats, &mut results)
        };
        let status = status.unwrap_or_else(|error| {
            results.begin_object().key("error").string(&error).end_object();
            2
        });
        worst = worst.max(status);
        results.newline();
        if reader.buffer().is_empty() || results.len() > 1 << 16 {
            out(escape::json(results.as_str()).as_bytes())?;
            results.clear();
        }
    }
    out(escape::json(results.as_str()).as_bytes())?;
    Ok(worst)
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let waiting = reader.fill_buf()?;
        let (used, done) = match waiting.iter().position(|b| *b == b'\n') {
            Some(end) => (end + 1, true),
            None => (waiting.len(), waiting.is_empty()),
        };
        reader.consume(used);
        if done {
            return Ok(());
        }
    }
}

/// Validates the value of one line with its schema, and writes the result.
fn validate_line(
    line: &[u8],
    doc: &mut Doc,
    cached: &mut Option<(String, Schema)>,
    formats: Formats,
    w: &mut Writer,
) -> Result<u8, String> {
    doc.parse_again(line, &limits()).map_err(|e| e.to_string())?;
    let root = doc.root();
    let part = |name| root.get(name).ok_or_else(|| format!("missing member {name:?}"));
    let (schema, value): (json::Value<'_>, json::Value<'_>) = (part("schema")?, part("value")?);
    // Batches usually validate many values with one schema.
    if cached.as_ref().is_none_or(|(text, _)| text != schema.raw()) {
        let compiled = Schema::options().formats(formats).compile(schema).map_err(|e| e.to_string())?;
        *cached = Some((schema.raw().to_owned(), compiled));
    }
    let Some((_, compiled)) = cached else { return Err("internal error: no compiled schema".to_owned()) };
    Ok(match compiled.check(value) {
        Ok(()) => {
            w.begin_object().key("valid").bool(true).end_object();
            0
        }
        Err(failure) => {
            verdict(w, &failure);
            1
        }
    })
}
