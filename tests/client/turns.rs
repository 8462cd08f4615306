//! Who waits for an answer of a child reads it, and nothing is lost, late or stuck for it: whoever else waits, whatever
//! comes unasked, and however the wait ends.
//!
//! None of this says who reads at a certain moment, which is nobody's business: each test is right whoever does, and
//! makes some calls first so that a caller can.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::{
    Call, Client, ClientBuilder, Error, ErrorKind, FormResponse, Limits, Protocol, ToolOutput, json,
};

use super::children::{legacy, session, threads};
use super::played::{SOON, holding, in_time, plain};
use super::race::{Dice, strict_server};

/// A server in a session. It gives `quick` calls back; of a `slow` one it says half the answer, and `begun` before that
/// as noise, and the other half when it hears of a cancellation. What else it does is `cases`.
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

/// A client of that, and what hears of its noise.
fn slow_client(builder: ClientBuilder, cases: &str) -> (Client, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    // Who is still told when the test is over tells nobody.
    let builder = builder.on_noise(move |line| drop(tell.lock().unwrap().send(line.to_owned())));
    let client = builder.spawn(slow(cases)).unwrap();
    quickly(&client, 20);
    (client, told)
}

fn quickly(client: &Client, times: usize) {
    for _ in 0..times {
        assert_eq!(client.call_tool("quick", json!({})).unwrap().texts(), "quick");
    }
}

fn begin(client: &Client, tool: &str) -> Call<ToolOutput> {
    client.request_tool(tool, json!({})).start().unwrap()
}

/// Waits on a thread of its own; gives what comes of it, in time.
fn waiting<T: Send + 'static>(call: Call<T>) -> mpsc::Receiver<Result<T, Error>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(call.wait()));
    told
}

fn begun(noise: &mpsc::Receiver<String>) {
    assert_eq!(noise.recv_timeout(SOON).unwrap(), "begun");
}

/// Set for a process that runs one test and nothing else.
const ALONE: &str = "TEST_TURNS_ALONE";

/// Runs what counts threads in a process that has no others.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", test, "--test-threads=1"]).env(ALONE, "1").status().unwrap();
    assert!(status.success());
}

/// How often threads of clients have read anything so far, or the same of switches where that is not told.
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

/// Makes a thousand calls one after another, of which the thread that is there for it reads but a few: those
/// for which the caller was kept from asking for longer than it is waited for.
#[cfg(target_os = "linux")]
fn callers_read(client: &Client) {
    let before = reads();
    for n in 0..1000 {
        let text = n.to_string();
        assert_eq!(client.call_tool("echo", json!({"text": text.as_str()})).unwrap().texts(), text);
    }
    let by_the_thread = reads() - before;
    assert!(by_the_thread < 500, "{by_the_thread} of 1000 answers were not read by who waited");
}

