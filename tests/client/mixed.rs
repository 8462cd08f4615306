//! All uses of a connection to a child, by sixteen threads at random: every call ends exactly once with the right
//! outcome, and nothing is left.
//!
//! The environment variables of `race` set the number of calls.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tinymcp::{
    Call, Client, Context, ElicitResponse, Error, Form, Level, Limits, Link, Protocol, Server, Tool,
    ToolError, ToolOutput, json,
};

use super::race::{self, Random, THREADS, at_once, calls};
use super::scripted::{TIMEOUT, plain};
use super::strict_input::StrictInput;

tinymcp::record! {
    struct Echo { text: String }
}

/// Set for the process that runs [`serves`] as a server.
const SERVER: &str = "TEST_MIXED_SERVER";

fn asks(ctx: &mut Context<'_>, echo: Echo) -> Result<String, ToolError> {
    ctx.elicit("form", Form::new("?"))?;
    Ok(echo.text)
}

#[test]
fn serves() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    // A new line: the current one has the test's name.
    std::io::stdout().write_all(b"\n").unwrap();
    let mut server = Server::new("mixed", "1");
    // No deadline: only the client ends calls.
    let mut limits = Limits::default();
    limits.handler_deadline = Duration::ZERO;
    server.logging().limits(limits);
    server
        .tool(Tool::new("echo"), |_, echo: Echo| Ok(echo.text))
        .unwrap()
        .tool(Tool::new("steps"), |ctx, echo: Echo| {
            (1..=3).for_each(|n| ctx.progress(f64::from(n), Some(3.0), None));
            Ok(echo.text)
        })
        .unwrap()
        .tool(Tool::new("news"), |ctx, echo: Echo| {
            ctx.log(Level::Warning, None, "news")?;
            Ok(echo.text)
        })
        .unwrap()
        .tool(Tool::new("asks"), asks)
        .unwrap()
        .tool(Tool::new("waits"), |ctx, echo: Echo| {
            // Ends as soon as it is cancelled.
            ctx.wait(TIMEOUT * 3)?;
            Ok(echo.text)
        })
        .unwrap();
    server.serve(Link::lines(StrictInput::new(), std::io::stdout(), &Limits::default())).unwrap();
    std::process::exit(0);
}

/// Outcomes of the calls, and events of the handlers.
#[derive(Default)]
struct Tally {
    calls: race::Tally,
    /// Calls of `news` with a response.
    news: AtomicU64,
    notifications: AtomicU64,
}

/// Polls a call until it is over.
fn look(mut call: Call<ToolOutput>, pause: Duration) -> Result<ToolOutput, Error> {
    loop {
        if let Some(outcome) = call.wait_until(Instant::now() + pause) {
            return outcome;
        }
        std::thread::yield_now();
    }
}

fn cancelled_elsewhere(call: Call<ToolOutput>, spins: u64) -> Result<ToolOutput, Error> {
    let canceller = call.canceller();
    let other = std::thread::spawn(move || {
        (0..spins).for_each(|_| std::hint::spin_loop());
        canceller.cancel();
    });
    let outcome = call.wait();
    other.join().unwrap();
    outcome
}

fn one_call(client: &Client, random: &mut Random, text: &str, tally: &Tally) {
    let prepare = |tool: &str| client.request_tool(tool, json!({"text": text}));
    let short = Duration::from_micros(random.below(2_000));
    let outcome = match random.below(12) {
        0 => prepare("echo").timeout(short).wait(),
        1 => cancelled_elsewhere(prepare("echo").start().unwrap(), random.below(3_000)),
        2 => {
            let first = prepare("steps").start().unwrap();
            let second = client.request_tool("echo", json!({"text": "second"})).start().unwrap();
            assert_eq!(second.wait().unwrap().texts(), "second");
            first.wait()
        }
        3 => {
            let tool = if random.below(2) == 0 { "echo" } else { "waits" };
            drop(prepare(tool).start().unwrap());
            tally.calls.cancelled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        4 => {
            let steps = Arc::new(AtomicU64::new(0));
            let last = Arc::clone(&steps);
            let on_progress = move |step: tinymcp::Progress| {
                let before = last.swap(step.done as u64, Ordering::Relaxed);
                assert!(before < step.done as u64, "steps go forward");
            };
            let outcome = prepare("steps").on_progress(on_progress).wait();
            assert_eq!(steps.load(Ordering::Relaxed), 3);
            outcome
        }
        5 => {
            let outcome = prepare("news").wait();
            tally.news.fetch_add(1, Ordering::Relaxed);
            outcome
        }
        6 => prepare("asks").wait(),
        7 => prepare("asks").timeout(short).wait(),
        8 => prepare("waits").timeout(short).wait(),
        9 => cancelled_elsewhere(prepare("waits").start().unwrap(), random.below(30_000)),
        10 => look(prepare("echo").start().unwrap(), Duration::from_micros(random.below(3) * 50)),
        _ => prepare("echo").wait(),
    };
    tally.calls.count(outcome, text);
}

#[test]
fn sixteen_threads_do_everything_in_both_eras() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let tally = Arc::new(Tally::default());
        let counted = Arc::clone(&tally);
        let mut server = Command::new(std::env::current_exe().unwrap());
        server.args(["--exact", "mixed::serves", "--nocapture", "--test-threads=1"]).env(SERVER, "1");
        let client = plain()
            .limits(Limits::default())
            .protocol(era)
            .on_elicit(|_| Ok(ElicitResponse::decline()))
            .on_log(Level::Info, move |_| {
                counted.notifications.fetch_add(1, Ordering::Relaxed);
            })
            .spawn(server)
            .unwrap();
        let stray = client.stats().stray_output;
        let each = calls() / 2 / THREADS;
        at_once(&client, &tally, each, one_call);
        let [answered, late, cancelled] = tally.calls.counts();
        assert_eq!(answered + late + cancelled, each * THREADS, "each ended once");
        assert!(late > 0 && cancelled > 0);
        // Notifications before a response have been read by now, and are delivered soon.
        let handled = || tally.notifications.load(Ordering::Relaxed) + client.stats().dropped;
        let (news, until) = (tally.news.load(Ordering::Relaxed), Instant::now() + TIMEOUT);
        while handled() < news && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(handled() >= news);
        assert_eq!((client.in_flight(), client.stats().stray_output), (0, stray));
        client.close();
    }
}
