//! `login`, `logout`, `auth list`, and the tokens of the other commands.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::folder;

#[path = "../fixtures/auth_server.rs"]
mod auth_server;
// Other tests use the rest of this module.
#[allow(dead_code)]
#[path = "../../src/transport/http_client/tests/stage.rs"]
mod stage;

use auth_server::{AuthServer, Reply, parameter, server_metadata, target};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The program, with this folder for the tokens.
fn program(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.args(words).env("XDG_CONFIG_HOME", home).env_remove("DISPLAY").env_remove("BROWSER");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Exit status, standard output and standard error.
fn run(home: &Path, words: &[&str]) -> (i32, String, String) {
    let output = program(home, words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Starts a sign-in; returns the address that it shows.
#[allow(clippy::zombie_processes)] // `end` waits.
fn begin(home: &Path, words: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = program(home, words).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no address");
        if let Some(address) = line.strip_prefix("  http") {
            return (child, lines, format!("http{}", address.trim_end()));
        }
    }
}

/// Waits for the end of a sign-in.
fn end(mut child: Child, mut lines: BufReader<ChildStderr>) -> (i32, String) {
    let mut text = String::new();
    lines.read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code().unwrap(), text)
}

/// Visits an address as a browser; returns where it is redirected.
fn visit(address: &str) -> Option<String> {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned)
}

