//! Validation of tool arguments: ours against the crates jsonschema and boon, and Ajv under node.
//!
//!     schema-bench time [AJV]                    nanoseconds, all engines in turns; AJV is the path
//!                                                of ajv.mjs
//!     schema-bench loop ENGINE WHAT ROUNDS [N]   for callgrind: WHAT is valid, invalid, error, compile;
//!                                                N is the number of a tool
//!     schema-bench heap                          bytes a compiled schema holds, ours
//!
//! Values are parsed before the clock starts, by each engine in its own model. `error` returns the
//! first failure with its message. The tools are in tools.json.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use tinymcp::json::{Doc, Value};
use tinymcp::schema::{Formats, Options, Schema};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards every call to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        CALLS.fetch_add(1, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Work of an engine.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Valid,
    Invalid,
    Error,
    Compile,
}

trait Engine {
    fn name(&self) -> &'static str;
    /// Runs once for every value of every tool, or of one tool; returns the number of runs.
    fn pass(&self, what: What, tool: Option<usize>) -> usize;
    /// Nanoseconds per value in this many passes.
    fn timed(&self, what: What, passes: usize) -> Outcome<f64> {
        let start = Instant::now();
        let mut n = 0;
        for _ in 0..passes {
            n += self.pass(what, None);
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / n as f64)
    }
}

/// Ajv in a separate process, which measures the time itself.
struct Ajv {
    child: Child,
    asked: ChildStdin,
    answers: RefCell<Lines<BufReader<ChildStdout>>>,
}

impl Ajv {
    fn start(script: &str) -> Outcome<Ajv> {
        let mut node = Command::new("node");
        let mut child = node.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asked = child.stdin.take().ok_or("no pipe to node")?;
        let answers = child.stdout.take().ok_or("no pipe from node")?;
        Ok(Ajv { child, asked, answers: RefCell::new(BufReader::new(answers).lines()) })
    }
}

impl Engine for Ajv {
    fn name(&self) -> &'static str {
        "ajv"
    }

    fn pass(&self, _: What, _: Option<usize>) -> usize {
        0
    }

    fn timed(&self, what: What, passes: usize) -> Outcome<f64> {
        let what = NAMES.iter().find(|(_, known)| *known == what).map_or("", |(name, _)| name);
        writeln!(&self.asked, "{what} {passes}")?;
        let answer = self.answers.borrow_mut().next().ok_or("node has ended")??;
        let (nanoseconds, n) = answer.split_once(' ').ok_or("no answer of ajv.mjs")?;
        Ok(nanoseconds.parse::<f64>()? / n.parse::<f64>()?)
    }
}

impl Drop for Ajv {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Ours {
    tools: Vec<(String, Schema, Vec<Doc>, Vec<Doc>)>,
    options: Options,
}

fn texts(tool: Value<'_>, name: &str) -> Vec<String> {
    tool.get(name).into_iter().flat_map(Value::items).map(|v| v.raw().to_owned()).collect()
}

impl Ours {
    fn new(tools: &Doc) -> Outcome<Ours> {
        let options = Options::new().formats(Formats::Assert);
        let mut all = Vec::new();
        for tool in tools.root().items() {
            let text = tool.get("schema").ok_or("a tool without schema")?.raw().to_owned();
            let schema = options.parse(&text)?;
            let parse = |name| texts(tool, name).iter().map(Doc::parse).collect::<Result<Vec<_>, _>>();
            all.push((text, schema, parse("valid")?, parse("invalid")?));
        }
        for (text, schema, valid, invalid) in &all {
            for value in valid {
                schema.check(value.root()).map_err(|e| format!("{text}: {value:?}: {e}"))?;
            }
            for value in invalid {
                if schema.is_valid(value.root()) {
                    return Err(format!("{text}: {value:?} is valid").into());
                }
            }
        }
        Ok(Ours { tools: all, options })
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        "tinymcp"
    }

