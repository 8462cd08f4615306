//! Server under many slow connections: idle ones, trickled headers of a byte per second, and
//! trickled bodies.
//!
//! `siege [--idle N] [--trickle N] [--seconds N] NAME=PROGRAM [ARGUMENT…] [-- NAME=PROGRAM
//! [ARGUMENT…]]…`
//!
//! Opens the idle connections, then those that trickle a head, then those that trickle a body, and
//! makes calls on another connection. Prints threads, memory and the slowest call. All clients are
//! local, so a server that limits connections per address treats them as one.
//!
//! # Invariants
//! - The caller opens a new connection for each call and waits at most five seconds.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use http_bench::Result;
use http_bench::link::Link;
use http_bench::peer::{Peer, raise_descriptors};
use http_bench::wire::{After, Requests};
use stdio_bench::peer::Watch;
use stdio_bench::proc;
use stdio_bench::wire::{Framing, SHORT};

const LIFE: Duration = Duration::from_secs(300);
/// A head that never ends, and a head whose body never ends.
const HEAD: &[u8] = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
const BODY: &[u8] = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
Mcp-Name: echo\r\nContent-Length: 100000\r\n\r\n";

struct Options {
    idle: usize,
    trickle: usize,
    seconds: u32,
    servers: Vec<(String, Vec<String>)>,
}

fn options() -> Result<Options> {
    let mut options = Options { idle: 2000, trickle: 200, seconds: 20, servers: Vec::new() };
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.next_if(|arg| arg.starts_with("--") && arg != "--") {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--idle" => options.idle = value.parse()?,
            "--trickle" => options.trickle = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("{arg} is not known").into()),
        }
    }
    let rest: Vec<String> = args.collect();
    for server in rest.split(|arg| arg == "--") {
        let (first, more) = server.split_first().ok_or("a server is needed: NAME=PROGRAM")?;
        let (name, program) = first.split_once('=').ok_or("a server is named: NAME=PROGRAM")?;
        let command = std::iter::once(program.to_owned()).chain(more.iter().cloned());
        options.servers.push((name.to_owned(), command.collect()));
    }
    Ok(options)
}

fn main() -> Result<()> {
    let options = options()?;
    raise_descriptors()?;
    let watch = Watch::start()?;
    println!(
        "| server | | threads | resident, kB | slowest of 20 calls, ms | calls without answer | still open |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, command) in &options.servers {
        besiege(&options, name, command, &watch).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn besiege(options: &Options, name: &str, command: &[String], watch: &Watch) -> Result<()> {
    let peer = Peer::spawn(command, LIFE, watch)?;
    row(&peer, name, "before", &[])?;
    let mut strangers = connect(&peer, options.idle);
    row(&peer, name, &format!("{} idle connections", options.idle), &strangers)?;

    for (part, start) in [("head", HEAD), ("body", BODY)] {
        let first = strangers.len();
        strangers.extend(connect(&peer, options.trickle));
        trickle(&mut strangers[first..], start, options.seconds);
        let text = format!("and {} that trickle a {part}, after {} s", options.trickle, options.seconds);
        row(&peer, name, &text, &strangers)?;
    }
    drop(strangers);
    std::thread::sleep(Duration::from_secs(1));
    row(&peer, name, "one second after they left", &[])?;
    peer.finish()?;
    Ok(())
}

/// Sends `start` and then one byte per second on each connection. The last column counts a rejected
/// one as closed.
fn trickle(strangers: &mut [TcpStream], start: &[u8], seconds: u32) {
    for stranger in &mut *strangers {
        let _ = stranger.write_all(start);
    }
    let began = Instant::now();
    for second in 0..seconds {
        for stranger in &mut *strangers {
            let _ = stranger.write_all(b"a");
        }
        let next = began + Duration::from_secs(1) * (second + 1);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Timeout of one response, which some servers do not send in an attack.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Opens as many connections as the server or this process allows.
fn connect(peer: &Peer<'_>, wanted: usize) -> Vec<TcpStream> {
    let address = peer.address();
    (0..wanted).map_while(|_| TcpStream::connect_timeout(&address, TIMEOUT).ok()).collect()
}

fn row(peer: &Peer<'_>, name: &str, text: &str, strangers: &[TcpStream]) -> Result<()> {
    let (mut slowest, mut unanswered) = (Duration::ZERO, 0);
    for id in 0..20 {
        let before = Instant::now();
        match call(peer, id) {
            Ok(()) => slowest = slowest.max(before.elapsed()),
            Err(_) => unanswered += 1,
        }
        // A server without a response in five seconds is not tried again.
        if unanswered > 0 && before.elapsed() >= TIMEOUT {
            break;
        }
    }
    let pid = peer.pid();
    println!(
        "| {name} | {text} | {} | {} | {:.1} | {unanswered} | {} |",
        proc::threads(pid),
        proc::memory(pid).0,
        slowest.as_secs_f64() * 1e3,
        strangers.iter().filter(|stranger| open(stranger)).count()
    );
    Ok(())
}

/// A normal client: connects, opens a session if required, and calls.
fn call(peer: &Peer<'_>, id: u64) -> Result<()> {
    let mut requests = Requests::new(Framing::Modern, SHORT, peer.port());
    Link::connect(peer.address(), TIMEOUT)?.call(&mut requests, id, After::Close)
}

/// True if the server has not closed the connection or written to it.
fn open(stream: &TcpStream) -> bool {
    let waiting = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let untouched = matches!(&waiting, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    untouched && stream.set_nonblocking(false).is_ok()
}
