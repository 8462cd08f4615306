//! Command lines of supergateway and of sparfenyuk/mcp-proxy, run by `tinymcp proxy`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tinymcp::{Client, Endpoint, Protocol, json};

use super::serve_session::{ERAS, Process, Session, folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tinymcp");
/// A server that starts only if the variable is set, and prints it.
const SERVER: &str = r#"{"tools": {"show": {
    "description": "d", "run": ["sh", "-c", "echo $NAME"], "env": {"NAME": "${NAME}"}}}}"#;

fn example(name: &str) -> PathBuf {
    let folder = folder(&format!("proxy-aliases-{name}"));
    for variable in ["ADDED", "PASSED", "HOME"] {
        let server = SERVER.replace("NAME", variable);
        fs::write(folder.join(format!("{variable} server.json")), server).unwrap();
    }
    folder
}

fn proxy(args: &[&str], folder: &Path) -> Process {
    let mut command = Command::new(PROGRAM);
    command.arg("proxy").args(args).current_dir(folder).env("PASSED", "passed").env("HOME", "/home/x");
    Process::spawn(command)
}

fn url(server: &Process) -> String {
    server.reported("serving http").split("serving ").nth(1).unwrap().to_owned()
}

fn connect(url: &str, protocol: Protocol) -> Client {
    Client::builder("test", "0").protocol(protocol).connect(Endpoint::new(url)).unwrap()
}

fn show(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).unwrap().texts().trim_end().to_owned()
}

#[test]
fn a_command_of_supergateway_is_served_over_http_and_back_over_stdio() {
    const TOKEN: &str = "token-0123456789";
    let folder = example("supergateway");
    let tokens = folder.join("tokens");
    fs::write(&tokens, TOKEN).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let command = format!("'{PROGRAM}' serve \"PASSED server.json\"");
    let args =
        ["--stdio", &command, "--outputTransport", "streamableHttp", "--host", "127.0.0.1", "--port=0"];
    let more = ["--streamableHttpPath", "/tools/", "--healthEndpoint", "/healthz", "--logLevel", "none"];
    let server = proxy(&[&args[..], &more, &["--token-file", "tokens"]].concat(), &folder);
    server.reported("--logLevel has no effect");
    let url = url(&server);
    assert!(url.ends_with("/tools/"), "{url}");
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ok\n"), "{response}");
    // Clients may write the URL without the last slash.
    for (protocol, url) in ERAS.into_iter().zip([&*url, url.trim_end_matches('/')]) {
        let back = proxy(&["--streamableHttp", url, "--oauth2Bearer", TOKEN], &folder);
        let session = Session::over(|client| client, protocol, back);
        assert_eq!(show(&session.client, "show"), "passed");
    }
}

#[test]
fn a_command_of_mcp_proxy_gets_its_variables_and_its_folder() {
    let folder = example("mcp-proxy");
    let inside = folder.to_str().unwrap();
    let parent = folder.parent().unwrap();
    let args = ["--port=0", "--cwd", inside, "-e", "ADDED", "a b", PROGRAM, "serve"];
    let server = proxy(&[&args[..], &["--", "ADDED server.json"]].concat(), parent);
    let added = url(&server);
    for protocol in ERAS {
        assert_eq!(show(&connect(&added, protocol), "show"), "a b");
    }
    // Without `--pass-environment`, the program gets the default variables only.
    let args = ["--port=0", PROGRAM, "serve", "PASSED server.json"];
    proxy(&args, &folder).reported("tinymcp: down, will retry every 60 s: ");
    let passed = proxy(&[&["--pass-environment"], &args[..]].concat(), &folder);
    assert_eq!(show(&connect(&url(&passed), Protocol::Session), "show"), "passed");
}

#[test]
fn named_servers_are_one_server_with_their_names_as_prefixes() {
    let folder = example("named");
    let command = |variable: &str| format!("{PROGRAM} serve '{variable} server.json'");
    let (first, second) = (command("HOME"), command("PASSED"));
    let args = ["--named-server", "home", &first, "--named-server", "passed", &second, "--sse-port", "0"];
    let without = proxy(&args, &folder);
    // The two reports may come in any order.
    let [_, serving] = without.reported_all(["passed: down, will retry every 60 s: ", "serving http"]);
    let client = connect(serving.split("serving ").nth(1).unwrap(), Protocol::Stateless);
    assert_eq!(show(&client, "home__show"), "/home/x");
    let server = proxy(&[&args[..], &["--pass-environment"]].concat(), &folder);
    let client = connect(&url(&server), Protocol::Session);
    assert_eq!(show(&client, "passed__show"), "passed");
    // The same servers from a file.
    let entry = |variable: &str| {
        let file = format!("{variable} server.json");
        json!({"command": (PROGRAM), "args": ["serve", (file)], "transportType": "stdio"})
    };
    let (first, second) = (entry("HOME"), entry("PASSED"));
    let config = json!({"mcpServers": {"home": (first), "passed": (second)}});
    fs::write(folder.join("servers.json"), config.as_str()).unwrap();
    let args = ["--named-server-config", "servers.json", "--port", "0", "--pass-environment"];
    let server = proxy(&args, &folder);
    let client = connect(&url(&server), Protocol::Stateless);
    assert_eq!(show(&client, "passed__show"), "passed");
}
