//! Handler of a tool: confirmation, concurrency, run and result.
//!
//! The handler runs again after the user has responded, so everything before [`confirm`] is without
//! side effects. The order is: expand the templates, ask the user, wait for a free place, run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use hmac_sha256::HMAC;
use rustix::fs::{Access, access};
use tinymcp::json::{Doc, Json, Value, Writer};
use tinymcp::schema::{Formats, Schema};
use tinymcp::{Context, Form, ResourceContents, ToolError, ToolOutput};

use super::definition::{Mode, Stdin, ToolDefinition};
use super::programs::group::Processes;
use super::programs::output::{Rests, Rules, seconds};
use super::programs::process::{CHECK, Caller, Invocation, Launch, inherited, run};
use super::programs::program_log;
use super::programs::worker::{Pool, Workers};
use super::run::log;
use super::template::Text;
use crate::escape::plain;
use crate::mutex::lock;

/// Longest question to the user, in bytes. A longer one could hide a part of itself.
const QUESTION: usize = 8 << 10;

/// State that all tools of a server share.
pub(crate) struct Shared {
    processes: Arc<Processes>,
    rests: Rests,
    workers: Workers,
    places: WaitingPlaces,
    /// Variables of this process that every program gets.
    inherited: Vec<(OsString, OsString)>,
    /// Secret for the keys of confirmations.
    secret: [u8; 32],
}

impl Shared {
    /// Creates the state of a server with this number of threads for calls.
    ///
    /// # Errors
    /// The system provided no random numbers.
    pub(crate) fn new(threads: usize) -> crate::Result<Shared> {
        let places = WaitingPlaces::new(threads / 2);
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| format!("no random numbers: {error}"))?;
        let (processes, rests, workers) = (Arc::default(), Rests::default(), Workers::default());
        // Copying all variables for each tool would take a tenth of the start.
        Ok(Shared { processes, rests, workers, places, inherited: inherited().collect(), secret })
    }

    /// Returns the rest of an output that was cut, by its URI `output://TOOL/NUMBER`.
    pub(crate) fn read_rest(&self, uri: &str) -> Option<ResourceContents> {
        self.rests.read(uri)
    }

    /// Replaces the processes of workers.
    pub(crate) fn renew(&self) {
        self.workers.renew();
    }

    /// Ends every process, for shutdown. Workers get a short time to end by themselves. Later calls
    /// start no process.
    pub(crate) fn stop(&self) {
        self.workers.stop();
        self.processes.stop();
    }
}

