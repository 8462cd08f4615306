//! Tests of the reader: one complete file, and tables of invalid ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::definition::{Definition, Grants, Mode, Output, SandboxPolicy, Stdin};
use super::{Problem, definition};

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tinymcp-read-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        Folder(folder)
    }

    fn read(&self, names: &[&str]) -> Result<Definition, Vec<String>> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.0.join(name)).collect();
        let prefix = format!("{}/", self.0.display());
        definition(&paths).map_err(|problems| {
            problems.iter().map(|p: &Problem| p.to_string().replace(&prefix, "")).collect()
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn problems(text: &str) -> Vec<String> {
    Folder::new(&[("f.json", text)]).read(&["f.json"]).err().unwrap_or_default()
}

/// A file with one tool `t` that has these members.
fn tool(members: &str) -> String {
    format!("{{\"tools\": {{\"t\": {{{members}}}}}}}")
}

#[test]
fn a_complete_file_is_read() {
    let folder = Folder::new(&[(
        "garden.json",
        r#"{
            "$schema": "x", "server": {"version": "2", "instructions": "i"}, "sandbox": "required",
            "tools": {
                "soil": {
                    "description": "d", "title": "T",
                    "input": {"bed": "integer 1..8 = 4", "note?": "string", "tags": "string[]"},
                    "run": ["./bin/soil", "--bed", "{bed}", "--note={?note}", "--", "{tags...}"],
                    "stdin": "{bed} {?note}", "env": {"A": "$${x} {y}"}, "cwd": "sub", "timeout": 0.5,
                    "output": "json", "outputSchema": {"type": "object"}, "outputLimit": 100,
                    "rest": "link", "confirm": "Bed {bed}?", "concurrency": 2,
                    "sandbox": {"read": ["system", "."], "write": ["/tmp/x"], "net": true},
                    "readOnly": false, "destructive": true, "idempotent": true, "openWorld": false
                },
                "worker": {"worker": ["lua", "w.lua"]}
            },
            "resources": {
                "status://soil": {"file": "soil.json", "watch": true},
                "docs://manual/": {"folder": "/docs", "name": "n"}
            },
            "resourceTemplates": {"log://{day}": {"file": "log/{day}.log"}},
            "prompts": {"diagnose": {"file": "d.md", "arguments": ["topic", "note?", {"name": "x"}]}}
        }"#,
    )]);
    let read = folder.read(&["garden.json"]).unwrap();
    let root = folder.0.clone();
    assert_eq!((read.server.name.as_str(), read.server.version.as_str()), ("garden", "2"));
    assert_eq!(read.sandbox, SandboxPolicy::Required);
    assert_eq!(read.sources, [root.join("garden.json")]);
    let [soil, worker] = read.tools.as_slice() else { panic!("{read:?}") };
    assert_eq!(soil.program.argv.program(), root.join("bin/soil").to_str().unwrap());
    assert_eq!(soil.program.cwd, root.join("sub"));
    assert_eq!(soil.program.env, [("A".to_owned(), "${x} {y}".to_owned())]);
    let grants =
        Grants { read: vec!["system".into(), root.clone()], write: vec!["/tmp/x".into()], net: true };
    assert_eq!(soil.program.sandbox.as_ref(), Some(&grants));
    assert_eq!((soil.timeout, soil.concurrency), (Duration::from_millis(500), 2));
    assert_eq!((soil.output_limit, soil.link_rest), (100, true));
    assert!(matches!(&soil.mode, Mode::PerCall { stdin: Stdin::Text(_), output: Output::Json }));
    assert_eq!(soil.defaults.len(), 1);
    assert_eq!(
        soil.tool.input_schema.as_ref().unwrap().as_str(),
        r#"{"type":"object","properties":{"bed":{"type":"integer","minimum":1,"maximum":8,"default":4},"note":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}},"required":["tags"],"additionalProperties":false}"#
    );
    assert_eq!(soil.source.place.line, 4);
    assert!(matches!(worker.mode, Mode::Worker));
    assert_eq!((worker.timeout, worker.concurrency), (Duration::from_secs(30), 4));
    assert_eq!(worker.program.cwd, root);
    assert_eq!(read.resources.iter().map(|r| r.resource.name.as_str()).collect::<Vec<_>>(), ["soil", "n"]);
    assert!(read.resources[0].watch && read.resources[1].is_folder);
    assert_eq!(read.templates[0].file.leading_literal(), format!("{}/log/", root.display()));
    let required: Vec<bool> = read.prompts[0].prompt.arguments.iter().map(|a| a.required).collect();
    assert_eq!(required, [true, false, false]);
}

#[test]
fn every_problem_is_reported_at_its_line() {
    let text = "{\n\
        \"tools\": {\n\
        \"a\": {\"descripton\": \"\", \"run\": [\"x\"]},\n\
        \"b b\": {\"run\": [\"x\", \"{nope}\"],\n\
        \"timeout\": 0},\n\
        \"c\": {}},\n\
        \"tols\": 1,\n\
        \"tools\": {}}";
    let found = problems(&text.replacen("\"tools\": {}", "\"prompts\": {\"p\": {}}", 1));
    assert_eq!(
        found,
        [
            "f.json:3: /tools/a/descripton: unknown member \"descripton\"; did you mean \"description\"?",
            "f.json:4: /tools/b b: invalid tool name \"b b\": allowed are 1 to 128 characters of A-Z a-z 0-9 _ . -",
            "f.json:4: /tools/b b/run/1: unknown placeholder `{nope}`: there are no arguments; \
             write `{{nope}}` for literal braces",
            "f.json:5: /tools/b b/timeout: expected a number of seconds above 0, at most 3600, got 0",
            "f.json:6: /tools/c: missing member `run`, the command line, such as [\"/usr/bin/df\", \"-h\"]",
            "f.json:7: /tols: unknown member \"tols\"; did you mean \"tools\"?",
            "f.json:8: /prompts/p: missing member `file`, the path of the text",
        ]
    );
    let found = problems(&text.replace("tols", "sandbox"));
    assert_eq!(
        found[found.len() - 2..],
        [
            "f.json:7: /sandbox: expected \"available\" or \"required\", got 1",
            "f.json:8: /tools: the object has this member twice, first in line 2"
        ]
    );
}

#[test]
fn invalid_tools_are_explained() {
    for (members, expected) in [
        (
            r#""run": "df -h /""#,
            r#"/run: expected an array with one text for each argument, such as ["df", "-h", "/"], got "df -h /""#,
        ),
        (r#""run": []"#, "/run: expected an array of strings"),
        (r#""run": ["df", 1]"#, "/run/1: expected a string, got 1"),
        (r#""run": ["df -h"]"#, r#"write one text for each argument: ["df", "-h"]"#),
        (r#""run": ["ls -l /tmp"]"#, r#"/run/0: the program "ls -l /tmp" has a space: write one text"#),
        (r#""run": ["~/x"]"#, "`~` and `$` are not expanded"),
        (r#""run": ["$HOME/x"]"#, "/run/0: \"$HOME/x\": `~` and `$` are not expanded; write the path itself"),
        (r#""run": ["x"], "cwd": "~root/x""#, "/cwd: \"~root/x\": `~` and"),
        (r#""run": ["x"], "args": ["-h"]"#, "did you mean \"run\"?"),
        (r#""run": ["x"], "args": {"a": "string"}"#, "did you mean \"input\"?"),
        (r#""run": ["x"], "arguments": {}"#, "did you mean \"input\"?"),
        (r#""run": ["{x}"]"#, "/run/0: unknown placeholder"),
        (r#""run": ["x"], "worker": ["x"]"#, "both `run` and `worker`"),
        (r#""worker": ["x", "{a}"], "input": {"a": "string"}"#, "/worker/1: a worker gets the arguments"),
        (r#""worker": ["x"], "output": "text""#, "/output: only tools with `run`"),
        (
            r#""run": ["x", "{bad}"], "input": {"bed": "string"}"#,
            "/run/1: unknown placeholder `{bad}`: did you mean `{bed}`?",
        ),
        (r#""run": ["x", "{a}"], "input": {"a?": "string"}"#, "write `{?a}`"),
        (
            r#""run": ["sh", "-c", "echo {a}"], "input": {"a": "string"}"#,
            "/run/2: placeholder inside a script",
        ),
        (r#""run": ["x"], "shell": "x""#, "no shell runs by itself"),
        (r#""command": "x""#, "did you mean \"run\"?"),
        (r#""run": ["x"], "readonly": true"#, "did you mean \"readOnly\"?"),
        (r#""run": ["x"], "zzzzzzzz": true"#, "accepted are description, title"),
        (r#""run": ["x"], "readOnly": 1"#, "expected true or false, got 1"),
        (r#""run": ["x"], "readOnly": true, "destructive": true"#, "both `readOnly` and `destructive`"),
        (r#""run": ["x"], "stdin": "jsn""#, "expected \"none\", \"json\" or a text with an argument"),
        (r#""run": ["x"], "output": "txt""#, "got \"txt\"; did you mean \"text\"?"),
        (r#""run": ["x"], "outputSchema": {}"#, "`outputSchema` requires \"output\": \"json\""),
        (
            r#""run": ["x"], "output": "json", "outputSchema": {"type": 1}"#,
            "/outputSchema/type: invalid JSON Schema",
        ),
        (
            r#""run": ["x"], "output": "json", "outputSchema": {"files": "string[]"}"#,
            "/outputSchema: missing `type`: a JSON Schema is expected",
        ),
        (r#""run": ["x"], "timeout": 3601"#, "at most 3600, got 3601"),
        (r#""run": ["x"], "concurrency": 65"#, "an integer from 1 to 64, got 65"),
        (r#""run": ["x"], "outputLimit": 0"#, "/outputLimit: expected an integer"),
        (r#""run": ["x"], "rest": "drop""#, "expected \"cut\" or \"link\""),
        (
            r#""run": ["x"], "env": {"A": "${TINYMCP_NO_SUCH}"}"#,
            "/env/A: the variable ${TINYMCP_NO_SUCH} is not set",
        ),
        (r#""run": ["x"], "env": {"A=": ""}"#, "invalid name of a variable"),
        (
            r#""run": ["x"], "env": {"A": "{a}"}, "input": {"a": "string"}"#,
            "arguments are not inserted into variables",
        ),
        (r#""run": ["x"], "cwd": """#, "/cwd: empty path"),
        (r#""run": ["x"], "confirm": "{b}""#, "/confirm: unknown placeholder"),
        (r#""run": ["x"], "sandbox": {"read": "/"}"#, "/sandbox/read: expected an array of paths"),
        (r#""run": ["x"], "sandbox": {"write": ["system"]}"#, "\"system\" is a word of `read`"),
        (
            r#""run": ["x"], "sandbox": true"#,
            "an object such as {\"read\": [\"system\"], \"net\": false}, got true",
        ),
        (
            r#""run": ["x"], "confirm": true"#,
            "/confirm: expected a text such as \"Open valve {bed}?\", got true",
        ),
        (
            r#""run": ["x", "{?w:a}"], "confirm": "{?w:a}", "input": {"w?": "boolean"}"#,
            "in command lines only",
        ),
        (
            r#""run": ["x", "{a}"], "input": {"type": "object", "properties": {"a": {"type": "string"}}, "require": ["a"]}"#,
            "/input/require: unknown keyword \"require\"; did you mean \"required\"?",
        ),
        (
            r#""run": ["awk", "{print $1}"], "input": {"a": "string"}"#,
            "/run/1: unknown placeholder `{print $1}`: expected one of `{a}`; write `{{print $1}}` for literal braces",
        ),
        (
            r#""run": ["sh", "-c", "echo ${HOME}"]"#,
            "there are no arguments; write `{{HOME}}` for literal braces",
        ),
        (
            r#""run": ["awk", "/{a}/"], "input": {"a": "string"}"#,
            "/run/1: placeholder inside a program of awk",
        ),
        (
            r#""run": ["sed", "-e", "s/{a}//"], "input": {"a": "string"}"#,
            "/run/2: placeholder inside a script of sed",
        ),
        (r#""run": ["x"], "sandbox": {"reads": []}"#, "did you mean \"read\"?"),
        (
            r#""run": ["x"], "input": {"a": "int"}"#,
            "/input/a: unknown type \"int\"; did you mean \"integer\"?",
        ),
        (
            r#""run": ["x"], "input": {"a": true}"#,
            "/input/a: expected a text such as \"integer 1..8\" or a JSON Schema (if `input` is one itself, add \
             \"type\": \"object\"), got true",
        ),
        (r#""run": ["x"], "input": {"properties": {"a": {}}}"#, "add \"type\": \"object\"), got an object"),
        (
            r#""run": ["x"], "input": {"b": "string", "a?": {"items": {"type": "strin"}}}"#,
            "/input/a?/items/type: invalid JSON Schema: ",
        ),
        (
            r##""run": ["x"], "input": {"a": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}"##,
            "/input/a/$ref: invalid",
        ),
        (
            r#""run": ["x"], "input": {"a": {"type": "integer", "default": "x"}}"#,
            "/input/a: invalid default: ",
        ),
        (r#""run": ["x"], "input": {"a b": "string"}"#, "invalid argument name \"a b\""),
        (r#""run": ["x"], "input": {"a": "string", "a?": "string"}"#, "with and without `?`"),
        (r#""run": ["x"], "input": {"a": "integer 1..2 = 3"}"#, "/input/a: invalid default: "),
        (
            r#""run": ["x"], "input": {"type": "object", "properties": {"a": {"type": "strin"}}}"#,
            "/input/properties/a/type: invalid JSON Schema",
        ),
        (
            r#""run": ["x"], "input": {"type": "object", "properties": {"a": {"type": "string", "default": 1}}}"#,
            "/input/properties/a: invalid default",
        ),
        (r#""run": ["x\u0000"]"#, "NUL"),
    ] {
        let found = problems(&tool(members));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{members}: {found:?}");
    }
}

#[test]
fn a_problem_of_the_input_hides_those_of_its_placeholders() {
    for input in [
        r#"{"n": "integr"}"#,
        r#"{"type": "object", "properties": {"n": {"type": "string"}}, "require": ["n"]}"#,
        "[]",
    ] {
        let found = problems(&tool(&format!(
            r#""run": ["x", "{{n}}", "{{?m}}"], "confirm": "{{n}}?", "input": {input}"#
        )));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

#[test]
fn invalid_entries_are_explained() {
    for (text, expected) in [
        (r#"{"resources": {"soil": {"file": "x"}}}"#, "invalid URI \"soil\""),
        (r#"{"resources": {"a://b": {}}}"#, "missing member `file` or `folder`"),
        (r#"{"resources": {"a://b": {"file": "x", "folder": "y"}}}"#, "both `file` and `folder`"),
        (r#"{"resources": {"a://b": {"file": "x", "mimeType": "text"}}}"#, "expected a media type"),
        (r#"{"resources": {"a://{b}": {"file": "x"}}}"#, "'{' at byte 4 must be percent-encoded"),
        (r#"{"resourceTemplates": {"a://{b": {"file": "x"}}}"#, "'{' without '}'"),
        (r#"{"resourceTemplates": {"a://b": {"file": "x"}}}"#, "no {variable}"),
        (r#"{"resourceTemplates": {"a://{b}{c}": {"file": "{b}/{c}"}}}"#, "a://{b}{c}"),
        (r#"{"resourceTemplates": {"a://{b}": {"file": "x/{c}"}}}"#, "did you mean `{b}`?"),
        (r#"{"resourceTemplates": {"a://{b}": {"file": "x"}}}"#, "does not use the variable {b}"),
        (r#"{"resourceTemplates": {"a://{b}": {"file": "{b}/../x"}}}"#, "`..`"),
        (r#"{"resourceTemplates": {"a://{b}": {"file": "x/{?b}"}}}"#, "without `?`"),
        (r#"{"resourceTemplates": {"a://{b}": {}}}"#, "missing member `file`"),
        (
            r#"{"prompts": {"p": {"file": "x", "arguments": ["a", "a"]}}}"#,
            "/prompts/p/arguments/1: the argument \"a\"",
        ),
        (r#"{"prompts": {"p": {"file": "x", "arguments": {"a": 1}}}}"#, "expected an array"),
        (r#"{"prompts": {"p": {"file": "x", "arguments": [{"name": "a?"}]}}}"#, "remove `?`"),
        (r#"{"prompts": {"p": {"file": "x", "arguments": [{}]}}}"#, "missing member `name`"),
        (r#"{"server": {"name": ""}}"#, "the name must not be empty"),
        (
            r#"{"tools": []}"#,
            "f.json:1: /tools: expected an object such as {\"disk_usage\": {\"run\": [\"df\", \"-h\"]}}, got an array",
        ),
        (
            r#"{"mcpServers": {}}"#,
            "/mcpServers: this is the configuration of a host; expected members are server,",
        ),
        (r#"{"server": "x"}"#, "expected an object such as {\"name\": \"my-machine\"}, got \"x\""),
        (
            r#"{"resources": {"c://d/~": {"file": "x", "fil": ""}}}"#,
            "f.json:1: /resources/c://d/~/fil: unknown",
        ),
        ("[]", "f.json:1: expected an object, got an array"),
        ("{\n\"tools\" 1}", "f.json:2: invalid JSON at column 9: expected `:`"),
        (
            "{\n\n  'a': 1}",
            "f.json:3: invalid JSON at column 3: expected a member name; names are in double quotes",
        ),
        ("", "f.json:1: invalid JSON at column 1"),
        ("# x\n{}", "; comments are // …"),
        ("{# x\n}", "; comments are // …"),
        ("{\"tools\": True}", "; true, false and null are in small letters"),
        ("{“tools”: {}}", "; write straight quotes"),
        ("{\"tools\": “x”}", "; write straight quotes"),
        ("{\"server\": \"x\n\"}", "; close the text with \", or write a line break as \\n"),
        ("{ // \"\n\"tools\": {}, /* \n */ \"tols\": 1,}", "f.json:3: /tols: unknown member"),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{text}: {found:?}");
    }
}

#[test]
fn a_misspelt_run_is_one_problem() {
    let found = problems(&tool(r#""rn": ["x"]"#));
    assert_eq!(found, ["f.json:1: /tools/t/rn: unknown member \"rn\"; did you mean \"run\"?"]);
    let found = problems(&tool(r#""run": ["awk", "{print $1}", "{if}"]"#));
    assert!(found.len() == 2 && found.iter().all(|line| line.contains("for literal braces")), "{found:?}");
}

#[test]
fn files_are_merged() {
    let folder = Folder::new(&[
        ("a.json", r#"{"tools": {"a": {"run": ["x"]}}}"#),
        ("b.json", "{\"server\": {\"name\": \"s\"},\n\"tools\": {\"b\": {\"run\": [\"x\"]}}}"),
        (".c.json", "{"),
        ("d.txt", "{"),
        ("e.jsn", "{\"server\": {},\n\"tools\": {\"b\": {\"run\": [\"x\"]}}}"),
    ]);
    let read = folder.read(&["", "a.json"]).unwrap();
    assert_eq!(read.tools.iter().map(|t| t.tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read.server.name, "s");
    assert!(read.sources.contains(&folder.0.join("b.json")) && read.sources.contains(&folder.0.join("")));
    assert_eq!(
        folder.read(&["b.json", "e.jsn"]).unwrap_err(),
        [
            "e.jsn:1: /server: `server` is also in b.json:1; keep one of them",
            "e.jsn:2: /tools/b: \"b\" is also defined in b.json:2; rename one of them"
        ]
    );
    let missing = folder.read(&["none.json"]).unwrap_err();
    assert!(missing == ["none.json:1: does not exist"], "{missing:?}");
}

#[test]
fn empty_folders_and_special_files_are_rejected() {
    let folder = Folder::new(&[]);
    let empty = folder.read(&[""]).unwrap_err();
    assert!(empty[0].contains(": the folder has no *.json file") && !empty[0].contains(":1"), "{empty:?}");
    let null = definition(&[Path::new("/dev/null").to_path_buf()]).unwrap_err();
    assert_eq!(null[0].message, "not a regular file");
}

#[test]
fn damaged_files_give_problems_inside_the_file() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/serve/git.json");
    let whole = fs::read(example).unwrap();
    let pieces: [&[u8]; 8] = [b"{", b"}", b"\"", b"{?", b"...", b"[]", b" = ", b"\xc3"];
    let folder = Folder::new(&[]);
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut invalid = 0;
    for _ in 0..1000 {
        let mut text = whole.clone();
        for _ in 0..=random(3) {
            let at = random(text.len() - 20);
            let end = at + random(20);
            text.splice(at..end, pieces[random(pieces.len())].iter().copied());
        }
        let path = folder.0.join("f.json");
        fs::write(&path, &text).unwrap();
        let lines = text.split(|b| *b == b'\n').count();
        for problem in definition(&[path]).err().unwrap_or_default() {
            assert!((1..=lines).contains(&problem.place.line), "{problem}");
            invalid += 1;
        }
    }
    assert!(invalid > 500, "{invalid}");
}
