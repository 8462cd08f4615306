//! The program `tinymcp` as a shell sees it: output, exit status, and what happens to files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

#[cfg(unix)]
mod bench;
mod children;
#[cfg(unix)]
mod completion;
mod controls;
#[cfg(unix)]
mod help;
#[cfg(unix)]
mod lock;
mod new;
#[cfg(all(unix, feature = "http-server"))]
mod questions;
#[cfg(unix)]
mod record;
#[cfg(all(unix, feature = "http-server"))]
mod record_http;
#[cfg(unix)]
mod remote;
#[cfg(all(unix, feature = "http-server"))]
mod servers;
#[cfg(unix)]
mod shell;
#[cfg(unix)]
mod sign_in;
#[cfg(unix)]
mod task;
#[cfg(all(unix, feature = "http-server"))]
mod task_wait;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod transcripts;

/// A program that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Exit status, standard output, standard error.
fn run(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A program that does not read leaves a closed pipe.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = ended.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{args:?} does not end")).unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// An example that `cargo test` has built; `cargo test --test programs` alone does not build it.
fn program(name: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let examples = tests.parent().unwrap().with_file_name("examples");
    let program = examples.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "run `cargo build --examples` first");
    program.to_str().unwrap().to_owned()
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

const CLEAN: &str =
    r#"[{"name":"t","description":"d","inputSchema":{"type":"object","additionalProperties":false}}]"#;
const LOOSE: &str = r#"{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"description":"d"},"b":{"description":"d","type":"null"}}}}]}"#;

#[test]
fn the_exit_status_of_lint_depends_on_its_findings() {
    let (code, out, err) = run(&["schema-lint", "-"], CLEAN);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "1 tools, 0 criticals, 0 warnings\n", ""));
    let (code, out, _) = run(&["schema-lint", "-"], LOOSE);
    assert_eq!(code, 1);
    assert!(out.starts_with("t: 1 critical, 2 warnings\n  warning SCH-001 /inputSchema: "), "{out}");
    assert!(out.ends_with("1 tools, 1 criticals, 2 warnings\n"), "{out}");
    assert!(!out.contains('\x1b'), "a pipe gets no colour");
    let (code, out, _) = run(&["schema-lint", "-", "--rules", "SCH-002"], LOOSE);
    assert_eq!((code, out.lines().count()), (1, 3));
    let (code, out, _) = run(&["schema-lint", "-", "--rules", "recommended"], LOOSE);
    assert_eq!((code, out.lines().count()), (1, 3));
    assert!(out.starts_with("t: 1 critical\n  critical SCH-003 /inputSchema/properties/a: "), "{out}");
    let (code, out, _) = run(
        &["schema-lint", "-", "--profile", "openai"],
        r#"[{"name":"t","inputSchema":{"type":"object"}}]"#,
    );
    assert!(code == 1 && out.contains("HOST-002"), "{out}");
}

#[test]
fn lint_counts_in_json() {
    let (code, out, _) = run(&["schema-lint", "--json", "-"], LOOSE);
    let lines: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, lines.len()), (1, 4));
    assert_eq!(lines[2]["rule_id"], "SCH-003");
    assert_eq!(lines[2]["pointer"], "/inputSchema/properties/a");
    assert_eq!((&lines[2]["severity"], &lines[0]["fixable"]), (&"critical".into(), &true.into()));
    let summary = &lines[3]["summary"];
    assert_eq!((&summary["schema_criticals"], &summary["schema_warnings"]), (&1.into(), &2.into()));
    assert_eq!(summary["tools_checked"], 1);
}

