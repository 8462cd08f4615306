//! The client that `conformance/peers.sh` tries against real servers.
//!
//! ```text
//! peer_client PEER auto|legacy|modern http://127.0.0.1:8080/mcp
//! peer_client PEER auto|legacy|modern -- node server.js
//! ```
//!
//! `PEER` names what is expected of the server: `everything`, `filesystem`, `memory`, `python` or `rmcp`.
//! Prints `ok CHECK` or `FAIL CHECK: why` for each check; the exit code is 0 when all are ok.
//! Everything must end by itself: each call has a deadline, and so has each wait.

// What it finds is its output.
#![allow(clippy::print_stdout)]

mod everything;
mod files;
mod memory;
mod python;
mod rmcp;

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, ToJson};
use tinymcp::{
    Action, Change, Client, Content, Endpoint, Era, Error, ErrorKind, FormResponse, Level, Limits, Progress,
    Request, Root, SampleResponse, ServerCapabilities, Stderr, ToolOutput, json,
};

/// How long anything is waited for that a server says on its own account.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(peer), Some(era), Some(target)) = (args.next(), args.next(), args.next()) else {
        eprintln!("peer_client PEER auto|legacy|modern (URL | -- COMMAND…)");
        return ExitCode::FAILURE;
    };
    let era = match era.as_str() {
        "legacy" => Some(Era::Legacy),
        "modern" => Some(Era::Modern),
        _ => None,
    };
    let target = match target.as_str() {
        "--" => Target::Command(args.collect()),
        url => Target::Url(url.to_owned()),
    };
    let mut session = match Session::open(&target, era) {
        Ok(session) => session,
        Err(error) => {
            println!("FAIL connect: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("ok connect: {:?}", session.client.server().revision);
    match peer.as_str() {
        "everything" => everything::check(&mut session),
        "filesystem" => files::check(&mut session),
        "memory" => memory::check(&mut session),
        "python" => python::check(&mut session),
        "rmcp" => rmcp::check(&mut session),
        other => session.check("peer", |_| Err(format!("nothing is known of {other:?}").into())),
    }
    session.check("nothing uncalled for", |s| same(&s.client.in_flight(), &0, "calls in flight"));
    session.client.close();
    session.check("close", |s| fails(s.client.ping(), ErrorKind::Closed, None));
    if session.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

enum Target {
    Url(String),
    Command(Vec<String>),
}

/// One connection, and what came over it unasked.
struct Session {
    client: Client,
    logs: Receiver<String>,
    changes: Receiver<Change>,
    failed: usize,
}

/// What was wrong.
struct Wrong(String);

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong(format!("{:?}: {error}", error.kind()))
    }
}

impl From<String> for Wrong {
    fn from(words: String) -> Wrong {
        Wrong(words)
    }
}

type Checked = Result<(), Wrong>;

impl Session {
    fn open(target: &Target, era: Option<Era>) -> Result<Session, Error> {
        let (log, logs) = mpsc::channel();
        // Servers written in scripting languages start slowly on a busy machine.
        let mut limits = Limits::from_env()?;
        limits.probe_timeout = Duration::from_secs(30);
        let (change, changes) = mpsc::channel();
        let mut builder = Client::builder("tinymcp-peer-client", "1.0.0")
            .limits(limits)
            .stderr(Stderr::Piped)
            .on_form(|form| {
                Ok(FormResponse::accept(match form.fields.iter().any(|f| f.name == "zone") {
                    true => json!({"zone": "north"}),
                    false => json!({"name": "Anna", "check": true, "email": "anna@example.org"}),
                }))
            })
            .on_url(|_| Ok(Action::Accept))
            .on_sample(|asked| {
                let system = asked.system.clone().unwrap_or_default();
                Ok(SampleResponse::new("toy").text(format!("blue, {} tokens, {system}", asked.max_tokens)))
            })
            .roots([Root { uri: folder_uri("first"), name: Some("first".into()) }])
            // Receivers live as long as the client.
            .on_log(Level::Debug, move |entry| drop(log.send(entry.data.as_str().to_owned())))
            .on_change(move |what| drop(change.send(what.clone())));
        if let Some(era) = era {
            builder = builder.era(era);
        }
        let client = match target {
            Target::Url(url) => builder.connect(Endpoint::new(url)),
            Target::Command(words) => {
                let mut command = Command::new(words.first().map_or("", String::as_str));
                command.args(words.iter().skip(1));
                builder.spawn(command)
            }
        }?;
        Ok(Session { client, logs, changes, failed: 0 })
    }

    fn check(&mut self, name: &str, run: impl FnOnce(&Session) -> Checked) {
        match run(self) {
            Ok(()) => println!("ok {name}"),
            Err(Wrong(why)) => {
                self.failed += 1;
                println!("FAIL {name}: {why}");
            }
        }
    }

    /// Checks that the server declares these capabilities, no more and no less, and that the client requests nothing else.
    fn check_offer(&mut self, expected: ServerCapabilities) {
        self.check("offer", |s| same(&s.client.server().offer, &expected, "offer"));
        let missing = |s: &mut Session, name: &str, ask: &dyn Fn(&Client) -> Result<(), Error>| {
            s.check(&format!("{name}, not offered"), |s| {
                fails(ask(&s.client), ErrorKind::PeerIncompatible, None)
            });
        };
        if !expected.resources {
            missing(self, "resources", &|c| c.resources().map(drop));
            missing(self, "read", &|c| c.read_resource("test://x").map(drop));
        }
        if !expected.prompts {
            missing(self, "prompts", &|c| c.prompts().map(drop));
            missing(self, "prompt", &|c| c.prompt("x", &[]).map(drop));
        }
        if !expected.completions {
            let about = tinymcp::CompletionTarget::Prompt("x");
            missing(self, "complete", &|c| c.complete(about, "a", "", &[]).map(drop));
        }
        if !expected.logging && self.client.era() == Era::Legacy {
            missing(self, "log level", &|c| {
                c.request("logging/setLevel", json!({"level": "debug"})).map(drop)
            });
        }
    }

    /// The texts that a tool answers, which must not have failed.
    fn texts(&self, tool: &str, arguments: impl ToJson) -> Result<String, Wrong> {
        let output = self.client.call_tool(tool, arguments)?;
        match output.is_error {
            true => Err(format!("{tool} failed: {}", output.texts()).into()),
            false => Ok(output.texts()),
        }
    }

    /// Waits for the log entry that contains these words.
    fn logged(&self, words: &str) -> Checked {
        loop {
            match self.logs.recv_timeout(PATIENCE) {
                Ok(entry) if entry.contains(words) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("no log entry says {words:?}").into()),
            }
        }
    }

    fn changed(&self, expected: &Change) -> Checked {
        self.changed_within(expected, PATIENCE)
    }

    fn changed_within(&self, expected: &Change, patience: Duration) -> Checked {
        loop {
            match self.changes.recv_timeout(patience) {
                Ok(change) if change == *expected => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("never told of {expected:?}").into()),
            }
        }
    }

    /// A call that runs until it is cancelled, which happens at its first step.
    fn cancel(&self, request: Request<ToolOutput>) -> Checked {
        let (step, steps) = mpsc::channel();
        let call = request.on_progress(move |p| drop(step.send(p))).start()?;
        let canceller = call.canceller();
        let stopper = thread::spawn(move || {
            let began = steps.recv_timeout(PATIENCE).is_ok();
            canceller.cancel();
            began
        });
        fails(call.wait(), ErrorKind::Cancelled, None)?;
        match stopper.join() {
            Ok(true) => Ok(()),
            _ => Err("cancelled before its first step".to_owned().into()),
        }
    }
}

