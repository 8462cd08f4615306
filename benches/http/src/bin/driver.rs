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

use http_bench::Result;
use http_bench::layout::{LAYOUT, WIDTHS};
use http_bench::link::Link;
use http_bench::load::{TIMEOUT, Phase, phase};
use http_bench::peer::{Peer, raise_descriptors};
use http_bench::wire::{After, Requests};
use stdio_bench::place::{Placement, Places};
use stdio_bench::report::{self, Maker, Server};
use stdio_bench::stats::quantile;
use stdio_bench::wire::{Framing, SHORT};
use stdio_bench::{count, limits, peer::Watch, proc};

const USAGE: &str = "driver --floor PATH [--tiny PATH] [--ours PATH] [--rmcp-axum PATH] [--rmcp-tuned PATH] [--only PART]
       [--rounds N] [--phase-ms N] [--without-counts] [--json FILE] [--check] [--profile FOLDER]
--only PART keeps the bare loop and the servers whose name contains PART; --check fails when a limit is missed;
--profile measures nothing but leaves a callgrind profile of each server in FOLDER.";

/// Maximum lifetime of a timed process: the phases and a margin for a stuck server.
const LIFE: Duration = Duration::from_secs(30);
/// Maximum lifetime of a process under a counting tool.
const COUNTED_LIFE: Duration = Duration::from_secs(60);
/// Number of idle connections, and of unused sessions.
const IDLE: u64 = 500;
const PROFILED: u64 = 5000;

struct Options {
    floor: String,
    tiny: Option<String>,
    ours: Option<String>,
    rmcp_axum: Option<String>,
    rmcp_tuned: Option<String>,
    only: Option<String>,
    rounds: usize,
    phase: Duration,
    counts: bool,
    json: Option<PathBuf>,
    check: bool,
    profile: Option<PathBuf>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        floor: String::new(),
        tiny: None,
        ours: None,
        rmcp_axum: None,
        rmcp_tuned: None,
        only: None,
        rounds: 9,
        phase: Duration::from_millis(50),
        counts: true,
        json: None,
        check: false,
        profile: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--floor" => options.floor = value()?,
            "--tiny" => options.tiny = Some(value()?),
            "--ours" => options.ours = Some(value()?),
            "--rmcp-axum" => options.rmcp_axum = Some(value()?),
            "--rmcp-tuned" => options.rmcp_tuned = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--rounds" => options.rounds = value()?.parse::<usize>()?.max(1),
            "--phase-ms" => options.phase = Duration::from_millis(value()?.parse()?),
            "--without-counts" => options.counts = false,
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
    let mut add = |name: &str, maker, framing, program: &str, args: &[&str]| {
        let kept =
            maker == Maker::Floor || options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
        if kept {
            let command = std::iter::once(program).chain(args.iter().copied());
            servers.push(Server {
                name: name.to_owned(),
                maker,
                framing,
                command: command.map(str::to_owned).collect(),
                list_command: Vec::new(),
                samples: Default::default(),
                counts: Default::default(),
            });
        }
    };
    let (legacy, modern) = (Framing::Legacy, Framing::Modern);
    add("floor", Maker::Floor, legacy, &options.floor, &[]);
    add("floor modern", Maker::Floor, modern, &options.floor, &[]);
    if let Some(tiny) = &options.tiny {
        add("tiny_http", Maker::TinyHttp, legacy, tiny, &[]);
    }
    if let Some(ours) = &options.ours {
        add("inline", Maker::OursInline, legacy, ours, &["--inline"]);
        add("inline modern", Maker::OursInline, modern, ours, &["--inline"]);
        add("pool", Maker::OursPool, legacy, ours, &[]);
        add("pool modern", Maker::OursPool, modern, ours, &[]);
    }
    for (name, maker, program) in [
        ("rmcp axum", Maker::RmcpReadme, &options.rmcp_axum),
        ("rmcp tuned", Maker::RmcpTuned, &options.rmcp_tuned),
    ] {
        if let Some(program) = program {
            add(name, maker, legacy, program, &[]);
            add(&format!("{name} stateless"), maker, legacy, program, &["--stateless"]);
            add(&format!("{name} modern"), maker, modern, program, &["--stateless"]);
        }
    }
    servers
}

/// Inputs of a run besides the servers.
struct Bench<'b> {
    options: &'b Options,
    watch: &'b Watch,
    scratch: &'b Path,
    places: Places,
}

fn main() -> Result<()> {
    let options = options()?;
    raise_descriptors()?;
    let watch = Watch::start()?;
    let scratch = std::env::temp_dir().join(format!("http-bench-{}", std::process::id()));
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
    let bench = Bench { options, watch, scratch, places: Places::find()? };
    for server in &mut servers {
        if let Some(bytes) = bench.stripped_size(&server.command[0]) {
            server.push("binary", bytes as f64 / 1000.0);
        }
    }
    for round in 0..options.rounds {
        for turn in 0..servers.len() {
            let index = (round + turn) % servers.len();
            let server = &mut servers[index];
            let timed = bench.round(server).and_then(|()| bench.idle(server));
            timed.map_err(|error| format!("{}: {error}", server.name))?;
        }
        eprintln!("round {} of {}", round + 1, options.rounds);
    }
    if options.counts {
        for server in &mut servers {
            eprintln!("counting {}", server.name);
            let framing = server.framing;
            server.counts = count::counts(&server.command, scratch, &|command, calls| {
                drive(command, framing, calls, watch)
            });
        }
    }
    print!("{}", report::markdown(&servers, options.rounds, &LAYOUT));
    println!("\nThe run took {:.0} s.", began.elapsed().as_secs_f64());
    if let Some(file) = &options.json {
        fs::write(file, report::json(&servers, options.rounds))?;
    }
    match limits::missed(&servers, LAYOUT.limits) {
        missed if missed > 0 && options.check => Err(format!("{missed} limits missed").into()),
        _ => Ok(()),
    }
}

