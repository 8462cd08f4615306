//! Extensions between a client and a server of this library, in both eras.

use std::sync::mpsc;

use tinymcp::{Client, ErrorKind, Protocol, Server, json, memory_links};

use super::scripted::{TIMEOUT, plain};

const BOARD: &str = "com.example/board";

fn server() -> Server {
    let mut server = Server::new("board", "1");
    server
        .extension(BOARD, json!({"pins": 4}))
        .unwrap()
        .method("com.example/blink", |ctx, (): ()| {
            let settings = ctx.require_extension(BOARD)?;
            ctx.notify("notifications/com.example/blinked", json!({"times": 2}));
            Ok(json!({"settings": settings, "trace": ctx.meta().and_then(|m| m.get("com.example/t")).is_some()}))
        })
        .unwrap();
    server
}

#[test]
fn both_sides_declare_an_extension_and_use_it() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let (ours, theirs) = memory_links();
        let server = server();
        let handle = server.handle();
        let serving = std::thread::spawn(move || server.serve(theirs));
        let (sender, notes) = mpsc::channel();
        let client = Client::builder("c", "1")
            .protocol(protocol)
            .extension(BOARD, json!({"colours": ["red"]}))
            .on_notification("notifications/com.example/blinked", move |params| {
                sender.send(params.as_str().to_owned()).unwrap();
            })
            .over(ours)
            .unwrap();
        let declared = client.server().capabilities_json.to_doc();
        let pins = declared.root().get("extensions").and_then(|all| all.get(BOARD)?.get("pins")?.as_u64());
        assert_eq!(pins, Some(4), "{protocol:?}");
        let result =
            client.request("com.example/blink", json!({"_meta": {"com.example/t": 1}})).unwrap().to_doc();
        let settings = result.root().get("settings").unwrap().raw();
        assert_eq!(settings, r#"{"colours":["red"]}"#, "{protocol:?}");
        assert_eq!(notes.recv_timeout(TIMEOUT).unwrap(), r#"{"times":2}"#);
        // Only sessions get notifications outside of a request.
        handle.notify("notifications/com.example/blinked", json!({"times": 3})).unwrap();
        client.ping().unwrap();
        if protocol == Protocol::Session {
            assert_eq!(notes.recv_timeout(TIMEOUT).unwrap(), r#"{"times":3}"#);
        }
        client.close();
        serving.join().unwrap().unwrap();
        assert!(notes.try_recv().is_err(), "{protocol:?}");
    }
}

#[test]
fn a_client_without_the_extension_gets_its_name() {
    for (protocol, code) in [(Protocol::Session, -32602), (Protocol::Stateless, -32021)] {
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || server().serve(theirs));
        let client = plain().protocol(protocol).over(ours).unwrap();
        let error = client.request("com.example/blink", json!({})).unwrap_err();
        assert!(error.to_string().contains(BOARD), "{error}");
        assert_eq!(error.code(), Some(code), "{error}");
        client.close();
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn invalid_extensions_are_rejected_before_serving() {
    let mut server = Server::new("s", "1");
    for id in
        ["", "board", "/board", "com.example/", "com..example/x", "9com/x", "com/-x", "com/x y", "com/x/y"]
    {
        assert_eq!(
            server.extension(id, json!({})).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Invalid,
            "{id}"
        );
        let (ours, _theirs) = memory_links();
        let error = plain().extension(id, json!({})).over(ours).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{id}");
    }
    for settings in [json!([]), json!(null), json!(1)] {
        assert_eq!(
            server.extension(BOARD, settings.clone()).map(|_| ()).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        let (ours, _theirs) = memory_links();
        let error = plain().extension(BOARD, settings).over(ours).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    server.extension(BOARD, json!({})).unwrap();
    assert_eq!(server.extension(BOARD, json!({})).map(|_| ()).unwrap_err().kind(), ErrorKind::Misuse);
    server.method("com.example/x", |_, (): ()| Ok(json!({}))).unwrap();
    server.notification("com.example/x", |_| {}).unwrap();
    for name in ["com.example/x", "tools/call", "initialize", "notifications/cancelled"] {
        let error = server.method(name, |_, (): ()| Ok(json!({}))).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{name}");
        let error = server.notification(name, |_| {}).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{name}");
    }
}