    fn pass(&self, what: What, tool: Option<usize>) -> usize {
        let mut n = 0;
        for (i, (text, schema, valid, invalid)) in self.tools.iter().enumerate() {
            if tool.is_some_and(|t| t != i) {
                continue;
            }
            match what {
                What::Valid => valid.iter().for_each(|v| assert!(black_box(schema.is_valid(v.root())))),
                What::Invalid => invalid.iter().for_each(|v| assert!(!black_box(schema.is_valid(v.root())))),
                What::Error => invalid.iter().for_each(|v| {
                    let _ = black_box(schema.check(v.root()).map_err(|e| e.message.len()));
                }),
                What::Compile => {
                    let _ = black_box(self.options.parse(text));
                }
            }
            n += match what {
                What::Valid => valid.len(),
                What::Invalid | What::Error => invalid.len(),
                What::Compile => 1,
            };
        }
        n
    }
}

#[cfg(feature = "peers")]
mod peers {
    use super::{Engine, What, texts};
    use std::hint::black_box;
    use tinymcp::json::Doc;

    type Tool<S> = (serde_json::Value, S, Vec<serde_json::Value>, Vec<serde_json::Value>);

    fn parsed<S>(tools: &Doc, compile: impl Fn(&serde_json::Value) -> S) -> Vec<Tool<S>> {
        let parse = |texts: Vec<String>| {
            texts.iter().map(|t| serde_json::from_str(t).expect("JSON")).collect::<Vec<serde_json::Value>>()
        };
        tools
            .root()
            .items()
            .map(|tool| {
                let schema: serde_json::Value =
                    serde_json::from_str(tool.get("schema").expect("a schema").raw()).expect("JSON");
                let compiled = compile(&schema);
                (schema, compiled, parse(texts(tool, "valid")), parse(texts(tool, "invalid")))
            })
            .collect()
    }

    pub struct Jsonschema(Vec<Tool<jsonschema::Validator>>);

    fn compile(schema: &serde_json::Value) -> jsonschema::Validator {
        jsonschema::options().should_validate_formats(true).build(schema).expect("a schema")
    }

    impl Jsonschema {
        pub fn new(tools: &Doc) -> Jsonschema {
            Jsonschema(parsed(tools, compile))
        }
    }

    impl Engine for Jsonschema {
        fn name(&self) -> &'static str {
            "jsonschema"
        }

        fn pass(&self, what: What, tool: Option<usize>) -> usize {
            let mut n = 0;
            for (i, (schema, validator, valid, invalid)) in self.0.iter().enumerate() {
                if tool.is_some_and(|t| t != i) {
                    continue;
                }
                match what {
                    What::Valid => valid.iter().for_each(|v| assert!(black_box(validator.is_valid(v)))),
                    What::Invalid => invalid.iter().for_each(|v| assert!(!black_box(validator.is_valid(v)))),
                    What::Error => invalid.iter().for_each(|v| {
                        let _ = black_box(validator.validate(v).map_err(|e| e.to_string().len()));
                    }),
                    What::Compile => {
                        black_box(compile(schema));
                    }
                }
                n += match what {
                    What::Valid => valid.len(),
                    What::Invalid | What::Error => invalid.len(),
                    What::Compile => 1,
                };
            }
            n
        }
    }

    pub struct Boon(Vec<Tool<(boon::Schemas, boon::SchemaIndex)>>);

    fn compile_boon(schema: &serde_json::Value) -> (boon::Schemas, boon::SchemaIndex) {
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.enable_format_assertions();
        compiler.add_resource("http://tool/schema.json", schema.clone()).expect("a URI");
        let index = compiler.compile("http://tool/schema.json", &mut schemas).expect("a schema");
        (schemas, index)
    }

    impl Boon {
        pub fn new(tools: &Doc) -> Boon {
            Boon(parsed(tools, compile_boon))
        }
    }

    impl Engine for Boon {
        fn name(&self) -> &'static str {
            "boon"
        }

        fn pass(&self, what: What, tool: Option<usize>) -> usize {
            let mut n = 0;
            for (i, (schema, (schemas, index), valid, invalid)) in self.0.iter().enumerate() {
                if tool.is_some_and(|t| t != i) {
                    continue;
                }
                let values = if what == What::Valid { valid } else { invalid };
                match what {
                    What::Compile => {
                        black_box(compile_boon(schema));
                        n += 1;
                    }
                    What::Valid | What::Invalid => {
                        values.iter().for_each(|v| {
                            black_box(schemas.validate(v, *index).is_ok());
                        });
                        n += values.len();
                    }
                    What::Error => {
                        values.iter().for_each(|v| {
                            let _ = black_box(schemas.validate(v, *index).map_err(|e| e.to_string().len()));
                        });
                        n += values.len();
                    }
                }
            }
            n
        }
    }
}

