//! Completion in shells, with the names of a hostile server.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::folder;

/// Names that a shell would interpret: one on each line.
const HOSTILE: &str = include_str!("../../conformance/completions/names.txt");
const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");

/// Writes a recording of a server with these names, and a configuration that starts its replay.
fn server(folder: &Path, names: &[&str]) {
    let of = |key: &str, rest: &Value| -> Vec<Value> {
        let entry = |name: &&str| {
            let mut entry = rest.clone();
            entry["name"] = json!(name);
            entry[key] = json!(name);
            entry
        };
        names.iter().map(entry).collect()
    };
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"enum": names}))).collect();
    let mut tools = of("name", &json!({"inputSchema": {"type": "object"}}));
    tools.push(json!({"name": "all", "inputSchema": {"type": "object", "properties": properties}}));
    let mut prompts = of("name", &json!({}));
    let arguments: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    prompts.push(json!({"name": "all", "arguments": arguments}));
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                          "serverInfo": {"name": "s", "version": "1"}});
    let mut text = String::new();
    for (id, (method, result)) in [
        ("initialize", greeting),
        ("tools/list", json!({"tools": tools})),
        ("prompts/list", json!({"prompts": prompts})),
        ("resources/list", json!({"resources": of("uri", &json!({}))})),
    ]
    .into_iter()
    .enumerate()
    {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
        let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
        text += &format!("{}\n", json!({"t": 0, "dir": "c2s", "frame": request}));
        text += &format!("{}\n", json!({"t": 0, "dir": "s2c", "frame": response}));
    }
    fs::write(folder.join("session.jsonl"), text).unwrap();
    let one = json!({"command": PROGRAM, "args": ["replay", "session.jsonl"]});
    let mut servers: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), one.clone())).collect();
    servers.insert("one".to_owned(), one);
    fs::write(folder.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
}

/// Completes the last word in Bash, and returns the candidates.
fn completed(folder: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"source <(tinymcp completions bash)
        COMP_WORDS=(tinymcp "$@"); COMP_CWORD=$#; _tinymcp; printf '%s\n' "${COMPREPLY[@]}""#;
    let path = format!("{}:/usr/bin:/bin", Path::new(PROGRAM).parent().unwrap().display());
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .current_dir(folder)
        .env("PATH", path)
        .env("TINYMCP_CONFIG", "mcp.json")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(err, "", "{words:?}");
    out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn no_name_of_a_server_is_interpreted_by_bash() {
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("left out: bash is not installed");
        return;
    }
    let folder = folder("completion");
    let hostile: Vec<&str> = HOSTILE.split_terminator('\n').collect();
    assert!(hostile.len() >= 50);
    let plain = ["good_name", "good.name-2", "good/name:3"];
    server(&folder, &[&hostile[..], &plain].concat());
    let suffixed = |suffix: &str, others: &[&str]| {
        let mut names: Vec<String> = plain.iter().map(|name| format!("{name}{suffix}")).collect();
        names.extend(others.iter().map(|name| format!("{name}{suffix}")));
        names.sort();
        names
    };
    for (words, expected) in [
        (&["call", "--server", "one", ""][..], suffixed("", &["all"])),
        (&["info", "--server", "one", ""], suffixed("", &["all"])),
        (&["get", "--server", "one", ""], suffixed("", &["all"])),
        (&["read", "--server", "one", ""], suffixed("", &[])),
        (&["call", "--server", "one", "all", ""], suffixed("=", &[])),
        (&["get", "--server", "one", "all", ""], suffixed("=", &[])),
        (&["call", "--server", "one", "all", "good_name", "=", ""], suffixed("", &["-oRAN"])),
    ] {
        let mut found = completed(&folder, words);
        found.sort();
        assert_eq!(found, expected, "{words:?}");
    }
    // Keys of servers have `_` in place of other characters.
    for words in [&["call", ""][..], &["list", "--server", ""]] {
        let found = completed(&folder, words);
        let keys: Vec<&str> = found.iter().map(|word| word.trim_end_matches(':')).collect();
        assert!(["one", "good_name", "good_name_3"].iter().all(|key| keys.contains(key)), "{keys:?}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        assert!(keys.iter().all(|key| key.chars().all(is_plain) && !key.starts_with('-')), "{keys:?}");
    }
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}
