//! Lists in pages: no server waits for another server's, and pages are bounded in bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{ErrorKind, Hub, Limits, MemoryEnd, Protocol, Server, Upstream, memory};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A scripted server: `answer` gets the method and the cursor. A value with a `code` is an error.
fn scripted(answer: impl Fn(&str, &str) -> Value + Send + Sync + 'static) -> Upstream {
    let answer = Arc::new(answer);
    Upstream::from_fn(move |client| {
        let (link, end) = memory();
        let answer = Arc::clone(&answer);
        std::thread::spawn(move || serve(&end, &*answer));
        client.over(link)
    })
}

fn serve(end: &MemoryEnd, answer: &dyn Fn(&str, &str) -> Value) {
    while let Some(text) = end.receive(4 * TIMEOUT) {
        let message: Value = serde_json::from_str(&text).unwrap();
        let Some(id) = message.get("id") else { continue };
        let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
        let result = match message["method"].as_str().unwrap() {
            "server/discover" => {
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": answer("server/discover", "")})
            }
            method => answer(method, cursor),
        };
        let member = if result["code"].is_null() { "result" } else { "error" };
        end.send(&json!({"jsonrpc": "2.0", "id": id, member: result}).to_string());
    }
}

fn page(number: usize, next: Option<usize>, words: &str) -> Value {
    let tool = json!({"name": format!("t{number}"), "description": words, "inputSchema": {"type": "object"}});
    let page = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]});
    match next {
        None => page,
        Some(next) => {
            let mut page = page;
            page["nextCursor"] = json!(next.to_string());
            page
        }
    }
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.hub.list_timeout = TIMEOUT;
    limits.client.call_timeout = 2 * TIMEOUT;
    limits.client.probe_timeout = 2 * TIMEOUT;
    limits
}

#[test]
fn pages_wait_for_no_other_server() {
    // The first server answers when the last page of the other one was requested.
    for held_at in ["tools/list", "server/discover"] {
        let hub = Hub::builder("test", "1.0.0").limits(limits()).build().unwrap();
        let (sender, received) = mpsc::channel::<()>();
        let (sender, received) = (Mutex::new(sender), Mutex::new(received));
        let slow = scripted(move |method, _| {
            if method == held_at {
                // OK to drop: without the other's page the lists below are wrong.
                let _ = received.lock().unwrap().recv_timeout(2 * TIMEOUT);
            }
            match method {
                "server/discover" => json!({"tools": {}}),
                _ => page(0, None, ""),
            }
        });
        let paged = scripted(move |method, cursor| match (method, cursor) {
            ("server/discover", _) => json!({"tools": {}}),
            (_, "") => page(1, Some(2), ""),
            (_, "2") => page(2, Some(3), ""),
            _ => {
                sender.lock().unwrap().send(()).unwrap();
                page(3, None, "")
            }
        });
        hub.add("slow", slow).unwrap();
        hub.add("paged", paged).unwrap();
        let tools = hub.tools();
        assert!(tools.missing.is_empty(), "{held_at}: {:?}", tools.missing);
        let names: Vec<_> = tools.entries.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["slow__t0", "paged__t1", "paged__t2", "paged__t3"], "{held_at}");
        hub.close();
    }
}

#[test]
fn pages_are_bounded_in_bytes() {
    let mut limits = limits();
    limits.client.list_bytes = 10_000;
    let hub = Hub::builder("test", "1.0.0").limits(limits).build().unwrap();
    let endless = scripted(|method, cursor| match method {
        "server/discover" => json!({"tools": {}}),
        _ => {
            let number = cursor.parse().unwrap_or(0);
            page(number, Some(number + 1), &"w".repeat(4000))
        }
    });
    hub.add("endless", endless).unwrap();
    let tools = hub.tools();
    assert_eq!(tools.missing.first().map(|missing| missing.error.kind()), Some(ErrorKind::Limit));
    assert_eq!(tools.entries.len(), 2);
    hub.close();
}

#[test]
fn a_list_that_a_server_does_not_have_is_empty() {
    let hub = Hub::builder("test", "1.0.0").limits(limits()).build().unwrap();
    let refuses = |code: i32| {
        scripted(move |method, _| match method {
            "server/discover" => json!({"resources": {}}),
            "resources/templates/list" => json!({"code": code, "message": "no"}),
            _ => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "resources": []}),
        })
    };
    hub.add("without", refuses(-32601)).unwrap();
    hub.add("broken", refuses(-32603)).unwrap();
    let templates = hub.templates();
    assert!(templates.entries.is_empty());
    let missing: Vec<&str> = templates.missing.iter().map(|missing| &*missing.server).collect();
    assert_eq!(missing, ["broken"]);
    hub.close();
}

/// A server of the session protocol that reports a change after each list, and counts the lists.
fn restless(lists: &Arc<AtomicUsize>) -> Upstream {
    let lists = Arc::clone(lists);
    Upstream::from_fn(move |client| {
        let (link, end) = memory();
        let lists = Arc::clone(&lists);
        std::thread::spawn(move || {
            while let Some(text) = end.receive(4 * TIMEOUT) {
                let message: Value = serde_json::from_str(&text).unwrap();
                let result = match message["method"].as_str().unwrap_or_default() {
                    "initialize" => {
                        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                                           "serverInfo": {"name": "restless", "version": "1"}})
                    }
                    "tools/list" => json!({"tools": []}),
                    _ => continue,
                };
                end.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
                if message["method"] == "tools/list" {
                    lists.fetch_add(1, Ordering::Relaxed);
                    end.send(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
                }
            }
        });
        client.protocol(Protocol::Session).over(link)
    })
}

#[test]
fn a_server_that_reports_a_change_after_each_list_is_listed_ten_times_a_second() {
    let hub = Hub::builder("pages", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("pages", "1.0.0");
    hub.export(&mut server).unwrap();
    let (lists, began) = (Arc::default(), Instant::now());
    hub.add("restless", restless(&lists)).unwrap();
    let count = loop {
        let count = lists.load(Ordering::Relaxed);
        if count >= 5 {
            break count;
        }
        assert!(began.elapsed() < TIMEOUT, "{count} lists");
        std::thread::yield_now();
    };
    let most = began.elapsed().as_millis() / 100 + 1;
    assert!(count as u128 <= most, "{count} lists instead of {most}");
    hub.close();
}

#[test]
fn a_page_of_the_hub_has_a_bound_in_bytes() {
    let hub = Hub::builder("pages", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("pages", "1.0.0");
    hub.export(&mut server).unwrap();
    for (key, count, length) in [("long", 60, 100_000), ("short", 3, 10)] {
        let connect = move |client: tinymcp::ClientBuilder| {
            let (theirs, ours) = tinymcp::memory_links();
            let mut server = Server::new(key, "1");
            for n in 0..count {
                let tool = tinymcp::Tool::new(format!("t{n}")).description("x".repeat(length));
                server.tool(tool, |_, (): ()| Ok("x"))?;
            }
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        };
        hub.add(key, Upstream::from_fn(connect)).unwrap();
    }
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = tinymcp::memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = tinymcp::Client::builder("test", "1").limits(limits()).over(ours).unwrap();
    let page = client.request_tools(None).wait().unwrap();
    assert!((1..=10).contains(&page.entries.len()), "{} tools of 100 kB", page.entries.len());
    assert_eq!(client.tools().unwrap().len(), 63);
}
