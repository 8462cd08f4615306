//! Connections without a first request, by a description of the server from an earlier connection.

use std::sync::{Arc, Mutex};
use std::thread;

use tinymcp::json::Json;
use tinymcp::{Client, Direction, ErrorKind, Protocol, Server, Tool, json};

use crate::own_server::ServerThread;
use crate::{client, limits};

/// A server that counts the methods of its requests.
struct Served {
    url: String,
    methods: Arc<Mutex<Vec<String>>>,
    _thread: ServerThread,
}

fn serve(mut server: Server) -> Served {
    let methods = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&methods);
    server.limits(limits()).on_frame(move |frame| {
        let method =
            std::str::from_utf8(frame.bytes).map(|text| crate::member(text, "/method")).unwrap_or_default();
        if frame.direction == Direction::Received && !method.is_empty() {
            seen.lock().unwrap().push(method);
        }
    });
    server.tool(Tool::new("hello"), |_, ()| Ok("hello")).unwrap();
    let handle = server.handle();
    let bound = server.http().no_signal_handlers().bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    let thread = ServerThread::new(handle, thread::spawn(move || bound.serve().unwrap()));
    Served { url, methods, _thread: thread }
}

impl Served {
    fn connect(&self, known: Json) -> Client {
        client().discovery(known).connect(&*self.url).unwrap()
    }

    /// The methods since the last call.
    fn methods(&self) -> Vec<String> {
        std::mem::take(&mut self.methods.lock().unwrap())
    }
}

/// The description of a server of both protocols.
fn known() -> Json {
    let served = serve(Server::new("known", "1.0.0"));
    let first = client().connect(&*served.url).unwrap();
    let known = first.discovery().unwrap();
    first.close();
    assert_eq!(served.methods(), ["server/discover"]);
    known
}

#[test]
fn a_remembered_server_gets_no_request_before_the_first_call() {
    let served = serve(Server::new("known", "1.0.0"));
    let client = served.connect(known());
    assert_eq!((client.protocol(), client.server().name.as_str()), (Protocol::Stateless, "known"));
    assert_eq!(client.call_tool("hello", json!({})).unwrap().texts(), "hello");
    assert_eq!(served.methods(), ["tools/call"]);
    // The description may be stored again.
    assert!(client.discovery().is_some());
    client.close();
}

#[test]
fn an_error_of_the_first_call_causes_one_check() {
    let served = serve(Server::new("other", "2.0.0"));
    let client = served.connect(known());
    for _ in 0..2 {
        let error = client.call_tool("absent", json!({})).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(-32602)));
    }
    assert_eq!(served.methods(), ["tools/call", "server/discover", "tools/call"]);
    // The server is not the one that was remembered.
    assert_eq!(client.server().name, "other");
    client.close();
}

#[test]
fn a_server_with_sessions_only_is_still_served() {
    let served = serve(Server::session_only("old", "1.0.0"));
    let client = served.connect(known());
    assert_eq!(client.call_tool("hello", json!({})).unwrap().texts(), "hello");
    assert_eq!((client.protocol(), client.server().name.as_str()), (Protocol::Session, "old"));
    assert_eq!(client.call_tool("hello", json!({})).unwrap().texts(), "hello");
    assert!(client.discovery().is_none());
    client.close();
}

#[test]
fn a_client_of_the_stateless_protocol_opens_no_session() {
    let served = serve(Server::session_only("old", "1.0.0"));
    let builder = client().protocol(Protocol::Stateless).discovery(known());
    let client = builder.connect(&*served.url).unwrap();
    let error = client.call_tool("hello", json!({})).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Refused | ErrorKind::Remote), "{error}");
    assert_eq!(client.protocol(), Protocol::Stateless);
    assert_eq!(served.methods(), ["tools/call"]);
    client.close();
}

#[test]
fn an_invalid_description_is_not_used() {
    let served = serve(Server::new("known", "1.0.0"));
    for invalid in [
        json!(null),
        json!({}),
        json!({"supportedVersions": "2026-07-28"}),
        json!({"supportedVersions": ["2025-11-25"]}),
        json!({"supportedVersions": ["1999-01-01"]}),
    ] {
        let client = served.connect(invalid);
        assert_eq!(served.methods(), ["server/discover"]);
        client.close();
    }
}

#[test]
fn the_same_holds_over_a_byte_stream() {
    for (server, protocol) in [
        (Server::new("both", "1.0.0"), Protocol::Stateless),
        (Server::session_only("old", "1.0.0"), Protocol::Session),
    ] {
        let (ours, theirs) = tinymcp::memory_links();
        let mut server = server;
        server.limits(limits()).tool(Tool::new("hello"), |_, ()| Ok("hello")).unwrap();
        let served = thread::spawn(move || server.serve(theirs).unwrap());
        let client = client().discovery(known()).over(ours).unwrap();
        assert_eq!(client.call_tool("hello", json!({})).unwrap().texts(), "hello");
        assert_eq!(client.protocol(), protocol);
        client.close();
        drop(client);
        served.join().unwrap();
    }
}
