//! Servers of this library in one process, under one hub.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tinymcp::{
    Client, ErrorKind, Hub, Level, Limits, Resource, ResourceContents, Server, ServerState, Tool, Upstream,
    json, memory_links,
};

use super::downstream::inside;

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// A server with a tool that returns the name of its server, and one that never ends.
fn named(name: &'static str) -> Server {
    let mut server = Server::new(name, "1.0.0");
    server.logging().tools_may_change().resource_updates();
    server
        .tool(Tool::new("whoami"), move |_, _: Nothing| Ok(name))
        .unwrap()
        .tool(Tool::new("waits"), |ctx, _: Nothing| {
            while !ctx.cancelled() {
                std::thread::yield_now();
            }
            Ok("cancelled")
        })
        .unwrap()
        .tool(Tool::new("logs"), |ctx, _: Nothing| {
            ctx.log(Level::Warning, None, "careful")?;
            Ok("logged")
        })
        .unwrap()
        .resource(Resource::new("test://same", "same"), move |_, uri| Ok(ResourceContents::text(uri, name)))
        .unwrap();
    server
}

/// A server that reads everything and writes nothing.
fn silent() -> Upstream {
    Upstream::from_fn(|client| {
        let (theirs, ours) = memory_links();
        // Leaked, so that the link stays open.
        std::mem::forget(theirs);
        client.over(ours)
    })
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.hub.list_timeout = TIMEOUT;
    limits.client.probe_timeout = Duration::from_millis(300);
    limits.client.call_timeout = 2 * TIMEOUT;
    limits
}

fn hub() -> Hub {
    Hub::builder("test", "1.0.0").limits(limits()).build().unwrap()
}

fn names(hub: &Hub) -> Vec<String> {
    hub.tools().entries.iter().map(|tool| tool.name.clone()).collect()
}

#[test]
fn lists_are_merged_in_the_order_of_the_servers() {
    let hub = hub();
    for name in ["zeta", "alpha"] {
        hub.add(name, inside(move || named(name))).unwrap();
    }
    let want = ["zeta__whoami", "zeta__waits", "zeta__logs", "alpha__whoami", "alpha__waits", "alpha__logs"];
    assert_eq!(names(&hub), want);
    assert_eq!(names(&hub), want);
    let resources = hub.resources();
    assert_eq!(resources.entries.iter().map(|r| &*r.server).collect::<Vec<_>>(), ["zeta", "alpha"]);
    assert!(resources.missing.is_empty(), "{:?}", resources.missing);
    assert!(hub.prompts().entries.is_empty());
}

