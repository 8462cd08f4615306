//! Runs operations of the client and of the hub by command, so that `slopes.py` can read what they leave behind.
//!
//! `slopes_client URL`, `slopes_client -- COMMAND…` or `slopes_client --hub -- COMMAND…`, the server being
//! `board_server`. Each line of standard input is `NAME COUNT`; the name comes back when the operations are done.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::BufRead;
use std::process::Command;
use std::time::{Duration, Instant};

use tinymcp::{Client, Hub, Limits, Upstream, json};

const TIMEOUT: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

/// Connection to the server.
enum Target {
    Url(String),
    Program(Vec<String>),
}

impl Target {
    fn command(words: &[String]) -> Result<Command, Box<dyn Error>> {
        let (program, arguments) = words.split_first().ok_or("missing command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(command)
    }

    fn connect(&self) -> Result<Client, Box<dyn Error>> {
        let client = Client::builder("slopes", "1");
        Ok(match self {
            Target::Url(url) => client.connect(url.as_str())?,
            Target::Program(words) => client.spawn(Target::command(words)?)?,
        })
    }
}

fn main() -> Outcome {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let hub = words.first().is_some_and(|word| word == "--hub");
    words.drain(..usize::from(hub));
    let target = match words.split_first() {
        Some((first, command)) if first == "--" => Target::Program(command.to_vec()),
        Some((url, [])) => Target::Url(url.clone()),
        _ => return Err("usage: slopes_client URL | [--hub] -- COMMAND".into()),
    };
    if hub { restart(&target) } else { call(&target) }
}

/// Runs the operations that standard input names.
fn serve(mut run: impl FnMut(&str, usize) -> Outcome) -> Outcome {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (name, count) = line.split_once(' ').ok_or("expected NAME COUNT")?;
        for n in 0..count.parse()? {
            run(name, n)?;
        }
        println!("{name}");
    }
    Ok(())
}

fn call(target: &Target) -> Outcome {
    let client = target.connect()?;
    serve(|name, n| operation(&client, target, name, n))?;
    client.close();
    Ok(())
}

fn operation(client: &Client, target: &Target, name: &str, n: usize) -> Outcome {
    let pin = n % 28;
    match name {
        "calls" if n % 2 == 0 => drop(client.call_tool("gpio_read", json!({"pin": pin}))?),
        "calls" => drop(client.call_tool("gpio_write", json!({"pin": pin, "value": n / 2 % 2}))?),
        "failures" => {
            let failed = match n % 3 {
                0 => client.call_tool("gpio_read", json!({"pin": 99}))?.is_error,
                1 => client.call_tool(&format!("no_such_tool_{n}"), json!({})).is_err(),
                _ => client.read_resource(&format!("file:///missing-{n}.txt")).is_err(),
            };
            if !failed {
                return Err(format!("failure {n} did not fail").into());
            }
        }
        "cancels" => {
            let slow = client.request_tool("blink", json!({"pin": pin, "times": 100, "intervalMs": 1000}));
            match n % 2 {
                0 => slow.start()?.cancel(),
                _ if slow.timeout(Duration::from_millis(2)).wait().is_err() => {}
                _ => return Err("a call of 100 s was answered within 2 ms".into()),
            }
        }
        "subscriptions" => {
            let uri = format!("gpio://pin/{pin}");
            client.subscribe(&uri)?;
            client.unsubscribe(&uri)?;
        }
        "connections" => {
            let other = target.connect()?;
            drop(other.call_tool("gpio_read", json!({"pin": pin}))?);
            other.close();
        }
        _ => return Err(format!("unknown operation {name}").into()),
    }
    Ok(())
}

fn restart(target: &Target) -> Outcome {
    let Target::Program(words) = target else { return Err("a hub starts its server itself".into()) };
    let hub = Hub::builder("slopes", "1").limits(Limits::default()).build()?;
    let words = words.clone();
    hub.add(
        "board",
        Upstream::command(move || {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        }),
    )?;
    hub.wait_settled(Instant::now() + TIMEOUT);
    serve(|_, n| {
        hub.restart("board")?;
        hub.wait_settled(Instant::now() + TIMEOUT);
        drop(hub.call_tool("board__gpio_read", json!({"pin": n % 28}))?);
        Ok(())
    })?;
    hub.close();
    Ok(())
}
