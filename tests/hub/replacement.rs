//! Removal and replacement of a server while its calls are in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::{
    Client, ClientBuilder, Error, ErrorKind, Hub, Limits, Protocol, Server, ServerState, Tool, Upstream,
    json, memory_links,
};

use super::in_time::in_time;

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);
const ERAS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A gate at which the tool `wait` waits.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicBool, AtomicBool)>);

impl Gate {
    /// Waits until a call has arrived.
    fn reached(&self) {
        wait_until(|| self.0.0.load(Ordering::Acquire));
    }

    fn open(&self) {
        self.0.1.store(true, Ordering::Release);
    }

    fn pass(&self, over: impl Fn() -> bool) {
        self.0.0.store(true, Ordering::Release);
        while !self.0.1.load(Ordering::Acquire) && !over() {
            thread::yield_now();
        }
    }
}

fn wait_until(is_true: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_true() {
        assert!(Instant::now() < until, "not in time");
        thread::yield_now();
    }
}

/// A server with the tools `name`, which returns `name`, and `wait`, which waits at the gate.
fn upstream(name: &'static str, era: Protocol, gate: &Gate) -> Upstream {
    let gate = gate.clone();
    Upstream::from_fn(move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = Server::new(name, "1.0.0");
        server.tool(Tool::new("name"), move |_, _: Nothing| Ok(name))?;
        server.tool(Tool::new(name), move |_, _: Nothing| Ok(name))?;
        let gate = gate.clone();
        server.tool(Tool::new("wait"), move |ctx, _: Nothing| {
            gate.pass(|| ctx.cancelled());
            Ok(name)
        })?;
        thread::spawn(move || server.serve(theirs));
        client.protocol(era).over(ours)
    })
}

/// A served hub with the server `x`, and its client.
fn served(grace: Duration, upstream: Upstream) -> (Hub, Client) {
    let mut limits = Limits::default();
    (limits.grace, limits.client.call_timeout, limits.client.probe_timeout) = (grace, 3 * TIMEOUT, TIMEOUT);
    let hub = Hub::builder("hub", "1.0.0").limits(limits.clone()).build().unwrap();
    let mut server = Server::new("hub", "1.0.0");
    server.limits(limits.clone());
    hub.export(&mut server).unwrap();
    hub.add("x", upstream).unwrap();
    let (theirs, ours) = memory_links();
    thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1.0.0").limits(limits).over(ours).unwrap();
    (hub, client)
}

fn wait_for_servers(hub: &Hub) {
    let states = hub.wait_settled(Instant::now() + TIMEOUT);
    assert!(states.iter().all(|s| matches!(s.state, ServerState::Running(_))), "{states:?}");
}

fn text(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).unwrap().texts()
}

/// The method of a request for the tools.
const LIST: &[u8] = b"\"tools/list\"";

fn tools(client: &Client) -> Vec<String> {
    client.tools().unwrap().into_iter().map(|tool| tool.name).collect()
}

#[test]
fn a_server_is_closed_when_its_calls_in_flight_have_ended() {
    for era in ERAS {
        let (old, new) = (Gate::default(), Gate::default());
        let (hub, client) = served(3 * TIMEOUT, upstream("old", era, &old));
        wait_for_servers(&hub);
        thread::scope(|scope| {
            let call = scope.spawn(|| text(&client, "x__wait"));
            old.reached();
            let replace = || hub.replace("x", upstream("new", era, &new), Instant::now() + TIMEOUT);
            let replaced = scope.spawn(replace);
            // Further calls get the new server while the old one still runs.
            wait_until(|| tools(&client).iter().any(|name| name == "x__new"));
            assert_eq!(text(&client, "x__name"), "new");
            assert!(!replaced.is_finished());
            old.open();
            assert_eq!(call.join().unwrap(), "old");
            replaced.join().unwrap().unwrap();

            let call = scope.spawn(|| text(&client, "x__wait"));
            new.reached();
            let removed = scope.spawn(|| hub.remove("x"));
            wait_until(|| tools(&client).is_empty());
            let error = client.call_tool("x__name", json!({})).unwrap_err();
            assert!(!error.to_string().contains("unknown server"), "{error}");
            assert!(!removed.is_finished());
            new.open();
            assert_eq!(call.join().unwrap(), "new");
            removed.join().unwrap().unwrap();
        });
        hub.close();
    }
}

#[test]
fn a_new_server_is_published_when_its_lists_are_there() {
    for era in ERAS {
        let (hub, client) = served(TIMEOUT, upstream("old", era, &Gate::default()));
        wait_for_servers(&hub);
        let listing = Gate::default();
        let held = listing.clone();
        let new = Upstream::from_fn(move |client: ClientBuilder| {
            let (theirs, ours) = memory_links();
            let mut server = Server::new("new", "1.0.0");
            server.tool(Tool::new("name"), |_, _: Nothing| Ok("new"))?;
            server.tool(Tool::new("new"), |_, _: Nothing| Ok("new"))?;
            let (held, until) = (held.clone(), Instant::now() + TIMEOUT);
            server.on_frame(move |frame| {
                if frame.bytes.windows(LIST.len()).any(|part| part == LIST) {
                    held.pass(|| Instant::now() > until);
                }
            });
            thread::spawn(move || server.serve(theirs));
            client.protocol(era).over(ours)
        });
        thread::scope(|scope| {
            let replaced = scope.spawn(|| hub.replace("x", new, Instant::now() + TIMEOUT));
            listing.reached();
            for _ in 0..100 {
                assert_eq!(tools(&client), ["x__name", "x__old", "x__wait"]);
                assert_eq!(text(&client, "x__name"), "old");
            }
            listing.open();
            replaced.join().unwrap().unwrap();
        });
        assert_eq!(tools(&client), ["x__name", "x__new"]);
        assert_eq!(text(&client, "x__name"), "new");
        hub.close();
    }
}

