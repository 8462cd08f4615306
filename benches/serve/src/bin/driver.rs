//! Driver: starts and calls `tinymcp serve` and the bare loops in turns and prints the comparison.
//!
//! `run.sh` builds the programs. Linux only.
//!
//! # Invariants
//! - Each sample of a server is taken directly before or after one of each reference, so a load on
//!   the machine changes both.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stdio_bench::Result;
use stdio_bench::count;
use stdio_bench::peer::{Peer, Watch};
use stdio_bench::place::{Placement, Places};
use stdio_bench::stats::{median, quantile};
use stdio_bench::wire::{Framing, HEAD, SHORT, Script, id_of, push_number};

const USAGE: &str =
    "driver --floor PATH --tinymcp PATH [--starts N] [--calls N] [--spawns N] [--without-counts] [--check]
--starts, --calls, --spawns: numbers of starts, of calls of a co-process, of calls that start a program;
--check fails when a bar is missed.";

/// Maximum lifetime of a server.
const LIFE: Duration = Duration::from_secs(120);
const WARM_UP: usize = 200;
/// Tools of the larger definition.
const TOOLS: usize = 50;

/// Milliseconds from the start to the first response.
const MAX_START: f64 = 2.0;
/// Microseconds of a call of a co-process.
const MAX_WORKER: f64 = 60.0;
/// Multiple of posix_spawn and wait of the same program.
const MAX_SPAWN: f64 = 1.3;

struct Options {
    floor: String,
    tinymcp: String,
    starts: usize,
    calls: usize,
    spawns: usize,
    counts: bool,
    check: bool,
}

fn options() -> Result<Options> {
    let (floor, tinymcp) = (String::new(), String::new());
    let mut options =
        Options { floor, tinymcp, starts: 400, calls: 10_000, spawns: 1000, counts: true, check: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            // The definition names it, too, and relative paths of a definition start at its own folder.
            "--floor" => options.floor = fs::canonicalize(value()?)?.to_string_lossy().into_owned(),
            "--tinymcp" => options.tinymcp = value()?,
            "--starts" => options.starts = value()?.parse()?,
            "--calls" => options.calls = value()?.parse()?,
            "--spawns" => options.spawns = value()?.parse()?,
            "--without-counts" => options.counts = false,
            "--check" => options.check = true,
            _ => return Err(format!("{arg} is not known\n{USAGE}").into()),
        }
    }
    if options.floor.is_empty() || options.tinymcp.is_empty() {
        return Err(USAGE.into());
    }
    Ok(options)
}

