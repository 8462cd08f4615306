//! Serving over standard input and output or HTTP, and reloading.
//!
//! # Reload
//! The thread `serve-reload` waits for SIGHUP. Every second it checks the stamps of
//! watched resources and, with `--watch`, of the definition files and the token file. A definition
//! with an error changes nothing; every error is reported on standard error. The members `server`
//! and `skills` take effect at the next start only.
//!
//! # End
//! The library ends serving at the end of input, on SIGTERM and SIGINT. Running calls get its grace
//! period; then all processes are killed.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tinymcp::{ErrorKind, Limits, Server, stderr};

use super::catalog::Catalog;
use super::check::contents;
use super::definition::{Definition, SandboxPolicy, ServerInfo};
use super::hangup::{Hangups, Wake};
use super::options::Options;
use super::programs::sandbox;
use super::watch::Stamps;
use super::{read, skills, tool};
use crate::Result;
use crate::escape::one_line;
#[cfg(feature = "http-server")]
use crate::http;

/// Stack of a thread in bytes. Reading a definition does not recurse.
const STACK: usize = 256 << 10;

/// Writes a line for the operator to standard error.
pub(crate) fn log(line: &str) {
    stderr::write(format!("tinymcp: {}\n", one_line(line)));
}

/// Starts a thread.
pub(crate) fn spawn(name: &str, stack: usize, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(body).map(drop)
}

/// Serves the definition of these files until the input ends or a signal arrives. The exit status
/// is 2 if the files have problems.
///
/// # Errors
/// The definition cannot be served, the address or a token is invalid, or serving fails.
pub(crate) fn serve(options: &Options) -> Result<u8> {
    let sources = Sources::new(options);
    let definition = match read::definition(&options.files) {
        Ok(definition) => definition,
        Err(problems) => {
            for problem in &problems {
                log(&problem.to_string());
            }
            return Ok(2);
        }
    };
    check_sandbox(&definition)?;
    let mut server = server(&definition.server);
    if let Some(skills) = &definition.skills {
        skills::offer(&mut server, skills)?;
    }
    let limits = limits(options)?;
    let shared = Arc::new(tool::Shared::new(limits.workers)?);
    server.limits(limits);
    server.tools_may_change().resources_may_change().prompts_may_change();
    if definition.resources.iter().any(|resource| resource.watch) {
        server.resource_updates();
    }
    let catalog = Catalog::new(server.handle(), definition, Arc::clone(&shared))?;
    server.on_shutdown(move || shared.stop());
    // The summary is for a person at a terminal.
    let summary = io::stdin().is_terminal().then(|| summary(catalog.definition()));
    let files = options.files.clone();
    #[cfg(feature = "http-server")]
    if let Some(address) = &options.http {
        let (http, tokens) = http::configure(server, &options.settings)?;
        let has_tokens = tokens.is_some();
        Reload { files, catalog, sources, tokens }.start()?;
        let bound = http::bind(http, address, None)?;
        return http::serve(bound, address, None, has_tokens).map(|()| 0);
    }
    Reload {
        files,
        catalog,
        sources,
        #[cfg(feature = "http-server")]
        tokens: None,
    }
    .start()?;
    if let Some(summary) = summary {
        log(&format!(
            "serving {summary} on standard input and output, one JSON-RPC message per line; to add it to a \
             client, see --print-config"
        ));
    }
    server.serve_stdio().map(|()| 0).map_err(|error| error.to_string())
}

fn server(info: &ServerInfo) -> Server {
    let mut server = Server::new(info.name.as_str(), info.version.as_str());
    if let Some(title) = &info.title {
        server.title(title);
    }
    if let Some(text) = &info.description {
        server.description(text);
    }
    if let Some(text) = &info.instructions {
        server.instructions(text);
    }
    if let Some(url) = &info.website {
        server.website(url);
    }
    server
}

/// Returns the limits from the environment. Tools have timeouts of their own, so the deadline of
/// handlers is off by default. A call blocks a worker while its process runs, so the default number
/// of workers is the maximum; their threads start on demand.
fn limits(options: &Options) -> Result<Limits> {
    let mut limits = Limits::from_env().map_err(|error| error.to_string())?;
    let is_set = |variable: &str| std::env::var_os(variable).is_some();
    if !is_set("TINYMCP_WORKERS") {
        limits.workers = 64;
    }
    if !is_set("TINYMCP_DEADLINE_MS") {
        limits.handler_deadline = Duration::ZERO;
    }
    if let Some(time) = options.idle_exit {
        limits.idle_exit = time;
    }
    Ok(limits)
}

