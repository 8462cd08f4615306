//! Every row of the detection matrix: the response of a server to the probe, and the result of the
//! detection. Messages to a session's server must contain nothing of the modern era.

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, Error, ErrorKind, Limits, Protocol};

use super::scripted::{ScriptedPeer, TIMEOUT, plain, quick};

/// Connects to a scripted server, without a short deadline.
fn connect_to(
    era: Option<Protocol>,
    server: impl FnOnce(&ScriptedPeer) + Send + 'static,
) -> Result<Client, Error> {
    let mut limits = quick();
    limits.client.probe_timeout = TIMEOUT;
    connect_with(limits, era, server)
}

/// Connects to a server that does not respond to the probe.
fn connect_to_silent(server: impl FnOnce(&ScriptedPeer) + Send + 'static) -> Result<Client, Error> {
    connect_with(quick(), None, server)
}

fn connect_with(
    limits: Limits,
    era: Option<Protocol>,
    server: impl FnOnce(&ScriptedPeer) + Send + 'static,
) -> Result<Client, Error> {
    let (link, scripted) = ScriptedPeer::new();
    // The link ends with the last message of the server.
    let serving = std::thread::spawn(move || server(&scripted));
    let mut builder = plain().limits(limits);
    if let Some(era) = era {
        builder = builder.protocol(era);
    }
    let client = builder.over(link);
    serving.join().unwrap();
    client
}

/// The probe, which must have all members of a modern request.
fn probed(server: &ScriptedPeer) -> Value {
    let message = server.receive();
    assert_eq!(message["method"], "server/discover");
    let meta = &message["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({"name": "tester", "version": "0"}));
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    message["id"].clone()
}

/// The opening of a session, compared as a whole.
fn opened(server: &ScriptedPeer, version: &str) -> Value {
    let message = server.receive();
    let id = message["id"].clone();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tester", "version": "0"}}})
    );
    id
}

fn session(server: &ScriptedPeer, id: &Value, version: &str) {
    server.answer(
        id,
        json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}),
    );
    let ready = server.receive();
    assert_eq!(ready, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), "nothing modern");
}

#[test]
fn a_description_means_modern() {
    let client = connect_to(None, |server| {
        let id = probed(server);
        server.answer(&id, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "instructions": "be kind", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "m", "version": "3"}}}));
    })
    .unwrap();
    let info = client.server();
    assert_eq!(
        (client.protocol(), info.name.as_str(), info.version.as_str()),
        (Protocol::Stateless, "m", "3")
    );
    assert_eq!(info.instructions.as_deref(), Some("be kind"));
    assert!(info.capabilities.tools && !info.capabilities.prompts);
}

#[test]
fn a_description_from_before_the_final_revision_names_the_server_in_its_body() {
    let client = connect_to(None, |server| {
        let id = probed(server);
        server.answer(&id, json!({"supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}}));
    })
    .unwrap();
    assert_eq!((client.protocol(), client.server().name.as_str()), (Protocol::Stateless, "b"));
}

#[test]
fn errors_of_the_modern_era_mean_modern() {
    for (code, data) in [
        (-32022, json!({"supported": ["2026-07-28"], "requested": "2026-07-28"})),
        (-32021, json!({"requiredCapabilities": {"roots": {}}})),
        (-32020, Value::Null),
    ] {
        let client = connect_to(None, move |server| {
            let id = probed(server);
            server.say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": data}}),
            );
        });
        assert_eq!(client.unwrap().protocol(), Protocol::Stateless, "{code}");
    }
}

#[test]
fn any_other_error_means_a_session() {
    // The codes of pre-release drafts prove nothing either.
    for code in [-32601, -32602, -32600, -32603, -32000, -32001, -32003, -32004, 7, -1] {
        let client = connect_to(None, move |server| {
            let id = probed(server);
            server.refuse(&id, code, "what?");
            let id = opened(server, "2025-11-25");
            session(server, &id, "2025-11-25");
        });
        assert_eq!(client.unwrap().protocol(), Protocol::Session, "{code}");
    }
}

#[test]
fn a_response_without_a_description_means_a_session() {
    for result in [json!({}), json!({"tools": []}), json!({"supportedVersions": "2026-07-28"})] {
        let client = connect_to(None, move |server| {
            let id = probed(server);
            server.answer(&id, result);
            let id = opened(server, "2025-11-25");
            session(server, &id, "2025-06-18");
        });
        assert_eq!(client.unwrap().server().revision, "2025-06-18");
    }
}

#[test]
fn an_error_without_an_id_belongs_to_the_probe() {
    let client = connect_to(None, |server| {
        probed(server);
        server
            .say(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}));
        let id = opened(server, "2025-11-25");
        session(server, &id, "2024-11-05");
    });
    assert_eq!(client.unwrap().server().revision, "2024-11-05");
}

