//! Driver: runs all servers in turn, round after round, and prints the comparison.
//!
//! `run.sh` builds the programs.
//!
//! # Invariants
//! - Within a round every server runs the same phases for the same time. The order of the servers
//!   rotates by one each round.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stdio_bench::Result;
use stdio_bench::count::{self, Counts};
use stdio_bench::layout::LAYOUT;
use stdio_bench::limits;
use stdio_bench::load;
use stdio_bench::peer::{Peer, Watch};
use stdio_bench::place::{Placement, Places};
use stdio_bench::proc;
use stdio_bench::report::{self, Maker, Server};
use stdio_bench::stats::quantile;
use stdio_bench::wire::{Framing, SHORT, Script};

const USAGE: &str = "driver --floor PATH [--ours PATH] [--rmcp-readme PATH] [--rmcp-tuned PATH] [--only PART]
       [--rounds N] [--phase-ms N] [--starts N] [--without-counts] [--instructions]
       [--json FILE] [--check] [--profile FOLDER]
--only PART keeps the bare loop and the servers whose name contains PART; --check fails when a limit is missed;
--instructions counts the instructions of our servers and measures nothing else; --profile measures nothing but leaves a callgrind profile of each server in FOLDER.";

/// Maximum lifetime of a timed process: the phases and a margin for a stuck server.
const LIFE: Duration = Duration::from_secs(20);
/// Maximum lifetime of a process under a counting tool.
const COUNTED_LIFE: Duration = Duration::from_secs(40);
const TOOLS: usize = 500;
const WARM_UP: u64 = 200;
const PROFILED: u64 = 5000;

struct Options {
    floor: String,
    ours: Option<String>,
    rmcp_readme: Option<String>,
    rmcp_tuned: Option<String>,
    only: Option<String>,
    rounds: usize,
    starts: usize,
    phase: Duration,
    counts: bool,
    instructions: bool,
    json: Option<PathBuf>,
    check: bool,
    profile: Option<PathBuf>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        floor: String::new(),
        ours: None,
        rmcp_readme: None,
        rmcp_tuned: None,
        only: None,
        rounds: 9,
        starts: 41,
        phase: Duration::from_millis(50),
        counts: true,
        instructions: false,
        json: None,
        check: false,
        profile: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--floor" => options.floor = value()?,
            "--ours" => options.ours = Some(value()?),
            "--rmcp-readme" => options.rmcp_readme = Some(value()?),
            "--rmcp-tuned" => options.rmcp_tuned = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--rounds" => options.rounds = value()?.parse()?,
            "--starts" => options.starts = value()?.parse()?,
            "--phase-ms" => options.phase = Duration::from_millis(value()?.parse()?),
            "--without-counts" => options.counts = false,
            "--instructions" => options.instructions = true,
            "--json" => options.json = Some(value()?.into()),
            "--check" => options.check = true,
            "--profile" => options.profile = Some(value()?.into()),
            _ => return Err(format!("{arg} is not known\n{USAGE}").into()),
        }
    }
    if options.floor.is_empty() {
        return Err(USAGE.into());
    }
    Ok(options)
}

