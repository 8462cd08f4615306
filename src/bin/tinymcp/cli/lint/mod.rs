//! Commands `schema-lint` and `schema-simplify`.
//!
//! Invariant: with `--fix --write`, the file is replaced as a whole or not at all.

mod report;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tinymcp::json::Writer;
use tinymcp::lint::{
    self, Finding, OptionalProperties, Options, PROFILES, RULES, Report, RuleSet, Severity, Snapshot,
    SnapshotError,
};
use tinymcp::stderr;

use super::args::{Args, Format};
use super::connect;
use super::failure::Result;

use super::{json_error, print, read};
use crate::escape::{self, one_line};
use crate::out;
use crate::serve::nearest;

/// Reads the catalog that the arguments name. Returns its label for messages and its text.
fn catalog(args: &Args) -> Result<(PathBuf, Vec<u8>)> {
    match (args.files.as_slice(), args.server.is_given()) {
        ([path], false) => Ok((path.clone(), read(path)?)),
        ([], true) if args.has("write") => Err("--write requires a file".into()),
        ([], true) => {
            let (name, catalog) = connect::catalog(args)?;
            Ok((name.into(), catalog.into_bytes()))
        }
        _ => Err("expected one FILE, - for standard input, or a server".into()),
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
        stderr::write(format!(
            "tinymcp: {}: incomplete catalog (it has nextCursor): tools of later pages are not checked\n",
            one_line(&path.display().to_string())
        ));
    }
    Ok((path.clone(), snapshot))
}

pub(crate) fn schema_lint(args: &Args) -> Result<u8> {
    if args.has("list") {
        return list().map(|()| 0);
    }
    if args.has("write") && !args.has("fix") || args.has("keep-optional") && !args.has("fix") {
        return Err("--write and --keep-optional require --fix".into());
    }
    if args.has("fix") && (args.has("json") || args.has("matrix") || args.lint.format.is_some()) {
        return Err("--fix cannot be combined with --json, --format or --matrix".into());
    }
    if args.lint.format.is_some() && (args.has("json") || args.has("matrix")) {
        return Err("--format cannot be combined with --json or --matrix".into());
    }
    let mut options = Options::new();
    if let Some(rules) = &args.lint.rules {
        options = options.rules(rules).map_err(|id| format!("unknown rule {id:?}; see `--list`"))?;
    }
    if let Some(profile) = args.lint.profile {
        options = options.profile(profile);
    }
    let (path, snapshot) = snapshot(args)?;
    if args.has("fix") {
        return fix(args, &path, &snapshot);
    }
    if args.has("matrix") {
        return matrix(&snapshot, args.has("json"));
    }
    let report = lint::check_with(&snapshot, &options);
    out(formatted(args, &path, &report).as_bytes())?;
    let most = usize::try_from(args.lint.max_warnings.unwrap_or(0)).unwrap_or(usize::MAX);
    Ok(u8::from(report.criticals > 0 || report.warnings > most))
}

/// Formats the findings as the options require.
fn formatted(args: &Args, path: &Path, report: &Report) -> String {
    let mut lines = String::new();
    // The label of a server is not a file.
    let file = if args.server.is_given() || path == Path::new("-") { "" } else { &*path.to_string_lossy() };
    if args.lint.format == Some(Format::Github) {
        lines.push_str(&report::github(&report.findings, file));
    } else if args.lint.format == Some(Format::Sarif) {
        lines.push_str(&escape::json(&report::sarif(&report.findings, file)));
    } else if args.has("json") {
        for finding in &report.findings {
            let mut w = Writer::new();
            finding.write(&mut w);
            w.newline();
            lines.push_str(&escape::json(w.as_str()));
        }
        let mut w = Writer::new();
        w.begin_object().key("summary").begin_object();
        w.key("tools_checked").u64(report.tools as u64);
        w.key("schema_criticals").u64(report.criticals as u64);
        w.key("schema_warnings").u64(report.warnings as u64);
        w.key("findings").u64(report.findings.len() as u64);
        w.end_object().end_object().newline();
        lines.push_str(&escape::json(w.as_str()));
    } else {
        let colour = print::has_colours(&io::stdout());
        // The hint of a rule is printed once.
        let mut hinted: Vec<&str> = Vec::new();
        for findings in report.findings.chunk_by(|a, b| a.tool == b.tool) {
            lines.push_str(&tool_line(findings));
            for finding in findings {
                let hint = !finding.hint.is_empty() && !hinted.contains(&finding.rule);
                hinted.push(finding.rule);
                lines.push_str(&line(finding, hint, colour));
            }
        }
        let summary =
            format!("{} tools, {} criticals, {} warnings\n", report.tools, report.criticals, report.warnings);
        lines.push_str(&summary);
    }
    lines
}

