//! Command line: requests to servers, lint and fix of tool schemas, validation of values.
//!
//! `tinymcp help` lists the commands. Results go to standard output; notes, progress and errors to
//! standard error. The exit status is 0 for success; 1 for an error of the server or tool, for
//! findings or an invalid value; 2 for a usage error, unusable input or no connection. The program
//! connects only to the given server. Only `--fix --write` changes a file.
//!
//! Invariants: input is bounded; a file is replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tinymcp::json::{self, Doc, ParseError, ParseLimits, Writer};
use tinymcp::lint::{
    self, Choice, Finding, Optional, PROFILES, RULES, RuleSet, Severity, Snapshot, SnapshotError,
};
use tinymcp::record::Violation;
use tinymcp::schema::{Formats, Schema};

mod args;
mod commands;
mod connect;
mod print;
#[cfg(unix)]
mod signals;

use args::Args;
use print::{one_line, plain};

const HELP: &str = include_str!("help.txt");

/// Largest file or line, in bytes. 64 MiB: the limit of the lint.
const MAX_BYTES: u64 = 64 << 20;
/// Largest number of failures that `validate --all` prints.
const MAX_FAILURES: usize = 1000;

/// An error is one line for standard error; the exit status is 2.
type Result<T, E = String> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let result = run(std::env::args_os().skip(1).collect());
    #[cfg(unix)]
    signals::park_if_signalled();
    match result {
        Ok(code) => ExitCode::from(code),
        // A closed pipe is not an error.
        Err(error) if error == BROKEN_PIPE => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tinymcp: {}", plain(&error));
            ExitCode::from(2)
        }
    }
}

const BROKEN_PIPE: &str = "the output was closed";

const LINT_FLAGS: &[&str] =
    &["json", "fix", "write", "keep-optional", "matrix", "list", "rules", "profile", "url"];
const SIMPLIFY_FLAGS: &[&str] = &["profile", "url"];
const VALIDATE_FLAGS: &[&str] = &["json", "all", "format-assert", "batch"];

fn run(mut args: Vec<OsString>) -> Result<u8> {
    if args.is_empty() {
        return Err("expected a command; see `tinymcp help`".to_owned());
    }
    let command = args.remove(0);
    let word = command.to_str().unwrap_or_default();
    // Arguments after `--` belong to the server.
    let mut own = args.iter().take_while(|arg| *arg != "--");
    if own.any(|arg| arg == "--help" || arg == "-h") {
        return help(word).map(|()| 0);
    }
    match word {
        "help" | "--help" | "-h" => match args.first().and_then(|arg| arg.to_str()) {
            Some(command) => help(command).map(|()| 0),
            None => out(HELP.as_bytes()).map(|()| 0),
        },
        "--version" | "-V" => out(format!("tinymcp {}\n", env!("CARGO_PKG_VERSION")).as_bytes()).map(|()| 0),
        "schema-lint" => schema_lint(&Args::parse(word, args, LINT_FLAGS)?),
        "schema-simplify" => schema_simplify(&Args::parse(word, args, SIMPLIFY_FLAGS)?),
        "validate" => validate(&Args::parse(word, args, VALIDATE_FLAGS)?),
        word if commands::has_command(word) => commands::run(word, args),
        other => Err(unknown(other)),
    }
}

fn unknown(command: &str) -> String {
    let known = HELP.lines().filter_map(|line| line.strip_prefix("  tinymcp ")?.split(' ').next());
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    format!("unknown command {command:?}; expected one of: {}", known.join(", "))
}

/// Prints the part of the help that belongs to one command, and the paragraphs about servers if the
/// command has them.
fn help(command: &str) -> Result<()> {
    let parts: Vec<&str> = HELP.split("\n\n").collect();
    let usage = format!("  tinymcp {command} ");
    let Some(part) = parts.iter().find(|part| part.starts_with(&usage)) else { return Err(unknown(command)) };
    let mut text = vec![*part];
    text.extend(parts.iter().filter(|other| {
        other.starts_with("SERVER is") && part.contains("SERVER")
            || other.starts_with("Options of") && commands::has_command(command)
    }));
    out(format!("{}\n", text.join("\n\n")).as_bytes())
}

fn out(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => BROKEN_PIPE.to_owned(),
        _ => format!("standard output: {e}"),
    })
}

/// Reads a file; `-` is standard input.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|e| format!("{}: {e}", path.display()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{}: longer than {MAX_BYTES} bytes", path.display()));
    }
    Ok(bytes)
}

/// Formats a JSON error with its position.
fn json_error(path: &Path, text: &[u8], error: ParseError) -> String {
    let before = text.get(..error.offset().min(text.len())).unwrap_or_default();
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    format!("{}:{line}:{column}: {} (byte {})", path.display(), error.kind(), error.offset())
}