fn servers(options: &Options) -> Vec<Server> {
    let mut servers = Vec::new();
    let mut add = |name: &str, maker, framing, program: &str, args: &[&str], many: usize| {
        let command: Vec<String> =
            std::iter::once(program).chain(args.iter().copied()).map(str::to_owned).collect();
        let mut list_command = command.clone();
        list_command.extend(["--many".to_owned(), many.to_string()]);
        let kept = matches!(maker, Maker::Floor | Maker::FloorEach)
            || options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
        if kept {
            servers.push(Server {
                name: name.to_owned(),
                maker,
                framing,
                command,
                list_command,
                samples: Default::default(),
                counts: Default::default(),
            });
        }
    };
    let (legacy, modern) = (Framing::Legacy, Framing::Modern);
    let floor = options.floor.as_str();
    add("floor", Maker::Floor, legacy, floor, &[], TOOLS);
    add("floor modern", Maker::Floor, modern, floor, &[], TOOLS);
    add("floor, a write each", Maker::FloorEach, legacy, floor, &["--each"], TOOLS);
    add("floor modern, a write each", Maker::FloorEach, modern, floor, &["--each"], TOOLS);
    // The other servers also have `echo` and `add`.
    let many = TOOLS - 2;
    if let Some(ours) = &options.ours {
        let inline = ["--stdio", "--inline"];
        add("inline", Maker::OursInline, legacy, ours, &inline, many);
        add("inline modern", Maker::OursInline, modern, ours, &inline, many);
        add("pool", Maker::OursPool, legacy, ours, &inline[..1], many);
        add("pool modern", Maker::OursPool, modern, ours, &inline[..1], many);
    }
    if let Some(rmcp) = &options.rmcp_readme {
        add("rmcp README", Maker::RmcpReadme, legacy, rmcp, &[], many);
    }
    if let Some(rmcp) = &options.rmcp_tuned {
        add("rmcp tuned", Maker::RmcpTuned, legacy, rmcp, &[], many);
        add("rmcp tuned modern", Maker::RmcpTuned, modern, rmcp, &[], many);
    }
    servers
}

/// Inputs of a run besides the servers.
struct Bench<'b> {
    options: &'b Options,
    watch: &'b Watch,
    scratch: &'b Path,
    places: Places,
    /// Text of 1 MiB without escapes.
    large: String,
}