/// Reports tools that run without their sandbox.
///
/// # Errors
/// The definition requires the sandbox.
fn check_sandbox(definition: &Definition) -> Result<()> {
    let mut reported: Vec<String> = Vec::new();
    for tool in &definition.tools {
        let Some(missing) =
            tool.program.sandbox.as_ref().and_then(|grants| sandbox::support().missing(grants))
        else {
            continue;
        };
        let place = &tool.source.place;
        if definition.sandbox == SandboxPolicy::Required {
            return Err(format!("{place}: the sandbox is required, but {missing}"));
        }
        if !reported.contains(&missing) {
            log(&format!("{place}: sandbox: {missing}"));
            reported.push(missing);
        }
    }
    Ok(())
}

fn summary(definition: &Definition) -> String {
    format!("{:?} ({})", definition.server.name, contents(definition))
}

/// Files whose changes reload the definition, with their stamps from before they were read.
struct Sources {
    /// With `--watch`.
    watch: bool,
    tokens: Option<PathBuf>,
    stamps: Stamps,
}

impl Sources {
    fn new(options: &Options) -> Sources {
        let (watch, tokens) = (options.watch, options.settings.token_file.clone());
        let mut sources = Sources { watch, tokens, stamps: Stamps::default() };
        sources.add(&options.files);
        sources
    }

    /// Adds these files and folders, and the token file. Called before they are read.
    fn add(&mut self, files: &[PathBuf]) {
        self.stamps.extend(&mut files.iter().chain(&self.tokens).cloned());
        for folder in files {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path());
            self.stamps.extend(&mut paths.filter(|path| path.extension().is_some_and(|e| e == "json")));
        }
    }

    /// Replaces the files by those of a definition. Files that were included before keep their
    /// stamps.
    fn set(&mut self, definition: &Definition) {
        self.stamps.replace(&mut definition.sources.iter().chain(&self.tokens).cloned());
    }
}

/// State of the thread that reloads.
struct Reload {
    files: Vec<PathBuf>,
    catalog: Catalog,
    sources: Sources,
    #[cfg(feature = "http-server")]
    tokens: Option<Arc<http::Tokens>>,
}

impl Reload {
    /// Starts the thread. From then on, SIGHUP does not end the process.
    fn start(mut self) -> Result<()> {
        let started = Hangups::register()
            .and_then(|hangups| spawn("serve-reload", STACK, Box::new(move || self.run(hangups))));
        started.map_err(|error| format!("the thread that reloads cannot be started: {error}"))
    }

    fn run(&mut self, mut hangups: Hangups) {
        while let Some(wake) = hangups.wait(self.sources.watch || self.catalog.watches()) {
            // Taken before reading, so that a later change is noticed.
            let changed = self.sources.watch && !self.sources.stamps.changed().is_empty();
            if wake == Wake::Hangup || changed {
                self.reload(wake == Wake::Hangup);
            }
            match self.catalog.reload() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => log(&format!("resource updates: {error}; restart to announce them")),
            }
        }
    }

    /// Reads the definition again. SIGHUP also replaces the workers, because their programs may be
    /// new.
    fn reload(&mut self, hangup: bool) {
        #[cfg(feature = "http-server")]
        if let Some(tokens) = &self.tokens {
            tokens.reload();
        }
        self.sources.add(&self.files);
        let new = match read::definition(&self.files) {
            Ok(new) => new,
            Err(problems) => {
                for problem in &problems {
                    log(&problem.to_string());
                }
                return log("the previous definition stays in use");
            }
        };
        if let Err(error) = check_sandbox(&new) {
            log(&error);
            return log("the previous definition stays in use");
        }
        if new.server != self.catalog.definition().server {
            log("the member `server` changed; restart for it to take effect");
        }
        let folder =
            |definition: &Definition| definition.skills.as_ref().map(|skills| skills.path().to_owned());
        if folder(&new) != folder(self.catalog.definition()) {
            log("the member `skills` changed; restart for it to take effect");
        }
        self.sources.set(&new);
        match self.catalog.update(new) {
            Ok(()) => {
                if hangup {
                    self.catalog.renew_workers();
                }
                log(&format!("reloaded: {}", summary(self.catalog.definition())));
            }
            Err(error) => {
                log(&error);
                log("the previous definition stays in use");
            }
        }
    }
}
