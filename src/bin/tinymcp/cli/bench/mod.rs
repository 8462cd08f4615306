//! Command `bench`: one tool, called many times by several clients.
//!
//! Without a rate, each client calls again as soon as it has its result. With a rate, each call has
//! a scheduled start, and its latency counts from that time: if a slow server delays later calls,
//! the delay counts (no coordinated omission).

mod figures;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{Client, stderr};

use super::args::Args;
use super::arguments::Arguments;
use super::failure::{Failure, Result, TIMED_OUT};
use super::output::Output;
#[cfg(unix)]
use super::signals;
use super::{call, connect, print};
use crate::escape::one_line;
use crate::mutex::lock;
use figures::Figures;

/// Options of the command.
pub(crate) const FLAGS: [&str; 3] = ["clients", "duration", "rate"];

/// Largest number of connections.
pub(crate) const MAX_CLIENTS: u32 = 1000;
/// Smallest and largest rate, in calls per second.
pub(crate) const MIN_RATE: f64 = 0.001;
pub(crate) const MAX_RATE: f64 = 1e6;
const DURATION: Duration = Duration::from_secs(10);
/// Longest wait before a client checks for the end.
const POLL: Duration = Duration::from_millis(50);

/// Values of the options.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) clients: Option<u32>,
    pub(crate) duration: Option<Duration>,
    /// Calls per second of all clients.
    pub(crate) rate: Option<f64>,
}

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [name, words @ ..] = words else {
        return Err("expected the name of a tool; see `tinymcp help bench`".into());
    };
    let arguments = Arguments::parse(words)?;
    let connect = || connect::connect(connect::builder(args)?, args);
    let mut clients = vec![connect()?];
    let params = call::params(args, &clients[0], name, arguments)?;
    // The first call is not measured: it reports errors like `call` does, and warms the server up.
    let first = clients[0].request_method("tools/call", params.clone()).wait();
    first.map_err(|error| call::failure(args, &clients[0], name, &error))?;
    let count = args.bench.clients.unwrap_or(1);
    for _ in 1..count {
        clients.push(connect()?);
    }
    let duration = args.bench.duration.unwrap_or(DURATION);
    if !args.has("quiet") {
        let seconds = duration.as_secs_f64();
        stderr::write(format!("tinymcp: calling {} for {seconds} s, {count} at a time\n", one_line(name)));
    }
    let run = Arc::new(Run::new(params, duration, args.bench.rate));
    #[cfg(unix)]
    signals::end_by({
        let run = Arc::clone(&run);
        move || run.stop.store(true, Ordering::SeqCst)
    });
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let run = Arc::clone(&run);
            thread::Builder::new().name("bench".to_owned()).spawn(move || run.work(&client))
        })
        .collect();
    for thread in threads {
        let thread = thread.map_err(|e| format!("a thread cannot be started: {e}"))?;
        // OK to drop: a client that panicked has counted its calls.
        let _ = thread.join();
    }
    let figures = std::mem::take(&mut *lock(&run.figures));
    if output.is_text() {
        output.write(&figures.text(run.unsent(&figures), print::columns(io::stdout())))?;
    } else {
        output.print(figures.json(count, run.unsent(&figures)).to_doc().root())?;
    }
    run.status(&figures)
}

/// A measurement.
struct Run {
    params: Json,
    began: Instant,
    duration: Duration,
    /// Time between the starts of two calls.
    pause: Option<Duration>,
    /// Calls that were started.
    started: AtomicU64,
    /// A signal ends the measurement.
    stop: AtomicBool,
    figures: Mutex<Figures>,
}

impl Run {
    fn new(params: Json, duration: Duration, rate: Option<f64>) -> Run {
        Run {
            params,
            began: Instant::now(),
            duration,
            pause: rate.map(|rate| Duration::from_secs_f64(rate.recip())),
            started: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            figures: Mutex::default(),
        }
    }

    /// Calls until the end.
    fn work(&self, client: &Client) {
        while let Some(start) = self.next() {
            let Some(ended) = self.call(client) else { return };
            let mut figures = lock(&self.figures);
            figures.seconds = self.began.elapsed().as_secs_f64();
            match ended {
                Ok(()) => figures.add(start.elapsed()),
                Err(failure) => {
                    let ends = failure.ends_all();
                    figures.add_error(failure);
                    if ends {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the next call should start, and returns that time; `None` at the end.
    fn next(&self) -> Option<Instant> {
        let start = match self.pause {
            None => Instant::now(),
            Some(pause) => {
                let number = self.started.fetch_add(1, Ordering::SeqCst);
                self.began + pause.mul_f64(number as f64)
            }
        };
        loop {
            // The measurement ends on time, even if the server is behind schedule.
            let now = Instant::now();
            let ends = self.began + self.duration;
            if self.stop.load(Ordering::SeqCst) || start >= ends || now >= ends {
                return None;
            }
            if now >= start {
                return Some(start);
            }
            thread::sleep((start - now).min(POLL));
        }
    }

    /// Makes one call; `None` if a signal interrupts it.
    fn call(&self, client: &Client) -> Option<Result<()>> {
        let mut call = match client.request_method("tools/call", self.params.clone()).start() {
            Ok(call) => call,
            Err(error) => return Some(Err(Failure::of_request("", &error))),
        };
        loop {
            if let Some(result) = call.wait_until(Instant::now() + POLL) {
                return Some(match result {
                    Ok(result) if call::has_failed(result.to_doc().root()) => {
                        Err(call::tool_failure(result.to_doc().root()))
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(Failure::of_request("", &error)),
                });
            }
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
        }
    }

    /// Returns the number of calls that should have started and did not.
    fn unsent(&self, figures: &Figures) -> u64 {
        let Some(pause) = self.pause else { return 0 };
        let time = self.duration.min(self.began.elapsed());
        let due = (time.as_secs_f64() / pause.as_secs_f64()).ceil();
        (due as u64).saturating_sub(figures.count())
    }

    /// Returns the exit status: that of the first failed call, unless a signal ended the run.
    fn status(&self, figures: &Figures) -> Result<u8> {
        if self.stop.load(Ordering::SeqCst) {
            return Err(Failure::new(TIMED_OUT, "interrupted; the figures cover the run so far".to_owned()));
        }
        match figures.first_error() {
            Some(failure) => Err(failure),
            None => Ok(0),
        }
    }
}