/// Returns the handler of a tool.
pub(crate) fn handler(
    definition: Arc<ToolDefinition>,
    shared: Arc<Shared>,
) -> impl Fn(&mut Context<'_>, Json) -> Result<ToolOutput, ToolError> + Send + Sync + 'static {
    let handler = Handler::new(definition, shared);
    move |ctx, arguments| handler.call(ctx, &arguments)
}

struct Handler {
    definition: Arc<ToolDefinition>,
    launch: Arc<Launch>,
    /// Compiled `outputSchema`. The library checks results as well, but its error does not give the
    /// reason.
    output: Option<Schema>,
    /// Processes of a tool with `worker`.
    pool: Option<Arc<Pool>>,
    limit: CallLimit,
    shared: Arc<Shared>,
}

impl Handler {
    fn new(definition: Arc<ToolDefinition>, shared: Arc<Shared>) -> Handler {
        let program = &definition.program;
        let name = program.argv.program();
        let found = find_program(name, &definition.source.folder);
        if found.is_none() {
            log(&not_found(&definition));
        }
        let mut env = shared.inherited.clone();
        env.extend(program.env.iter().map(|(name, value)| (name.into(), value.into())));
        let launch = Arc::new(Launch {
            program: match found {
                Some(found) => found.into(),
                None if name.contains('/') => definition.source.folder.join(name).into(),
                None => name.into(),
            },
            literals: program.argv.literals().map(|(_, text)| text.into()).collect(),
            env,
            cwd: program.cwd.clone(),
            grants: program.sandbox.clone(),
        });
        let worker = matches!(definition.mode, Mode::Worker);
        let pool = worker.then(|| shared.workers.pool(&launch, &shared.processes));
        if let Some(pool) = &pool {
            // Replaces the processes of a previous definition.
            pool.renew();
        }
        // Registration rejects a schema that does not compile.
        let compile =
            |schema: &Json| Schema::options().formats(Formats::Assert).compile(schema.to_doc().root()).ok();
        let output = definition.tool.output_schema.as_ref().and_then(compile);
        Handler { definition, launch, output, pool, limit: CallLimit::default(), shared }
    }

    fn call(&self, ctx: &mut Context<'_>, arguments: &Json) -> Result<ToolOutput, ToolError> {
        // A bare name would be searched again, with PATH from the working folder.
        if !Path::new(&self.launch.program).is_absolute() {
            return Err(ToolError::new(format!(
                "cannot start the program {:?}: it was not found in PATH when the server read its definition",
                self.launch.program
            )));
        }
        let arguments = self.with_defaults(arguments);
        let argv = match self.definition.mode {
            Mode::PerCall { .. } => Some(self.argv(arguments.root())?),
            Mode::Worker => None,
        };
        if let Some(question) = &self.definition.confirm {
            if !self.confirm(ctx, question, &arguments)? {
                return Ok(ToolOutput::failed("the user declined"));
            }
        }
        let definition = &self.definition;
        let _permit = self.limit.enter(ctx, definition, &self.shared.places)?;
        let output = match &self.pool {
            Some(pool) => {
                let Shared { rests, places, .. } = &*self.shared;
                pool.call(ctx, definition, arguments.text(), (rests, places))
            }
            None => self.run(ctx, argv.unwrap_or_default(), &arguments),
        };
        output.map(|output| self.checked(output))
    }

    /// Replaces a result that `outputSchema` rejects by an error.
    fn checked(&self, output: ToolOutput) -> ToolOutput {
        let (Some(schema), Some(structured)) = (&self.output, &output.structured) else { return output };
        match schema.check(structured.to_doc().root()) {
            Ok(()) => output,
            Err(violation) => {
                ToolOutput::failed(format!("the output does not match `outputSchema`: {violation}"))
            }
        }
    }

    /// Adds the defaults of arguments that the call omits.
    fn with_defaults(&self, arguments: &Json) -> Doc {
        let doc = arguments.to_doc();
        let absent = |(name, _): &&(String, Json)| doc.root().get(name).is_none();
        if !self.definition.defaults.iter().any(|default| absent(&default)) {
            return doc;
        }
        let mut w = Writer::new();
        w.begin_object();
        for (name, value) in doc.root().members() {
            w.key(name).value(value);
        }
        for (name, value) in self.definition.defaults.iter().filter(absent) {
            w.key(name).json(value);
        }
        w.end_object();
        w.into_json().to_doc()
    }

    /// Asks the user for confirmation. Placeholders of absent arguments are removed from the
    /// question.
    fn confirm(&self, ctx: &mut Context<'_>, question: &Text, arguments: &Doc) -> Result<bool, ToolError> {
        if !ctx.client_capabilities().form {
            return Err(ToolError::new(
                "this tool asks the user for confirmation, and this client cannot ask the user (it lacks elicitation)",
            ));
        }
        let question = plain(&question.fill(arguments.root()));
        if question.len() > QUESTION {
            return Err(ToolError::new(format!(
                "the question to the user would have {} bytes, at most {QUESTION} are shown; use shorter arguments",
                question.len()
            )));
        }
        let key = self.question_key(&question, arguments.text());
        // A form without fields can only be accepted or declined.
        Ok(ctx.elicit(&key, Form::new(question))?.accepted())
    }

    /// Key of the elicitation. In the stateless protocol the client sends its response with this
    /// key, which it gets only with the question. So a consent never counts for other arguments or
    /// another definition.
    fn question_key(&self, question: &str, arguments: &str) -> String {
        let definition = &self.definition;
        let folder = definition.source.folder.as_os_str().as_encoded_bytes();
        let texts = [&definition.tool.name, &definition.source.text, question, arguments];
        let mut code = HMAC::new(self.shared.secret);
        for part in texts.map(str::as_bytes).into_iter().chain([folder]) {
            code.update((part.len() as u64).to_le_bytes());
            code.update(part);
        }
        let mut key = "confirm-".to_owned();
        for byte in code.finalize().iter().take(16) {
            key.push_str(&format!("{byte:02x}"));
        }
        key
    }

    /// Returns the command line of a call. The program is the one that was found at the start.
    fn argv(&self, arguments: Value<'_>) -> Result<Vec<OsString>, ToolError> {
        let mut argv = self.definition.program.argv.expand(arguments).map_err(ToolError::new)?;
        if let Some(program) = argv.first_mut() {
            program.clone_from(&self.launch.program);
        }
        Ok(argv)
    }

    fn run(
        &self,
        ctx: &mut Context<'_>,
        argv: Vec<OsString>,
        arguments: &Doc,
    ) -> Result<ToolOutput, ToolError> {
        let definition = &self.definition;
        let Mode::PerCall { stdin, output } = &definition.mode else {
            return Err(ToolError::new("the tool has no `run`"));
        };
        let rules = Rules {
            tool: &definition.tool.name,
            output,
            limit: definition.output_limit,
            rests: definition.link_rest.then_some(&self.shared.rests),
        };
        let stdin = match stdin {
            Stdin::None => None,
            Stdin::Json => Some(format!("{}\n", arguments.text()).into_bytes()),
            // Without an optional argument that the text names, the input is empty.
            Stdin::Text(text) => Some(text.expand(arguments.root()).unwrap_or_default().into_bytes()),
        };
        let command = self.launch.command(&argv)?;
        let invocation = Invocation { command, stdin, capture: rules.capture(), timeout: definition.timeout };
        let mut finished = run(ctx, &self.shared.processes, invocation)?;
        if finished.succeeded() {
            program_log::write(rules.tool, std::mem::take(&mut finished.stderr).text().as_bytes());
        }
        let status = if finished.timed_out.is_none() { finished.status } else { None };
        let output = rules.result(finished);
        Ok(match self.launch.sandbox_note(status) {
            Some(note) => ToolOutput::failed(format!("{}\n{note}", output.texts())),
            None => output,
        })
    }
}

/// Bound of the calls of one tool that run at the same time.
#[derive(Default)]
struct CallLimit {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    running: usize,
    /// Numbers of the calls that wait, in the order of their arrival.
    waiting: Vec<u64>,
    last: u64,
}

/// Permission to run one call.
struct Permit<'l>(&'l CallLimit);

