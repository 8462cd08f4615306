//! Frames of both sides of a served hub, as `on_frame` reports them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{Client, Direction, Frame, Hub, Protocol, Server, Tool, Upstream, json, memory_links};

use super::proxy::in_all_eras;

tinymcp::record! {
    struct Word { word: String }
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// Side, connection, direction, principal and text of each frame.
type Seen = Arc<Mutex<Vec<(&'static str, String, Direction, String, String)>>>;

fn recorder(seen: &Seen, side: &'static str) -> impl Fn(&Frame<'_>) + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    move |frame| {
        assert!(frame.is_whole);
        let text = String::from_utf8(frame.bytes.to_vec()).unwrap();
        let principal = frame.principal.unwrap_or("-").to_owned();
        seen.lock().unwrap().push((side, frame.connection.to_owned(), frame.direction, principal, text));
    }
}

fn one(era: Protocol) -> Server {
    let mut server = match era {
        Protocol::Session => Server::session_only("one", "1"),
        Protocol::Stateless => Server::stateless_only("one", "1"),
    };
    server.tool(Tool::new("echo"), |_, Word { word }: Word| Ok(word)).unwrap();
    server
}

/// A hub with one server, and the server that exports it.
fn exported(upstream: Upstream) -> (Seen, Server) {
    let seen = Seen::default();
    let hub = Hub::builder("proxy", "1").on_frame(recorder(&seen, "server")).build().unwrap();
    let mut server = Server::new("proxy", "1");
    server.on_frame(recorder(&seen, "client"));
    hub.export(&mut server).unwrap();
    hub.add("one", upstream).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    (seen, server)
}

/// Calls the tool; the call and its result must be observed once on each side, in order.
fn observed(seen: &Seen, client: &Client, name: &str, principal: &str) {
    assert_eq!(client.call_tool("one__echo", json!({"word": "needle"})).unwrap().texts(), "needle");
    let seen = seen.lock().unwrap();
    let frames: Vec<_> = seen.iter().filter(|frame| frame.4.contains("needle")).collect();
    let order: Vec<_> = frames.iter().map(|frame| (frame.0, frame.2)).collect();
    assert_eq!(
        order,
        [
            ("client", Direction::Received),
            ("server", Direction::Sent),
            ("server", Direction::Received),
            ("client", Direction::Sent),
        ],
        "{seen:#?}"
    );
    for (side, connection, _, who, text) in frames {
        assert!(tinymcp::json::Doc::parse(text).is_ok(), "{text}");
        match *side {
            "server" => assert_eq!((&**connection, &**who), ("one", "-")),
            _ => assert!(connection.starts_with(name) && who == principal, "{connection} {who}"),
        }
    }
    assert!(seen.iter().all(|frame| !frame.4.is_empty() && !frame.4.ends_with('\n')));
}

#[test]
fn frames_of_links_are_observed_on_both_sides() {
    in_all_eras(|below, above| {
        let (seen, server) = exported(Upstream::from_fn(move |client| {
            let (theirs, ours) = memory_links();
            std::thread::spawn(move || one(above).serve(theirs));
            client.over(ours)
        }));
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = Client::builder("test", "1").protocol(below).over(ours).unwrap();
        observed(&seen, &client, "link", "-");
    });
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn frames_of_http_are_observed_on_both_sides() {
    use tinymcp::{Endpoint, HttpServer};

    fn serve(server: HttpServer) -> String {
        let bound = server.no_signal_handlers().bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", bound.address());
        std::thread::spawn(move || bound.serve());
        url
    }

    in_all_eras(|below, above| {
        let (seen, server) = exported(Upstream::url(&*serve(one(above).http())));
        let handle = server.handle();
        let url = serve(server.http().tokens([("0123456789", "alice")]));
        let endpoint = Endpoint::new(&url).bearer_token("0123456789");
        let (changed, changes) = std::sync::mpsc::channel();
        let client = Client::builder("test", "1").protocol(below).on_change(move |change| {
            // The test may be over.
            let _ = changed.send(change.clone());
        });
        let client = client.connect(endpoint).unwrap();
        let name = if below == Protocol::Session { "session-" } else { "request-" };
        observed(&seen, &client, name, "alice");
        if below == Protocol::Session {
            // A notification on the event stream that belongs to no call.
            handle.add_tool(Tool::new("more"), |_, ()| Ok("")).unwrap();
            changes.recv_timeout(TIMEOUT).unwrap();
            let listed = |frame: &&(_, String, Direction, _, String)| {
                frame.0 == "client" && frame.4.contains("notifications/tools/list_changed")
            };
            let seen = seen.lock().unwrap();
            let found: Vec<_> = seen.iter().filter(listed).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].1.starts_with("session-") && found[0].2 == Direction::Sent, "{found:?}");
        }
        // An error without a response of a handler is a frame, too.
        assert!(client.call_tool("one__other", json!({})).is_err());
        let seen = seen.lock().unwrap();
        assert!(seen.iter().any(|frame| frame.2 == Direction::Sent && frame.4.contains("one__other")));
    });
}

#[test]
fn a_notification_outside_of_calls_is_observed() {
    in_all_eras(|below, above| {
        let handles = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&handles);
        let (seen, server) = exported(Upstream::from_fn(move |client| {
            let (theirs, ours) = memory_links();
            let mut server = one(above);
            server.tools_may_change();
            made.lock().unwrap().push(server.handle());
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        }));
        let (changed, changes) = std::sync::mpsc::channel();
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = Client::builder("test", "1").protocol(below).on_change(move |change| {
            // The test may be over.
            let _ = changed.send(change.clone());
        });
        let client = client.over(ours).unwrap();
        // A session gets notifications once the server has read that it is ready.
        client.call_tool("one__echo", json!({"word": "w"})).unwrap();
        handles.lock().unwrap()[0].add_tool(Tool::new("more"), |_, ()| Ok("")).unwrap();
        changes.recv_timeout(TIMEOUT).unwrap();
        let listed = "notifications/tools/list_changed";
        let seen = seen.lock().unwrap();
        let sides = seen.iter().filter(|frame| frame.4.contains(listed)).map(|frame| (frame.0, frame.2));
        assert_eq!(
            sides.collect::<Vec<_>>(),
            [("server", Direction::Received), ("client", Direction::Sent)],
            "{seen:#?}"
        );
        drop(client);
    });
}

#[test]
fn values_that_a_server_gets_are_known() {
    let upstream = Upstream::command(|| {
        let mut command = std::process::Command::new("true");
        command.env("A", "first").env_remove("B");
        command
    });
    assert_eq!(upstream.secrets(), ["first"]);
    #[cfg(feature = "http-client")]
    {
        let endpoint = tinymcp::Endpoint::new("http://localhost/mcp").bearer_token("token").header("X", "y");
        assert_eq!(Upstream::url(endpoint).secrets(), ["Bearer token", "y"]);
    }
}
