//! `tinymcp serve --check`, `--schema` and `--print-config`, and the examples of the manual page.
#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tinymcp::json::{Doc, Value, Writer, without_comments};

const PAGE: &str = include_str!("../../src/manual/serve_command.md");

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tinymcp-serve-check-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// Exit status, standard output and standard error of `tinymcp serve` in the folder.
    fn serve(&self, args: &[&str]) -> (i32, String, String) {
        let program = env!("CARGO_BIN_EXE_tinymcp");
        let output = Command::new(program).arg("serve").args(args).current_dir(&self.0).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn check_ends_with_a_summary() {
    let folder = Folder::new("summary");
    folder
        .write("good.json", r#"{"resources": {"a://x": {"file": "good.json"}}, /* none */ "prompts": {},}"#);
    let good = folder.serve(&["good.json", "--check"]);
    assert_eq!(good, (0, "0 tools, 1 resource, 0 prompts: no problems\n".to_owned(), String::new()));
    folder.write("warn.json", "{\"prompts\": {\n\"p\": {\"file\": \"none.md\"}}}");
    let (status, out, _) = folder.serve(&["--check", "warn.json"]);
    assert_eq!(status, 1);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("warn.json:2: /prompts/p: "), "{out}");
    assert_eq!(lines[1..], ["0 tools, 0 resources, 1 prompt: 1 problem"]);
    folder.write("bad.json", "{\n\"tool\": {},\n\"prompts\": {\"p\\u001b[31m\": {}}}");
    let (status, out, _) = folder.serve(&["bad.json", "warn.json", "--check"]);
    assert_eq!(status, 2);
    assert!(
        out.starts_with("bad.json:2: /tool: unknown member \"tool\"; did you mean \"tools\"?\n"),
        "{out}"
    );
    assert!(
        out.ends_with("invalid: 3 problems; more checks run once these are corrected\n")
            && !out.contains('\x1b'),
        "{out}"
    );
}

#[test]
fn the_schema_is_printed() {
    let (status, out, _) = Folder::new("schema").serve(&["--schema"]);
    assert_eq!(status, 0);
    assert!(Doc::parse(&out).unwrap().root().pointer("/$defs/tool").is_some());
    // It is the file on one line: without white space, except that of texts.
    let source = include_str!("../../src/bin/tinymcp/serve/file-schema.json");
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(letters(&out), letters(source));
    assert_eq!(out.lines().count(), 1);
    assert!(out.contains(r#""title":"Definition file of tinymcp serve""#), "{out}");
}

#[test]
fn the_configuration_of_a_host_starts_the_server() {
    let folder = Folder::new("config");
    folder.write(
        "a b.json",
        r#"{"server": {"name": "my server"}, "resources": {"a://x": {"file": "a b.json"}}}"#,
    );
    let (status, out, _) = folder.serve(&["a b.json", "--print-config", "claude"]);
    assert_eq!(status, 0);
    let doc = Doc::parse(&out).unwrap();
    let server = doc.root().pointer("/mcpServers/my-server").unwrap();
    let text = |value: Value<'_>| value.as_str().unwrap().to_owned();
    let args: Vec<String> = server.get("args").unwrap().items().map(text).collect();
    assert_eq!(text(server.get("command").unwrap()), env!("CARGO_BIN_EXE_tinymcp"));
    let check = Command::new(env!("CARGO_BIN_EXE_tinymcp")).args(&args).arg("--check").output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{args:?}");
    let (status, out, _) = folder.serve(&["a b.json", "--print-config", "codex"]);
    assert_eq!((status, out.lines().next()), (0, Some("[mcp_servers.my-server]")));
    let (status, _, error) = folder.serve(&["a b.json", "--print-config", "emacs"]);
    assert!(status == 2 && error.contains("accepted are claude, vscode, codex"), "{error}");
}

/// Completes a part of a file to a valid file.
fn completed(part: Value<'_>) -> String {
    let has = |name: &str| part.get(name).is_some();
    if ["tools", "resources", "prompts", "skills"].iter().any(|member| has(member)) {
        return part.raw().to_owned();
    }
    let mut w = Writer::new();
    w.begin_object().key("tools").begin_object().key("t").begin_object();
    w.key("description").string("Does something");
    let is_tool = ["run", "env", "sandbox"].iter().any(|member| has(member));
    if is_tool {
        for (name, value) in part.members() {
            w.key(name).value(value);
        }
        let arguments = part.raw().contains("{word}") || part.raw().contains("{line}");
        let arguments = arguments && !has("input");
        if arguments {
            w.key("input").raw(
                r#"{"word?": "string = a - text to find", "line": "integer 0..27 = 1 - number of a line"}"#,
            );
        }
    } else {
        w.key("input").value(part);
    }
    if !has("run") {
        w.key("run").raw("[\"true\"]");
    }
    w.end_object().end_object().end_object();
    w.as_str().to_owned()
}

#[test]
fn the_examples_of_the_page_are_valid() {
    let folder = Folder::new("page");
    let mut blocks = 0;
    for block in PAGE.split("\n```json").skip(1) {
        let block = block.split_once('\n').unwrap().1.split("\n```").next().unwrap();
        let doc = Doc::parse(without_comments(block.as_bytes())).unwrap_or_else(|e| panic!("{e}: {block}"));
        if cfg!(not(feature = "skills")) && doc.root().get("skills").is_some() {
            continue;
        }
        folder.write("page.json", &completed(doc.root()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
        command.args(["serve", "page.json", "--check"]).env("WEATHER_KEY", "k").current_dir(&folder.0);
        let output = command.output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        // Programs and kernels differ between machines, and the files of the page do not exist.
        let machine =
            ["is not in PATH", "does not exist", "not a folder", "sandbox: ", "is not used", "/skills: "];
        let findings = out.lines().filter(|line| line.starts_with("page.json"));
        let findings: Vec<&str> = findings.filter(|line| !machine.iter().any(|m| line.contains(m))).collect();
        assert_eq!((findings, output.status.code() == Some(2)), (vec![], false), "{block}\n{out}");
        blocks += 1;
    }
    assert!(blocks >= 10, "{blocks}");
}
