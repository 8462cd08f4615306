//! A caller that waits for a response of a child reads it itself. Nothing is lost, late or stuck, with any number of
//! waiting callers, unexpected messages and ways to end the wait.
//!
//! The tests do not depend on which thread reads at a moment. They make some calls first, so that a caller can read.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::{
    Call, Client, ClientBuilder, ElicitResponse, Error, ErrorKind, Limits, Protocol, ToolOutput, json,
};

use super::children::{legacy, session, threads};
use super::in_time::in_time;
use super::race::{Random, strict_server};
use super::scripted::{TIMEOUT, holding, plain};

/// A server in a session. It responds to `quick` calls. For a `slow` one it writes `begun` as stray output and half of the
/// response, and the other half when it gets a cancellation. `cases` adds further behaviour.
fn slow(cases: &str) -> Command {
    session(&format!(
        r#"text() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"%s"}}]}}}}\n' "$1" "$2"; }}
while read -r message; do
id=${{message#*'"id":'}}; id=${{id%%,*}}
case "$message" in
{cases}
*'"quick"'*) text "$id" quick;;
*'"slow"'*) printf 'begun\n{{"jsonrpc":"2.0","id":%s,"resu' "$id";;
*cancelled*) printf 'lt":{{"content":[]}}}}\n';;
esac
done"#
    ))
}

/// A client of this server, and the receiver of its stray output.
fn slow_client(builder: ClientBuilder, cases: &str) -> (Client, mpsc::Receiver<String>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    // OK to drop: the test may be over.
    let builder = builder.on_stray_output(move |line| drop(sender.lock().unwrap().send(line.to_owned())));
    let client = builder.spawn(slow(cases)).unwrap();
    quickly(&client, 20);
    (client, receiver)
}

fn quickly(client: &Client, times: usize) {
    for _ in 0..times {
        assert_eq!(client.call_tool("quick", json!({})).unwrap().texts(), "quick");
    }
}

fn begin(client: &Client, tool: &str) -> Call<ToolOutput> {
    client.request_tool(tool, json!({})).start().unwrap()
}

/// Waits on another thread and returns the result, with a timeout.
fn waiting<T: Send + 'static>(call: Call<T>) -> mpsc::Receiver<Result<T, Error>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(call.wait()));
    receiver
}

fn begun(stray: &mpsc::Receiver<String>) {
    assert_eq!(stray.recv_timeout(TIMEOUT).unwrap(), "begun");
}

/// Set for a process that runs only one test.
const ALONE: &str = "TEST_TURNS_ALONE";

/// Runs a test that counts threads in a process without other tests.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", test, "--test-threads=1"]).env(ALONE, "1").status().unwrap();
    assert!(status.success());
}

/// Number of reads of the client threads, or of their context switches if the system does not report reads.
#[cfg(target_os = "linux")]
fn reads() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let readers = tasks
        .filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|c| c.trim() == "mcp-client"));
    let number = |file: String, name: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    readers
        .map(|task| match std::fs::read_to_string(task.join("io")) {
            Ok(io) => number(io, "syscr:"),
            Err(_) => {
                number(std::fs::read_to_string(task.join("status")).unwrap(), "voluntary_ctxt_switches:")
            }
        })
        .sum()
}

/// Makes a thousand calls one after another. The reader thread reads only a few of the responses: those for which
/// the caller was delayed for longer than that thread waits.
#[cfg(target_os = "linux")]
fn callers_read(client: &Client) {
    let before = reads();
    for n in 0..1000 {
        let text = n.to_string();
        assert_eq!(client.call_tool("echo", json!({"text": text.as_str()})).unwrap().texts(), text);
    }
    let by_the_thread = reads() - before;
    assert!(by_the_thread < 500, "the reader thread made {by_the_thread} of 1000 reads");
}