/// Reads the catalog that the arguments name. Returns its label for messages and its text.
fn catalog(args: &Args) -> Result<(PathBuf, Vec<u8>)> {
    match (args.files.as_slice(), &args.command, &args.url) {
        ([path], None, None) => Ok((path.clone(), read(path)?)),
        ([], Some(_), None) | ([], None, Some(_)) if args.has("write") => {
            Err("--write requires a file".to_owned())
        }
        ([], Some(_), None) | ([], None, Some(_)) => {
            let (name, catalog) = connect::catalog(args)?;
            Ok((name.into(), catalog.into_bytes()))
        }
        _ => Err("expected one FILE, - for standard input, or a server".to_owned()),
    }
}

fn snapshot(args: &Args) -> Result<(PathBuf, Snapshot)> {
    let (path, text) = catalog(args)?;
    let path = &path;
    let snapshot = Snapshot::parse(&text).map_err(|e| match e {
        SnapshotError::Json(e) => json_error(path, &text, e),
        other => format!("{}: {other}", path.display()),
    })?;
    if snapshot.is_partial() {
        eprintln!(
            "tinymcp: {}: incomplete catalog (it has nextCursor): tools of later pages are not checked",
            path.display()
        );
    }
    Ok((path.clone(), snapshot))
}

fn schema_lint(args: &Args) -> Result<u8> {
    if args.has("list") {
        return list().map(|()| 0);
    }
    if args.has("write") && !args.has("fix") || args.has("keep-optional") && !args.has("fix") {
        return Err("--write and --keep-optional require --fix".to_owned());
    }
    if args.has("fix") && (args.has("json") || args.has("matrix")) {
        return Err("--fix cannot be combined with --json or --matrix".to_owned());
    }
    let mut choice = Choice::new();
    if let Some(rules) = &args.rules {
        choice = choice.rules(rules).map_err(|id| format!("unknown rule {id:?}; see `--list`"))?;
    }
    if let Some(profile) = args.profile {
        choice = choice.profile(profile);
    }
    let (path, snapshot) = snapshot(args)?;
    if args.has("fix") {
        return fix(args, &path, &snapshot);
    }
    if args.has("matrix") {
        return matrix(&snapshot, args.has("json"));
    }
    let report = lint::check_with(&snapshot, &choice);
    let mut lines = Vec::new();
    if args.has("json") {
        for finding in &report.findings {
            let mut w = Writer::new();
            finding.write(&mut w);
            w.newline();
            lines.extend_from_slice(w.as_bytes());
        }
        let mut w = Writer::new();
        w.begin_object().key("summary").begin_object();
        w.key("tools_checked").u64(report.tools as u64);
        w.key("schema_criticals").u64(report.criticals as u64);
        w.key("schema_warnings").u64(report.warnings as u64);
        w.key("findings").u64(report.findings.len() as u64);
        w.end_object().end_object().newline();
        lines.extend_from_slice(w.as_bytes());
    } else {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        // The hint of a rule is printed once.
        let mut hinted: Vec<&str> = Vec::new();
        for findings in report.findings.chunk_by(|a, b| a.tool == b.tool) {
            lines.extend_from_slice(tool_line(findings).as_bytes());
            for finding in findings {
                let hint = !finding.hint.is_empty() && !hinted.contains(&finding.rule);
                hinted.push(finding.rule);
                lines.extend_from_slice(line(finding, hint, colour).as_bytes());
            }
        }
        let summary =
            format!("{} tools, {} criticals, {} warnings\n", report.tools, report.criticals, report.warnings);
        lines.extend_from_slice(summary.as_bytes());
    }
    out(&lines)?;
    Ok(u8::from(report.criticals + report.warnings > 0))
}

/// Formats the line above the findings of one tool: its name and their number.
fn tool_line(findings: &[Finding]) -> String {
    let name = findings.first().map_or("", |finding| &finding.tool);
    let mut counts = String::new();
    for severity in [Severity::Critical, Severity::Warning, Severity::Note] {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        if count > 0 {
            let comma = if counts.is_empty() { "" } else { ", " };
            let plural = if count == 1 { "" } else { "s" };
            counts.push_str(&format!("{comma}{count} {}{plural}", severity.as_str()));
        }
    }
    format!("{}: {counts}\n", one_line(name))
}

