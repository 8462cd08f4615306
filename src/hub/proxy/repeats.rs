//! Calls that are repeated after a pause because their server required no input.
//!
//! One thread waits for all of them. It starts with the first such call and ends when no call is
//! left, so a pause blocks no worker.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::json::Json;
use crate::server::{Deferred, ToolError};
use crate::sync::{lock, wait_for};

use super::super::spawn;

/// Base of the pause before a call is repeated: round n waits `PAUSE * 2^n`, with n at most 6.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Repeats {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: Vec<Repeat>,
    /// The thread is running. It checks `calls` before it ends.
    runs: bool,
    closed: bool,
}

struct Repeat {
    at: Instant,
    deferred: Deferred,
    note: Json,
}

impl Repeat {
    fn end(self) {
        self.deferred.finish(Err(ToolError::new("the hub is closed")));
    }
}

impl Repeats {
    /// Runs the handler of a call again, after the pause of this round.
    pub(super) fn add(self: &Arc<Self>, deferred: Deferred, note: Json, round: u32) {
        let repeat = Repeat { at: Instant::now() + PAUSE * (1 << round.min(6)), deferred, note };
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return repeat.end();
        }
        state.calls.push(repeat);
        let runs = std::mem::replace(&mut state.runs, true);
        drop(state);
        if runs {
            return self.changed.notify_one();
        }
        let repeats = Arc::clone(self);
        if spawn("mcp-hub-repeat", move || repeats.run()).is_err() {
            // Without a thread, the calls are repeated immediately.
            let calls = {
                let mut state = lock(&self.state);
                state.runs = false;
                std::mem::take(&mut state.calls)
            };
            calls.into_iter().for_each(|repeat| repeat.deferred.again(&repeat.note));
        }
    }

    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let calls = std::mem::take(&mut state.calls);
            let (due, later): (Vec<Repeat>, _) = calls.into_iter().partition(|repeat| repeat.at <= now);
            state.calls = later;
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(|repeat| repeat.deferred.again(&repeat.note));
                state = lock(&self.state);
                continue;
            }
            let Some(next) = state.calls.iter().map(|repeat| repeat.at).min() else {
                state.runs = false;
                return;
            };
            state = wait_for(&self.changed, state, next.saturating_duration_since(now));
        }
    }

    /// Ends the calls with an error.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        self.changed.notify_one();
        calls.into_iter().for_each(Repeat::end);
    }
}
