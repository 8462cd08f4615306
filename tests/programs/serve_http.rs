//! `tinymcp serve --http`: tokens, hosts, reload.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tinymcp::{Change, Client, Endpoint, json};

use super::serve_session::{ERAS, Process, TIMEOUT, folder, run, write};

const DEFINITION: &str =
    r#"{"tools": {"echo": {"description": "d", "input": {"text": "string"}, "run": ["echo", "{text}"]}}}"#;

const FIRST: &str = "first-0123456789";
const SECOND: &str = "second-0123456789";
const THIRD: &str = "third-0123456789";

fn example(name: &str) -> PathBuf {
    let folder = folder(name);
    fs::write(folder.join("s.json"), DEFINITION).unwrap();
    tokens(&folder, &format!("# clients\n{FIRST}\n{SECOND} the desk\n"));
    folder
}

fn tokens(folder: &Path, text: &str) {
    let file = folder.join("new");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(file, folder.join("tokens")).unwrap();
}

/// Waits for the address.
fn url(process: &Process) -> String {
    process.reported("serving http").split("serving ").nth(1).unwrap().to_owned()
}

#[test]
fn calls_over_http_need_a_token_of_the_file() {
    let folder = example("http");
    let server = Process::start(&["s.json", "--http", "127.0.0.1:0", "--token-file", "tokens"], &folder);
    let url = url(&server);
    for era in ERAS {
        let connect = |token: Option<&str>| {
            let endpoint = Endpoint::new(&url);
            let endpoint = token.into_iter().fold(endpoint, |endpoint, token| endpoint.bearer_token(token));
            Client::builder("test", "0").protocol(era).connect(endpoint)
        };
        for token in [None, Some(THIRD), Some("desk")] {
            let error = connect(token).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("401"), "{token:?}: {error}");
        }
        let program = env!("CARGO_BIN_EXE_tinymcp");
        let output = std::process::Command::new(program).args(["list", "--url", &url]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("; use --bearer TOKEN"), "{error}");
        for token in [FIRST, SECOND] {
            let client = connect(Some(token)).unwrap();
            assert_eq!(client.call_tool("echo", json!({"text": "a b"})).unwrap().texts(), "a b\n");
        }
        // Tokens are reloaded; a file with an error adds none, one without tokens removes all.
        tokens(&folder, THIRD);
        server.hang_up();
        server.reported("reloaded");
        assert!(connect(Some(THIRD)).is_ok());
        assert!(connect(Some(FIRST)).is_err());
        tokens(&folder, &format!("{FIRST}\n{THIRD}\nshort"));
        server.hang_up();
        server.reported("of the previous tokens, the 1 in the file stay valid");
        server.reported("reloaded");
        assert!(connect(Some(THIRD)).is_ok());
        assert!(connect(Some(FIRST)).is_err());
        tokens(&folder, "\n");
        server.hang_up();
        server.reported("no token; expected lines `TOKEN` or `TOKEN NAME`; all tokens are rejected now");
        server.reported("reloaded");
        assert!(connect(Some(THIRD)).is_err());
        tokens(&folder, THIRD);
        server.hang_up();
        server.reported("reloaded");
        assert!(connect(Some(THIRD)).is_ok());
        fs::remove_file(folder.join("tokens")).unwrap();
        server.hang_up();
        server.reported("all tokens are rejected now");
        server.reported("reloaded");
        assert!(connect(Some(THIRD)).is_err());
        tokens(&folder, &format!("{FIRST}\n{SECOND}\n"));
        server.hang_up();
        server.reported("reloaded");
    }
}