#[cfg(target_os = "linux")]
#[test]
fn the_calling_thread_reads() {
    alone("caller_reads::the_calling_thread_reads", || {
        for era in [Protocol::Stateless, Protocol::Session] {
            callers_read(&plain().protocol(era).spawn(strict_server()).unwrap());
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_calling_thread_reads_also_after_a_listener_that_panicked() {
    alone("caller_reads::the_calling_thread_reads_also_after_a_listener_that_panicked", || {
        let step = r#"*'"echo"'*) text=${message#*'"text":"'}; text "$id" "${text%%\"*}";;
*'"steps"'*) printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n' "$id";;"#;
        let (client, _noise) = slow_client(legacy(), step);
        let request = client.request_tool("steps", json!({})).on_progress(|_| panic!("panic of the test"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| request.wait()));
        assert!(panicked.is_err());
        assert_eq!(client.in_flight(), 0, "a call without a waiter is cancelled");
        callers_read(&client);
    });
}

#[test]
fn a_call_is_cancelled_after_half_of_its_response() {
    let (client, stray) = slow_client(legacy(), "");
    for n in 1..=20 {
        let call = begin(&client, "slow");
        let canceller = call.canceller();
        let outcome = waiting(call);
        begun(&stray);
        canceller.cancel();
        let error = outcome.recv_timeout(TIMEOUT).expect("the cancelled call ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        // The rest of the line precedes this response.
        quickly(&client, 1);
        assert_eq!((client.stats().late, client.in_flight()), (n, 0));
    }
}

#[test]
fn a_cancelled_call_ends_even_if_the_frame_observer_panics() {
    let builder = legacy().on_frame(|frame| {
        let text = String::from_utf8_lossy(frame.bytes);
        assert!(!text.contains("notifications/cancelled"), "panic of the test");
    });
    let (client, stray) = slow_client(builder, "");
    let call = begin(&client, "slow");
    let canceller = call.canceller();
    let outcome = waiting(call);
    begun(&stray);
    assert!(std::thread::spawn(move || canceller.cancel()).join().is_err(), "the observer panics");
    let error = outcome.recv_timeout(TIMEOUT).expect("the cancelled call ends").unwrap_err();
    assert_eq!((error.kind(), client.in_flight()), (ErrorKind::Cancelled, 0));
}

#[test]
fn a_deadline_passes_after_half_of_the_response() {
    let (client, stray) = slow_client(legacy(), "");
    for n in 1..=20 {
        let request = client.request_tool("slow", json!({})).timeout(Duration::from_millis(10));
        assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Timeout);
        begun(&stray);
        quickly(&client, 1);
        assert_eq!((client.stats().late, client.in_flight()), (n, 0));
    }
}

#[test]
fn a_server_that_never_ends_a_message_blocks_no_caller() {
    // Blank lines and lines that are too long are skipped, so no message is ever complete.
    for flood in ["yes ''", "yes | tr -d '\\n'"] {
        let mut limits = Limits::default();
        (limits.frame_bytes, limits.client.child_exit) = (100_000, Duration::from_millis(100));
        let flood = format!("*'\"flood\"'*) echo begun; {flood} & {flood} & exec {flood};;");
        let (client, stray) = slow_client(legacy().limits(limits), &flood);
        let (sender, receiver) = mpsc::channel();
        let (caller, also) = (client.clone(), client.clone());
        std::thread::spawn(move || {
            let short = caller.request_tool("flood", json!({})).timeout(Duration::from_millis(50));
            sender.send(short.wait()).unwrap();
            let call = begin(&caller, "slow");
            let canceller = call.canceller();
            std::thread::spawn(move || canceller.cancel());
            sender.send(call.wait()).unwrap();
            sender.send(caller.call_tool("slow", json!({}))).unwrap();
        });
        begun(&stray);
        for kind in [ErrorKind::Timeout, ErrorKind::Cancelled] {
            assert_eq!(receiver.recv_timeout(TIMEOUT).expect("the call ends").unwrap_err().kind(), kind);
        }
        also.close();
        let error = receiver.recv_timeout(TIMEOUT).expect("the call ends with the connection").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}

#[test]
fn quick_calls_are_answered_while_another_thread_waits_for_long() {
    let release = r#"*'"release"'*) text "$slow" slow; text "$id" released;;
*'"slow"'*) slow=$id; echo begun;;"#;
    let (client, stray) = slow_client(legacy(), release);
    for _ in 0..10 {
        let long = waiting(begin(&client, "slow"));
        begun(&stray);
        quickly(&client, 20);
        assert_eq!(client.call_tool("release", json!({})).unwrap().texts(), "released");
        assert_eq!(long.recv_timeout(TIMEOUT).unwrap().unwrap().texts(), "slow");
    }
}

#[test]
fn a_waiting_caller_gets_its_response_after_the_reading_caller_has_left() {
    // The server responds to `first` when `second` arrives, and to `second` at a cancellation.
    let cases = r#"*'"first"'*) first=$id; echo begun;;
*'"second"'*) second=$id; echo begun; text "$first" first;;
*'"never"'*) ;;
*cancelled*) text "$second" second;;"#;
    let (client, stray) = slow_client(legacy(), cases);
    for _ in 0..20 {
        let first = waiting(begin(&client, "first"));
        begun(&stray);
        let second = waiting(begin(&client, "second"));
        begun(&stray);
        assert_eq!(first.recv_timeout(TIMEOUT).unwrap().unwrap().texts(), "first");
        begin(&client, "never").cancel();
        assert_eq!(second.recv_timeout(TIMEOUT).unwrap().unwrap().texts(), "second");
    }
}

