//! Baseline of memory: a program that is linked like the clients, starts the same server, has one
//! more thread, and sends no request. No client can use less.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use client_bench::{Job, Times, cpu_ticks, report};

fn main() {
    let job = Job::from_args();
    let mut command = Command::new(&job.command[0]);
    command.args(&job.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let (cpu, began) = (cpu_ticks(), Instant::now());
    let waiting = thread::spawn(move || {
        let mut server = command.spawn().expect("the server starts");
        drop(server.stdin.take());
        server.wait().expect("it ends with its input")
    });
    waiting.join().expect("no thread fails");
    let mut times = Times::default();
    times.add(began);
    report(began, cpu, &[times]);
}