#[test]
fn calls_that_last_longer_than_the_grace_period_fail_with_the_reason() {
    let short = Duration::from_millis(30);
    for era in ERAS {
        let (old, new) = (Gate::default(), Gate::default());
        let (hub, client) = served(short, upstream("old", era, &old));
        wait_for_servers(&hub);
        let failure = |gate: &Gate, end: &dyn Fn() -> Result<(), Error>| {
            thread::scope(|scope| {
                let call = scope.spawn(|| client.call_tool("x__wait", json!({})));
                gate.reached();
                end().unwrap();
                call.join().unwrap().unwrap().texts()
            })
        };
        let replace = || hub.replace("x", upstream("new", era, &new), Instant::now() + TIMEOUT);
        assert_eq!(failure(&old, &replace), "the server \"x\" was replaced");
        wait_until(|| tools(&client).iter().any(|name| name == "x__new"));
        assert_eq!(failure(&new, &|| hub.remove("x")), "the server \"x\" was removed");
        hub.close();
    }
}

#[test]
fn a_call_that_waits_for_a_server_that_is_replaced_gets_the_new_one() {
    let (block, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let hangs = Upstream::from_fn(move |_| {
        let _ = blocked.lock().unwrap().recv();
        Err(Error::new(ErrorKind::Io, "too late"))
    });
    let (hub, client) = served(TIMEOUT, hangs);
    thread::scope(|scope| {
        let call = scope.spawn(|| text(&client, "x__name"));
        wait_until(|| hub.servers()[0].calls == 1);
        let new = upstream("new", Protocol::Stateless, &Gate::default());
        hub.replace("x", new, Instant::now() + TIMEOUT).unwrap();
        assert_eq!(call.join().unwrap(), "new");
    });
    drop(block);
    hub.close();
}

#[test]
fn calls_wait_for_a_new_server_that_fails_beside_the_old_one() {
    let old = Gate::default();
    let (hub, client) = served(3 * TIMEOUT, upstream("old", Protocol::Session, &old));
    wait_for_servers(&hub);
    let first = AtomicBool::new(true);
    let works = upstream("new", Protocol::Session, &Gate::default());
    let fails_once = Upstream::from_fn(move |client| match first.swap(false, Ordering::Relaxed) {
        true => Err(Error::new(ErrorKind::Busy, "the port is in use")),
        false => works.connect(client),
    });
    thread::scope(|scope| {
        let waits = scope.spawn(|| text(&client, "x__wait"));
        old.reached();
        let replaced = scope.spawn(|| hub.replace("x", fails_once, Instant::now() + TIMEOUT));
        wait_until(|| !matches!(hub.servers()[0].state, ServerState::Running(_)));
        let call = scope.spawn(|| text(&client, "x__name"));
        wait_until(|| hub.servers()[0].calls == 1);
        old.open();
        assert_eq!(waits.join().unwrap(), "old");
        assert_eq!(call.join().unwrap(), "new");
        replaced.join().unwrap().unwrap();
    });
    hub.close();
}

#[test]
fn closing_the_hub_ends_a_server_whose_calls_are_awaited() {
    let gate = Gate::default();
    let (hub, client) = served(3 * TIMEOUT, upstream("old", Protocol::Session, &gate));
    wait_for_servers(&hub);
    thread::scope(|scope| {
        let call = scope.spawn(|| client.call_tool("x__wait", json!({})).unwrap().texts());
        gate.reached();
        let removed = scope.spawn(|| hub.remove("x"));
        wait_until(|| hub.servers().is_empty());
        hub.close();
        assert_eq!(call.join().unwrap(), "the hub is closed");
        removed.join().unwrap().unwrap();
    });
}

#[test]
fn a_short_timeout_ends_calls_but_not_a_slow_start() {
    for era in ERAS {
        in_time(Duration::from_millis(100), |short| timeout_of_calls(era, short));
    }
}

/// The prompt call of the slow server may take longer than the timeout.
fn timeout_of_calls(era: Protocol, short: Duration) -> Option<()> {
    let gate = Gate::default();
    let prompt = upstream("slow", era, &gate);
    let slow = Upstream::from_fn(move |client| {
        let (theirs, between) = memory_links();
        thread::spawn(move || {
            thread::sleep(5 * short);
            let mut server = Server::new("slow", "1.0.0");
            server.tool(Tool::new("name"), |_, _: Nothing| Ok("slow")).unwrap();
            server.serve(theirs)
        });
        client.protocol(era).over(between)
    });
    let (hub, client) = served(TIMEOUT, slow.call_timeout(short));
    wait_for_servers(&hub);
    if text(&client, "x__name") != "slow" {
        return None;
    }
    hub.replace("x", prompt.call_timeout(short), Instant::now() + TIMEOUT).unwrap();
    let failed = hub.call_tool("x__wait", json!({})).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Timeout);
    let failed = client.call_tool("x__wait", json!({})).unwrap();
    assert_eq!(failed.texts(), "The call did not finish before its deadline");
    gate.open();
    Some(())
}