#[test]
fn unusable_input_is_reported_with_its_position() {
    let folder = folder("unusable");
    let broken = folder.join("broken.json");
    fs::write(&broken, "{\"tools\":\n [tru]}").unwrap();
    let (code, out, err) = run(&["schema-lint", broken.to_str().unwrap()], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("broken.json:2:6: ") && err.contains("(byte 15)"), "{err}");
    for (args, input, word) in [
        (&["schema-lint", "-"][..], r#"{"result":{}}"#, "no member tools"),
        (&["schema-lint", "-"], "[3]", "not a tool"),
        (&["schema-lint", "/nonexistent/x.json"], "", "/nonexistent/x.json"),
        (&["schema-lint"], "", "FILE"),
        (&["schema-lint", "-", "--write"], CLEAN, "--fix"),
        (&["schema-lint", "-", "--fix", "--write"], LOOSE, "file"),
        (&["schema-lint", "-", "--rules", "SCH-999"], CLEAN, "SCH-999"),
        (&["schema-lint", "-", "--profile", "emacs"], CLEAN, "openai-strict"),
        (&["schema-lint", "-", "--all"], CLEAN, "--all"),
        (&["schema-simplify", "-"], CLEAN, "--profile"),
        (&["frobnicate"], "", "frobnicate"),
        (&["validate"], "", "SCHEMA"),
        (&["validate", "-"], "", "standard input"),
    ] {
        let (code, out, err) = run(args, input);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
}

#[test]
fn fix_prints_and_write_replaces_the_file() {
    let fixed = r#"{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"description":"d"},"b":{"description":"d","type":"null"}},"required":["a","b"],"additionalProperties":false}}]}"#;
    let (code, out, _) = run(&["schema-lint", "-", "--fix"], LOOSE);
    assert_eq!((code, out.as_str()), (0, fixed));
    let (_, out, _) = run(&["schema-lint", "-", "--fix", "--keep-optional"], LOOSE);
    assert!(out.contains("\"additionalProperties\":false") && !out.contains("required"), "{out}");
    let folder = folder("write");
    let file = folder.join("tools.json");
    fs::write(&file, LOOSE).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("tools.json", folder.join("link.json")).unwrap();
    }
    let name = if cfg!(unix) { "link.json" } else { "tools.json" };
    for _ in 0..2 {
        let (code, out, _) =
            run(&["schema-lint", folder.join(name).to_str().unwrap(), "--fix", "--write"], "");
        assert_eq!((code, out.as_str()), (0, ""));
        assert_eq!(fs::read_to_string(&file).unwrap(), fixed);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(folder.join("link.json")).unwrap().is_symlink());
    }
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), if cfg!(unix) { 2 } else { 1 }, "{left:?}");
}