/// A folder of the working directory, made.
fn folder(name: &str) -> PathBuf {
    let path = env::current_dir().unwrap_or_default().join(name);
    // What cannot be made shows in the checks.
    drop(std::fs::create_dir_all(&path));
    path
}

fn folder_uri(name: &str) -> String {
    format!("file://{}", folder(name).display())
}

fn same<T: PartialEq + fmt::Debug + ?Sized>(found: &T, expected: &T, what: &str) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?}, not {expected:?}").into())
}

fn holds(text: &str, words: &str) -> Checked {
    if text.contains(words) {
        return Ok(());
    }
    Err(format!("{words:?} is not in {text:?}").into())
}

fn fails<T>(outcome: Result<T, Error>, kind: ErrorKind, code: Option<i32>) -> Checked {
    match outcome {
        Ok(_) => Err(format!("no error, instead of {kind:?}").into()),
        Err(error) if error.kind() == kind && (code.is_none() || error.code() == code) => Ok(()),
        Err(error) => {
            Err(format!("{:?} {:?} instead of {kind:?} {code:?}: {error}", error.kind(), error.code()).into())
        }
    }
}

/// The names, which the server may list in any order.
fn names<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = entries.into_iter().collect();
    names.sort_unstable();
    names
}

/// Progress as it was told.
fn steps(progress: &Receiver<Progress>) -> Vec<(f64, Option<f64>)> {
    progress.try_iter().map(|p| (p.done, p.total)).collect()
}

/// A member of the structured answer of a tool.
fn structured(output: &ToolOutput) -> Result<Doc, Wrong> {
    let json = output.structured.as_ref().ok_or_else(|| "no structured content".to_owned())?;
    Ok(json.to_doc())
}

fn first_is_image(output: &ToolOutput) -> bool {
    output
        .content
        .iter()
        .any(|c| matches!(c, Content::Image { data, mime_type } if mime_type == "image/png" && data.starts_with(b"\x89PNG")))
}
