//! Runs the models: `schedules [MODEL|all] [SCHEDULES] [SEED]`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next().unwrap_or_else(|| "all".to_owned());
    let count: usize = arguments.next().map_or(300, |text| text.parse().expect("a number"));
    let seed: u64 = arguments.next().map_or(1, |text| text.parse().expect("a number"));
    let mut failed = false;
    for (name, model) in tinymcp::schedules::MODELS.iter().filter(|(name, _)| only == "all" || only == *name) {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        let begun = std::time::Instant::now();
        let run = || Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(*model);
        let ran = catch_unwind(AssertUnwindSafe(run));
        let verdict = if ran.is_ok() { "hold" } else { "FAILED" };
        println!("{name:<26} {count} schedules from seed {seed}: {verdict}, {:.1?}", begun.elapsed());
        failed |= ran.is_err();
    }
    std::process::exit(i32::from(failed));
}
