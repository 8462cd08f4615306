//! Race test of one connection: calls, cancellations and changes of the tool list at random. Every call gets one
//! response; only a cancelled call may get none.
//!
//! `TEST_CALLS` sets the number of calls per era. `conformance/threads.sh` runs this under race detectors.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Handle, Level, Limits, Link, Server, Tool};

tinymcp::record! {
    struct Echo { text: String }
}

const TIMEOUT: Duration = Duration::from_secs(300);

/// A small random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn server() -> Server {
    let mut limits = Limits::default();
    limits.workers = 4;
    let mut server = Server::new("race", "1");
    server.limits(limits).logging().tools_may_change();
    server
        .tool(Tool::new("echo"), |_, echo: Echo| Ok(echo.text))
        .unwrap()
        .inline_tool(Tool::new("inline"), |_, echo: Echo| Ok(echo.text))
        .unwrap()
        .tool(Tool::new("steps"), |ctx, echo: Echo| {
            (1..=3).for_each(|n| ctx.progress(f64::from(n), Some(3.0), None));
            ctx.log(Level::Warning, None, "steps")?;
            Ok(echo.text)
        })
        .unwrap()
        .tool(Tool::new("waits"), |ctx, echo: Echo| {
            // Only cancellation ends it.
            ctx.wait(TIMEOUT)?;
            Ok(echo.text)
        })
        .unwrap();
    server
}

/// Adds and removes a tool `count` times, or until serving ends.
fn change_tools(handle: &Handle, count: usize) {
    for _ in 0..count {
        let added = handle.add_tool(Tool::new("extra"), |_, echo: Echo| Ok(echo.text)).is_ok();
        if !added
            || handle.log(Level::Error, None, "changed").is_err()
            || handle.remove_tool("extra").is_err()
        {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn call(id: usize, tool: &str, modern: bool) -> Value {
    let mut params =
        json!({"name": tool, "arguments": {"text": id.to_string()}, "_meta": {"progressToken": id}});
    if modern {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn cancel(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Sends `count` calls; returns the ids of the cancelled ones.
fn send_calls(to: &mut UnixStream, count: usize, modern: bool) -> Vec<usize> {
    let mut random = Random(count as u64 + u64::from(modern));
    let mut cancelled = Vec::new();
    for id in 1..=count {
        let tool = ["echo", "echo", "inline", "steps", "waits"][random.below(5) as usize];
        let mut lines = format!("{}\n", call(id, tool, modern));
        if tool == "waits" || random.below(8) == 0 {
            cancelled.push(id);
        }
        // Some cancellations follow at once, the others after more calls.
        if random.below(2) == 0 || cancelled.len() > 2 {
            for id in cancelled.iter().rev().take(3) {
                lines += &format!("{}\n", cancel(*id));
            }
        }
        to.write_all(lines.as_bytes()).unwrap();
    }
    for id in &cancelled {
        to.write_all(format!("{}\n", cancel(*id)).as_bytes()).unwrap();
    }
    to.shutdown(std::net::Shutdown::Write).unwrap();
    cancelled
}

#[test]
fn calls_and_cancellations_at_random_in_both_eras() {
    let count = std::env::var("TEST_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000);
    for modern in [true, false] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(TIMEOUT)).unwrap();
        let link = Link::lines(theirs.try_clone().unwrap(), theirs, &Limits::default());
        let server = server();
        let handle = server.handle();
        let serving = thread::spawn(move || server.serve(link).unwrap());
        let mut lines = BufReader::new(ours.try_clone().unwrap()).lines().map(Result::unwrap);
        if !modern {
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            ours.write_all(format!("{hello}\n{ready}\n").as_bytes()).unwrap();
            assert!(lines.next().unwrap().contains("2025-11-25"));
        }
        let changing = thread::spawn(move || change_tools(&handle, count / 8));
        let sending = thread::spawn(move || send_calls(&mut ours, count, modern));
        let mut answers = vec![0; count + 1];
        for line in lines {
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = message["id"].as_u64() {
                answers[id as usize] += 1;
                if message["result"]["isError"] != true {
                    assert_eq!(message["result"]["content"][0]["text"], id.to_string(), "{line}");
                }
            }
        }
        changing.join().unwrap();
        serving.join().unwrap();
        let cancelled = sending.join().unwrap();
        for (id, n) in answers.iter().enumerate().skip(1) {
            assert!(*n == 1 || *n == 0 && cancelled.contains(&id), "call {id} got {n} answers");
        }
    }
}
