//! A tool that has been quick is run by the thread that reads; when it is not quick for once,
//! another thread reads on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::json::{Doc, Json};
use tinymcp::{Limits, MemoryEnd, Server, Tool, memory};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

/// A server whose tool `gate` waits for a word when its arguments say so, and tells when it does.
struct Gate {
    client: MemoryEnd,
    /// On which thread a handler waits.
    waiting: Receiver<String>,
    open: Sender<()>,
    serving: thread::JoinHandle<Result<(), tinymcp::Error>>,
}

fn gate(workers: usize) -> Gate {
    let (link, client) = memory();
    let (tell, waiting) = channel();
    let (open, opened) = channel::<()>();
    let opened = Arc::new(Mutex::new(opened));
    let mut limits = Limits::default();
    limits.workers = workers;
    let mut server = Server::new("gate", "1");
    server.limits(limits);
    server
        .tool(Tool::new("gate"), move |_, arguments: Json| {
            if arguments.to_doc().root().get("wait").is_some() {
                tell.send(thread::current().name().unwrap_or_default().to_owned())?;
                opened.lock().unwrap().recv_timeout(HANG)?;
            }
            Ok(thread::current().name().unwrap_or_default().to_owned())
        })
        .unwrap();
    let serving = thread::spawn(move || server.serve(link));
    client.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#);
    client.receive(HANG).expect("a greeting");
    Gate { client, waiting, open, serving }
}

impl Gate {
    fn call(&self, id: u64, wait: bool) {
        let arguments = if wait { r#"{"wait":true}"# } else { "{}" };
        self.client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"gate","arguments":{arguments}}}}}"#
        ));
    }

    /// The id of the next answer.
    fn answered(&self) -> u64 {
        let text = self.client.receive(HANG).expect("an answer");
        Doc::parse(text.as_bytes()).unwrap().root().get("id").unwrap().as_u64().unwrap()
    }

    /// Calls the tool until it is trusted to be quick: until the thread that reads runs it.
    fn warm_up(&self) {
        for id in 1000..100_000 {
            self.call(id, false);
            let text = self.client.receive(HANG).expect("an answer");
            if text.contains("mcp-reader") {
                return;
            }
        }
        panic!("the tool was never run by the thread that reads");
    }

    /// Leaves call 1 waiting in its handler, on the thread that reads.
    fn get_stuck(&self) {
        // On a busy machine, and more so under emulation, every second call may be slow for a while.
        let end = Instant::now() + 6 * HANG;
        while Instant::now() < end {
            self.warm_up();
            self.call(1, true);
            if self.waiting.recv_timeout(HANG).expect("the handler runs").starts_with("mcp-reader") {
                return;
            }
            // The last warming call was slow by chance, so this one went to a worker: once more.
            self.open.send(()).unwrap();
            assert_eq!(self.answered(), 1);
        }
        panic!("the thread that reads never ran the call that waits");
    }
}

#[test]
fn a_quick_tool_that_waits_once_holds_nobody_up() {
    for workers in [1, 2] {
        let mut gate = gate(workers);
        gate.get_stuck();
        // The handler is stuck; reading goes on, and so do calls of the same tool.
        gate.client.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        assert_eq!(gate.answered(), 2);
        gate.call(3, false);
        assert_eq!(gate.answered(), 3);
        gate.open.send(()).unwrap();
        assert_eq!(gate.answered(), 1);
        gate.client.finish();
        gate.serving.join().unwrap().unwrap();
    }
}

#[test]
fn a_stuck_quick_tool_can_be_cancelled() {
    let mut gate = gate(1);
    gate.get_stuck();
    gate.client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    gate.client.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    assert_eq!(gate.answered(), 2);
    gate.open.send(()).unwrap();
    gate.call(3, false);
    assert_eq!(gate.answered(), 3, "a cancelled call is not answered");
    gate.client.finish();
    gate.serving.join().unwrap().unwrap();
}

#[test]
fn the_end_of_input_waits_for_a_stuck_quick_tool() {
    let mut gate = gate(1);
    gate.get_stuck();
    gate.client.finish();
    gate.open.send(()).unwrap();
    assert_eq!(gate.answered(), 1);
    gate.serving.join().unwrap().unwrap();
}

#[test]
fn every_pipelined_call_is_answered_once() {
    let gate = gate(2);
    gate.warm_up();
    let client = Arc::new(gate.client);
    let sender = {
        let client = Arc::clone(&client);
        thread::spawn(move || {
            for id in 0..20_000 {
                client.send(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"gate"}}}}"#
                ));
            }
        })
    };
    let mut answered = BTreeSet::new();
    for _ in 0..20_000 {
        let text = client.receive(HANG).expect("an answer");
        let id = Doc::parse(text.as_bytes()).unwrap().root().get("id").unwrap().as_u64().unwrap();
        assert!(answered.insert(id), "{id} was answered twice");
    }
    sender.join().unwrap();
    assert_eq!(answered.len(), 20_000);
}