#[test]
fn started_calls_are_awaited_in_any_order_or_polled() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let client = plain().protocol(era).spawn(strict_server()).unwrap();
        let mut random = Random(7);
        for _ in 0..20 {
            let mut calls: Vec<_> = (0..30)
                .map(|n| {
                    let text = n.to_string();
                    (
                        text.clone(),
                        client.request_tool("echo", json!({"text": text.as_str()})).start().unwrap(),
                    )
                })
                .collect();
            while !calls.is_empty() {
                let next = usize::try_from(random.below(calls.len() as u64)).unwrap();
                let (text, mut call) = calls.swap_remove(next);
                let answer = if random.below(2) == 0 {
                    call.wait()
                } else {
                    // No time at all: only the reader thread can deliver this one.
                    let until = Instant::now() + TIMEOUT;
                    loop {
                        assert!(Instant::now() < until, "no response arrives");
                        if let Some(answer) = call.wait_until(Instant::now()) {
                            break answer;
                        }
                        std::thread::yield_now();
                    }
                };
                assert_eq!(answer.unwrap().texts(), text);
            }
        }
    }
}

/// Sends a request before its response to `asks`, and responds when it has the answer.
const ASKS: &str = r#"*'"asks"'*) asks=$id; printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}\n';;
*'"id":"q"'*) text "$asks" asked;;"#;

#[test]
fn a_request_of_the_server_is_handled_without_a_waiting_caller() {
    let (ask, asked) = mpsc::channel();
    let ask = Mutex::new(ask);
    let builder = legacy().on_elicit(move |_| {
        ask.lock().unwrap().send(()).unwrap();
        Ok(ElicitResponse::decline())
    });
    let (client, _noise) = slow_client(builder, ASKS);
    for _ in 0..20 {
        let call = begin(&client, "asks");
        asked.recv_timeout(TIMEOUT).expect("the handler runs without a waiting caller");
        assert_eq!(call.wait().unwrap().texts(), "asked");
        quickly(&client, 1);
    }
}

#[test]
fn an_elicitation_suspends_the_deadline_of_the_reading_caller() {
    in_time(Duration::from_millis(100), |time| {
        let (hold, held) = holding();
        let builder = legacy().on_elicit(move |_| {
            hold(());
            Ok(ElicitResponse::decline())
        });
        let (client, _noise) = slow_client(builder, ASKS);
        let outcome = waiting(client.request_tool("asks", json!({})).timeout(time).start().unwrap());
        held.begun();
        // The handler has its own time, unless the deadline of the call had passed when it started.
        if outcome.recv_timeout(2 * time).is_ok() {
            return None;
        }
        held.go_on();
        let answer = outcome.recv_timeout(TIMEOUT).expect("the call ends");
        answer.ok().map(|answer| assert_eq!(answer.texts(), "asked"))
    });
}

#[test]
fn messages_after_the_last_call_are_delivered_without_another_call() {
    let news = r#"*'"last"'*) text "$id" last; echo news;;
*'"long"'*) sleep 0.03; text "$id" long; echo news;;
*'"both"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\nnews\n' "$id";;"#;
    let (client, stray) = slow_client(legacy(), news);
    for _ in 0..20 {
        for tool in ["last", "both", "long"] {
            client.call_tool(tool, json!({})).unwrap();
            assert_eq!(stray.recv_timeout(TIMEOUT).unwrap(), "news", "after {tool}");
            quickly(&client, 3);
        }
    }
}

#[test]
fn finished_calls_do_not_block_the_next_reader() {
    let mut left = TIMEOUT;
    // One success can be a coincidence, for example because a caller was delayed.
    for _ in 0..10 {
        let (client, stray) = slow_client(legacy(), r#"*'"never"'*) echo news; exec 3>&1 cat >/dev/null;;"#);
        let stopped = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (client, stopped) = (client.clone(), Arc::clone(&stopped));
                std::thread::spawn(move || {
                    while !stopped.load(Ordering::Relaxed) {
                        let call = begin(&client, "never");
                        call.canceller().cancel();
                        assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Cancelled);
                        // Slowly enough that the pipe is never full, which would block the caller.
                        (0..10_000).for_each(|_| std::hint::spin_loop());
                    }
                })
            })
            .collect();
        let began = Instant::now();
        let news = stray.recv_timeout(left);
        left = left.saturating_sub(began.elapsed());
        stopped.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(news.expect("the notification is delivered during other calls"), "news");
    }
}