/// Prints a rule, its set and its correction.
pub(crate) fn explain(args: &Args) -> Result<u8> {
    let [id] = args.files.as_slice() else {
        return Err("expected one rule such as SCH-003; `tinymcp schema-lint --list` lists them".into());
    };
    let id = id.to_string_lossy().to_ascii_uppercase();
    let Some(rule) = RULES.iter().find(|rule| rule.id == id) else {
        let near = nearest(&id, &mut RULES.iter().map(|rule| rule.id));
        let cure = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(format!("unknown rule {id:?}{cure}").into());
    };
    let set = match rule.set {
        RuleSet::Recommended => "recommended, default, all",
        RuleSet::Default => "default, all",
        RuleSet::Optional => "all",
    };
    let mut text = format!("{} ({}; sets: {set})\n  {}\n", rule.id, rule.severity.as_str(), rule.summary);
    if !rule.hint.is_empty() {
        text.push_str(&format!("  To correct it: {}\n", rule.hint));
    }
    out(text.as_bytes())?;
    Ok(0)
}

/// Formats the line above the findings of one tool: its name and the number of findings.
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
    let hint = if hint { format!(" ({})", one_line(finding.hint)) } else { String::new() };
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
    Ok(out(text.as_bytes())?)
}

fn fix(args: &Args, path: &Path, snapshot: &Snapshot) -> Result<u8> {
    let optional =
        if args.has("keep-optional") { OptionalProperties::Keep } else { OptionalProperties::Require };
    let fixed = lint::fix(snapshot, optional);
    for finding in &fixed.unfixed {
        eprintln!("{}", one_line(&finding.to_string()));
    }
    if !args.has("write") {
        out(escape::json(&fixed.text).as_bytes())?;
        return Ok(0);
    }
    if path == Path::new("-") {
        return Err("--write requires a file".into());
    }
    if fixed.changes > 0 {
        replace(path, fixed.text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    eprintln!("{}: {} changes", one_line(&path.display().to_string()), fixed.changes);
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
        let report = lint::check_with(snapshot, &Options::new().profile(profile));
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
            text.push_str(&escape::json(w.as_str()));
        } else {
            text.push_str(&format!("{:width$}", one_line(name)));
            cells.for_each(|(_, cell)| text.push_str(&format!("  {cell:>13}")));
            text.push('\n');
        }
    }
    out(text.as_bytes())?;
    Ok(u8::from(columns.iter().any(|c| c.values().any(|s| *s == Severity::Critical))))
}

pub(crate) fn schema_simplify(args: &Args) -> Result<u8> {
    let profile = args.lint.profile.ok_or("schema-simplify requires --profile HOST")?;
    let (path, snapshot) = snapshot(args)?;
    let simple = lint::simplify(&snapshot, profile).map_err(|e| format!("{}: {e}", path.display()))?;
    for loss in &simple.losses {
        eprintln!("{}", one_line(&loss.to_string()));
    }
    out(escape::json(&simple.text).as_bytes())?;
    Ok(0)
}