#[test]
fn a_token_that_a_faulty_file_no_longer_contains_is_rejected() {
    let folder = example("http-revoked");
    let server = Process::start(&["s.json", "--http", "127.0.0.1:0", "--token-file", "tokens"], &folder);
    let url = url(&server);
    let connect = |token: &str| Client::builder("test", "0").connect(Endpoint::new(&url).bearer_token(token));
    for (fault, mode) in [("", 0o644), ("short\n", 0o600), ("\u{fffd}\n", 0o600)] {
        tokens(&folder, &format!("{FIRST}\n{SECOND}\n"));
        server.hang_up();
        server.reported("reloaded");
        let client = connect(FIRST).unwrap();
        connect(SECOND).unwrap();
        // As by an editor, or by `mv` of a file with other permissions.
        fs::write(folder.join("new"), format!("{fault}{SECOND}\n")).unwrap();
        fs::set_permissions(folder.join("new"), fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(folder.join("new"), folder.join("tokens")).unwrap();
        server.hang_up();
        server.reported("the 1 in the file stay valid");
        server.reported("reloaded");
        assert!(connect(FIRST).is_err());
        assert!(client.call_tool("echo", json!({"text": "a"})).is_err());
        connect(SECOND).unwrap();
    }
}

#[test]
fn a_changed_file_is_sent_over_http() {
    for era in ERAS {
        let folder = example("http-watch");
        let server = Process::start(&["s.json", "--http", "127.0.0.1:0", "--watch"], &folder);
        let (sender, changes) = std::sync::mpsc::channel();
        let client = Client::builder("test", "0").protocol(era);
        let client = client.on_change(move |change| drop(sender.send(change.clone())));
        let client = client.connect(Endpoint::new(url(&server))).unwrap();
        assert_eq!(client.tools().unwrap().len(), 1);
        write(&folder.join("s.json"), "{}");
        assert_eq!(changes.recv_timeout(TIMEOUT).unwrap(), Change::Tools);
        assert_eq!(client.request_tools(None).bypass_cache().wait().unwrap().entries.len(), 0);
    }
}

#[test]
fn unusable_options_are_errors() {
    let folder = example("http-options");
    fs::write(folder.join("open"), "token").unwrap();
    fs::set_permissions(folder.join("open"), fs::Permissions::from_mode(0o604)).unwrap();
    fs::write(folder.join("short"), "token").unwrap();
    fs::set_permissions(folder.join("short"), fs::Permissions::from_mode(0o600)).unwrap();
    for (args, message) in [
        (&["--http", "127.0.0.1:0", "--token-file", "missing"][..], "missing"),
        (&["--http", "127.0.0.1:0", "--token-file", "open"], "must not be accessible to other users"),
        (&["--http", "127.0.0.1:0", "--token-file", "."], "not a regular file"),
        (&["--http", "127.0.0.1:0", "--token-file", "short"], "short: line 1: the token has 5 characters"),
        (&["--http", "nowhere"], "nowhere"),
        (&["--http", "127.0.0.1:0", "--allow-origin", "x"], "x"),
        (&["--http", "systemd"], "LISTEN_FDS"),
        (&["--token-file", "tokens"], "--token-file requires --http"),
    ] {
        let (code, out, err) = run(&[&["s.json"], args].concat(), &folder);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}

#[test]
fn a_public_address_without_tokens_is_reported() {
    let folder = example("http-public");
    let server = Process::start(&["s.json", "--http", "0.0.0.0:0"], &folder);
    server.reported("only requests to localhost are served; see --allow-host");
    server.reported("anyone who reaches this address may call the tools; add --token-file");
    let server = Process::start(&["s.json", "--http", "127.0.0.1:0"], &folder);
    let address = url(&server);
    let endpoint = Endpoint::new(&address);
    assert!(Client::builder("test", "0").connect(endpoint).is_ok());
    assert!(!server.rest().contains("anyone who reaches"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, err) = run(&["s.json", "--http", &address], &folder);
    assert_eq!((code, err.matches("os error").count()), (2, 1), "{err}");
    let args = ["s.json", "--http", "0.0.0.0:80", "--token-file", "tokens", "--print-config", "claude"];
    let (code, out, err) = run(&[&args[..], &["--allow-host", "board.example"]].concat(), &folder);
    assert!(code == 0 && out.contains("http://board.example:80/mcp"), "{out}");
    assert!(out.contains("\"headers\": {\"Authorization\": \"Bearer TOKEN\"}"), "{out}");
    assert!(err.contains("replace TOKEN by a token of tokens"), "{err}");
}
