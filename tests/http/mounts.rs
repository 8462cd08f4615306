//! Further servers at other paths: own entries and sessions, shared limits and access, changes while the
//! server runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use tinymcp::{ErrorKind, Handle, Limits, Mounts, Server, StatusPage, TokenRefusal, Tool};

use crate::client::{Served, initialize, serve_with, server, stage};
use crate::in_time::in_time;

const GET: (&str, &str) = ("Accept", "text/event-stream");

/// A server with one tool of this name, one on a worker and one inline.
fn named(name: &'static str) -> Server {
    let mut server = Server::new(name, "1");
    server.tools_may_change();
    server.tool(Tool::new("name"), move |_, (): ()| Ok(name)).unwrap();
    server.inline_tool(Tool::new("inline"), move |_, (): ()| Ok(name)).unwrap();
    server
}

/// A server at `/mcp`, and its further servers.
fn mounted(server: Server) -> (Served, Mounts) {
    let kept = Mutex::new(None);
    let served = serve_with(server, |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        http
    });
    (served, kept.into_inner().unwrap().unwrap())
}

fn text(answer: crate::client::Answer) -> String {
    answer.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn each_path_has_its_server_in_both_protocols() {
    let (served, mounts) = mounted(named("first"));
    mounts.add("/servers/a/mcp", named("a")).unwrap();
    mounts.add("/servers/b/mcp", named("b")).unwrap();
    for (path, name) in [
        ("/mcp", "first"),
        ("/servers/a/mcp", "a"),
        ("/servers/b/mcp/", "b"),
        ("/mcp/", "first"),
        ("/mcp", "first"),
    ] {
        let served = served.at(path);
        for tool in ["name", "inline"] {
            assert_eq!(text(served.call(tool, json!({}))), name);
        }
        let id = served.open("2025-11-25", json!({}));
        for tool in ["inline", "name"] {
            assert_eq!(text(served.ask(&id, 1, "tools/call", json!({"name": tool, "arguments": {}}))), name);
        }
        let opened = served.post(&[], &initialize("2025-11-25", json!({}))).json();
        assert_eq!(opened["result"]["serverInfo"]["name"], name);
    }
    assert_eq!(served.at("/servers/c/mcp").call("name", json!({})).status, 404);
    for path in ["/servers/a", "/mcp//", "/mcpx", "/", "/servers/a/mcp/x"] {
        assert_eq!(served.at(path).call("name", json!({})).status, 404, "{path}");
    }
}

#[test]
fn without_a_token_no_response_shows_which_servers_exist() {
    const ORIGIN: (&str, &str) = ("Origin", "https://a.example");
    let kept = Mutex::new(None);
    let served = serve_with(named("first"), |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        http.tokens([("a1", "alice")]).allow_origin(ORIGIN.1)
    });
    let mounts = kept.into_inner().unwrap().unwrap();
    mounts.add("/servers/a/mcp", named("a")).unwrap();
    let of = |method: &str, path: &str, fields: &[(&str, &str)]| {
        let response = served.send(method, path, fields, "");
        let fields = ["www-authenticate", "allow", "access-control-allow-methods"];
        let fields = fields.map(|field| response.field(field).map(str::to_owned));
        (response.status, fields, response.body().to_owned())
    };
    let preflight = [ORIGIN, ("Access-Control-Request-Method", "POST")];
    for (method, fields) in [
        ("POST", &[][..]),
        ("GET", &[]),
        ("DELETE", &[]),
        ("PUT", &[]),
        ("OPTIONS", &[ORIGIN]),
        ("OPTIONS", &preflight),
        ("POST", &[("Authorization", "Bearer wrong")]),
    ] {
        let there = of(method, "/servers/a/mcp", fields);
        assert_eq!(there, of(method, "/servers/b/mcp", fields), "{method} {fields:?}");
        assert!([401, 204].contains(&there.0), "{method} {fields:?}: {there:?}");
    }
    assert_eq!(of("POST", "/servers/b/mcp", &[("Authorization", "Bearer a1")]).0, 404);
}

