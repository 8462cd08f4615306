//! The load on this library's client: one thread for each call that is to be under way, as a blocking host has them.

use std::process::Command;
use std::thread;
use std::time::Instant;

use client_bench::{Job, Times, cpu_ticks, report};
use tinymcp::{Client, json};

fn main() {
    let job = Job::from_args();
    let mut command = Command::new(&job.command[0]);
    command.args(&job.command[1..]);
    let client = Client::spawn(command).expect("the server starts");
    let (cpu, began) = (cpu_ticks(), Instant::now());
    let threads: Vec<_> = (0..job.in_flight)
        .map(|_| {
            let (client, time) = (client.clone(), job.time);
            thread::spawn(move || {
                let mut times = Times::default();
                while began.elapsed() < time {
                    let text = Job::text(times.count());
                    let start = Instant::now();
                    let answer =
                        client.call_tool("echo", json!({"text": (text.as_str())})).expect("an answer");
                    times.add(start);
                    assert_eq!(answer.texts(), text);
                }
                times
            })
        })
        .collect();
    let times: Vec<Times> = threads.into_iter().map(|t| t.join().expect("no thread fails")).collect();
    report(began, cpu, &times);
    client.close();
}