fn main() -> Result<()> {
    let options = options()?;
    let scratch = std::env::temp_dir().join(format!("serve-bench-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let done = run(&options, &scratch);
    fs::remove_dir_all(&scratch)?;
    match done? {
        missed if missed > 0 && options.check => Err(format!("{missed} bars missed").into()),
        _ => Ok(()),
    }
}

/// Commands of the servers, and the parts of the driver that they share.
struct Bench<'b> {
    options: &'b Options,
    watch: &'b Watch,
    places: Places,
    serve: Vec<String>,
    serve_many: Vec<String>,
    relay: Vec<String>,
    spawn: Vec<String>,
}

fn run(options: &Options, scratch: &Path) -> Result<u32> {
    let watch = Watch::start()?;
    let serve = |name: &str, text: String| -> Result<Vec<String>> {
        let file = scratch.join(name);
        fs::write(&file, text)?;
        Ok(vec![options.tinymcp.clone(), "serve".into(), file.to_string_lossy().into_owned()])
    };
    let floor = |mode: &str| vec![options.floor.clone(), mode.to_owned()];
    let bench = Bench {
        options,
        watch: &watch,
        places: Places::find()?,
        serve: serve("two.json", definition(&options.floor, 0))?,
        serve_many: serve("many.json", definition(&options.floor, TOOLS - 2))?,
        relay: floor("relay"),
        spawn: floor("spawn"),
    };
    println!("load of the machine: {}", fs::read_to_string("/proc/loadavg")?.trim());
    println!("\n| | minimum | median | p99 | median, times the first row | bar |");
    println!("|---|---|---|---|---|---|");
    let mut missed = bench.starts()?;
    for place in bench.places.usable() {
        missed += bench.workers(place)?;
        missed += bench.programs(place)?;
    }
    if options.counts {
        bench.counts(scratch);
    }
    Ok(missed)
}

/// A definition with the tools `echo` (a co-process) and `true` (a program for each call), and more
/// tools that nobody calls.
fn definition(floor: &str, more: usize) -> String {
    let mut text = format!(
        r#"{{"tools": {{
  "echo": {{"description": "Echo", "input": {{"text": "string ..1000 - any text"}}, "worker": ["{floor}", "worker"]}},
  "true": {{"description": "Runs true", "run": ["/bin/true"]}}"#
    );
    for tool in 0..more {
        text.push_str(&format!(
            r#",
  "tool_{tool}": {{"description": "Tool number {tool}", "run": ["/bin/echo", "--", "{{text}}", "{{?count}}"],
    "input": {{"text": "string 1..100 - any text", "count?": "integer 0..9 - a number"}}}}"#
        ));
    }
    text.push_str("}}\n");
    text
}

/// One line of the report, in the unit of its samples.
fn row(name: &str, samples: &[f64], reference: &[f64], bar: &str) {
    let shown = |share: f64| quantile(samples, share).map_or("–".into(), |value| format!("{value:.2}"));
    let times = median(samples).zip(median(reference)).map_or(f64::NAN, |(one, other)| one / other);
    println!("| {name} | {} | {} | {} | {times:.2} | {bar} |", shown(0.0), shown(0.5), shown(0.99));
}

/// Text of a bar and whether it is missed.
fn bar(value: Option<f64>, most: f64, unit: &str) -> (String, u32) {
    let met = value.is_some_and(|value| value <= most);
    (format!("{most} {unit}: {}", if met { "met" } else { "MISSED" }), u32::from(!met))
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// The reference of every start: the program runs and is reaped.
fn run_true() -> Result<()> {
    let status = Command::new("/bin/true").stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err("/bin/true failed".into()) }
}

impl Bench<'_> {
    /// Time from before the process exists to its first response.
    fn start(&self, command: &[String]) -> Result<f64> {
        let before = Instant::now();
        let mut peer = Peer::spawn(command, LIFE, self.watch)?;
        peer.open(&Script::new(Framing::Legacy, SHORT))?;
        // Dropping kills the process: the end of a server is not measured here.
        Ok(millis(before))
    }

    fn starts(&self) -> Result<u32> {
        let [mut spawned, mut floor, mut two, mut many] = [(); 4].map(|()| Vec::new());
        for _ in 0..self.options.starts {
            let before = Instant::now();
            run_true()?;
            spawned.push(millis(before));
            floor.push(self.start(&self.spawn)?);
            two.push(self.start(&self.serve)?);
            many.push(self.start(&self.serve_many)?);
        }
        let (text, missed) = bar(median(&two), MAX_START, "ms");
        row("posix_spawn and wait of /bin/true, ms", &spawned, &spawned, "");
        row("start of a bare loop to its first response, ms", &floor, &spawned, "");
        row("start of tinymcp serve, 2 tools, ms", &two, &spawned, &text);
        row(&format!("start of tinymcp serve, {TOOLS} tools, ms"), &many, &spawned, "");
        Ok(missed)
    }

    /// Starts a server in this placement, which its programs inherit.
    fn peer(&self, command: &[String], place: Placement) -> Result<Peer<'_>> {
        let mut peer = Peer::spawn(command, LIFE, self.watch)?;
        peer.open(&Script::new(Framing::Legacy, SHORT))?;
        self.places.put(peer.pid(), place)?;
        Ok(peer)
    }

    fn workers(&self, place: Placement) -> Result<u32> {
        let script = Script::new(Framing::Legacy, SHORT);
        let mut peers = [self.peer(&self.relay, place)?, self.peer(&self.serve, place)?];
        let mut samples = [Vec::new(), Vec::new()];
        for peer in &mut peers {
            for _ in 0..WARM_UP {
                peer.checked_call(&script)?;
            }
        }
        for _ in 0..self.options.calls {
            for (peer, samples) in peers.iter_mut().zip(&mut samples) {
                let before = Instant::now();
                echo(peer, &script)?;
                samples.push(micros(before));
            }
        }
        self.places.release()?;
        for peer in peers {
            peer.finish()?;
        }
        let [relay, serve] = samples;
        let heading = place.heading();
        let (text, missed) = bar(median(&serve), MAX_WORKER, "µs");
        row(&format!("call through a bare relay, µs, {heading}"), &relay, &relay, "");
        row(&format!("call of a worker, µs, {heading}"), &serve, &relay, &text);
        Ok(missed)
    }

    fn programs(&self, place: Placement) -> Result<u32> {
        let mut peers = [self.peer(&self.spawn, place)?, self.peer(&self.serve, place)?];
        let (mut bare, mut samples) = (Vec::new(), [Vec::new(), Vec::new()]);
        for peer in &mut peers {
            program(peer)?;
        }
        for _ in 0..self.options.spawns {
            let before = Instant::now();
            run_true()?;
            bare.push(micros(before));
            for (peer, samples) in peers.iter_mut().zip(&mut samples) {
                let before = Instant::now();
                program(peer)?;
                samples.push(micros(before));
            }
        }
        self.places.release()?;
        for peer in peers {
            peer.finish()?;
        }
        let [server, serve] = samples;
        let times = median(&serve).zip(median(&bare)).map(|(one, other)| one / other);
        let least =
            quantile(&serve, 0.0).zip(quantile(&bare, 0.0)).map_or(f64::NAN, |(one, other)| one / other);
        let (text, missed) = bar(times, MAX_SPAWN, "times");
        let heading = place.heading();
        row(&format!("posix_spawn and wait of /bin/true, µs, {heading}"), &bare, &bare, "");
        row(&format!("the same in a bare server, µs, {heading}"), &server, &bare, "");
        let name = format!("call that runs /bin/true, µs, {heading}; {least:.2} times by the minima");
        row(&name, &serve, &bare, &text);
        Ok(missed)
    }

    /// Figures that do not depend on the load.
    fn counts(&self, scratch: &Path) {
        let calls = |each: &'static dyn Fn(&mut Peer<'_>) -> Result<()>| {
            move |command: &[String], calls: u64| -> Result<()> {
                let mut peer = Peer::spawn(command, LIFE, self.watch)?;
                peer.open(&Script::new(Framing::Legacy, SHORT))?;
                (0..calls).try_for_each(|_| each(&mut peer))?;
                peer.finish()
            }
        };
        println!(
            "\nsystem calls with those of the program, instructions and allocations of the server, per call:"
        );
        let worker = calls(&|peer| echo(peer, &Script::new(Framing::Legacy, SHORT)));
        let programs = calls(&program);
        let rows: [(&str, &[String], &count::Drive<'_>); 4] = [
            ("bare relay", &self.relay, &worker),
            ("worker", &self.serve, &worker),
            ("bare server of /bin/true", &self.spawn, &programs),
            ("/bin/true", &self.serve, &programs),
        ];
        for (name, command, drive) in rows {
            let counts = count::counts(command, scratch, drive);
            let [syscalls, instructions, allocations] =
                [counts.syscalls, counts.instructions, counts.allocations]
                    .map(|figure| figure.map_or("–".to_owned(), |figure| format!("{figure:.0}")));
            let by_name: Vec<String> =
                counts.by_name.iter().map(|(name, calls)| format!("{name} {calls}")).collect();
            println!("{name}: {syscalls} ({}), {instructions}, {allocations}", by_name.join(", "));
        }
    }
}

/// A call of the co-process.
fn echo(peer: &mut Peer<'_>, script: &Script) -> Result<()> {
    let id = peer.take_id();
    script.push_call(&mut peer.outgoing, id);
    answered(peer, id)
}

/// A call that runs `/bin/true`. The empty text makes it a call for the bare server, too.
fn program(peer: &mut Peer<'_>) -> Result<()> {
    let id = peer.take_id();
    peer.outgoing.extend_from_slice(HEAD);
    push_number(&mut peer.outgoing, id);
    let call = br#","method":"tools/call","params":{"name":"true","arguments":{},"_meta":{"text":""}}}"#;
    peer.outgoing.extend_from_slice(call);
    peer.outgoing.push(b'\n');
    answered(peer, id)
}

fn answered(peer: &mut Peer<'_>, id: u64) -> Result<()> {
    peer.flush()?;
    let line = peer.read_line()?;
    if id_of(line) == Some(id) && !line.windows(9).any(|part| part == b"\"isError\"") {
        return Ok(());
    }
    Err(format!("not a result: {}", String::from_utf8_lossy(line)).into())
}