#[test]
fn a_path_with_a_slash_at_its_end_is_also_served_without_it() {
    let kept = Mutex::new(None);
    let served = serve_with(named("first"), |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        http.path("/mcp/")
    });
    let mounts = kept.into_inner().unwrap().unwrap();
    mounts.add("/a/", named("a")).unwrap();
    mounts.add("/b", named("b")).unwrap();
    mounts.add("/b/", named("slash")).unwrap();
    for (path, name) in
        [("/mcp", "first"), ("/mcp/", "first"), ("/a", "a"), ("/a/", "a"), ("/b", "b"), ("/b/", "slash")]
    {
        assert_eq!(text(served.at(path).call("name", json!({}))), name, "{path}");
    }
    for path in ["/mcp//", "/mc", "//", "/a//"] {
        assert_eq!(served.at(path).call("name", json!({})).status, 404, "{path}");
    }
}

#[test]
fn a_session_is_valid_at_its_own_path_only() {
    let (served, mounts) = mounted(named("first"));
    mounts.add("/a", named("a")).unwrap();
    let other = served.at("/a");
    let (id, own) = (other.open("2025-11-25", json!({})), served.open("2025-11-25", json!({})));
    let list = |served: &Served, id: &str| served.ask(id, 1, "tools/list", json!({})).status;
    assert_eq!((list(&served, &id), list(&other, &id)), (404, 200));
    assert_eq!((list(&served, &own), list(&other, &own)), (200, 404));
    let delete = |path: &str, id: &str| served.send("DELETE", path, &[("Mcp-Session-Id", id)], "").status;
    assert_eq!((delete("/mcp", &id), delete("/a", &id), list(&other, &id)), (404, 204, 404));
    assert_eq!(list(&served, &own), 200);
}