fn main() -> Result<()> {
    let options = options()?;
    let watch = Watch::start()?;
    let scratch = std::env::temp_dir().join(format!("stdio-bench-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let done = run(&options, &watch, &scratch);
    fs::remove_dir_all(&scratch)?;
    done
}

fn run(options: &Options, watch: &Watch, scratch: &Path) -> Result<()> {
    let began = Instant::now();
    let mut servers = servers(options);
    if let Some(folder) = &options.profile {
        return profiles(&servers, folder, watch);
    }
    if options.instructions {
        return instructions(options, &mut servers, watch, scratch);
    }
    let bench =
        Bench { options, watch, scratch, places: Places::find()?, large: "0123456789abcdef".repeat(65_536) };
    for server in &mut servers {
        let ready = bench.prepare(server);
        ready.map_err(|error| format!("{}: {error}", server.name))?;
    }
    for round in 0..options.rounds.max(1) {
        for turn in 0..servers.len() {
            let index = (round + turn) % servers.len();
            let server = &mut servers[index];
            let timed = bench.round(server);
            timed.map_err(|error| format!("{}: {error}", server.name))?;
        }
        eprintln!("round {} of {}", round + 1, options.rounds.max(1));
    }
    for _ in 0..options.starts {
        for server in &mut servers {
            let started = bench.start(server);
            started.map_err(|error| format!("{}: {error}", server.name))?;
        }
    }
    if options.counts {
        for server in &mut servers {
            eprintln!("counting {}", server.name);
            let script = Script::new(server.framing, SHORT);
            server.counts = count::counts(&server.command, scratch, &|command, calls| {
                drive(command, &script, calls, watch)
            });
            // The bare loop supports one kind of call only.
            if !matches!(server.maker, Maker::Floor | Maker::FloorEach) {
                let script = Script::new(server.framing, SHORT).in_turns();
                server.counts.in_turns =
                    count::instructions(&server.command, count::CALLS, scratch, &|command, calls| {
                        drive(command, &script, calls, watch)
                    });
            }
        }
    }
    print!("{}", report::markdown(&servers, options.rounds.max(1), &LAYOUT));
    println!("\nThe run took {:.0} s.", began.elapsed().as_secs_f64());
    if let Some(file) = &options.json {
        fs::write(file, report::json(&servers, options.rounds.max(1)))?;
    }
    check(options, &servers)
}

/// Counts the instructions of our servers and prints them beside their limits. A busy machine does
/// not change them.
fn instructions(options: &Options, servers: &mut Vec<Server>, watch: &Watch, scratch: &Path) -> Result<()> {
    servers.retain(|server| matches!(server.maker, Maker::OursInline | Maker::OursPool));
    for server in servers.iter_mut() {
        let script = || Script::new(server.framing, SHORT);
        let count = |script: Script| {
            count::instructions(&server.command, count::PRECISE, scratch, &|command, calls| {
                drive(command, &script, calls, watch)
            })
            .ok_or("the instructions were not counted")
        };
        let (alike, in_turns) = (count(script())?, count(script().in_turns())?);
        server.counts = Counts { instructions: Some(alike), in_turns: Some(in_turns), ..Counts::default() };
    }
    print!("{}", report::counted(servers, &["in_turns", "instructions"], &LAYOUT));
    check(options, servers)
}

/// Fails if `--check` is set and a limit is missed.
fn check(options: &Options, servers: &[Server]) -> Result<()> {
    match limits::missed(servers, LAYOUT.limits) {
        missed if missed > 0 && options.check => Err(format!("{missed} limits missed").into()),
        _ => Ok(()),
    }
}

/// Writes one callgrind profile per server, for `callgrind_annotate`.
fn profiles(servers: &[Server], folder: &Path, watch: &Watch) -> Result<()> {
    fs::create_dir_all(folder)?;
    for server in servers {
        let name = server.name.replace(' ', "-");
        let script = || Script::new(server.framing, SHORT);
        let mut scripts = vec![(name.clone(), script())];
        if !matches!(server.maker, Maker::Floor | Maker::FloorEach) {
            scripts.push((format!("{name}-in-turns"), script().in_turns()));
        }
        for (name, script) in scripts {
            let file = folder.join(format!("{name}.callgrind"));
            let done = count::profile(&server.command, PROFILED, &file, &|command, calls| {
                drive(command, &script, calls, watch)
            });
            done.map_err(|error| format!("{}: {error}", server.name))?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

/// Makes sequential calls to a server that runs under a counting tool.
fn drive(command: &[String], script: &Script, calls: u64, watch: &Watch) -> Result<()> {
    let mut peer = Peer::spawn(command, COUNTED_LIFE, watch)?;
    peer.open(script)?;
    peer.checked_call(script)?;
    load::exactly(&mut peer, script, calls)?;
    peer.finish()
}

impl Bench<'_> {
    /// Measures once: the size of the binary, and the tool list, which is stored so that the bare
    /// loop can write the same.
    fn prepare(&self, server: &mut Server) -> Result<()> {
        if let Some(bytes) = self.stripped_size(&server.command[0]) {
            server.push("binary", bytes as f64 / 1000.0);
        }
        let script = Script::new(server.framing, SHORT);
        let mut peer = Peer::spawn(&server.list_command, LIFE, self.watch)?;
        peer.open(&script)?;
        let mut bytes = 0;
        let mut result = Vec::new();
        let pages = load::list(&mut peer, &script, |page| {
            bytes += page.len() + 1;
            // Joins several pages into one text: the bare loop has no cursors, and the bytes are
            // the same.
            result.extend_from_slice(result_of(page));
        })?;
        peer.finish()?;
        let tools = memchr::memmem::find_iter(&result, b"\"inputSchema\"").count();
        if tools != TOOLS {
            return Err(format!("{tools} tools instead of {TOOLS}").into());
        }
        server.push("list_kb", bytes as f64 / 1000.0);
        server.push("list_pages", f64::from(pages));
        fs::write(self.list_file(server), result)?;
        Ok(())
    }

    fn list_file(&self, server: &Server) -> PathBuf {
        let name = server.name.replace(' ', "-");
        self.scratch.join(format!("{name}.json"))
    }

    fn stripped_size(&self, program: &str) -> Option<u64> {
        let stripped = self.scratch.join("stripped");
        let status = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
        status.ok().filter(std::process::ExitStatus::success)?;
        fs::metadata(stripped).ok().map(|data| data.len())
    }

    /// Runs all phases on fresh processes of one server.
    fn round(&self, server: &mut Server) -> Result<()> {
        let script = Script::new(server.framing, SHORT);
        let mut peer = Peer::spawn(&server.command, LIFE, self.watch)?;
        let pid = peer.pid();
        peer.open(&script)?;
        peer.checked_call(&script)?;
        for place in self.places.usable() {
            self.places.put(pid, place)?;
            self.calls(server, &mut peer, &script, place)?;
        }
        server.push("threads", proc::threads(pid) as f64);
        server.push("anon_loaded", proc::memory(pid).1 as f64);

        let large = Script::new(server.framing, &self.large);
        for place in self.places.usable() {
            self.places.put(pid, place)?;
            peer.checked_call(&large)?;
            let rate = load::bulk(&mut peer, &large, self.options.phase)?;
            server.push_at(place, "bulk", rate);
        }
        server.push("peak", proc::peak(pid) as f64);
        self.places.release()?;
        peer.finish()?;

        let command = server.list_command.clone();
        self.lists(server, &command, "list_p50")?;
        if server.maker != Maker::Floor {
            let file = self.list_file(server).to_string_lossy().into_owned();
            let floor = [self.options.floor.clone(), "--list".into(), file];
            self.lists(server, &floor, "list_floor")?;
        }
        Ok(())
    }

    /// Short calls with 1, 16 and 64 in flight.
    fn calls(
        &self,
        server: &mut Server,
        peer: &mut Peer<'_>,
        script: &Script,
        place: Placement,
    ) -> Result<()> {
        let phase = self.options.phase;
        load::exactly(peer, script, WARM_UP)?;
        let mut latencies = Vec::new();
        let one = load::sequential(peer, script, phase, &mut latencies)?;
        push_quantile(server, place, "seq_p50", &latencies, 0.5);
        push_quantile(server, place, "seq_p99", &latencies, 0.99);
        server.push_at(place, "rate_1", one.rate());
        server.push_at(place, "cpu_1", one.per_call(one.cpu_ns) / 1e3);
        server.push_at(place, "switches_1", one.per_call(one.switches));

        let some = load::window(peer, script, 16, phase)?;
        server.push_at(place, "rate_16", some.rate());
        server.push_at(place, "cpu_16", some.per_call(some.cpu_ns) / 1e3);
        let many = load::window(peer, script, 64, phase)?;
        server.push_at(place, "rate_64", many.rate());
        server.push_at(place, "cpu_64", many.per_call(many.cpu_ns) / 1e3);
        server.push_at(place, "switches_64", many.per_call(many.switches));
        server.push_at(place, "driver_64", many.per_call(many.driver_ns) / 1e3);
        Ok(())
    }

    fn lists(&self, server: &mut Server, command: &[String], key: &str) -> Result<()> {
        let script = Script::new(server.framing, SHORT);
        let mut peer = Peer::spawn(command, LIFE, self.watch)?;
        peer.open(&script)?;
        for place in self.places.usable() {
            self.places.put(peer.pid(), place)?;
            let mut latencies = Vec::new();
            load::lists(&mut peer, &script, self.options.phase / 2, &mut latencies)?;
            push_quantile(server, place, key, &latencies, 0.5);
        }
        self.places.release()?;
        peer.finish()
    }

    /// Measures the time from before the process exists to its first response, then the memory
    /// after the first call. Several processes are needed: the address of a shared library changes
    /// the memory by some 100 kB.
    fn start(&self, server: &mut Server) -> Result<()> {
        let script = Script::new(server.framing, SHORT);
        let before = Instant::now();
        let mut peer = Peer::spawn(&server.command, LIFE, self.watch)?;
        peer.open(&script)?;
        server.push("start", before.elapsed().as_secs_f64() * 1e3);
        peer.checked_call(&script)?;
        let (resident, anonymous) = proc::memory(peer.pid());
        server.push("rss", resident as f64);
        server.push("anon", anonymous as f64);
        // Dropping kills the process: the exit of a server is not measured here.
        Ok(())
    }
}

fn push_quantile(server: &mut Server, place: Placement, key: &str, ns: &[f64], share: f64) {
    if let Some(value) = quantile(ns, share) {
        server.push_at(place, key, value / 1e3);
    }
}

/// Returns the result object of a response: from after `"result":` to before the last brace.
fn result_of(answer: &[u8]) -> &[u8] {
    let start = memchr::memmem::find(answer, b"\"result\":").map_or(0, |at| at + 9);
    &answer[start..answer.len().saturating_sub(1).max(start)]
}
