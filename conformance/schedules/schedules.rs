//! Models: each runs in thousands of schedules and checks what must hold in all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::json::{Doc, Json};
use crate::model::client_request::InputRequest;
use crate::model_sync::thread;
use crate::pool::{Pool, PoolSize};
use crate::transport::client::schedules_reader as reader;
use crate::{Client, Protocol, Server, Tool, memory, memory_links};

/// Longer than any schedule; such a wait ends only with its reason.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Every model, by name. The callers of those whose names begin with `reader` or `woken` must read; in those with
/// `woken` the reader thread reads only when it is woken.
pub const MODELS: &[(&str, fn())] = &[
    ("pool", || pool(TIMEOUT)),
    ("pool_idle", || pool(Duration::from_millis(1))),
    ("pool_withdraw_and_close", pool_withdraw_and_close),
    ("server_pooled_calls", server_pooled_calls),
    ("server_cancelled_calls", server_cancelled_calls),
    ("server_request_while_opening", server_request_while_opening),
    ("client_three_callers", client_three_callers),
    ("client_cancel", client_cancel),
    ("client_end", client_end),
    ("reader_for_others", reader::for_others),
    ("reader_cancel", reader::cancel),
    ("reader_cancel_alone", reader::cancel_alone),
    ("reader_deadline", reader::deadline),
    ("reader_listener", reader::listener),
    ("reader_close", reader::close),
    ("reader_gone", reader::gone),
    ("reader_notifications", reader::notifications),
    ("woken_for_others", reader::for_others),
    ("woken_cancel", reader::cancel),
    ("woken_cancel_alone", reader::cancel_alone),
    ("woken_deadline", reader::deadline),
    ("woken_listener", reader::listener),
    ("woken_close", reader::close),
    ("woken_gone", reader::gone),
    ("http_responses", crate::schedules_http::responses),
    ("http_stream_of_many", crate::schedules_http::stream_of_many),
    ("http_backlog", crate::schedules_http::backlog),
    ("http_peer_gone", crate::schedules_http::peer_gone),
];

/// Frames that callers have read since this was asked before.
pub fn read_by_callers() -> usize {
    reader::READ_BY_CALLERS.swap(0, Ordering::Relaxed)
}

fn size(workers: usize, queue: usize, idle: Duration) -> PoolSize {
    PoolSize { workers, queue, stack: 64 << 10, idle }
}

/// Two submitters, two workers, room for one job: every job runs once, and the pool becomes idle.
fn pool(idle: Duration) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let pool = Arc::new(Pool::new(size(2, 1, idle), move |n: usize| {
        thread::yield_now();
        counted.fetch_add(n, Ordering::Relaxed);
    }));
    let second = Arc::clone(&pool);
    let other = thread::spawn(move || {
        for _ in 0..3 {
            second.submit(1).expect("the pool is open");
        }
    });
    pool.submit_all(&mut vec![10, 10, 10], |_| true).expect("the pool is open");
    other.join().unwrap();
    assert!(pool.wait_idle(Instant::now() + TIMEOUT));
    assert_eq!(count.load(Ordering::Relaxed), 33);
}

/// Jobs that are withdrawn or rejected do not run, the others do.
fn pool_withdraw_and_close() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let pool = Arc::new(Pool::new(size(1, 2, TIMEOUT), move |n: usize| {
        counted.fetch_add(n, Ordering::Relaxed);
    }));
    let second = Arc::clone(&pool);
    let submitting = thread::spawn(move || (0..4).filter(|_| second.submit(1).is_ok()).count());
    let withdrawn = pool.withdraw(&mut |_| true).len();
    pool.close();
    let accepted = submitting.join().unwrap();
    assert!(pool.wait_idle(Instant::now() + TIMEOUT));
    assert_eq!(count.load(Ordering::Relaxed) + withdrawn, accepted);
}

/// A request outside of calls that is made while the session becomes ready is sent.
fn server_request_while_opening() {
    let (link, mut end) = memory();
    let server = server(false);
    let handle = server.handle();
    let serving = thread::spawn(move || server.serve(link));
    assert!(end.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#
    ));
    assert!(end.receive(TIMEOUT).is_some_and(|opened| id(&opened) == Some(1)));
    let asking = thread::spawn(move || {
        let connections = handle.shared().expect("served").connections();
        connections[0].send_request(InputRequest::Roots, Box::new(|_| ())).is_ok()
    });
    assert!(end.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    assert!(asking.join().unwrap());
    assert!(end.receive(TIMEOUT).is_some_and(|asked| asked.contains("roots/list")));
    end.finish();
    serving.join().unwrap().expect("served");
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn call(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{{}},{META}}}}}"#)
}

