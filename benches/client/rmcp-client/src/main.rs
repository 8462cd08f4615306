//! Load on rmcp's client: one task for each call in flight, on the runtime of its README.

use std::time::Instant;

use client_bench::{Job, Times, cpu_ticks, report};
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ContentBlock};
use rmcp::transport::TokioChildProcess;
use serde_json::json;

#[tokio::main]
async fn main() {
    let job = Job::from_args();
    let mut command = tokio::process::Command::new(&job.command[0]);
    command.args(&job.command[1..]);
    let client =
        ().serve(TokioChildProcess::new(command).expect("the server starts")).await.expect("a session");
    let (cpu, began) = (cpu_ticks(), Instant::now());
    let tasks: Vec<_> = (0..job.in_flight)
        .map(|_| {
            let (peer, time) = (client.peer().clone(), job.time);
            tokio::spawn(async move {
                let mut times = Times::default();
                while began.elapsed() < time {
                    let text = Job::text(times.count());
                    let start = Instant::now();
                    let arguments = json!({"text": text}).as_object().cloned().unwrap_or_default();
                    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
                    let answer = peer.call_tool(call).await.expect("an answer");
                    times.add(start);
                    match &answer.content[..] {
                        [ContentBlock::Text(found)] => assert_eq!(found.text, text),
                        other => panic!("{other:?}"),
                    }
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await.expect("no task fails"));
    }
    report(began, cpu, &times);
    client.cancel().await.expect("an end");
}
