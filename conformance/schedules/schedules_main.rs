//! Runs the models: `schedules [MODEL|all] [SCHEDULES] [SEED]`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};
use tinymcp::model_sync::begin;
use tinymcp::schedules::{MODELS, read_by_callers};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next().unwrap_or_else(|| "all".to_owned());
    let count: usize = arguments.next().map_or(300, |text| text.parse().expect("a number"));
    let seed: u64 = arguments.next().map_or(1, |text| text.parse().expect("a number"));
    let mut failed = false;
    for (name, model) in MODELS.iter().filter(|(name, _)| only == "all" || only == *name) {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        let begun = std::time::Instant::now();
        let pause_ends = !name.starts_with("woken");
        let schedule = move || {
            begin(pause_ends);
            model();
        };
        let run = || Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(schedule);
        let ran = catch_unwind(AssertUnwindSafe(run));
        let (lends, read) = (name.starts_with("reader") || name.starts_with("woken"), read_by_callers());
        let holds = ran.is_ok() && (read > 0 || !lends);
        let verdict = if holds { "hold" } else { "FAILED" };
        let callers = if lends { format!(", callers read {read} frames") } else { String::new() };
        println!("{name:<26} {count} schedules from seed {seed}: {verdict}, {:.1?}{callers}", begun.elapsed());
        failed |= !holds;
    }
    std::process::exit(i32::from(failed));
}
