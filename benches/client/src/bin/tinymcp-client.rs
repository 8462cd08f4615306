//! Load on this library's client: one thread starts all calls in flight and waits for each in turn,
//! as a host with little memory does. With `CLIENT_BENCH_THREADS=1` each call has its own thread.

use std::collections::VecDeque;
use std::process::Command;
use std::thread;
use std::time::Instant;

use client_bench::{Job, Times, cpu_ticks, report};
use tinymcp::{Client, Request, ToolOutput, json};

fn main() {
    let job = Job::from_args();
    let mut command = Command::new(&job.command[0]);
    command.args(&job.command[1..]);
    let client = Client::spawn(command).expect("the server starts");
    let (cpu, began) = (cpu_ticks(), Instant::now());
    let times = match std::env::var_os("CLIENT_BENCH_THREADS") {
        Some(_) => by_threads(&client, &job, began),
        None => vec![started(&client, &job, began)],
    };
    report(began, cpu, &times);
    client.close();
}

fn echo(client: &Client, text: &str) -> Request<ToolOutput> {
    client.request_tool("echo", json!({"text": text}))
}

/// Makes all calls on this thread: waits for the oldest call and starts a new one.
fn started(client: &Client, job: &Job, began: Instant) -> Times {
    let mut times = Times::default();
    let mut calls = VecDeque::with_capacity(job.in_flight);
    let mut n = 0;
    loop {
        while calls.len() < job.in_flight && began.elapsed() < job.time {
            let text = Job::text(n);
            n += 1;
            let start = Instant::now();
            let call = echo(client, &text).start().expect("a call under way");
            calls.push_back((call, text, start));
        }
        let Some((call, text, start)) = calls.pop_front() else { return times };
        let answer = call.wait().expect("an answer");
        times.add(start);
        assert_eq!(answer.texts(), text);
    }
}

/// Makes each call on its own thread.
fn by_threads(client: &Client, job: &Job, began: Instant) -> Vec<Times> {
    let threads: Vec<_> = (0..job.in_flight)
        .map(|_| {
            let (client, time) = (client.clone(), job.time);
            thread::spawn(move || {
                let mut times = Times::default();
                while began.elapsed() < time {
                    let text = Job::text(times.count());
                    let start = Instant::now();
                    let answer = echo(&client, &text).wait().expect("an answer");
                    times.add(start);
                    assert_eq!(answer.texts(), text);
                }
                times
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().expect("no thread fails")).collect()
}