/// Writes one callgrind profile per server, for `callgrind_annotate`.
fn profiles(servers: &[Server], folder: &Path, watch: &Watch) -> Result<()> {
    fs::create_dir_all(folder)?;
    for server in servers {
        let file = folder.join(format!("{}.callgrind", server.name.replace(' ', "-")));
        let done = count::profile(&server.command, PROFILED, &file, &|command, calls| {
            drive(command, server.framing, calls, watch)
        });
        done.map_err(|error| format!("{}: {error}", server.name))?;
        println!("{}", file.display());
    }
    Ok(())
}

/// Makes sequential calls on one connection to a server that runs under a counting tool.
fn drive(command: &[String], framing: Framing, calls: u64, watch: &Watch) -> Result<()> {
    let peer = Peer::spawn(command, COUNTED_LIFE, watch)?;
    let mut requests = Requests::new(framing, SHORT, peer.port());
    let mut link = Link::connect(peer.address(), COUNTED_LIFE)?;
    link.open(&mut requests)?;
    for id in 2..calls + 2 {
        link.call(&mut requests, id, After::Keep)?;
    }
    // A server without a signal handler is killed by the signal; the tool still writes its figures.
    peer.finish()?;
    Ok(())
}

impl Bench<'_> {
    fn stripped_size(&self, program: &str) -> Option<u64> {
        let stripped = self.scratch.join("stripped");
        let status = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
        status.ok().filter(std::process::ExitStatus::success)?;
        fs::metadata(stripped).ok().map(|data| data.len())
    }

    /// Runs all timed phases on a fresh process of one server.
    fn round(&self, server: &mut Server) -> Result<()> {
        let peer = Peer::spawn(&server.command, LIFE, self.watch)?;
        let pid = peer.pid();
        let mut requests = Requests::new(server.framing, SHORT, peer.port());
        let mut first = Link::connect(peer.address(), TIMEOUT)?;
        first.open(&mut requests)?;
        first.call(&mut requests, 2, After::Keep)?;
        let (resident, anonymous) = proc::memory(pid);
        server.push("rss", resident as f64);
        server.push("anon", anonymous as f64);

        let mut next = 2;
        for place in self.places.usable() {
            self.places.put(pid, place)?;
            for (after, kind) in [(After::Keep, "keep"), (After::Close, "new")] {
                for width in WIDTHS {
                    let duration = self.options.phase;
                    let timed = phase(&peer, &mut requests, (width, after), duration, &mut next)?;
                    push(server, place, &format!("{kind}_{width}"), &timed);
                    if (after, width) == (After::Keep, 64) {
                        server.push("threads", timed.threads as f64);
                    }
                }
            }
        }
        self.places.release()?;
        let (resident, anonymous) = proc::memory(pid);
        server.push("rss_loaded", resident as f64);
        server.push("anon_loaded", anonymous as f64);
        // The first connection is still open.
        first.call(&mut requests, next + 1, After::Keep)?;
        let (took, _) = peer.finish()?;
        server.push("stop", took.as_secs_f64() * 1e3);
        Ok(())
    }

    /// Measures the cost of an idle connection and of an unused session.
    fn idle(&self, server: &mut Server) -> Result<()> {
        let peer = Peer::spawn(&server.command, LIFE, self.watch)?;
        let pid = peer.pid();
        let mut requests = Requests::new(server.framing, SHORT, peer.port());
        let mut first = Link::connect(peer.address(), TIMEOUT)?;
        first.open(&mut requests)?;
        first.call(&mut requests, 2, After::Keep)?;
        let alone = proc::memory(pid).0 as f64;
        let mut links = Vec::new();
        for id in 0..IDLE {
            let mut link = Link::connect(peer.address(), TIMEOUT)?;
            link.call(&mut requests, 3 + id, After::Keep)?;
            links.push(link);
        }
        let crowded = proc::memory(pid).0 as f64;
        server.push("idle_kb", (crowded - alone) / IDLE as f64);
        server.push("idle_threads", proc::threads(pid) as f64);
        drop(links);

        let mut sessions = 0;
        let before = proc::memory(pid).0 as f64;
        if server.framing == Framing::Legacy {
            for _ in 0..IDLE {
                let mut one = Requests::new(server.framing, SHORT, peer.port());
                first.open(&mut one)?;
                sessions += u64::from(one.has_session());
            }
        }
        if sessions == IDLE {
            server.push("session_kb", (proc::memory(pid).0 as f64 - before) / IDLE as f64);
        }
        peer.finish()?;
        Ok(())
    }
}

fn push(server: &mut Server, place: Placement, key: &str, phase: &Phase) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(ns) = quantile(&phase.latencies, share) {
            server.push_at(place, &format!("{key}_{name}"), ns / 1e3);
        }
    }
    server.push_at(place, &format!("{key}_rate"), phase.rate());
    server.push_at(place, &format!("{key}_cpu"), phase.per_call(phase.cpu_ns) / 1e3);
    server.push_at(place, &format!("{key}_driver"), phase.per_call(phase.driver_ns) / 1e3);
}