impl CallLimit {
    /// Waits until fewer calls run than the tool's `concurrency`, and no earlier call waits.
    ///
    /// # Errors
    /// The call was cancelled, too many calls wait, or the call waited for the tool's timeout.
    fn enter(
        &self,
        caller: &dyn Caller,
        tool: &ToolDefinition,
        places: &WaitingPlaces,
    ) -> Result<Permit<'_>, ToolError> {
        let mut calls = lock(&self.calls);
        if calls.running < tool.concurrency && calls.waiting.is_empty() {
            calls.running += 1;
            return Ok(Permit(self));
        }
        let _place = places.take()?;
        let deadline = Instant::now() + tool.timeout;
        calls.last += 1;
        let number = calls.last;
        calls.waiting.push(number);
        let result = loop {
            if calls.running < tool.concurrency && calls.waiting.first() == Some(&number) {
                calls.running += 1;
                break Ok(Permit(self));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(busy(tool));
            }
            calls =
                self.changed.wait_timeout(calls, left.min(CHECK)).unwrap_or_else(PoisonError::into_inner).0;
            if caller.cancelled() {
                break Err(ToolError::new("the call was cancelled"));
            }
        };
        calls.waiting.retain(|other| *other != number);
        drop(calls);
        self.changed.notify_all();
        result
    }
}

/// Places for calls that wait for other calls of their tool or its worker. A waiting call occupies
/// a thread, so only half of the threads may wait: the others serve the other tools.
pub(crate) struct WaitingPlaces {
    free: AtomicUsize,
}

/// Place of one waiting call.
pub(crate) struct WaitingPlace<'p>(&'p WaitingPlaces);

impl WaitingPlaces {
    pub(crate) fn new(places: usize) -> WaitingPlaces {
        WaitingPlaces { free: AtomicUsize::new(places) }
    }

    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.free.load(Ordering::Relaxed) > 0
    }

    /// Takes a place.
    ///
    /// # Errors
    /// All are taken.
    pub(crate) fn take(&self) -> Result<WaitingPlace<'_>, ToolError> {
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        taken.map(|_| WaitingPlace(self)).map_err(|_| {
            ToolError::new("the server is busy: too many calls wait for other calls to end; try again later")
        })
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        lock(&self.0.calls).running -= 1;
        self.0.changed.notify_all();
    }
}

/// Returns the error of a call that found no place in time.
pub(crate) fn busy(tool: &ToolDefinition) -> ToolError {
    let (time, concurrency) = (seconds(tool.timeout), tool.concurrency);
    ToolError::new(format!(
        "this call waited {time} (`timeout`) for other calls of the tool to end (`concurrency` {concurrency}); \
         try again later"
    ))
}

/// Returns the line about a tool whose program is not found.
fn not_found(tool: &ToolDefinition) -> String {
    let (place, name) = (&tool.source.place, tool.program.argv.program());
    if name.contains('/') {
        return format!("{place}: the program {name:?} does not exist or is not executable");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    format!("{place}: the program {name:?} is not in PATH, which is {path:?}; install it, or write its path")
}

/// Finds a program. A name without `/` is searched in PATH of this process; a relative path starts
/// at the folder.
pub(crate) fn find_program(name: &str, folder: &Path) -> Option<PathBuf> {
    let executable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(folder.join(name)).filter(executable);
    }
    let path = std::env::var_os("PATH")?;
    // An empty entry of PATH means the current folder, which is not searched.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(OsStr::new(name))).find(executable)
}

#[cfg(test)]
mod tests;