#[test]
fn matrix_and_simplify_describe_hosts() {
    let (code, out, _) =
        run(&["schema-lint", "-", "--matrix"], r#"[{"name":"t","inputSchema":{"type":"object"}}]"#);
    let rows: Vec<Vec<&str>> = out.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!((code, rows.len()), (1, 2));
    assert_eq!((rows[0][1], rows[1][1]), ("openai", "refused"));
    assert_eq!((rows[0][7], rows[1][7]), ("cursor", "ok"));
    let (code, out, err) = run(
        &["schema-simplify", "-", "--profile", "claude-strict"],
        r#"{"tools": [{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}}]}"#,
    );
    let expected = r#"{"tools": [{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}}]}"#;
    assert_eq!((code, out.as_str()), (0, expected));
    assert!(err.contains("dropped minimum"), "{err}");
}

#[test]
fn texts_of_a_catalog_cannot_control_a_terminal_or_imitate_our_lines() {
    let catalog = r#"{"tools":[{"name":"a\u001b[31m\nwarning SCH-999 \u202eb","inputSchema":
        {"type":"object","properties":{"x\u001b[2J\n":{"type":"nothing"}}}}]}"#;
    let leaks = |text: &str| text.contains(['\u{1b}', '\u{202e}']) || text.contains("\nwarning SCH-999");
    for arguments in
        [&["schema-lint", "-"][..], &["schema-lint", "-", "--matrix"], &["schema-lint", "-", "--fix"]]
    {
        let (_, out, err) = run(arguments, catalog);
        assert!(!leaks(&out) && !leaks(&err), "{arguments:?}: {out:?} {err:?}");
        assert!(arguments.contains(&"--fix") || out.contains("a\u{fffd}[31m\u{fffd}warning"), "{out:?}");
    }
    let schema = folder("steers").join("schema.json");
    std::fs::write(&schema, r#"{"additionalProperties":false}"#).unwrap();
    let (code, out, _) = run(&["validate", schema.to_str().unwrap()], r#"{"a\u001b[31m\nvalid":1}"#);
    assert_eq!((code, out.lines().count()), (1, 1), "{out:?}");
    assert!(!out.contains('\u{1b}'), "{out:?}");
}

#[test]
fn validate_exits_with_the_verdict() {
    let folder = folder("validate");
    let schema = folder.join("schema.json");
    fs::write(&schema, r#"{"type":"object","properties":{"d":{"type":"string","format":"date"},"n":{"maximum":3}},"required":["d"]}"#).unwrap();
    let schema = schema.to_str().unwrap();
    let (code, out, _) = run(&["validate", schema], r#"{"d":"x"}"#);
    assert_eq!((code, out.as_str()), (0, "valid\n"));
    let (code, out, _) = run(&["validate", schema, "-", "--format-assert", "--json"], r#"{"d":"x"}"#);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &answer["valid"], &answer["path"], &answer["keyword"]),
        (1, &false.into(), &"/d".into(), &"format".into())
    );
    let (code, out, _) = run(&["validate", schema, "--all", "--json"], r#"{"n":4}"#);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, answer["errors"].as_array().unwrap().len()), (1, 2));
    let (code, out, _) = run(&["validate", schema, "--all"], r#"{"n":4}"#);
    assert_eq!((code, out.lines().count()), (1, 2));
    let (code, _, err) = run(&["validate", schema], "{");
    assert!(code == 2 && err.contains("byte 1"), "{err}");
    let bad = folder.join("bad.json");
    fs::write(&bad, r#"{"properties":{"a":{"type":"strin"}}}"#).unwrap();
    let (code, _, err) = run(&["validate", bad.to_str().unwrap()], "1");
    assert!(code == 2 && err.contains("/properties/a/type"), "{err}");
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let input = concat!(
        r#"{"schema":{"type":"integer"},"value":1.0}"#,
        "\n",
        r#"{"schema":{"type":"integer"},"value":"x"}"#,
        "\n",
        "\n",
        r#"{"schema":{"type":"strin"},"value":1}"#,
        "\n",
        r#"{"schema":false,"value":1}"#
    );
    let (code, out, _) = run(&["validate", "--batch", "-"], input);
    let lines: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, lines.len()), (2, 5));
    assert_eq!(out.lines().next(), Some(r#"{"valid":true}"#));
    assert_eq!((&lines[1]["valid"], &lines[1]["keyword"]), (&false.into(), &"type".into()));
    assert!(lines[2]["error"].is_string() && lines[3]["error"].is_string());
    assert_eq!(lines[4]["valid"], false);
    let deep = format!(r#"{{"schema":{{}},"value":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(run(&["validate", "--batch", "-"], &deep).1, "{\"valid\":true}\n");
    assert_eq!(run(&["validate", "--batch", "-"], "").0, 0);
}

#[test]
fn a_batch_writes_results_before_it_reads_more() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
        .args(["validate", "--batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..3 {
        writeln!(stdin, r#"{{"schema":true,"value":1}}"#).unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), r#"{"valid":true}"#);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// A server of a few lines of shell: its only tool has this input schema.
#[cfg(unix)]
fn server(schema: &str) -> String {
    let say = |result: &str| format!(r#"printf '%s\n' '{{"jsonrpc":"2.0","id":'"$id"',{result}}}'"#);
    let greeting = say(
        r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}"#,
    );
    let list =
        say(&format!(r#""result":{{"tools":[{{"name":"t","description":"d","inputSchema":{schema}}}]}}"#));
    let unknown = say(r#""error":{"code":-32601,"message":"unknown"}"#);
    format!(
        r#"while read -r line; do
id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
case $line in
*'"initialize"'*) {greeting};;
*'"tools/list"'*) {list};;
*'"notifications/'*) ;;
*) {unknown};;
esac
done"#
    )
}

#[test]
fn findings_are_reported_to_other_programs() {
    let file = folder("reports").join("tools.json");
    fs::write(&file, LOOSE).unwrap();
    let path = file.to_str().unwrap();
    let (code, out, err) = run(&["schema-lint", path, "--rules", "SCH-001", "--format", "github"], "");
    let start = format!("::warning file={path},title=SCH-001 t::/inputSchema: ");
    assert!(code == 1 && out.starts_with(&start) && out.lines().count() == 1, "{out}{err}");
    let (code, out, _) = run(&["schema-lint", "-", "--rules", "SCH-001", "--format", "sarif"], LOOSE);
    let log: serde_json::Value = serde_json::from_str(&out).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!((code, log["version"].as_str()), (1, Some("2.1.0")));
    assert_eq!((result["ruleId"].as_str(), result["level"].as_str()), (Some("SCH-001"), Some("warning")));
    assert_eq!(result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], "t/inputSchema");
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "SCH-001"), "{rules:?}");
    for (most, status) in [("0", 1), ("1", 0)] {
        let args = ["schema-lint", "-", "--rules", "SCH-001", "--max-warnings", most];
        assert_eq!(run(&args, LOOSE).0, status);
    }
    // Critical findings always set the exit status.
    assert_eq!(run(&["schema-lint", "-", "--rules", "SCH-003", "--max-warnings", "9"], LOOSE).0, 1);
}

#[test]
fn rules_are_explained() {
    let (code, out, _) = run(&["explain", "sch-003"], "");
    assert!(code == 0 && out.starts_with("SCH-003 (critical; sets: recommended, default, all)\n"), "{out}");
    for (args, word) in [
        (&["explain"][..], "--list"),
        (&["explain", "SCH-03"], "did you mean SCH-003?"),
        (&["schema-lint", "-", "--format", "xml"], "github or sarif"),
        (&["schema-lint", "-", "--format", "sarif", "--json"], "cannot be combined"),
        (&["schema-lint", "-", "--max-warnings", "x"], "number"),
    ] {
        let (code, out, err) = run(args, CLEAN);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
}

#[test]
#[cfg(unix)]
fn tools_of_a_server_that_is_started_are_linted() {
    let clean = server(r#"{"type":"object","additionalProperties":false}"#);
    let (code, out, err) = run(&["schema-lint", "--", "/bin/sh", "-c", &clean], "");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "1 tools, 0 criticals, 0 warnings\n", ""));
    let loose = server(r#"{"type":"object","properties":{"a":{}}}"#);
    let (code, out, _) = run(&["schema-lint", "--rules", "SCH-003", "--", "/bin/sh", "-c", &loose], "");
    assert_eq!((code, out.lines().count()), (1, 3), "{out}");
    assert!(out.contains("\n  critical SCH-003 /inputSchema/properties/a: "), "{out}");
    let (code, out, err) = run(&["schema-lint", "--fix", "--", "/bin/sh", "-c", &loose], "");
    let fixed = r#"{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}}]}"#;
    assert_eq!((code, out.trim_end(), err.as_str()), (0, fixed, ""));
}

#[test]
#[cfg(unix)]
fn the_exit_status_distinguishes_an_unreachable_server_from_wrong_usage() {
    for (status, args) in [
        (4, &["schema-lint", "--", "/no/such/program"][..]),
        (4, &["schema-lint", "--", "/bin/sh", "-c", "exit 3"]),
        (2, &["schema-lint", "--"]),
        (2, &["schema-lint", "--fix", "--write", "--", "/bin/sh"]),
        (2, &["schema-lint", "-", "--", "/bin/sh"]),
        (4, &["schema-lint", "--url", "http://127.0.0.1:1/mcp"]),
        (2, &["schema-lint", "--url", "ftp://nonsense"]),
    ] {
        let (code, out, err) = run(args, "");
        assert_eq!((code, out.as_str()), (status, ""), "{args:?}: {err}");
        assert!(err.starts_with("tinymcp: "), "{args:?}: {err}");
    }
}
