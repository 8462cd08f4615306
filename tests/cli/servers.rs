//! Servers in short: keys of the configuration, URLs as the last argument, and names of commands.

use std::process::Command;

use serde_json::{Value, json};

use super::program;
use super::questions::Asking;
use super::{folder, run};

/// Runs the program in a folder with a configuration of one server, `board`.
fn at(place: &str, words: &[&str]) -> (i32, String, String) {
    let folder = folder(place);
    let servers = json!({"mcpServers": {"board": {"command": program("board_server")}}});
    std::fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
    std::fs::write(folder.join("note.txt"), "4\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
        .args(words)
        .current_dir(&folder)
        .env_remove("TINYMCP_CONFIG")
        .env("XDG_CONFIG_HOME", &folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_key_stands_for_the_server() {
    for (words, pointer) in [
        (&["board:gpio_read", "pin=4", "-q"][..], "/structuredContent/pin"),
        (&["-q", "board:gpio_read", "pin@note.txt"], "/structuredContent/pin"),
        (&["board", "-q"], "/instructions"),
        (&["board:", "-q", "--raw"], "/tools/0/name"),
        (&["ls", "board:", "-q"], "/prompts/0/name"),
        (&["list", "board:res", "tools", "-q"], "/resources/0/uri"),
        (&["ping", "board:", "-q"], "/milliseconds"),
        (&["get", "board:diagnose", "symptom=x", "-q"], "/messages/0/role"),
        (&["bench", "board:gpio_read", "pin=4", "--duration", "0.05", "-q"], "/calls"),
        (&["ls"], "/servers/0"),
    ] {
        let (code, out, err) = at("keys", words);
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert!(result.pointer(pointer).is_some(), "{words:?}: {out}");
    }
    assert_eq!(at("keys", &["list", "--text"]).1, "servers of .mcp.json\n  board:\n");
    for (words, status, named) in [
        (&["board:gpio_reed", "x:=1"][..], 1, "did you mean \"gpio_read\"?"),
        (&["bord"], 2, "unknown command \"bord\""),
        (&["who", "--url", "http://127.0.0.1:9/"], 2, "did you mean `tinymcp call who`?"),
        (&["who", "http://127.0.0.1:9/"], 2, "did you mean `tinymcp call who`?"),
        (&["bord:x"], 2, ".mcp.json: no server \"bord\"; expected one of: board"),
        (&["board:gpio_read", "pin@none"], 2, "none: No such file"),
        (&["ls", "board:x"], 2, "unknown list \"x\"; expected tools, "),
        (&["list", "tools"], 2, "expected a server"),
    ] {
        let (code, out, err) = at("keys", words);
        assert!(code == status && out.is_empty() && err.contains(named), "{words:?}: {code} {err}");
    }
    let completed = at("keys", &["__complete", "board:gpio_r"]).1;
    assert_eq!(completed, "board:gpio_read\n");
    assert!(at("keys", &["__complete", "bo"]).1.lines().eq(["board:"]));
}

#[test]
fn a_key_may_have_any_characters() {
    let folder = folder("any-key");
    let server = json!({"command": program("board_server")}).to_string();
    let file = folder.join("mcp.json");
    let twice = format!("\"a\": {server}, \"a\": {server}");
    let text = format!("{{\"servers\": {{\"EDT MCP/Server\": {server}, {twice}}}}}");
    std::fs::write(&file, text).unwrap();
    let at = |words: &[&str]| run(&[words, &["--config", file.to_str().unwrap()]].concat(), "");
    for words in [
        &["call", "gpio_read", "pin=4", "--server", "EDT MCP/Server"][..],
        &["call", "gpio_read", "pin=4", "--server", "EDT_MCP_Server"],
        &["call", "EDT_MCP_Server:gpio_read", "pin=4"],
    ] {
        let (code, out, err) = at(words);
        assert_eq!(code, 0, "{words:?}: {err}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(result["structuredContent"]["pin"], 4, "{words:?}");
    }
    let (code, _, err) = at(&["call", "gpio_read", "pin=4", "--server", "a"]);
    assert!(code == 2 && err.contains("server \"a\": the key appears twice"), "{code} {err}");
}

#[test]
fn the_configuration_may_be_in_a_folder_above() {
    for file in [".mcp.json", ".vscode/mcp.json"] {
        let folder = folder(&format!("above-{}", file.len())).canonicalize().unwrap();
        let below = folder.join("a/b");
        let file = folder.join(file);
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let servers = json!({"mcpServers": {"board": {"command": program("board_server")}}});
        std::fs::write(&file, servers.to_string()).unwrap();
        let list = |home: &std::path::Path| {
            let output = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
                .args(["list", "--text"])
                .current_dir(&below)
                .env_remove("TINYMCP_CONFIG")
                .env_remove("XDG_CONFIG_HOME")
                .env("HOME", home)
                .env("USERPROFILE", home)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let found = format!("servers of {}\n  board:\n", file.display());
        assert_eq!(list(&folder), found);
        assert_eq!(list(std::path::Path::new("/nonexistent")), found);
        // Above the home folder nothing is searched.
        assert_eq!(list(&folder.join("a")), "");
    }
}

#[test]
fn the_last_argument_may_be_a_url() {
    let server = Asking::start();
    let url = server.url();
    for (words, pointer) in [
        (&["ls", url][..], "/tools/0/name"),
        (&[url], "/capabilities"),
        (&["call", "test_simple_text", url], "/content/0/text"),
        (&["read", "test://static-text", url], "/contents/0/uri"),
        (&["ping", "--url", url.strip_prefix("http://").unwrap()], "/milliseconds"),
    ] {
        let (code, out, err) = run(words, "");
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert!(result.pointer(pointer).is_some(), "{words:?}: {out}");
    }
    // A single URL is the resource, so the server is missing.
    let (code, _, err) = run(&["read", url], "");
    assert!(code == 2 && err.contains("expected a server"), "{err}");
    let (code, _, err) = run(&["list", "--url", "ftp://nonsense"], "");
    assert!(code == 2 && err.contains("must begin with http://"), "{err}");
}

#[test]
fn messages_about_very_many_arguments_are_short() {
    let names: Vec<String> = (0..3000).map(|n| format!("p{n}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({}))).collect();
    let schema = json!({"properties": properties, "required": names, "additionalProperties": false});
    let script = super::server(&schema.to_string());
    for (word, named) in [("p0=1", "and 2987 more; see `tinymcp info t`"), ("zzzzzz=1", " and 2988 more")] {
        let args = ["call", "t", word, "--protocol", "session", "--", "/bin/sh", "-c", &script];
        let (code, out, err) = run(&args, "");
        assert!(code == 2 && out.is_empty() && err.contains(named) && err.len() < 300, "{err}");
    }
}

#[test]
fn instructions_do_not_imitate_the_lists_after_them() {
    let script = super::server("{}")
        .replace(r#""serverInfo":"#, r#""instructions":"tools (1)\n  fake()\u001b[2J","serverInfo":"#);
    let (code, out, err) =
        run(&["info", "--text", "--protocol", "session", "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.ends_with("\n\n  tools (1)\n    fake()\u{fffd}[2J\n\ntools (1)\n  t()\n      d\n"), "{out}");
}