fn id(message: &str) -> Option<u64> {
    Doc::parse(message).unwrap().root().get("id").and_then(|id| id.as_u64())
}

fn server(waits: bool) -> Server {
    let mut server = Server::new("s", "1");
    let tool = move |ctx: &mut crate::Context<'_>, _: Json| {
        if waits {
            // Ends when the call is cancelled.
            let _ = ctx.wait(TIMEOUT);
        }
        Ok("done")
    };
    server.tool(Tool::new("t"), tool).expect("a tool");
    server
}

/// Pooled calls of one connection: one answer each, and serving ends with the input.
fn server_pooled_calls() {
    let (link, mut end) = memory();
    let serving = thread::spawn(move || server(false).serve(link));
    for n in 1..4 {
        assert!(end.send(&call(n)));
    }
    end.finish();
    let mut ids: Vec<u64> = std::iter::from_fn(|| end.receive(TIMEOUT)).filter_map(|m| id(&m)).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    serving.join().unwrap().expect("served");
}

/// A cancelled call ends without an answer; the others are answered; serving ends.
fn server_cancelled_calls() {
    let (link, mut end) = memory();
    let serving = thread::spawn(move || server(true).serve(link));
    assert!(end.send(&call(1)) && end.send(&call(2)));
    for n in 1..3 {
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":N}}"#;
        assert!(end.send(&cancel.replace('N', &n.to_string())));
    }
    assert!(end.send(&format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{{{META}}}}}"#)));
    end.finish();
    let ids: Vec<u64> = std::iter::from_fn(|| end.receive(TIMEOUT)).filter_map(|m| id(&m)).collect();
    assert_eq!(ids, [3]);
    serving.join().unwrap().expect("served");
}

/// A client and a server in one process.
fn pair() -> (Client, thread::JoinHandle<()>) {
    let (one, two) = memory_links();
    let mut server = Server::new("s", "1");
    server.inline_tool(Tool::new("t"), |_, arguments: Json| Ok(arguments.as_str().to_owned())).expect("a tool");
    server.tool(Tool::new("w"), |ctx, _: Json| Ok(format!("{:?}", ctx.wait(TIMEOUT).is_err()))).expect("a tool");
    let serving = thread::spawn(move || server.serve(one).expect("served"));
    let client = Client::builder("c", "1").protocol(Protocol::Stateless).over(two).expect("a greeting");
    (client, serving)
}

fn arguments(n: usize) -> Json {
    Json::parse(format!("{{\"n\":{n}}}")).unwrap()
}

/// Three threads call on one connection: each gets its own answer, whichever thread reads it.
fn client_three_callers() {
    let (client, serving) = pair();
    let client = Arc::new(client);
    let callers: Vec<_> = (0..3)
        .map(|n| {
            let client = Arc::clone(&client);
            thread::spawn(move || {
                for round in 0..2 {
                    let n = 10 * n + round;
                    let output = client.call_tool("t", arguments(n)).expect("an answer");
                    assert!(format!("{output:?}").contains(&format!("{n}")), "{output:?}");
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(client.in_flight(), 0);
    client.close();
    serving.join().unwrap();
}

/// A call that is cancelled by another thread ends, and the calls beside it are answered.
fn client_cancel() {
    let (client, serving) = pair();
    let client = Arc::new(client);
    let waiting = client.request_tool("w", arguments(0)).start().expect("a call");
    let canceller = waiting.canceller();
    let waiter = thread::spawn(move || waiting.wait().is_err());
    let other = Arc::clone(&client);
    let caller = thread::spawn(move || other.call_tool("t", arguments(1)).expect("an answer"));
    canceller.cancel();
    assert!(waiter.join().unwrap(), "a cancelled call fails");
    caller.join().unwrap();
    client.close();
    serving.join().unwrap();
}

/// Closing a client ends the calls of its other threads.
fn client_end() {
    let (client, serving) = pair();
    let client = Arc::new(client);
    let callers: Vec<_> = (0..2)
        .map(|n| {
            let client = Arc::clone(&client);
            thread::spawn(move || while client.call_tool("t", arguments(n)).is_ok() {})
        })
        .collect();
    client.close();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert!(client.ended().is_some());
    serving.join().unwrap();
}