fn engines(tools: &Doc) -> Outcome<Vec<Box<dyn Engine>>> {
    Ok(vec![
        Box::new(Ours::new(tools)?),
        #[cfg(feature = "peers")]
        Box::new(peers::Jsonschema::new(tools)),
        #[cfg(feature = "peers")]
        Box::new(peers::Boon::new(tools)),
    ])
}

const NAMES: [(&str, What); 4] =
    [("valid", What::Valid), ("invalid", What::Invalid), ("error", What::Error), ("compile", What::Compile)];

fn what(name: &str) -> Outcome<What> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    Ok(found.ok_or_else(|| format!("unknown: {name}"))?.1)
}

fn main() -> Outcome<()> {
    let tools = Doc::parse(include_str!("../tools.json"))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["time"] => time(&tools, None),
        ["time", ajv] => time(&tools, Some(Ajv::start(ajv)?)),
        ["heap"] => heap(&tools),
        ["loop", engine, kind, rounds, tool @ ..] => {
            let tool = tool.first().map(|n| n.parse()).transpose()?;
            let engines = engines(&tools)?;
            let engine = engines.iter().find(|e| e.name() == *engine).ok_or("no such engine")?;
            let (kind, rounds) = (what(kind)?, rounds.parse()?);
            let mut n = 0;
            for _ in 0..rounds {
                n += engine.pass(kind, tool);
            }
            println!("{n}");
            Ok(())
        }
        _ => Err("expected: time [AJV] | heap | loop ENGINE WHAT ROUNDS".into()),
    }
}

/// Best of many short rounds; the engines take turns within each.
fn time(tools: &Doc, ajv: Option<Ajv>) -> Outcome<()> {
    let cold = Instant::now();
    let first = tools.root().index(0).and_then(|t| t.get("schema")).ok_or("no tools")?;
    black_box(Options::new().formats(Formats::Assert).compile(first)?);
    println!("cold first compile, ours: {:.1} us", cold.elapsed().as_secs_f64() * 1e6);
    let mut engines = engines(tools)?;
    if let Some(ajv) = ajv {
        engines.push(Box::new(ajv));
    }
    for (name, kind) in NAMES {
        let mut best = vec![f64::MAX; engines.len()];
        // Short rounds: on a busy machine a long one is always interrupted.
        let (rounds, passes) = if kind == What::Compile { (30, 1) } else { (600, 10) };
        for _ in 0..rounds {
            for (best, engine) in best.iter_mut().zip(&engines) {
                *best = best.min(engine.timed(kind, passes)?);
            }
        }
        for (best, engine) in best.iter().zip(&engines) {
            println!("{name:8} {:11} {best:9.0} ns", engine.name());
        }
    }
    let ours = Ours::new(tools)?;
    for (i, tool) in tools.root().items().enumerate() {
        let mut best = f64::MAX;
        for _ in 0..100 {
            let start = Instant::now();
            let mut n = 0;
            for _ in 0..30 {
                n += ours.pass(What::Valid, Some(i));
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9 / n as f64);
        }
        let calls = CALLS.load(Relaxed);
        ours.pass(What::Valid, Some(i));
        let calls = CALLS.load(Relaxed) - calls;
        println!(
            "{best:6.0} ns, {calls} allocations  {}",
            tool.get("name").map_or("", |n| n.as_str().unwrap_or(""))
        );
    }
    Ok(())
}

fn heap(tools: &Doc) -> Outcome<()> {
    let options = Options::new().formats(Formats::Assert);
    let mut total = 0;
    for tool in tools.root().items() {
        let schema = tool.get("schema").ok_or("no schema")?;
        let text = schema.raw();
        let before = LIVE.load(Relaxed);
        let compiled = black_box(options.parse(text)?);
        let held = LIVE.load(Relaxed) - before;
        total += held;
        let patterns = text.matches("attern").count();
        println!("{held:6} bytes for {:5} of text, {patterns} patterns", text.len());
        drop(compiled);
    }
    println!("{total} bytes for {} tools", tools.root().len());
    Ok(())
}