#[test]
fn silence_means_a_session_and_a_late_response_is_dropped() {
    let (link, server) = ScriptedPeer::new();
    let serving = std::thread::spawn(move || {
        let probe = probed(&server);
        let id = opened(&server, "2025-11-25");
        session(&server, &id, "2025-03-26");
        // Until its first call, the client may still hold the probe: the response is not late then.
        server.asked("tools/call");
        server.refuse(&probe, -32601, "late");
    });
    let client = plain().limits(quick()).over(link).unwrap();
    assert_eq!(client.server().revision, "2025-03-26");
    // The late response is read before the end of the connection, which ends the call.
    assert_eq!(client.call_tool("x", ()).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.stats().late, 1);
    serving.join().unwrap();
}

#[test]
fn a_slow_modern_server_is_detected_after_initialize() {
    let client = connect_to_silent(|server| {
        let probe = probed(server);
        let id = opened(server, "2025-11-25");
        server.answer(&probe, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
        server.refuse(&id, -32602, "speaks 2026-07-28 only");
    });
    assert_eq!(client.unwrap().protocol(), Protocol::Stateless);
}

#[test]
fn the_newest_of_the_older_revisions_of_a_server_is_requested() {
    let data = json!({"supported": ["2024-11-05", "2025-06-18", "2099-01-01"], "requested": "2026-07-28"});
    let client = connect_to(None, move |server| {
        let id = probed(server);
        server.say(
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "no", "data": data}}),
        );
        let id = opened(server, "2025-06-18");
        session(server, &id, "2025-06-18");
    });
    assert_eq!(client.unwrap().server().revision, "2025-06-18");
}

#[test]
fn a_server_of_unknown_revisions_is_an_error_that_names_them() {
    let error = connect_to(None, |server| {
        let id = probed(server);
        server.answer(&id, json!({"supportedVersions": ["2099-01-01"], "capabilities": {}}));
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerIncompatible);
    assert!(error.to_string().contains("2099-01-01"), "{error}");
}

#[test]
fn a_session_in_an_unknown_revision_is_refused() {
    for version in ["2026-07-28", "2024-01-01", ""] {
        let error = connect_to(Some(Protocol::Session), move |server| {
            let id = opened(server, "2025-11-25");
            server.answer(&id, json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}));
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerIncompatible, "{version}");
    }
}

#[test]
fn a_client_of_one_era_fails_instead_of_falling_back() {
    let error = connect_to(Some(Protocol::Stateless), |server| {
        let id = probed(server);
        server.refuse(&id, -32601, "Method not found");
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerIncompatible);
    let error = connect_to(Some(Protocol::Session), |server| {
        let id = opened(server, "2025-11-25");
        server.refuse(&id, -32602, "Missing _meta field (this server speaks 2026-07-28)");
    })
    .unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::PeerIncompatible, Some(-32602)));
    assert!(error.to_string().contains("2026-07-28"), "{error}");
}

#[test]
fn a_chosen_era_is_waited_for_longer_than_one_that_is_guessed() {
    let client = connect_with(quick(), Some(Protocol::Stateless), |server| {
        let id = probed(server);
        // Much longer than the silence that selects an era.
        assert_eq!(server.end.receive(quick().client.probe_timeout * 5), None);
        server.answer(&id, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    });
    assert_eq!(client.unwrap().protocol(), Protocol::Stateless);
}

#[test]
fn a_server_that_ends_and_cannot_be_started_again_is_reported() {
    let error = connect_to(None, |server| {
        probed(server);
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn a_ping_before_the_session_is_open_is_answered() {
    let client = connect_to(Some(Protocol::Session), |server| {
        let id = opened(server, "2025-11-25");
        server.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
        assert_eq!(server.receive(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        session(server, &id, "2025-11-25");
    });
    assert!(client.is_ok());
}

#[test]
fn the_opening_of_a_session_is_never_cancelled() {
    let (link, scripted) = ScriptedPeer::new();
    let mut limits = quick();
    limits.client.call_timeout = Duration::from_millis(30);
    let error = plain().limits(limits).protocol(Protocol::Session).over(link).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    opened(&scripted, "2025-11-25");
    assert_eq!(scripted.end.receive(TIMEOUT), None, "the end, and no cancellation before it");
}