#[test]
fn a_request_blocked_by_a_full_pipe_is_sent_without_a_waiting_caller() {
    let fifo = std::env::temp_dir().join(format!("tinymcp-turns-{}", std::process::id()));
    let path = fifo.to_str().unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let full = format!("*'\"stop\"'*) text $id stopped; read -r go <{path};;\n*'\"large\"'*) echo news;;");
    let (client, stray) = slow_client(legacy(), &full);
    assert_eq!(client.call_tool("stop", json!({})).unwrap().texts(), "stopped");
    let large = "x".repeat(300_000);
    let call =
        client.request_tool("large", json!({"text": large.as_str()})).timeout(Duration::from_millis(30));
    assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Timeout);
    std::fs::write(path, "go\n").unwrap();
    assert_eq!(stray.recv_timeout(TIMEOUT).unwrap(), "news", "the whole line has left");
    quickly(&client, 3);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_slow_listener_does_not_delay_other_callers() {
    let step = r#"*'"steps"'*) steps=$id; printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n' "$id";;
*'"release"'*) text "$id" released; text "$steps" done;;"#;
    let (client, _noise) = slow_client(legacy(), step);
    let (hold, held) = holding();
    let call = client.request_tool("steps", json!({})).on_progress(move |_| hold(())).start().unwrap();
    let outcome = waiting(call);
    held.begun();
    let (others, done) = (client.clone(), Arc::new(Barrier::new(3)));
    for _ in 0..2 {
        let (client, done) = (others.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            quickly(&client, 20);
            done.wait();
        });
    }
    done.wait();
    assert_eq!(client.call_tool("release", json!({})).unwrap().texts(), "released");
    held.go_on();
    assert_eq!(outcome.recv_timeout(TIMEOUT).unwrap().unwrap().texts(), "done");
}

#[test]
fn a_child_that_dies_while_a_caller_reads_is_reported_once_with_the_reason() {
    let (end, ended) = mpsc::channel();
    let end = Mutex::new(end);
    let builder = legacy().on_end(move |why| end.lock().unwrap().send(why.to_string()).unwrap());
    let (client, stray) = slow_client(builder, r#"*'"die"'*) printf 'begun\n{"jsonrpc'; exit 5;;"#);
    let (one, other) = (waiting(begin(&client, "slow")), waiting(begin(&client, "die")));
    for outcome in [one, other] {
        let error = outcome.recv_timeout(TIMEOUT).expect("the call ends with the server").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("status 5"), "{error}");
    }
    begun(&stray);
    assert!(ended.recv_timeout(TIMEOUT).unwrap().contains("status 5"));
    drop(client);
    assert!(ended.recv_timeout(TIMEOUT).is_err(), "the end is reported once");
}

/// Ends only by SIGKILL after this call, within the time of any test.
const STUBBORN: &str =
    r#"*'"stay"'*) trap '' TERM; echo "$$"; for n in 1 2 3 4 5 6 7 8 9; do sleep 10; done;;"#;

#[test]
fn a_reading_caller_ends_at_once_when_another_thread_closes() {
    let mut limits = Limits::default();
    limits.client.child_exit = 2 * TIMEOUT;
    let (client, stray) = slow_client(legacy().limits(limits), STUBBORN);
    let outcome = waiting(begin(&client, "stay"));
    let number = stray.recv_timeout(TIMEOUT).unwrap();
    // Closing waits for the exit of the child, for longer than this test does.
    let (sender, closed) = mpsc::channel();
    std::thread::spawn(move || {
        client.close();
        sender.send(()).unwrap();
    });
    let error = outcome.recv_timeout(TIMEOUT).expect("the caller does not wait for the child").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(Command::new("kill").args(["-9", number.trim()]).status().unwrap().success());
    closed.recv_timeout(TIMEOUT).expect("closing ends after the exit of the child");
}

#[test]
fn closing_while_a_caller_reads_is_bounded_and_leaves_no_thread() {
    alone("caller_reads::closing_while_a_caller_reads_is_bounded_and_leaves_no_thread", || {
        for drops in [false, true] {
            let mut limits = Limits::default();
            limits.client.child_exit = Duration::from_millis(100);
            let (client, stray) = slow_client(legacy().limits(limits), STUBBORN);
            let outcome = waiting(begin(&client, "stay"));
            stray.recv_timeout(TIMEOUT).unwrap();
            let (sender, closed) = mpsc::channel();
            // The last handle of a client closes it as well.
            std::thread::spawn(move || {
                if !drops {
                    client.close();
                }
                drop(client);
                sender.send(()).unwrap();
            });
            let error = outcome.recv_timeout(TIMEOUT).expect("the call ends").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
            closed.recv_timeout(TIMEOUT).expect("closing ends");
            let until = Instant::now() + TIMEOUT;
            while threads() > 0 && Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(threads(), 0);
        }
    });
}