#[test]
fn calls_are_routed_to_the_named_server() {
    let hub = hub();
    for name in ["one", "two"] {
        hub.add(name, inside(move || named(name))).unwrap();
    }
    for name in ["one", "two"] {
        assert_eq!(hub.call_tool(&format!("{name}__whoami"), json!({})).unwrap().texts(), name);
        let read = hub.read_resource(name, "test://same").unwrap();
        assert!(format!("{read:?}").contains(name));
    }
    // Started together, waited for in reverse order: both connections count their ids from 1.
    let first = hub.request_tool("one__whoami", json!({})).unwrap().start().unwrap();
    let second = hub.request_tool("two__whoami", json!({})).unwrap().start().unwrap();
    assert_eq!(second.wait().unwrap().texts(), "two");
    assert_eq!(first.wait().unwrap().texts(), "one");
    assert_eq!(hub.call_tool("whoami", json!({})).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(hub.call_tool("three__whoami", json!({})).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(hub.call_tool("one__nothing", json!({})).unwrap_err().kind(), ErrorKind::Remote);
}

#[test]
fn a_silent_and_a_dead_server_are_reported_and_delay_no_other() {
    // On a busy machine the other servers may be late, too: then the lists get more time.
    let in_time = [300, 3000, 30_000].map(Duration::from_millis).into_iter().any(silent_and_dead);
    assert!(in_time, "the lists of the others are late with every time limit");
}

/// Returns true if all but the silent server gave their lists or failed in this time.
fn silent_and_dead(time: Duration) -> bool {
    let mut limits = limits();
    limits.hub.list_timeout = time;
    let hub = Hub::builder("test", "1.0.0").limits(limits).build().unwrap();
    hub.add("good", inside(|| named("good"))).unwrap();
    hub.add("silent", silent()).unwrap();
    hub.add("dead", Upstream::command(|| std::process::Command::new("/nonexistent/server"))).unwrap();
    let tools = hub.tools();
    let missing: Vec<_> = tools.missing.iter().map(|m| (&*m.server, m.error.kind())).collect();
    // The emulator copies the memory that posix_spawn wants to share with the child, so the failure is not
    // reported: there, the dead server starts and ends.
    let emulated = std::env::var_os("TEST_EMULATED").is_some();
    let dead = if emulated { ErrorKind::Closed } else { ErrorKind::Io };
    if tools.entries.len() < 3 || missing.last() == Some(&("dead", ErrorKind::Timeout)) {
        return false;
    }
    assert_eq!(missing, [("silent", ErrorKind::Timeout), ("dead", dead)]);
    assert_eq!(hub.call_tool("good__whoami", json!({})).unwrap().texts(), "good");
    let status = hub.servers();
    assert!(matches!(status[0].state, ServerState::Running(_)));
    assert!(matches!(status[1].state, ServerState::Connecting));
    assert!(matches!(status[2].state, ServerState::Down { kind, again: false, .. } if kind == dead));
    true
}

#[test]
fn closing_does_not_wait_for_a_server_that_is_still_connecting() {
    let mut limits = limits();
    limits.client.probe_timeout = Duration::from_secs(600);
    let hub = Hub::builder("test", "1.0.0").limits(limits).build().unwrap();
    hub.add("silent", silent()).unwrap();
    let (done, closed) = mpsc::channel();
    let closing = hub.clone();
    std::thread::spawn(move || {
        closing.close();
        done.send(()).unwrap();
    });
    closed.recv_timeout(TIMEOUT).expect("the hub is closed");
    assert!(hub.servers().is_empty());
}

#[test]
fn calls_in_flight_end_when_their_server_is_removed_or_restarted() {
    for remove in [true, false] {
        let hub = hub();
        hub.add("one", inside(|| named("one"))).unwrap();
        let call = hub.request_tool("one__waits", json!({})).unwrap().start().unwrap();
        if remove {
            hub.remove("one").unwrap();
        } else {
            hub.restart("one").unwrap();
        }
        assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Closed);
        match remove {
            true => assert_eq!(hub.client("one").unwrap_err().kind(), ErrorKind::Invalid),
            false => assert_eq!(hub.call_tool("one__whoami", json!({})).unwrap().texts(), "one"),
        }
    }
}

#[test]
fn keys_are_unique_and_have_no_colon() {
    let hub = hub();
    hub.add("one", inside(|| named("one"))).unwrap();
    assert_eq!(hub.add("one", inside(|| named("one"))).unwrap_err().kind(), ErrorKind::Misuse);
    for key in ["", "a:b", "a b", "\u{e9}", &"x".repeat(33)] {
        assert_eq!(hub.add(key, inside(|| named("x"))).unwrap_err().kind(), ErrorKind::Invalid, "{key:?}");
    }
    hub.remove("one").unwrap();
    hub.add("one", inside(|| named("one"))).unwrap();
}

#[test]
fn stderr_of_servers_is_tagged_with_their_key() {
    let (logged, logs) = mpsc::channel();
    let (received, changes) = mpsc::channel();
    let hub = Hub::builder("test", "1.0.0")
        .limits(limits())
        .on_log(Level::Debug, move |server, entry| logged.send((server.to_owned(), entry.level)).unwrap())
        .on_change(move |server, change| {
            // The test may be over.
            let _ = received.send((server.to_owned(), format!("{change:?}")));
        })
        .build()
        .unwrap();
    let (handles, handle) = mpsc::channel();
    hub.add("one", inside(|| named("one"))).unwrap();
    hub.add(
        "two",
        inside(move || {
            let server = named("two");
            handles.send(server.handle()).unwrap();
            server
        }),
    )
    .unwrap();
    hub.call_tool("one__logs", json!({})).unwrap();
    assert_eq!(logs.recv_timeout(TIMEOUT).unwrap(), ("one".to_owned(), Level::Warning));
    hub.subscribe("two", "test://same").unwrap();
    handle.recv_timeout(TIMEOUT).unwrap().resource_updated("test://same").unwrap();
    let (server, change) = changes.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(server, "two");
    assert!(change.contains("test://same"), "{change}");
}

#[test]
fn a_hub_returns_the_client_of_a_server() {
    let hub = hub();
    hub.add("one", inside(|| named("one"))).unwrap();
    let client: Client = hub.client("one").unwrap();
    assert_eq!(client.server().name, "one");
    assert_eq!(client.call_tool("whoami", json!({})).unwrap().texts(), "one");
    let status = hub.wait_settled(Instant::now() + TIMEOUT);
    assert!(matches!(&status[0].state, ServerState::Running(info) if info.name == "one"));
}
