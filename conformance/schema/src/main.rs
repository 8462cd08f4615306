//! Runs the official JSON Schema test suite.
//!
//!     schema-suite SUITE [FILTER]
//!
//! SUITE is the folder with `tests` and `remotes`. Each group (dialect, and required, optional or
//! format) gets one line with passed, total and the names of the failures. The exit code is 1 if a
//! required test fails, if an optional test fails that `unable.txt` does not list, or if a listed
//! one passes.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tinymcp::json::{Doc, Json, ParseLimits, Value};
use tinymcp::schema::{Dialect, Formats, Options, Schema};

/// Folder of the tests, dialect, the dialects of `remotes` that are not its own.
const DIALECTS: [(&str, Dialect); 3] = [
    ("draft2020-12", Dialect::Draft202012),
    ("draft7", Dialect::Draft07),
    ("draft2019-09", Dialect::Draft201909),
];

/// Folder below the tests, and the treatment of formats.
const PARTS: [(&str, Formats); 3] =
    [("", Formats::Annotate), ("optional", Formats::Annotate), ("optional/format", Formats::Assert)];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("schema-suite: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let suite = PathBuf::from(arguments.next().ok_or("expected the folder of the suite")?);
    let filter = arguments.next().unwrap_or_default();
    let remotes = remotes(&suite.join("remotes"))?;
    let unable = include_str!("../unable.txt");
    let mut unable: BTreeSet<&str> =
        unable.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut good = true;
    for (folder, dialect) in DIALECTS {
        for (part, formats) in PARTS {
            let mut options = Options::new().dialect(dialect).formats(formats);
            for (path, text) in &remotes {
                let own = path.split('/').next().unwrap_or_default();
                if own == folder || !DIALECTS.iter().any(|(d, _)| *d == own) && !own.starts_with("draft") {
                    options = options.document(&format!("http://localhost:1234/{path}"), text);
                } else if own.starts_with("draft") && !part.is_empty() {
                    options = options.document(&format!("http://localhost:1234/{path}"), text);
                }
            }
            let (mut passed, mut total) = (0, 0);
            let mut failed = Vec::new();
            for file in json_files(&suite.join("tests").join(folder).join(part))? {
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let tests = read(&file)?;
                for group in tests.root().items() {
                    let title = text(group, "description");
                    let schema = group.get("schema").ok_or("a group without schema")?;
                    let compiled = options.compile(schema);
                    for test in group.get("tests").into_iter().flat_map(Value::items) {
                        let key = format!("{folder}/{part}/{name}: {title}: {}", text(test, "description"));
                        if !key.contains(&filter) {
                            continue;
                        }
                        total += 1;
                        let expected = test.get("valid").and_then(Value::as_bool) == Some(true);
                        let data = test.get("data").ok_or("a test without data")?;
                        match outcome(&compiled, data) {
                            Ok(valid) if valid == expected => {
                                passed += 1;
                                if unable.contains(key.as_str()) {
                                    failed.push(format!("{key}: passes, but is listed as unable"));
                                }
                            }
                            Ok(_) if unable.remove(key.as_str()) => {}
                            Err(_) if unable.remove(key.as_str()) => {}
                            Ok(valid) => failed.push(format!("{key}: valid={valid}, expected {expected}")),
                            Err(why) => failed.push(format!("{key}: {why}")),
                        }
                    }
                }
            }
            let part = if part.is_empty() { "required" } else { part };
            println!("{folder} {part}: {passed}/{total}");
            for line in &failed {
                println!("  {line}");
            }
            // Draft 2019-09 is shown only, not promised.
            good &= failed.is_empty() || dialect == Dialect::Draft201909;
        }
    }
    Ok(good)
}

/// Returns the verdict, which must be the same for all validation functions.
fn outcome(schema: &Result<Schema, tinymcp::schema::SchemaError>, data: Value<'_>) -> Result<bool, String> {
    let schema = schema.as_ref().map_err(|e| format!("refused: {e}"))?;
    let valid = schema.is_valid(data);
    let first = schema.check(data);
    let all = schema.check_all(data, 100);
    if valid != first.is_ok() || valid != all.is_empty() {
        return Err(format!("is_valid {valid}, check {first:?}, check_all {all:?}"));
    }
    for violation in first.err().map(|v| *v).iter().chain(&all) {
        if data.pointer(&violation.path).is_none() || violation.message.len() > 1000 {
            return Err(format!("a bad violation: {violation:?}"));
        }
    }
    let basic = schema.output(data, tinymcp::schema::Output::Basic);
    if basic.to_doc().root().get("valid").and_then(Value::as_bool) != Some(valid) {
        return Err(format!("is_valid {valid}, output {basic}"));
    }
    Ok(valid)
}

fn text<'d>(value: Value<'d>, name: &str) -> &'d str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn read(file: &Path) -> Result<Doc, Box<dyn Error>> {
    let mut doc = Doc::default();
    doc.parse_again(&fs::read(file)?, &ParseLimits::UNBOUNDED)?;
    Ok(doc)
}

fn json_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns all documents below a folder with their relative paths.
fn remotes(folder: &Path) -> Result<Vec<(String, Json)>, Box<dyn Error>> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "json") {
                let name = path.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
                found.push((name, Json::parse(fs::read_to_string(&path)?)?));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