#[test]
fn a_server_is_added_and_removed_while_others_serve() {
    let stage = stage();
    let (served, mounts) = mounted(named("first"));
    assert_eq!(served.at("/a").call("name", json!({})).status, 404);
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let mut further = server(stage);
    further.on_shutdown(move || _ = counted.fetch_add(1, Ordering::SeqCst));
    mounts.add("/a", further).unwrap();
    let other = served.at("/a");
    let (id, own) = (other.open("2025-11-25", json!({})), served.open("2025-11-25", json!({})));
    let mut events = served.send("GET", "/a", &[("Mcp-Session-Id", &id), GET], "");
    let mut listening =
        other.modern(&[], "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    listening.message();
    std::thread::scope(|scope| {
        let in_session = scope.spawn(|| other.ask(&id, 1, "tools/call", json!({"name": "wait"})).json());
        let alone = scope.spawn(|| other.call("sleep", json!({})).json());
        stage.await_mark("waits");
        stage.await_mark("sleeps");
        assert!(mounts.remove("/a"));
        for call in [in_session, alone] {
            let result = call.join().unwrap();
            assert_eq!(result["result"]["isError"], true, "{result}");
        }
    });
    stage.await_mark("cancelled");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!(other.call("echo", json!({})).status, 404);
    assert_eq!(other.ask(&id, 1, "tools/list", json!({})).status, 404);
    assert!(std::iter::from_fn(|| events.event()).all(|event| event.data.is_empty()));
    drop(listening.rest());
    assert!(!mounts.remove("/a"));
    // The first server's session stays, and the path is free again.
    assert_eq!(served.ask(&own, 1, "tools/list", json!({})).status, 200);
    mounts.add("/a", named("again")).unwrap();
    assert_eq!(text(other.call("name", json!({}))), "again");
    assert_eq!(other.ask(&id, 1, "tools/list", json!({})).status, 404);
}

#[test]
fn a_change_reaches_the_clients_of_its_server_only() {
    let (served, mounts) = mounted(named("first"));
    let further = named("a");
    let handle: Handle = further.handle();
    mounts.add("/a", further).unwrap();
    let other = served.at("/a");
    let (id, own) = (other.open("2025-11-25", json!({})), served.open("2025-11-25", json!({})));
    let mut events = served.send("GET", "/a", &[("Mcp-Session-Id", &id), GET], "");
    let mut own_events = served.send("GET", "/mcp", &[("Mcp-Session-Id", &own), GET], "");
    handle.add_tool(Tool::new("new"), |_, (): ()| Ok("")).unwrap();
    assert_eq!(events.message()["method"], "notifications/tools/list_changed");
    let tools = |served: &Served, id: &str| {
        let list = served.ask(id, 1, "tools/list", json!({})).json();
        list["result"]["tools"].as_array().unwrap().len()
    };
    assert_eq!((tools(&other, &id), tools(&served, &own)), (3, 2));
    served.handle.remove_tool("inline").unwrap();
    assert_eq!(own_events.message()["method"], "notifications/tools/list_changed");
    assert_eq!((tools(&other, &id), tools(&served, &own)), (3, 1));
}

#[test]
fn all_servers_share_access_and_the_limit_of_sessions() {
    let mut first = named("first");
    let mut limits = Limits::default();
    limits.http.sessions = 2;
    first.limits(limits);
    let kept = Mutex::new(None);
    let served = serve_with(first, |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        let check = |token: &str| match token {
            "good" => Ok("desk".to_owned()),
            _ => Err(TokenRefusal::Invalid),
        };
        http.bearer(check).allow_origin("http://page.example")
    });
    let mounts = kept.into_inner().unwrap().unwrap();
    mounts.add("/a", named("a")).unwrap();
    let other = served.at("/a");
    let good = ("Authorization", "Bearer good");
    let call = |fields: &[(&str, &str)]| other.modern(fields, "tools/call", json!({"name": "name"})).status;
    assert_eq!(call(&[]), 401);
    assert_eq!(call(&[("Authorization", "Bearer bad")]), 401);
    assert_eq!(call(&[good, ("Host", "evil.example")]), 403);
    assert_eq!(call(&[good, ("Origin", "http://evil.example")]), 403);
    assert_eq!(call(&[good, ("Origin", "http://page.example")]), 200);
    let open = |served: &Served| {
        let opened = served.post(&[good], &initialize("2025-11-25", json!({})));
        opened.field("mcp-session-id").unwrap().to_owned()
    };
    let is_open = |served: &Served, id: &str| {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        served.post(&[good, ("Mcp-Session-Id", id)], &list).status == 200
    };
    let (a, b, c) = (open(&other), open(&served), open(&other));
    assert_eq!((is_open(&other, &a), is_open(&served, &b), is_open(&other, &c)), (false, true, true));
}

#[test]
fn deadlines_and_the_shutdown_cover_further_servers() {
    in_time(Duration::from_millis(100), deadlines_and_shutdown);
}

fn deadlines_and_shutdown(deadline: Duration) -> Option<()> {
    let stage = stage();
    let mut limits = Limits::default();
    limits.handler_deadline = deadline;
    let mut first = named("first");
    first.limits(limits);
    let (served, mounts) = mounted(first);
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let mut further = server(stage);
    further.on_shutdown(move || _ = counted.fetch_add(1, Ordering::SeqCst));
    mounts.add("/a", further).unwrap();
    let other = served.at("/a");
    let late = other.call("sleep", json!({})).json();
    assert_eq!(late["result"]["isError"], true, "{late}");
    let id = other.open("2025-11-25", json!({"elicitation": {}}));
    let mut asking = other.ask(&id, 1, "tools/call", json!({"name": "ask"}));
    if asking.message()["method"] != "elicitation/create" {
        return None;
    }
    served.handle.stop();
    assert_eq!(asking.message()["method"], "notifications/cancelled");
    assert_eq!(asking.message()["result"]["isError"], true);
    served.ended();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!(mounts.add("/b", named("b")).unwrap_err().kind(), ErrorKind::Closed);
    Some(())
}