/// Formats one finding as an indented line.
fn line(finding: &Finding, hint: bool, colour: bool) -> String {
    let (start, end) = match finding.severity {
        _ if !colour => ("", ""),
        Severity::Critical => ("\x1b[31m", "\x1b[0m"),
        Severity::Warning => ("\x1b[33m", "\x1b[0m"),
        Severity::Note => ("\x1b[2m", "\x1b[0m"),
    };
    let (severity, rule) = (finding.severity.as_str(), finding.rule);
    let (pointer, message) = (one_line(&finding.pointer), one_line(&finding.message));
    let hint = if hint { format!(" ({})", finding.hint) } else { String::new() };
    let fixable = if finding.fixable { " [fixable]" } else { "" };
    format!("  {start}{severity}{end} {rule} {pointer}: {message}{hint}{fixable}\n")
}

fn list() -> Result<()> {
    let mut text = String::new();
    for rule in RULES {
        let on = match rule.set {
            RuleSet::Recommended => "",
            RuleSet::Default => " (not in `recommended`)",
            RuleSet::Optional => " (off by default)",
        };
        text.push_str(&format!("{:9} {:8} {}{on}\n", rule.id, rule.severity.as_str(), rule.summary));
    }
    text.push('\n');
    for profile in PROFILES {
        text.push_str(&format!("{:14} {}\n", profile.id, profile.summary));
    }
    out(text.as_bytes())
}

fn fix(args: &Args, path: &Path, snapshot: &Snapshot) -> Result<u8> {
    let optional = if args.has("keep-optional") { Optional::Keep } else { Optional::Require };
    let fixed = lint::tighten(snapshot, optional);
    for finding in &fixed.left {
        eprintln!("{}", one_line(&finding.to_string()));
    }
    if !args.has("write") {
        return out(fixed.text.as_bytes()).map(|()| 0);
    }
    if path == Path::new("-") {
        return Err("--write requires a file".to_owned());
    }
    if fixed.changes > 0 {
        replace(path, fixed.text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    eprintln!("{}: {} changes", path.display(), fixed.changes);
    Ok(0)
}

/// Replaces a file atomically by a new one with the same permissions.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Replace the target of a symbolic link, not the link.
    let target = fs::canonicalize(path)?;
    let permissions = fs::metadata(&target)?.permissions();
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = target.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = fs::File::options().write(true).create_new(true).open(&beside)?;
        file.set_permissions(permissions)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &target)
    })();
    if written.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
        // Report the first error, not that of the clean-up.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Prints one cell for each tool and host: the worst finding of the HOST rules.
fn matrix(snapshot: &Snapshot, json: bool) -> Result<u8> {
    let names: Vec<&str> = snapshot.tools().filter_map(|t| t.get("name")?.as_str()).collect();
    let mut columns = Vec::new();
    for profile in PROFILES {
        let report = lint::check_with(snapshot, &Choice::new().profile(profile));
        let host = report.findings.iter().filter(|f| f.profile.is_some());
        let mut worst = std::collections::HashMap::new();
        for finding in host {
            let entry = worst.entry(finding.tool.clone()).or_insert(Severity::Note);
            *entry = (*entry).max(finding.severity);
        }
        columns.push(worst);
    }
    let verdict = |severity: Option<&Severity>| match severity {
        None | Some(Severity::Note) => "ok",
        Some(Severity::Warning) => "loses",
        Some(Severity::Critical) => "refused",
    };
    let mut text = String::new();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(4);
    if !json {
        text.push_str(&format!("{:width$}", "tool"));
        PROFILES.iter().for_each(|p| text.push_str(&format!("  {:>13}", p.id)));
        text.push('\n');
    }
    for name in &names {
        let cells = PROFILES.iter().zip(columns.iter().map(|c| verdict(c.get(*name))));
        if json {
            let mut w = Writer::new();
            w.begin_object().key("tool").string(name).key("hosts").begin_object();
            cells.for_each(|(p, cell)| {
                w.key(p.id).string(cell);
            });
            w.end_object().end_object().newline();
            text.push_str(w.as_str());
        } else {
            text.push_str(&format!("{:width$}", one_line(name)));
            cells.for_each(|(_, cell)| text.push_str(&format!("  {cell:>13}")));
            text.push('\n');
        }
    }
    out(text.as_bytes())?;
    Ok(u8::from(columns.iter().any(|c| c.values().any(|s| *s == Severity::Critical))))
}

fn schema_simplify(args: &Args) -> Result<u8> {
    let profile = args.profile.ok_or("schema-simplify requires --profile HOST")?;
    let (path, snapshot) = snapshot(args)?;
    let simple = lint::simplify(&snapshot, profile).map_err(|e| format!("{}: {e}", path.display()))?;
    for loss in &simple.losses {
        eprintln!("{}", one_line(&loss.to_string()));
    }
    out(simple.text.as_bytes()).map(|()| 0)
}

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

fn validate(args: &Args) -> Result<u8> {
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
        out(w.as_bytes())?;
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
            out(results.as_bytes())?;
            results.clear();
        }
    }
    out(results.as_bytes())?;
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
