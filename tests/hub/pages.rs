//! Lists in pages: no server waits for another server's, and pages are bounded in bytes.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{ErrorKind, Hub, Limits, MemoryEnd, Upstream, memory};

const SOON: Duration = Duration::from_secs(20);

/// A played server: `answer` gets the method and the cursor. A value with a `code` is an error.
fn played(answer: impl Fn(&str, &str) -> Value + Send + Sync + 'static) -> Upstream {
    let answer = Arc::new(answer);
    Upstream::with(move |client| {
        let (link, end) = memory();
        let answer = Arc::clone(&answer);
        std::thread::spawn(move || serve(&end, &*answer));
        client.over(link)
    })
}

fn serve(end: &MemoryEnd, answer: &dyn Fn(&str, &str) -> Value) {
    while let Some(text) = end.receive(4 * SOON) {
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
    limits.list_timeout = SOON;
    limits.call_timeout = 2 * SOON;
    limits.probe_timeout = 2 * SOON;
    limits
}

#[test]
fn pages_wait_for_no_other_server() {
    // The first server answers when the last page of the other one was requested.
    for held_at in ["tools/list", "server/discover"] {
        let hub = Hub::builder("test", "1.0.0").limits(limits()).build().unwrap();
        let (tell, told) = mpsc::channel::<()>();
        let (tell, told) = (Mutex::new(tell), Mutex::new(told));
        let slow = played(move |method, _| {
            if method == held_at {
                // OK to drop: without the other's page the lists below are wrong.
                let _ = told.lock().unwrap().recv_timeout(2 * SOON);
            }
            match method {
                "server/discover" => json!({"tools": {}}),
                _ => page(0, None, ""),
            }
        });
        let paged = played(move |method, cursor| match (method, cursor) {
            ("server/discover", _) => json!({"tools": {}}),
            (_, "") => page(1, Some(2), ""),
            (_, "2") => page(2, Some(3), ""),
            _ => {
                tell.lock().unwrap().send(()).unwrap();
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
    limits.list_bytes = 10_000;
    let hub = Hub::builder("test", "1.0.0").limits(limits).build().unwrap();
    let endless = played(|method, cursor| match method {
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
        played(move |method, _| match method {
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