#[test]
fn paths_are_valid_and_unique() {
    let http = named("first").http().page(StatusPage::new("/healthz", "text/plain", String::new));
    let mounts = http.mounts();
    let error = |mounts: &Mounts, path: &str| mounts.add(path, named("x")).unwrap_err();
    for path in ["a", "/a?b", "/a b", ""] {
        assert_eq!(error(&mounts, path).kind(), ErrorKind::Invalid, "{path}");
    }
    mounts.add("/a", named("a")).unwrap();
    assert!(error(&mounts, "/a").to_string().contains("duplicate path \"/a\""));
    let _bound = http.bind("127.0.0.1:0").unwrap();
    for path in ["/mcp", "/healthz", "/a"] {
        assert_eq!(error(&mounts, path).kind(), ErrorKind::Invalid, "{path}");
    }
    let http = named("first").http();
    http.mounts().add("/mcp", named("a")).unwrap();
    assert_eq!(http.bind("127.0.0.1:0").err().unwrap().kind(), ErrorKind::Invalid);
}

#[test]
fn requests_during_changes_are_handled_or_get_404() {
    let (served, mounts) = mounted(named("first"));
    let (other, calls) = (served.at("/a"), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for round in 0..100 {
                mounts.add("/a", named("a")).unwrap();
                let calls = || calls.load(Ordering::SeqCst);
                let until = calls() + round % 3;
                while calls() < until {
                    std::thread::yield_now();
                }
                assert!(mounts.remove("/a"));
            }
        });
        while !changing.is_finished() {
            let answer = other.call("name", json!({}));
            calls.fetch_add(1, Ordering::SeqCst);
            match answer.status {
                404 => {}
                // The response of a call that was cancelled with its server.
                200 => {
                    let result = answer.json();
                    let text = result["result"]["content"][0]["text"].as_str();
                    assert!(matches!(text, Some("a" | "The server was removed")), "{result}");
                }
                status => panic!("{status}"),
            }
            assert_eq!(text(served.call("name", json!({}))), "first");
        }
    });
}

#[test]
fn event_streams_of_a_principal_end_and_those_of_others_stay() {
    let first = named("first");
    let of_first = first.handle();
    let kept = Mutex::new(None);
    let served = serve_with(first, |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        http.tokens([("token-of-alice", "alice"), ("token-of-bob", "bob")])
    });
    let mounts = kept.into_inner().unwrap().unwrap();
    let further = named("a");
    let handles = [of_first, further.handle()];
    mounts.add("/a", further).unwrap();
    let bearer = |name: &str| format!("Bearer token-of-{name}");
    let open = |name: &str, path: &str| {
        let (bearer, served) = (bearer(name), served.at(path));
        let token = ("Authorization", &*bearer);
        let id = served
            .post(&[token], &initialize("2025-11-25", json!({})))
            .field("mcp-session-id")
            .unwrap()
            .to_owned();
        let session = ("Mcp-Session-Id", &*id);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(served.post(&[token, session], &ready).status, 202);
        let events = served.send("GET", path, &[token, session, GET], "");
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let mut listening = served.modern(&[token], "subscriptions/listen", filter);
        listening.message();
        (id, events, listening)
    };
    for (path, handle) in [("/mcp", &handles[0]), ("/a", &handles[1])] {
        let ((id, alice, alone), (_, mut bob, mut other)) = (open("alice", path), open("bob", path));
        mounts.end_streams("alice");
        for stream in [alice, alone] {
            let (sender, ended) = mpsc::channel();
            std::thread::spawn(move || sender.send(stream.rest()));
            ended.recv_timeout(Duration::from_secs(20)).expect("the stream ends");
        }
        handle.add_tool(Tool::new("more"), |_, (): ()| Ok("")).unwrap();
        for stream in [&mut bob, &mut other] {
            assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
        }
        // The session continues.
        let bearer = bearer("alice");
        let fields = [("Authorization", &*bearer), ("Mcp-Session-Id", &*id)];
        let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"});
        assert_eq!(served.at(path).post(&fields, &list).status, 200);
    }
}
