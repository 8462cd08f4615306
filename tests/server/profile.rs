//! With the feature `lint`, a server sends simplified schemas to all clients or to some, and still
//! checks arguments against the original schemas.

#![cfg(all(feature = "lint", feature = "schema"))]

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::lint::Profile;
use tinymcp::{Server, Tool, memory};

const HANG: Duration = Duration::from_secs(20);

const SCHEMA: &str = r##"{"type":"object","title":"t","properties":{"pin":{"$ref":"#/$defs/pin"},"name":{"type":"string","maxLength":8}},"required":["pin"],"additionalProperties":false,"$defs":{"pin":{"type":"integer","maximum":27}}}"##;
/// The schema for a host that supports neither references nor closed objects.
const SIMPLE: &str = r#"{"type":"object","properties":{"pin":{"type":"integer","maximum":27},"name":{"type":"string","maxLength":8}},"required":["pin"]}"#;

fn server() -> Server {
    let mut server = Server::new("profiled", "1");
    server.tool(Tool::new("t").input_schema(Json::parse(SCHEMA).unwrap()), |_, _: Json| Ok("done")).unwrap();
    server
}

/// Description of the tool for a client of this name, in a session and without one, twice each; and
/// the error of a call with arguments that only the copy allows.
fn shown(server: Server, client: &str) -> (Vec<String>, String) {
    let (link, mut peer) = memory();
    let serving = thread::spawn(move || server.serve(link));
    let info = format!(r#"{{"name":"{client}","version":"1"}}"#);
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{info}}}"#
    );
    peer.send(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{info}}}}}"#
    ));
    peer.receive(HANG).expect("a greeting");
    let ask = |request: &str| {
        peer.send(&format!(r#"{{"jsonrpc":"2.0","id":1,{request}}}"#));
        Doc::parse(peer.receive(HANG).expect("an answer")).unwrap()
    };
    let mut schemas = Vec::new();
    for meta in ["", &meta, "", &meta] {
        let list = ask(&format!(r#""method":"tools/list","params":{{{meta}}}"#));
        let schema = list.root().pointer("/result/tools/0/inputSchema").unwrap();
        schemas.push(schema.raw().to_owned());
    }
    let call = r#""method":"tools/call","params":{"name":"t","arguments":{"pin":4,"more":true}}"#;
    let refused = ask(call).root().raw().to_owned();
    peer.finish();
    serving.join().unwrap().unwrap();
    (schemas, refused)
}

#[test]
fn every_client_is_shown_the_profile_of_the_server() {
    let mut server = server();
    server.schema_profile(Profile::find("gemini").unwrap());
    let (schemas, refused) = shown(server, "anybody");
    assert_eq!(schemas, [SIMPLE; 4]);
    assert!(refused.contains("isError") && refused.contains("additionalProperties"), "{refused}");
}

#[test]
fn a_client_gets_its_own_profile_and_others_the_registered_schema() {
    for (client, expected) in [("gemini-cli", SIMPLE), ("other", SCHEMA)] {
        let mut server = server();
        server.client_schema_profile("gemini-cli", Profile::find("gemini").unwrap());
        assert_eq!(shown(server, client).0, [expected; 4], "{client}");
    }
    let mut server = server();
    server.schema_profile(Profile::find("minimal").unwrap());
    server.client_schema_profile("gemini-cli", Profile::find("gemini").unwrap());
    assert_eq!(shown(server, "gemini-cli").0, [SIMPLE; 4]);
}
