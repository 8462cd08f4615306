//! Arguments of a command: operands, options, and the server.
//!
//! Parses every option of every command and rejects those that a command does not have.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;
use tinymcp::Protocol;
use tinymcp::lint::{PROFILES, Profile};

use crate::Result;

/// Parsed arguments.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) files: Vec<PathBuf>,
    flags: HashSet<&'static str>,
    pub(crate) rules: Option<String>,
    pub(crate) profile: Option<&'static Profile>,
    pub(crate) batch: Option<PathBuf>,
    /// Program and arguments of a server to start.
    pub(crate) command: Option<Vec<OsString>>,
    /// URL of a running server.
    pub(crate) url: Option<String>,
    /// Key of a server in a configuration file.
    pub(crate) server: Option<String>,
    /// The configuration file; discovered if not given.
    pub(crate) config: Option<PathBuf>,
    /// Headers of each request.
    pub(crate) headers: Vec<(String, String)>,
    /// Protocol of the server; detected if not given.
    pub(crate) protocol: Option<Protocol>,
    /// Timeout of each response.
    pub(crate) timeout: Option<Duration>,
    /// Number of events to wait for.
    pub(crate) count: Option<u64>,
}

impl Args {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Parses the arguments of `command`, which has the options `flags`.
    pub(crate) fn parse(command: &str, mut args: Vec<OsString>, flags: &[&'static str]) -> Result<Args> {
        let mut parsed = Args::default();
        if let (true, Some(at)) = (flags.contains(&"url"), args.iter().position(|arg| arg == "--")) {
            parsed.command = Some(args.split_off(at).split_off(1));
        }
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
            match arg {
                Value(file) => parsed.files.push(file.into()),
                Long(name) => {
                    let Some(flag) = flags.iter().find(|f| **f == name) else {
                        return Err(format!("unknown option --{name}; see `tinymcp help {command}`"));
                    };
                    match *flag {
                        "rules" => parsed.rules = Some(text(&mut parser)?),
                        "header" => parsed.headers.push(header(&text(&mut parser)?)?),
                        "protocol" => parsed.protocol = Some(protocol(&text(&mut parser)?)?),
                        "timeout" => parsed.timeout = Some(seconds(&text(&mut parser)?)?),
                        "count" => parsed.count = Some(count(&text(&mut parser)?)?),
                        "server" => parsed.server = Some(text(&mut parser)?),
                        "config" => parsed.config = Some(parser.value().map_err(|e| e.to_string())?.into()),
                        "url" => parsed.url = Some(text(&mut parser)?),
                        "profile" => parsed.profile = Some(profile(&text(&mut parser)?)?),
                        "batch" => parsed.batch = Some(parser.value().map_err(|e| e.to_string())?.into()),
                        _ => {
                            parsed.flags.insert(flag);
                        }
                    }
                }
                other => return Err(other.unexpected().to_string()),
            }
        }
        Ok(parsed)
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String> {
    parser.value().and_then(|v| v.string()).map_err(|e| e.to_string())
}

fn profile(id: &str) -> Result<&'static Profile> {
    let known = || PROFILES.iter().map(|p| p.id).collect::<Vec<_>>().join(", ");
    Profile::find(id).ok_or_else(|| format!("unknown profile {id:?}; expected one of: {}", known()))
}

fn header(line: &str) -> Result<(String, String)> {
    match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("--header requires NAME:VALUE".to_owned()),
    }
}

fn protocol(name: &str) -> Result<Protocol> {
    match name {
        "session" => Ok(Protocol::Session),
        "stateless" => Ok(Protocol::Stateless),
        _ => Err(format!("unknown protocol {name:?}; expected session or stateless")),
    }
}

fn seconds(number: &str) -> Result<Duration> {
    let seconds = number.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!("--timeout requires a positive number of seconds, got {number:?}"))
}

fn count(number: &str) -> Result<u64> {
    let count = number.parse().ok().filter(|n| *n > 0);
    count.ok_or_else(|| format!("--count requires a positive integer, got {number:?}"))
}