#[cfg(target_os = "linux")]
#[test]
fn who_calls_reads() {
    alone("turns::who_calls_reads", || {
        for era in [Protocol::Stateless, Protocol::Session] {
            callers_read(&plain().protocol(era).spawn(strict_server()).unwrap());
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn who_calls_reads_also_after_a_listener_that_panicked() {
    alone("turns::who_calls_reads_also_after_a_listener_that_panicked", || {
        let step = r#"*'"echo"'*) text=${message#*'"text":"'}; text "$id" "${text%%\"*}";;
*'"steps"'*) printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}\n' "$id";;"#;
        let (client, _noise) = slow_client(legacy(), step);
        let request = client.request_tool("steps", json!({})).on_progress(|_| panic!("as the test wants it"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| request.wait()));
        assert!(panicked.is_err());
        assert_eq!(client.in_flight(), 0, "nobody waits for it any more: it is cancelled");
        callers_read(&client);
    });
}

#[test]
fn a_call_is_cancelled_while_its_answer_is_half_there() {
    let (client, noise) = slow_client(legacy(), "");
    for n in 1..=20 {
        let call = begin(&client, "slow");
        let canceller = call.canceller();
        let outcome = waiting(call);
        begun(&noise);
        canceller.cancel();
        let error = outcome.recv_timeout(SOON).expect("who waits is told").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        // The rest of the line comes before this answer.
        quickly(&client, 1);
        assert_eq!((client.stats().late, client.in_flight()), (n, 0));
    }
}

#[test]
fn a_deadline_comes_while_the_answer_is_half_there() {
    let (client, noise) = slow_client(legacy(), "");
    for n in 1..=20 {
        let request = client.request_tool("slow", json!({})).timeout(Duration::from_millis(10));
        assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Timeout);
        begun(&noise);
        quickly(&client, 1);
        assert_eq!((client.stats().late, client.in_flight()), (n, 0));
    }
}

#[test]
fn a_server_that_never_ends_a_message_keeps_nobody() {
    // Blank lines are skipped, and so is a line that is too long: there is never a message to look at.
    for flood in ["yes ''", "yes | tr -d '\\n'"] {
        let mut limits = Limits::default();
        (limits.frame_bytes, limits.child_exit) = (100_000, Duration::from_millis(100));
        let flood = format!("*'\"flood\"'*) echo begun; {flood} & {flood} & exec {flood};;");
        let (client, noise) = slow_client(legacy().limits(limits), &flood);
        let (tell, told) = mpsc::channel();
        let (caller, also) = (client.clone(), client.clone());
        std::thread::spawn(move || {
            let short = caller.request_tool("flood", json!({})).timeout(Duration::from_millis(50));
            tell.send(short.wait()).unwrap();
            let call = begin(&caller, "slow");
            let canceller = call.canceller();
            std::thread::spawn(move || canceller.cancel());
            tell.send(call.wait()).unwrap();
            tell.send(caller.call_tool("slow", json!({}))).unwrap();
        });
        begun(&noise);
        for kind in [ErrorKind::Timeout, ErrorKind::Cancelled] {
            assert_eq!(told.recv_timeout(SOON).expect("the call ends").unwrap_err().kind(), kind);
        }
        also.close();
        let error = told.recv_timeout(SOON).expect("the call ends with the connection").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}

#[test]
fn quick_calls_are_answered_while_another_thread_waits_for_long() {
    let release = r#"*'"release"'*) text "$slow" slow; text "$id" released;;
*'"slow"'*) slow=$id; echo begun;;"#;
    let (client, noise) = slow_client(legacy(), release);
    for _ in 0..10 {
        let long = waiting(begin(&client, "slow"));
        begun(&noise);
        quickly(&client, 20);
        assert_eq!(client.call_tool("release", json!({})).unwrap().texts(), "released");
        assert_eq!(long.recv_timeout(SOON).unwrap().unwrap().texts(), "slow");
    }
}

#[test]
fn who_waits_on_is_answered_when_the_one_that_read_has_gone() {
    // `first` is answered by `second`, and that one when something is cancelled.
    let cases = r#"*'"first"'*) first=$id; echo begun;;
*'"second"'*) second=$id; echo begun; text "$first" first;;
*'"never"'*) ;;
*cancelled*) text "$second" second;;"#;
    let (client, noise) = slow_client(legacy(), cases);
    for _ in 0..20 {
        let first = waiting(begin(&client, "first"));
        begun(&noise);
        let second = waiting(begin(&client, "second"));
        begun(&noise);
        assert_eq!(first.recv_timeout(SOON).unwrap().unwrap().texts(), "first");
        begin(&client, "never").cancel();
        assert_eq!(second.recv_timeout(SOON).unwrap().unwrap().texts(), "second");
    }
}