fn sign_in(home: &Path, url: &str) {
    let (child, lines, address) = begin(home, &["login", url]);
    visit(&visit(&address).unwrap());
    let (code, text) = end(child, lines);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_sign_in_by_a_browser_is_used_by_all_commands_and_renewed() {
    let (server, home) = (AuthServer::new(), folder("sign-in-browser"));
    let url = server.url();
    let call = ["call", "whoami", "--url", &url];
    let (code, _, err) = run(&home, &call);
    assert_eq!(code, 3);
    assert!(err.contains(&format!("sign in by `tinymcp login {url}`")), "{err}");

    let (child, lines, address) = begin(&home, &["login", &url, "-v", "--scope", "read write"]);
    let (at, query) = address.split_once('?').unwrap();
    assert!(at.ends_with("/authorize"), "{at}");
    assert_eq!(parameter(query, "scope").as_deref(), Some("read write"));
    assert!(parameter(query, "redirect_uri").unwrap().starts_with("http://127.0.0.1:"));
    visit(&visit(&address).unwrap());
    let (code, text) = end(child, lines);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("signed in to {url}")) && text.contains("scopes: read"), "{text}");
    let file = home.join("tinymcp/tokens.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(text.contains(&format!("; the tokens are in {}", file.display())), "{text}");

    let (code, out, err) = run(&home, &call);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("you"), "{out}");
    let (code, out, _) = run(&home, &["auth", "list", "--json"]);
    assert_eq!(code, 0);
    assert!(out.contains(&url) && out.contains(r#""scope":"read""#) && !out.contains("access-1"), "{out}");

    // The server no longer accepts the token, so it is renewed.
    server.state.lock().unwrap().access = None;
    let (code, _, err) = run(&home, &call);
    assert_eq!((code, server.state.lock().unwrap().issued), (0, 2), "{err}");
    // A configuration file names the server.
    let config = home.join("mcp.json");
    fs::write(&config, format!(r#"{{"mcpServers":{{"remote":{{"url":"{url}"}}}}}}"#)).unwrap();
    let config = config.to_str().unwrap();
    let (code, _, err) = run(&home, &["call", "remote:whoami", "--config", config]);
    assert_eq!(code, 0, "{err}");

    let (code, _, err) = run(&home, &["logout", &url]);
    assert!(code == 0 && err.contains("signed out of"), "{err}");
    let revoked = server.seen().iter().any(|seen| target(seen).1 == "/revoke");
    assert!(revoked && server.state.lock().unwrap().access.is_none());
    assert_eq!(run(&home, &["call", "remote:whoami", "--config", config]).0, 3);
    let (_, _, err) = run(&home, &["logout", "--server", "remote", "--config", config]);
    assert!(err.contains("there was no sign-in to remote"), "{err}");
}

#[test]
fn the_error_for_missing_scopes_contains_the_sign_in_command() {
    let server = AuthServer::with(|seen, _, state| {
        let scope = if seen.body.contains("whoami") { "doors:open" } else { "a\\`reboot\\`" };
        let challenge =
            format!("WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n");
        let refused = state.access.is_some() && seen.body.contains("tools/call");
        refused.then(|| Reply("403 Forbidden", challenge, String::new()))
    });
    let (url, home) = (server.url(), folder("sign-in-scope"));
    sign_in(&home, &url);
    for (tool, scope) in [("whoami", "doors:open"), ("other", "SCOPES")] {
        let (code, _, err) = run(&home, &["call", tool, "--url", &url]);
        assert_eq!(code, 3, "{err}");
        assert!(
            err.contains(&format!("; sign in for more by `tinymcp login {url} --scope \"{scope}\"`")),
            "{err}"
        );
    }
    let (mut child, _, address) = begin(&home, &["login", &url, "--scope", "doors:open"]);
    assert_eq!(parameter(&address, "scope").as_deref(), Some("read doors:open"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_pasted_address_signs_in() {
    let (server, home) = (AuthServer::new(), folder("sign-in-paste"));
    let (mut child, lines, address) = begin(&home, &["login", &server.url(), "--paste"]);
    let redirected = visit(&address).unwrap();
    writeln!(child.stdin.take().unwrap(), "{redirected}").unwrap();
    let (code, text) = end(child, lines);
    assert_eq!(code, 0, "{text}");
    let (child, lines, _) = begin(&home, &["login", &server.url(), "--paste"]);
    let (code, text) = end(drop_stdin(child), lines);
    assert!(code == 1 && text.contains("the address of this sign-in was not pasted"), "{code} {text}");
}

#[test]
fn a_wrong_paste_is_asked_for_again_twice() {
    let (server, home) = (AuthServer::new(), folder("sign-in-pastes"));
    let wrong = "hello\nhttp://127.0.0.1:51737/callback?code=s3cret&state=other\n";
    let (mut child, lines, address) = begin(&home, &["login", &server.url(), "--paste"]);
    let redirected = visit(&address).unwrap();
    writeln!(child.stdin.take().unwrap(), "{wrong}{redirected}").unwrap();
    let (code, text) = end(child, lines);
    assert!(code == 0 && text.matches("paste it again").count() == 2, "{code} {text}");
    assert!(!text.contains("s3cret") && !text.contains("hello"), "{text}");

    let (mut child, lines, address) = begin(&home, &["login", &server.url(), "--paste"]);
    let redirected = visit(&address).unwrap();
    writeln!(child.stdin.take().unwrap(), "{wrong}\n{redirected}").unwrap();
    let (code, text) = end(child, lines);
    assert!(code == 1 && text.contains("the address of this sign-in was not pasted"), "{code} {text}");
}

#[test]
fn a_server_without_a_sign_in_is_named_as_such() {
    let server = AuthServer::with(|seen, _, _| match target(seen).1.starts_with("/mcp") {
        true => Some(Reply("401 Unauthorized", "WWW-Authenticate: Bearer\r\n".to_owned(), String::new())),
        false => Some(Reply("404 Not Found", String::new(), String::new())),
    });
    let url = format!("{}?key=s3cret", server.url());
    let (code, _, err) = run(&folder("sign-in-none"), &["login", &url]);
    assert!(
        code == 1 && err.contains("a server without a sign-in may take a token by --bearer-file"),
        "{err}"
    );
    assert!(err.contains("?[masked]: ") && !err.contains("s3cret"), "{err}");
}

#[test]
fn a_browser_that_fails_leaves_the_ways_without_it() {
    let (server, home) = (AuthServer::new(), folder("sign-in-no-browser"));
    for browser in ["/no/such/browser", "false"] {
        let mut command = program(&home, &["login", &server.url()]);
        let mut child = command.env("BROWSER", browser).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let failed = format!("tinymcp: the browser {browser} failed: ");
        let address = lines.find_map(|line| line.strip_prefix("  ").map(str::to_owned)).unwrap();
        assert!(lines.next().unwrap().starts_with(&failed));
        assert!(lines.next().unwrap().contains("use `tinymcp login` with --paste or --device"));
        // The address is still valid.
        visit(&visit(&address).unwrap());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_command_for_a_sign_in_names_the_configuration_file_and_a_rejected_variable() {
    let (server, home) = (AuthServer::new(), folder("sign-in-hint"));
    let file = home.join("my servers.json");
    fs::write(&file, format!(r#"{{"mcpServers":{{"far":{{"url":"{}"}}}}}}"#, server.url())).unwrap();
    let words = ["list", "--server", "far", "--config", file.to_str().unwrap()];
    let (code, _, err) = run(&home, &words);
    assert_eq!(code, 3, "{err}");
    let login = format!("sign in by `tinymcp login --server far --config '{}'`", file.display());
    assert!(err.contains(&login), "{err}");

    let rejected = program(&home, &words).env("TINYMCP_TOKEN_FAR", "s3cret").output().unwrap();
    let err = String::from_utf8(rejected.stderr).unwrap();
    assert!(err.contains("; the token of TINYMCP_TOKEN_FAR was rejected"), "{err}");
    assert!(!err.contains("s3cret"), "{err}");
}

fn drop_stdin(mut child: Child) -> Child {
    drop(child.stdin.take());
    child
}

#[test]
fn a_device_code_signs_in() {
    let (server, home) = (AuthServer::new(), folder("sign-in-device"));
    let (code, _, err) = run(&home, &["login", &server.url(), "--device"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("enter the code ABCD-EFGH") && err.contains("/activate"), "{err}");
    assert_eq!(run(&home, &["list", "--url", &server.url()]).0, 0);
}

#[test]
fn tokens_of_options_and_variables_come_before_stored_ones() {
    let (server, home) = (AuthServer::new(), folder("sign-in-order"));
    let url = server.url();
    sign_in(&home, &url);
    let used = |further: &[&str], variable: &str| {
        server.seen();
        let mut command = program(&home, &[&["list", "--url", &url], further].concat());
        let output = command.env("TINYMCP_TOKEN_127_0_0_1", variable).output().unwrap();
        let seen = server.seen();
        let token = seen.iter().find_map(|seen| seen.header("authorization"));
        (output.status.code().unwrap(), token.unwrap().to_owned())
    };
    assert_eq!(used(&[], ""), (0, "Bearer access-1".to_owned()));
    assert_eq!(used(&[], "mine"), (3, "Bearer mine".to_owned()));
    let file = home.join("token");
    fs::write(&file, "from-file\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(used(&["--bearer-file", file], "mine"), (3, "Bearer from-file".to_owned()));
    assert_eq!(server.state.lock().unwrap().issued, 1, "a given token is not replaced");
    fs::write(file, "\n").unwrap();
    let (code, _, err) = run(&home, &["list", "--url", &url, "--bearer-file", file]);
    assert!(code == 2 && err.contains("the file is empty"), "{err}");
}

/// A server whose clients authenticate with this secret, and get no refresh token.
fn server_of_clients(secret: &Arc<Mutex<String>>) -> AuthServer {
    let secret = Arc::clone(secret);
    AuthServer::with(move |seen, origin, state| match target(seen).1 {
        "/.well-known/oauth-authorization-server" => {
            let methods = r#"["client_secret_post"]"#;
            Some(Reply::json(server_metadata(origin, "").replace(r#"["none"]"#, methods)))
        }
        "/token" if parameter(&seen.body, "client_secret").as_ref() != Some(&*secret.lock().unwrap()) => {
            Some(Reply("401 Unauthorized", String::new(), r#"{"error":"invalid_client"}"#.to_owned()))
        }
        "/token" => {
            assert_eq!(parameter(&seen.body, "client_id").as_deref(), Some("sensor-17"));
            assert_eq!(parameter(&seen.body, "grant_type").as_deref(), Some("client_credentials"));
            state.issued += 1;
            state.access = Some(format!("access-{}", state.issued));
            Some(Reply::json(format!(
                r#"{{"access_token":"access-{}","token_type":"Bearer","expires_in":3600}}"#,
                state.issued
            )))
        }
        _ => None,
    })
}

#[test]
fn a_client_with_a_secret_signs_in_without_a_user_and_renews_its_tokens() {
    let secret = Arc::new(Mutex::new("s3cret-1".to_owned()));
    let (server, home) = (server_of_clients(&secret), folder("sign-in-client"));
    let url = server.url();
    let file = home.join("secret");
    fs::write(&file, "s3cret-1\n").unwrap();
    let issuer = url.strip_suffix("/mcp").unwrap();
    let login = |issuer: &str| {
        let options = ["--client-id", "sensor-17", "--client-credentials", "--issuer", issuer];
        let file = ["--client-secret-file", file.to_str().unwrap()];
        run(&home, &[&["login", &url], &options[..], &file[..]].concat())
    };
    let call = || {
        let (code, out, err) = run(&home, &["call", "whoami", "--url", &url]);
        assert!(!err.contains("s3cret") && !out.contains("s3cret"), "{err}");
        (code, server.state.lock().unwrap().issued, err)
    };
    let (code, _, err) = login("https://login.example");
    assert!(code != 0 && err.contains("another authorization server"), "{err}");
    let (code, _, err) = login(issuer);
    assert!(code == 0 && err.contains(&format!("signed in to {url} at {issuer}; ")), "{err}");
    // The secret is not copied, and its file may be replaced.
    let clients = home.join("tinymcp/clients.json");
    assert_eq!(fs::metadata(&clients).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&clients).unwrap().contains("s3cret"));
    assert_eq!(call(), (0, 1, String::new()));
    server.state.lock().unwrap().access = None;
    *secret.lock().unwrap() = "s3cret-2".to_owned();
    let (code, _, err) = call();
    assert!(code == 3 && err.contains("invalid_client; sign in again by `tinymcp login"), "{code} {err}");
    fs::write(&file, "s3cret-2").unwrap();
    assert_eq!(call(), (0, 2, String::new()));
    // A valid token is used without the file.
    fs::remove_file(&file).unwrap();
    let (code, issued, err) = call();
    assert!((code, issued) == (0, 2) && err.contains("--client-secret-file: "), "{err}");
    server.state.lock().unwrap().access = None;
    assert_eq!(call().0, 3);
    let (code, out, _) = run(&home, &["auth", "list", "--json"]);
    assert!(code == 0 && out.contains(r#""renewable":true"#), "{out}");
    assert_eq!(run(&home, &["logout", &url]).0, 0);
    assert_eq!(fs::read_to_string(&clients).unwrap(), "{}\n");
    assert_eq!(call().0, 3);
}

#[cfg(feature = "oauth-jwt")]
fn new_key() -> String {
    tinymcp::oauth::SigningKey::generate().unwrap().to_pem().unwrap()
}

#[cfg(not(feature = "oauth-jwt"))]
fn new_key() -> String {
    "unused".to_owned()
}

#[test]
fn a_client_with_a_key_signs_assertions() {
    let server = AuthServer::with(|seen, origin, _| match target(seen).1 {
        "/.well-known/oauth-authorization-server" => {
            let methods = r#"["private_key_jwt"]"#;
            Some(Reply::json(server_metadata(origin, "").replace(r#"["none"]"#, methods)))
        }
        "/token" if parameter(&seen.body, "client_assertion").is_none() => {
            Some(Reply("401 Unauthorized", String::new(), r#"{"error":"invalid_client"}"#.to_owned()))
        }
        _ => None,
    });
    let (url, home) = (server.url(), folder("sign-in-key"));
    let file = home.join("key.pem");
    fs::write(&file, new_key()).unwrap();
    let key = ["--client-id", "sensor-17", "--client-key", file.to_str().unwrap()];
    let (code, _, err) = run(&home, &[&["login", &url, "--client-credentials"], &key[..]].concat());
    if cfg!(not(feature = "oauth-jwt")) {
        assert!(code == 2 && err.contains("requires the feature `oauth-jwt`"), "{err}");
        return;
    }
    assert_eq!(code, 0, "{err}");
    server.state.lock().unwrap().access = None;
    let (code, _, err) = run(&home, &["call", "whoami", "--url", &url]);
    assert_eq!((code, server.state.lock().unwrap().issued), (0, 2), "{err}");
    let (code, _, err) = run(&home, &["logout", &url]);
    assert!(code == 0 && server.state.lock().unwrap().access.is_none(), "{err}");
}

#[test]
fn a_busy_port_is_reported_before_a_client_is_registered() {
    let (server, home) = (AuthServer::new(), folder("sign-in-port"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().port().to_string();
    let (code, _, err) = run(&home, &["login", &server.url(), "--port", &busy]);
    let why = format!("cannot listen on 127.0.0.1:{busy} for the sign-in; choose another port");
    assert!(code == 4 && err.contains(&why), "{code} {err}");
    assert!(!server.seen().iter().any(|seen| target(seen).1 == "/register"));
}

#[test]
fn wrong_usage_of_a_sign_in_is_explained() {
    let home = folder("sign-in-usage");
    for (words, why) in [
        (&["login"][..], "expected a server: `tinymcp login URL` or --server KEY"),
        (&["login", "a", "b"], "expected one server, got 2 words"),
        (&["login", "http://127.0.0.1:1/", "--device", "--paste"], "exclude each other"),
        (&["login", "http://127.0.0.1:1/", "--device", "--port", "1"], "--device has no --port"),
        (&["login", "http://127.0.0.1:1/", "--port", "x"], "--port requires a number up to 65535"),
        (&["login", "http://127.0.0.1:1/", "--client-secret-file", "x"], "requires --client-id"),
        (&["login", "http://127.0.0.1:1/", "--client-key", "x"], "--client-key requires --client-id"),
        (&["login", "http://127.0.0.1:1/", "--issuer", "x"], "--issuer requires --client-id"),
        (&["login", "http://127.0.0.1:1/", "--client-credentials"], "requires --client-id"),
        (
            &["login", "http://127.0.0.1:1/", "--client-credentials", "--client-id", "x"],
            "--client-credentials requires --client-secret-file or --client-key",
        ),
        (
            &["login", "h", "--client-id", "x", "--client-key", "k", "--client-secret-file", "f"],
            "--client-secret-file and --client-key exclude each other",
        ),
        (
            &["login", "h", "--client-credentials", "--client-id", "x", "--client-secret-file", "/dev/null"],
            "/dev/null: not a regular file; it is read again",
        ),
        (&["auth"], "expected `tinymcp auth list`"),
    ] {
        let (code, _, err) = run(&home, words);
        assert!(code == 2 && err.contains(why), "{words:?}: {code} {err}");
    }
    assert_eq!(run(&home, &["login", "http://127.0.0.1:1/"]).0, 4);
}
