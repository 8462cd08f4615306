//! Properties of the HTTP request that a handler reads from its context, in every revision.

use serde_json::{Value, json};
use tinymcp::{Client, Context, HttpServer, Peer, Server, Tool, ToolError, memory_links};

use crate::client::{Nothing, Served, initialize, serve_with};

const DATES: [&str; 3] = ["2025-03-26", "2025-11-25", "2026-07-28"];

struct Greeting(&'static str);

/// All properties of the request, one per line.
fn describe(ctx: &mut Context<'_>) -> Result<String, ToolError> {
    let peer = match ctx.peer() {
        Some(Peer::Tcp(address)) => address.ip().to_string(),
        other => format!("{other:?}"),
    };
    let fields = ["x-tenant", "X-TENANT", "X-Other", "authorization"].map(|name| ctx.header(name));
    let greeting = ctx.get::<Greeting>().map(|greeting| greeting.0);
    let session = ctx.session();
    Ok(format!("{peer} {fields:?} {greeting:?} {session:?} {:?}", ctx.get::<u8>()))
}

fn server() -> Server {
    let mut server = Server::new("context", "1");
    server.provide(Greeting("old")).provide(Greeting("hello"));
    server
        .tool(Tool::new("pooled"), |ctx, _: Nothing| describe(ctx))
        .unwrap()
        .inline_tool(Tool::new("inline"), |ctx, _: Nothing| describe(ctx))
        .unwrap();
    server
}

fn passing(http: HttpServer) -> HttpServer {
    http.pass_header("X-Tenant").pass_header("x-absent").tokens([("t", "alice")])
}

fn session(served: &Served, date: &str) -> Option<String> {
    let answer = served.post(&[("Authorization", "Bearer t")], &initialize(date, json!({})));
    (date != "2026-07-28").then(|| answer.field("mcp-session-id").unwrap().to_owned())
}

fn call(served: &Served, session: Option<&str>, fields: &[(&str, &str)], tool: &str) -> Value {
    let mut fields = [fields, &[("Authorization", "Bearer t")]].concat();
    let params = json!({"name": tool, "arguments": {}});
    let answer = match session {
        None => served.modern(&fields, "tools/call", params),
        Some(session) => {
            fields.push(("Mcp-Session-Id", session));
            served
                .post(&fields, &json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}))
        }
    };
    answer.json()["result"]["content"][0]["text"].clone()
}

#[test]
fn a_handler_reads_fields_peer_session_and_values_of_the_program() {
    let served = serve_with(server(), passing);
    for date in DATES {
        let session = session(&served, date);
        for tool in ["pooled", "inline"] {
            let text = call(&served, session.as_deref(), &[("x-tenant", "blue"), ("X-Other", "no")], tool);
            let (before, name) =
                text.as_str().unwrap().split_once("Some(\"hello\") ").expect("the last value of a type");
            assert_eq!(before, "127.0.0.1 [Some(\"blue\"), Some(\"blue\"), None, None] ", "{date} {tool}");
            assert_eq!(name.starts_with("Some(\"session-"), session.is_some(), "{date} {tool}: {name}");
            assert!(name.ends_with(" None"), "{name}");
            // The name is not the secret id.
            assert!(session.as_ref().is_none_or(|id| !name.contains(id)), "{name}");
        }
    }
}

#[test]
fn a_repeated_field_counts_as_absent() {
    let served = serve_with(server(), passing);
    let text = call(&served, None, &[("X-Tenant", "blue"), ("X-Tenant", "red")], "pooled");
    assert!(text.as_str().unwrap().starts_with("127.0.0.1 [None, None,"), "{text}");
}

#[test]
fn calls_of_a_batch_have_the_properties_of_its_request() {
    let served = serve_with(server(), passing);
    let session = session(&served, "2025-03-26").unwrap();
    let call =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "pooled"}});
    let fields = [("Authorization", "Bearer t"), ("Mcp-Session-Id", &session), ("X-Tenant", "blue")];
    let answers = served.post(&fields, &json!([call(1), call(2)])).json();
    for answer in answers.as_array().unwrap() {
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("127.0.0.1 [Some(\"blue\"),") && text.contains("session-"), "{text}");
    }
}

#[test]
fn over_other_transports_only_values_of_the_program_exist() {
    let (near, far) = memory_links();
    let serving = std::thread::spawn(move || server().serve(far));
    let client = Client::over(near).unwrap();
    let text = client.call_tool("pooled", tinymcp::json!({})).unwrap().texts();
    assert_eq!(text, "None [None, None, None, None] Some(\"hello\") None None");
    drop(client);
    serving.join().unwrap().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn the_peer_of_a_unix_socket_is_a_process() {
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    let folder = std::env::temp_dir().join(format!("tinymcp-context-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("socket");
    let mut server = Server::new("context", "1");
    server.tool(Tool::new("peer"), |ctx, _: Nothing| Ok(format!("{:?}", ctx.peer()))).unwrap();
    let handle = server.handle();
    let bound = server.http().no_signal_handlers().bind(&format!("unix:{}", path.display())).unwrap();
    let serving = std::thread::spawn(move || bound.serve());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "peer", "arguments": {},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let mut stream = UnixStream::connect(&path).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nMcp-Method: tools/call\r\nMcp-Name: peer\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let uid = std::fs::metadata(&folder).unwrap().uid();
    let expected = format!("Unix(Some(PeerCredentials {{ pid: {}, uid: {uid},", std::process::id());
    assert!(answer.contains(&expected), "no {expected} in {answer}");
    handle.stop();
    serving.join().unwrap().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