#[test]
fn started_calls_are_waited_for_in_any_order_and_by_looking_now_and_then() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let client = plain().protocol(era).spawn(strict_server()).unwrap();
        let mut dice = Dice(7);
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
                let next = usize::try_from(dice.roll(calls.len() as u64)).unwrap();
                let (text, mut call) = calls.swap_remove(next);
                let answer = if dice.roll(2) == 0 {
                    call.wait()
                } else {
                    // Not even a moment: nothing but the reading thread can bring this one.
                    let until = Instant::now() + SOON;
                    loop {
                        assert!(Instant::now() < until, "it is never there");
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

/// Asks before it answers `asks`, and answers when it was answered.
const ASKS: &str = r#"*'"asks"'*) asks=$id; printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}\n';;
*'"id":"q"'*) text "$asks" asked;;"#;

#[test]
fn a_question_is_heard_while_nobody_waits() {
    let (ask, asked) = mpsc::channel();
    let ask = Mutex::new(ask);
    let builder = legacy().on_form(move |_| {
        ask.lock().unwrap().send(()).unwrap();
        Ok(FormResponse::decline())
    });
    let (client, _noise) = slow_client(builder, ASKS);
    for _ in 0..20 {
        let call = begin(&client, "asks");
        asked.recv_timeout(SOON).expect("the handler runs although nobody waits for the call");
        assert_eq!(call.wait().unwrap().texts(), "asked");
        quickly(&client, 1);
    }
}

#[test]
fn a_question_stops_the_clock_of_the_one_that_reads() {
    in_time(Duration::from_millis(100), |time| {
        let (hold, held) = holding();
        let builder = legacy().on_form(move |_| {
            hold(());
            Ok(FormResponse::decline())
        });
        let (client, _noise) = slow_client(builder, ASKS);
        let outcome = waiting(client.request_tool("asks", json!({})).timeout(time).start().unwrap());
        held.begun();
        // As long as the handler thinks, whatever the time of the call, unless that was over when it began.
        if outcome.recv_timeout(2 * time).is_ok() {
            return None;
        }
        held.go_on();
        let answer = outcome.recv_timeout(SOON).expect("the call ends");
        answer.ok().map(|answer| assert_eq!(answer.texts(), "asked"))
    });
}

#[test]
fn what_is_said_after_the_last_call_is_told_without_another() {
    let news = r#"*'"last"'*) text "$id" last; echo news;;
*'"long"'*) sleep 0.03; text "$id" long; echo news;;
*'"both"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\nnews\n' "$id";;"#;
    let (client, noise) = slow_client(legacy(), news);
    for _ in 0..20 {
        for tool in ["last", "both", "long"] {
            client.call_tool(tool, json!({})).unwrap();
            assert_eq!(noise.recv_timeout(SOON).unwrap(), "news", "after {tool}");
            quickly(&client, 3);
        }
    }
}

#[test]
fn calls_that_are_over_when_they_are_waited_for_keep_nobody_from_reading() {
    let mut left = SOON;
    // Once can be luck: a caller that is kept from coming for a moment is enough.
    for _ in 0..10 {
        let (client, noise) = slow_client(legacy(), r#"*'"never"'*) echo news; exec 3>&1 cat >/dev/null;;"#);
        let heard = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (client, heard) = (client.clone(), Arc::clone(&heard));
                std::thread::spawn(move || {
                    while !heard.load(Ordering::Relaxed) {
                        let call = begin(&client, "never");
                        call.canceller().cancel();
                        assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Cancelled);
                        // Not so fast that the pipe is full: then the caller would come to a stop.
                        (0..10_000).for_each(|_| std::hint::spin_loop());
                    }
                })
            })
            .collect();
        let began = Instant::now();
        let news = noise.recv_timeout(left);
        left = left.saturating_sub(began.elapsed());
        heard.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(news.expect("what is said is heard while calls come and go"), "news");
    }
}

