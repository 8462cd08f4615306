//! Test runner: list of the tests, filters and timeouts.

mod ask;
mod call;
mod change;
mod flow;
mod frame;
#[path = "../fixtures/in_time.rs"]
mod in_time;
mod late;
mod life;
mod load;
mod mutate;
mod process;
mod stdio;
mod wire;

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Name and function of a test.
type Test = (&'static str, fn());

/// Timeout of one test; the second is for `TEST_LONG=1`.
const TIMEOUT: Duration = Duration::from_secs(120);
const TIMEOUT_LONG: Duration = Duration::from_secs(1800);

/// True if `TEST_LONG` asks for high iteration counts.
fn long() -> bool {
    std::env::var_os("TEST_LONG").is_some_and(|v| v == "1")
}

/// Runs the tests that the command line selects, or runs as a server.
pub fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(process::ROLE) {
        return process::serve(&role.to_string_lossy());
    }
    let (mut filters, mut exact, mut list) = (Vec::new(), false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--exact" => exact = true,
            "--list" => list = true,
            other if other.starts_with("--") => {}
            filter => filters.push(filter.to_owned()),
        }
    }
    let wanted = |name: &str| {
        filters.is_empty()
            || filters.iter().any(|f| if exact { name == f } else { name.contains(f.as_str()) })
    };
    let groups = [
        frame::TESTS,
        mutate::TESTS,
        call::TESTS,
        late::TESTS,
        ask::TESTS,
        flow::TESTS,
        change::TESTS,
        load::TESTS,
        stdio::TESTS,
        life::TESTS,
    ];
    let tests: Vec<Test> = groups.concat().into_iter().filter(|(name, _)| wanted(name)).collect();
    if list {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", tests.len());
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Some tests let handlers panic.
        if !thread::current().name().is_some_and(|name| name.starts_with("mcp-")) {
            report(info);
        }
    }));
    let failed: Vec<&str> = tests.iter().filter(|test| !passes(test)).map(|(name, _)| *name).collect();
    println!("\ntest result: {} passed; {} failed {failed:?}\n", tests.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn passes((name, run): &Test) -> bool {
    let (done, wait) = mpsc::channel::<()>();
    let (name, run, start) = (*name, *run, Instant::now());
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // The sender is dropped at the end of the test, also after a panic.
        let _done = done;
        run();
    });
    let timeout = if long() { TIMEOUT_LONG } else { TIMEOUT };
    // Nothing is sent: `Disconnected` means that the test has ended.
    let verdict = match wait.recv_timeout(timeout) {
        Err(mpsc::RecvTimeoutError::Timeout) => "HANGS",
        _ if started.expect("a thread starts").join().is_ok() => "ok",
        _ => "FAILED",
    };
    println!("test {name} ... {verdict} ({:.2} s)", start.elapsed().as_secs_f32());
    verdict == "ok"
}

/// Defines `TESTS`, the table of the test functions of one module.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this module.
        pub const TESTS: &[$crate::suite::Test] = &[$((concat!(module_path!(), "::", stringify!($name)), $name as fn())),*];
    };
}
