//! Tests of `--check`, and of the schema of the files against the reader.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tinymcp::json::{Doc, without_comments};
use tinymcp::schema::Schema;

use super::super::read;
use super::{FILE_SCHEMA, check};

/// A folder with the file `f.json`, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, text: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("tinymcp-check-{}-{number}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("f.json"), text).unwrap();
        Folder(folder)
    }

    fn warnings(&self) -> Vec<String> {
        let definition = read::definition(&[self.0.join("f.json")]).unwrap();
        let prefix = format!("{}/", self.0.display());
        check(&definition).iter().map(|warning| warning.to_string().replace(&prefix, "")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file with one tool that has these members.
fn tool(members: &str) -> String {
    format!("{{\"tools\": {{\"t\": {{\"description\": \"Does something\", {members}}}}}}}")
}

#[test]
fn files_without_problems_have_no_warnings() {
    let text = r#"{
        "tools": {
            "a": {"description": "First tool", "run": ["./script", "{x}"], "input": {"x": "a|b - text"},
                  "sandbox": {"read": ["system", "."], "net": true}},
            "b": {"description": "Second tool", "run": ["sh", "-c", "echo \"$1\"", "sh", "{x}"], "input": {"x": "string - text"}}
        },
        "resources": {"a://file": {"file": "f.json"}, "a://folder/": {"folder": "."}},
        "resourceTemplates": {"b://{x}": {"file": "{x}.json"}},
        "prompts": {"p": {"file": "prompt.md", "arguments": ["x"]}}
    }"#;
    let folder = Folder::new("clean", text);
    let script = folder.0.join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.0.join("prompt.md"), "About {x}").unwrap();
    let mut warnings = folder.warnings();
    // Depends on the kernel.
    warnings.retain(|warning| !warning.contains("is not restricted"));
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn warnings_name_the_cure() {
    for (members, expected) in [
        (r#""run": ["tinymcp-no-such-program"]"#, "\"tinymcp-no-such-program\" is not in PATH: install it"),
        (r#""run": ["./missing"]"#, "program missing: does not exist"),
        (r#""run": ["./f.json"]"#, "program f.json: not executable: run chmod +x f.json"),
        (r#""run": ["./."]"#, "not a regular file"),
        (
            r#""run": ["cat", "{x}"], "input": {"x": "string"}"#,
            "argument 1 of the command line begins with {x}",
        ),
        (r#""run": ["cat", "{x...}"], "input": {"x": "string[]"}"#, "begins with {x...}"),
        (r#""run": ["cat", "{x}"], "input": {"x": "integer -5..5"}"#, "begins with {x}"),
        (r#""run": ["cat", "{x}"], "input": {"x": "string 20..30"}"#, "begins with {x}"),
        (r#""run": ["sh", "{x}", "-c", "y"], "input": {"x": "string"}"#, "argument 1 of the command line"),
        (r#""run": ["cat"], "cwd": "/no/such/folder""#, "cwd /no/such/folder: not a folder"),
        (
            r#""run": ["cat"], "sandbox": {"read": ["system", "/no/such"]}"#,
            "sandbox: /no/such does not exist",
        ),
        (r#""run": ["cat"], "sandbox": {}"#, "/cat: add \"system\" to `read`"),
        (r#""run": ["python3", "none.py"]"#, "script none.py: does not exist"),
        (
            r#""run": ["env", "bash", "none.sh", "{x}"], "input": {"x": "a|b"}"#,
            "script none.sh: does not exist",
        ),
        (r#""worker": ["python3", "none.py"]"#, "script none.py: does not exist"),
        (r#""run": ["./ls -l"]"#, "program ls -l: does not exist; write one text for each argument"),
        (r#""run": ["cat"], "description": """#, "missing `description`"),
    ] {
        let text = tool(members).replacen(
            "\"description\": \"Does something\", ",
            "",
            usize::from(members.contains("description")),
        );
        let warnings = Folder::new("warn", &text).warnings();
        assert!(
            warnings.iter().any(|w| w.starts_with("f.json:1: /tools/t: ") && w.contains(expected)),
            "{members}: {warnings:?}"
        );
    }
}

#[test]
fn scripts_outside_of_the_sandbox_are_reported() {
    let sandbox = r#""sandbox": {"read": ["system", "in"]}"#;
    for (members, expected) in [
        (r#""run": ["./out/x.sh"]"#, "out/x.sh"),
        (r#""worker": ["/bin/sh", "./out/y.sh"]"#, "out/y.sh"),
        (r#""run": ["./in/x.sh"]"#, ""),
        (r#""run": ["/bin/sh", "in/x.sh"]"#, ""),
    ] {
        let folder = Folder::new("outside", &tool(&format!("{members}, {sandbox}")));
        for name in ["out/x.sh", "out/y.sh", "in/x.sh"] {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/usr/bin/env sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut found = folder.warnings();
        found.retain(|warning| warning.contains("does not allow reading"));
        let expected = match expected {
            "" => Vec::new(),
            path => vec![format!(
                "f.json:1: /tools/t: the sandbox does not allow reading {path}: add \"{path}\" to `read`"
            )],
        };
        assert_eq!(found, expected, "{members}");
    }
}

#[test]
fn interpreters_of_scripts_are_searched() {
    for (line, expected) in [
        ("#!/usr/bin/env tinymcp-none", "its interpreter \"tinymcp-none\" does not exist"),
        ("#!/usr/bin/env -S tinymcp-none -u", "its interpreter \"tinymcp-none\" does not exist"),
        ("#!/none/env sh", "its interpreter \"/none/env\" does not exist"),
        ("#!/usr/bin/env sh", ""),
        ("#!/bin/sh -e", ""),
    ] {
        let folder = Folder::new("interpreter", &tool(r#""run": ["./x"]"#));
        let path = folder.0.join("x");
        fs::write(&path, line).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut found = folder.warnings();
        found.retain(|warning| warning.contains("program x"));
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{line}: {found:?}");
        assert!(found.iter().all(|warning| warning.contains(expected)), "{line}: {found:?}");
    }
}

#[test]
fn dashes_before_the_values_of_a_shell_script_are_reported() {
    for (run, script, reported) in [
        (r#"["./x", "--", "{x}"]"#, "#!/bin/sh\necho \"$1\"\n", true),
        (r#"["./x", "--", "{x}"]"#, "#!/usr/bin/env bash\necho \"$1\"\n", true),
        (r#"["sh", "./x", "--", "{x}"]"#, "echo \"$1\"\n", true),
        (r#"["./x", "{x}"]"#, "#!/bin/sh\necho \"$1\"\n", false),
        (r#"["./x", "--", "{x}"]"#, "#!/bin/sh\nwhile getopts a o; do :; done\n", false),
        (r#"["./x", "--", "{x}"]"#, "#!/bin/sh\n[ \"$1\" != -- ] || shift\n", false),
        (r#"["./x", "--", "{x}"]"#, "#!/usr/bin/env python3\nprint(1)\n", false),
        (r#"["python3", "./x", "--", "{x}"]"#, "print(1)\n", false),
        (r#"["rm", "--", "{x}"]"#, "#!/bin/sh\n", false),
    ] {
        let text = tool(&format!("\"run\": {run}, \"input\": {{\"x\": \"string\"}}"));
        let folder = Folder::new("dashes", &text);
        let path = folder.0.join("x");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let found = folder.warnings();
        let is_reported = found.iter().any(|warning| warning.contains("the script gets `--`"));
        assert_eq!(is_reported, reported, "{run} {script:?}: {found:?}");
    }
}

#[test]
fn arguments_that_a_prompt_does_not_use_are_reported() {
    let text = r#"{"prompts": {"p": {"file": "prompt.md", "arguments": ["x", "y", "z"]}}}"#;
    let folder = Folder::new("prompt", text);
    fs::write(folder.0.join("prompt.md"), "About {x} and {?z}, not {{y}}").unwrap();
    let expected =
        "f.json:1: /prompts/p: prompt.md: the argument `y` is not used: write {y}, or remove it".to_owned();
    assert_eq!(folder.warnings(), [expected]);
}

#[test]
fn a_file_that_serves_nothing_is_reported() {
    let found = Folder::new("nothing", "{}").warnings();
    assert_eq!(found, ["f.json: nothing is served: add `tools`, `resources`, `prompts` or `skills`"]);
    let found =
        Folder::new("something", r#"{"resourceTemplates": {"b://{x}": {"file": "{x}.json"}}}"#).warnings();
    assert_eq!(found, [""; 0]);
}

#[test]
fn grants_to_replace_what_runs_elsewhere_are_reported() {
    let text = r#"{
        "tools": {
            "a": {"description": "Has a program", "run": ["./bin/link"]},
            "b": {"description": "Writes", "run": ["./own/script"],
                  "sandbox": {"read": ["system"], "write": ["data", "bin", "own", "script", "."]}},
            "c": {"description": "Runs a script", "run": ["/bin/sh", "-e", "lib/c.sh", "own/input"]},
            "d": {"description": "Reads a file", "run": ["/bin/cat", "data/input"]},
            "e": {"description": "Writes", "run": ["./bin/link"], "sandbox": {"write": ["lib", "data"]}}
        }
    }"#;
    let folder = Folder::new("grants", text);
    let at = |name: &str| folder.0.join(name);
    for name in ["bin", "own", "data", "lib"] {
        fs::create_dir(at(name)).unwrap();
    }
    for name in ["lib/c.sh", "data/input"] {
        fs::write(at(name), "").unwrap();
    }
    for name in ["script", "own/script"] {
        fs::write(at(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::symlink("../script", at("bin/link")).unwrap();
    let mut warnings = folder.warnings();
    warnings.retain(|warning| warning.contains("could replace"));
    let why = "and so change what runs outside its sandbox: grant another folder";
    let expected = [
        format!(
            "4: /tools/b/sandbox/write/1: the program could replace bin/link, the program of the tool `a`, {why}"
        ),
        format!(
            "4: /tools/b/sandbox/write/3: the program could replace bin/link, the program of the tool `a`, {why}"
        ),
        format!("4: /tools/b/sandbox/write/4: the program could replace f.json, a definition file, {why}"),
        format!(
            "8: /tools/e/sandbox/write/0: the program could replace lib/c.sh, a script of the tool `c`, {why}"
        ),
    ];
    assert_eq!(warnings, expected.map(|line| format!("f.json:{line}")));
}

#[test]
fn values_that_cannot_begin_with_a_dash_give_no_warning() {
    for input in [
        r#"{"x": "integer 0..8"}"#,
        r#"{"x": "a|-b"}"#,
        r#"{"x": "boolean"}"#,
        r#"{"x": "(a|b)[]"}"#,
        r#"{"x": {"type": "string", "pattern": "^[^-]"}, "y?": "string"}"#,
        r#"{"type": "object", "properties": {"x": {"type": "string", "pattern": "^[^-]"}}, "required": ["x"]}"#,
        r#"{"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]+$", "minLength": 3}}, "required": ["x"]}"#,
    ] {
        let element = if input.contains("[]\"") { "{x...}" } else { "{x}" };
        let text = tool(&format!("\"run\": [\"cat\", \"{element}\"], \"input\": {input}"));
        let warnings = Folder::new("dash", &text).warnings();
        assert!(!warnings.iter().any(|warning| warning.contains("begins with")), "{input}: {warnings:?}");
    }
}

#[test]
fn missing_files_are_reported() {
    let text = r#"{
        "resources": {"a://x": {"file": "none"}, "a://y": {"file": "."}, "a://z/": {"folder": "f.json"}},
        "resourceTemplates": {"b://{x}": {"file": "none/{x}"}},
        "prompts": {"p": {"file": "none.md"}}
    }"#;
    let warnings = Folder::new("missing", text).warnings();
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    for expected in [
        "a folder; use `folder`",
        "not a folder; use `file`",
        "none: not a folder",
        "its file does not exist",
    ] {
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{expected}: {warnings:?}");
    }
}

#[cfg(feature = "lint")]
#[test]
fn lint_findings_have_the_line_of_their_tool() {
    let text = "{\"tools\": {\n\"t\": {\"description\": \"Does something\", \"run\": [\"cat\"],\n\
        \"input\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\", \"minLenght\": 1}}}}}}";
    let warnings = Folder::new("lint", text).warnings();
    let found = warnings.iter().any(|w| {
        w.starts_with("f.json:2: /tools/t/input/properties/x")
            && w.contains("SCH-")
            && w.contains("minLength")
    });
    assert!(found, "{warnings:?}");
    let text = tool(r#""run": ["cat"], "input": {"x?": "integer"}"#);
    let warnings = Folder::new("lint-short", &text).warnings();
    assert!(warnings.iter().any(|w| w.starts_with("f.json:1: /tools/t/input/x: SCH-026")), "{warnings:?}");
}

mod arguments;
mod usage;

/// Files that both the schema and the reader refuse.
const INVALID: &[&str] = &[
    "[]",
    r#"{"tool": {}}"#,
    r#"{"sandbox": "yes"}"#,
    r#"{"server": {"name": ""}}"#,
    r#"{"server": {"nam": "x"}}"#,
    r#"{"tools": []}"#,
    r#"{"tools": {"a b": {"run": ["x"]}}}"#,
    r#"{"tools": {"t": {}}}"#,
    r#"{"tools": {"t": {"run": "x"}}}"#,
    r#"{"tools": {"t": {"run": []}}}"#,
    r#"{"tools": {"t": {"run": [1]}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "worker": ["x"]}}}"#,
    r#"{"tools": {"t": {"worker": ["x"], "stdin": "json"}}}"#,
    r#"{"tools": {"t": {"worker": ["x"], "output": "json"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "readonly": true}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "readOnly": "yes"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "readOnly": true, "destructive": true}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "description": 1}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "stdin": "jsn"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "output": "txt"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "outputSchema": {}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "output": "json", "outputSchema": {"type": 1}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "timeout": 0}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "timeout": 3601}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "concurrency": 0}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "concurrency": 65}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "outputLimit": 0}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "rest": "drop"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "confirm": ""}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "cwd": "~/x"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "cwd": "$HOME"}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "output": "json", "outputSchema": {}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "env": {"A": 1}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "env": {"A=": "1"}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "sandbox": {"read": "x"}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "sandbox": {"write": ["system"]}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "sandbox": {"nett": true}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "input": {"a": 1}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "input": {"a": {"type": 1}}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "input": {"properties": {"a": {"type": "string"}}}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "input": {"a b": "string"}}}}"#,
    r#"{"tools": {"t": {"run": ["x"], "input": {"type": "object", "required": "a"}}}}"#,
    r#"{"resources": {"soil": {"file": "x"}}}"#,
    r#"{"resources": {"a://b": {}}}"#,
    r#"{"resources": {"a://b": {"file": "x", "folder": "y"}}}"#,
    r#"{"resources": {"a://b": {"file": ""}}}"#,
    r#"{"resources": {"a://b": {"file": "x", "mimeType": "text"}}}"#,
    r#"{"resourceTemplates": {"a://{b}": {}}}"#,
    r#"{"resourceTemplates": {"a://{b}": {"file": "x"}}}"#,
    r#"{"skills": ["skills"]}"#,
    r#"{"skills": ""}"#,
    r#"{"skills": "~/skills"}"#,
    r#"{"prompts": {"p": {}}}"#,
    r#"{"prompts": {"p": {"file": "x", "arguments": {}}}}"#,
    r#"{"prompts": {"p": {"file": "x", "arguments": ["a b"]}}}"#,
    r#"{"prompts": {"p": {"file": "x", "arguments": [{"description": "x"}]}}}"#,
];

#[test]
fn the_schema_of_the_files_agrees_with_the_reader() {
    let schema = Schema::parse(FILE_SCHEMA).unwrap();
    for text in INVALID {
        let doc = Doc::parse(text).unwrap();
        assert!(!schema.is_valid(doc.root()), "{text}");
        let folder = Folder::new("invalid", text);
        assert!(read::definition(&[folder.0.join("f.json")]).is_err(), "{text}");
    }
    let text = r##"{
        "$schema": "x", "server": {"name": "n", "version": "1"}, "sandbox": "available",
        "tools": {
            "a": {"run": ["x", "{b}"], "input": {"b": "integer 1..8", "c?": "string"}, "stdin": "{b}", "output": "image/png",
                  "env": {"A": "b"}, "cwd": ".", "timeout": 0.5, "sandbox": {"read": ["system", "."], "net": false}},
            "b": {"worker": ["x"], "outputSchema": {"type": "object"}, "confirm": "Really?", "concurrency": 1, "outputLimit": 1, "rest": "link"},
            "c": {"run": ["x"], "input": {"type": "object", "properties": {"a": true}}, "output": "json", "outputSchema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}},
            "d": {"run": ["x"], "input": {"type": "string"}}, "e": {"run": ["x"], "input": {}},
            "f": {"run": ["x"], "input": {"a": {"type": "string"}, "b?": {}, "c": "string", "type": {"enum": [1]}}}
        },
        "resources": {"a://b": {"file": "x", "watch": true}, "a:c": {"folder": "y", "mimeType": "text/plain"}},
        "resourceTemplates": {"a://{b}": {"file": "x/{b}"}},
        "prompts": {"p": {"file": "x", "arguments": ["a", "b?", {"name": "c", "required": true}]}}
    }"##;
    let doc = Doc::parse(text).unwrap();
    assert_eq!(schema.check_all(doc.root(), 10), []);
    let folder = Folder::new("valid", text);
    assert!(read::definition(&[folder.0.join("f.json")]).is_ok());
}

#[test]
fn every_member_of_the_reader_is_in_the_schema_with_a_description() {
    let doc = Doc::parse(FILE_SCHEMA).unwrap();
    let tool = doc.root().pointer("/$defs/tool/properties").unwrap();
    let names: Vec<&str> = tool.members().map(|(name, _)| name).collect();
    assert_eq!(names.join(" "), read::TOOL_MEMBERS);
    for (name, member) in tool.members() {
        assert!(member.get("description").is_some(), "{name}");
    }
}

#[test]
fn the_examples_have_no_problems_but_missing_programs() {
    let mut faults = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/serve");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let text = fs::read(&path).unwrap();
        let doc = Doc::parse(without_comments(&text)).unwrap();
        assert_eq!(Schema::parse(FILE_SCHEMA).unwrap().check_all(doc.root(), 10), []);
        if cfg!(not(feature = "skills")) && doc.root().get("skills").is_some() {
            continue;
        }
        let definition = read::definition(std::slice::from_ref(&path));
        let definition = definition.unwrap_or_else(|problems| panic!("{problems:?}"));
        // Programs and kernels differ between machines.
        let machine = ["is not in PATH", "does not exist", "sandbox: "];
        let warnings = check(&definition).into_iter();
        let warnings = warnings.filter(|w| !machine.iter().any(|part| w.message.contains(part)));
        faults.extend(warnings.map(|warning| warning.to_string()));
        #[cfg(feature = "lint")]
        {
            use tinymcp::lint::{Options, check_with};
            let tools: Vec<tinymcp::Tool> = definition.tools.iter().map(|tool| tool.tool.clone()).collect();
            let report = check_with(&tools, &Options::new().rules("all").unwrap());
            faults.extend(report.findings.iter().map(|finding| finding.to_string()));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