#[test]
fn a_request_that_a_full_pipe_held_back_leaves_while_nobody_waits() {
    let fifo = std::env::temp_dir().join(format!("tinymcp-turns-{}", std::process::id()));
    let path = fifo.to_str().unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let full = format!("*'\"stop\"'*) text $id stopped; read -r go <{path};;\n*'\"large\"'*) echo news;;");
    let (client, noise) = slow_client(legacy(), &full);
    assert_eq!(client.call_tool("stop", json!({})).unwrap().texts(), "stopped");
    let large = "x".repeat(300_000);
    let call =
        client.request_tool("large", json!({"text": large.as_str()})).timeout(Duration::from_millis(30));
    assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Timeout);
    std::fs::write(path, "go\n").unwrap();
    assert_eq!(noise.recv_timeout(SOON).unwrap(), "news", "the whole line has left");
    quickly(&client, 3);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_listener_that_takes_its_time_holds_up_nobody_else() {
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
    assert_eq!(outcome.recv_timeout(SOON).unwrap().unwrap().texts(), "done");
}

#[test]
fn a_child_that_dies_while_a_caller_reads_is_told_once_with_the_reason() {
    let (end, ended) = mpsc::channel();
    let end = Mutex::new(end);
    let builder = legacy().on_end(move |why| end.lock().unwrap().send(why.to_string()).unwrap());
    let (client, noise) = slow_client(builder, r#"*'"die"'*) printf 'begun\n{"jsonrpc'; exit 5;;"#);
    let (one, other) = (waiting(begin(&client, "slow")), waiting(begin(&client, "die")));
    for outcome in [one, other] {
        let error = outcome.recv_timeout(SOON).expect("the call ends with the server").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("status 5"), "{error}");
    }
    begun(&noise);
    assert!(ended.recv_timeout(SOON).unwrap().contains("status 5"));
    drop(client);
    assert!(ended.recv_timeout(SOON).is_err(), "told once, and the handlers are gone");
}

/// Ends on nothing but SIGKILL once it was called so, for longer than any test waits.
const STUBBORN: &str =
    r#"*'"stay"'*) trap '' TERM; echo "$$"; for n in 1 2 3 4 5 6 7 8 9; do sleep 10; done;;"#;

#[test]
fn who_reads_is_told_at_once_that_another_thread_closes() {
    let mut limits = Limits::default();
    limits.child_exit = 2 * SOON;
    let (client, noise) = slow_client(legacy().limits(limits), STUBBORN);
    let outcome = waiting(begin(&client, "stay"));
    let number = noise.recv_timeout(SOON).unwrap();
    // Closing waits for the child to exit, for longer than this test does.
    let (tell, closed) = mpsc::channel();
    std::thread::spawn(move || {
        client.close();
        tell.send(()).unwrap();
    });
    let error = outcome.recv_timeout(SOON).expect("the caller does not wait for the child").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(Command::new("kill").args(["-9", number.trim()]).status().unwrap().success());
    closed.recv_timeout(SOON).expect("the child is gone");
}

#[test]
fn closing_while_a_caller_reads_takes_its_time_and_leaves_no_thread() {
    alone("turns::closing_while_a_caller_reads_takes_its_time_and_leaves_no_thread", || {
        for drops in [false, true] {
            let mut limits = Limits::default();
            limits.child_exit = Duration::from_millis(100);
            let (client, noise) = slow_client(legacy().limits(limits), STUBBORN);
            let outcome = waiting(begin(&client, "stay"));
            noise.recv_timeout(SOON).unwrap();
            let (tell, closed) = mpsc::channel();
            // The last handle of a client closes it as well.
            std::thread::spawn(move || {
                if !drops {
                    client.close();
                }
                drop(client);
                tell.send(()).unwrap();
            });
            let error = outcome.recv_timeout(SOON).expect("the caller is told").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
            closed.recv_timeout(SOON).expect("closing ends");
            let until = Instant::now() + SOON;
            while threads() > 0 && Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(threads(), 0);
        }
    });
}
