//! Functions around tools, observers and limits on calls, with tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tinymcp::{CallLimit, Limits, TaskSupport, Tool};

use crate::wire::{Gate, Wire, server, tool};

#[test]
fn functions_around_tools_run_with_the_handler_of_a_task() {
    let gate = Gate::default();
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let (around, observed) = (Arc::clone(&runs), Arc::clone(&runs));
    let mut server = server(&gate);
    server
        .around_tools(move |ctx, call, next| {
            around.lock().unwrap().push(format!("{} {}", call.tool().name, ctx.task_id().is_some()));
            next.run(ctx)
        })
        .observe(move |request| {
            if let Some(name) = request.name {
                observed.lock().unwrap().push(format!("{name} {:?}", request.outcome));
            }
        });
    let mut wire = Wire::serve(server, Limits::default());
    let created = wire.stateless("tools/call", tool("gated"));
    gate.open();
    assert_eq!(wire.over(&created)["status"], "completed");
    let mut runs = runs.lock().unwrap().clone();
    runs.sort_unstable();
    // The call ends with the creation of the task.
    assert_eq!(runs, ["gated Ok", "gated true"]);
}

#[test]
fn a_task_counts_until_it_ends() {
    let gate = Gate::default();
    let mut server = server(&gate);
    server.limit_calls(CallLimit::new().concurrent(1));
    let mut wire = Wire::serve(server, Limits::default());
    let created = wire.stateless("tools/call", tool("gated"));
    gate.await_arrivals(1);
    let refused = wire.stateless("tools/call", tool("gated"));
    assert_eq!((&refused["code"], &refused["data"]), (&json!(429), &json!({"retryAfter": 1})));
    // The client may follow the task meanwhile.
    let state = wire.stateless("tasks/get", json!({"taskId": created["taskId"]}));
    assert_eq!(state["status"], "working");
    gate.open();
    assert_eq!(wire.over(&created)["status"], "completed");
    let until = Instant::now() + Duration::from_secs(20);
    while wire.stateless("tools/call", tool("gated"))["code"] == 429 {
        assert!(Instant::now() < until, "the task still counts");
    }
}

#[test]
fn a_cancelled_task_counts_until_its_handler_returns() {
    let (began, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, may_end) = (Arc::clone(&began), Arc::clone(&ends));
    let mut server = server(&Gate::default());
    // A handler that does not notice that it is cancelled.
    let stubborn = Tool::new("stubborn").task(TaskSupport::Optional);
    server
        .limit_calls(CallLimit::new().concurrent(1))
        .tool(stubborn, move |_, ()| {
            begins.store(true, Ordering::Release);
            while !may_end.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok("done")
        })
        .unwrap();
    let mut wire = Wire::serve(server, Limits::default());
    let created = wire.stateless("tools/call", tool("stubborn"));
    while !began.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    wire.stateless("tasks/cancel", json!({"taskId": created["taskId"]}));
    assert_eq!(wire.over(&created)["status"], "cancelled");
    assert_eq!(wire.stateless("tools/call", tool("stubborn"))["code"], 429);
    ends.store(true, Ordering::Release);
    let until = Instant::now() + Duration::from_secs(20);
    while wire.stateless("tools/call", tool("stubborn"))["code"] == 429 {
        assert!(Instant::now() < until, "the task still counts");
    }
}
