//! Table of attacks, and the limits that the server must keep under each.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::process::{ServerProcess, Size, Witness};
use super::server::long_uri;
use super::wire::{
    TIMEOUT, call, call_with, connect, drain, exchange, head, initialize, listen, session, touched,
};

/// Input of an attack.
struct Context {
    server: Arc<ServerProcess>,
    address: SocketAddr,
    /// Size of the server before the attack.
    before: Size,
    long: bool,
}

impl Context {
    /// Returns the first number for the long form and the second for the short form.
    fn number(&self, long: usize, short: usize) -> usize {
        if self.long { long } else { short }
    }
}

/// Result of an attack, for the table.
type Report = String;

struct Attack {
    name: &'static str,
    run: fn(&Context) -> Report,
}

const ATTACKS: &[Attack] = &[
    Attack { name: "idle connections", run: idle },
    Attack { name: "trickled heads", run: trickled_heads },
    Attack { name: "trickled bodies", run: trickled_bodies },
    Attack { name: "a header line of 1 GiB", run: endless_line },
    Attack { name: "10,000 header fields", run: many_fields },
    Attack { name: "a body with a Content-Length of 1 TiB", run: huge_content_length },
    Attack { name: "an endless chunked body", run: endless_chunks },
    Attack { name: "many concurrent bodies", run: many_bodies },
    Attack { name: "request smuggling", run: smuggling },
    Attack { name: "unread event streams", run: unread_streams },
    Attack { name: "unread events of calls", run: unread_events },
    Attack { name: "unread responses", run: unread_responses },
    Attack { name: "abandoned sessions", run: abandoned_sessions },
    Attack { name: "sessions with long client names", run: long_names },
    Attack { name: "subscriptions to long URIs", run: long_uris },
    Attack { name: "foreign hosts and origins", run: foreign_host_or_origin },
];

/// Maximum number of threads: four workers; one thread each for the accept loop, the watchdog, the
/// notifications and `main`; and replacements for workers.
const THREADS: u64 = 10;
/// Growth of resident memory under any attack.
const GROWTH_KB: u64 = 8 << 10;

/// Short timeouts for the short form.
const SHORT: &[(&str, &str)] = &[
    ("TINYMCP_HEAD_MS", "700"),
    ("TINYMCP_BODY_MS", "700"),
    ("TINYMCP_STALL_MS", "700"),
    ("TINYMCP_LINGER_MS", "300"),
];

pub fn main() -> ExitCode {
    let long = std::env::var_os("TEST_LONG").is_some_and(|v| v == "1");
    let filter = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    raise_files();
    // The short form prints only failed rows: attack.sh explains the figures.
    if long {
        println!(
            "| attack | result | slowest call | calls | resident, kB: peak | grown by | left | threads | files |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
    }
    let (mut failed, mut passed) = (0, 0);
    let limits = if long { &[] } else { SHORT };
    for role in ["", "files=256"] {
        let descriptors = if role.is_empty() { "default descriptors" } else { role };
        if long {
            println!("| with {descriptors} | | | | | | | | |");
        }
        for attack in ATTACKS.iter().filter(|a| a.name.contains(&filter)) {
            let server = Arc::new(ServerProcess::start(role, limits));
            let before = warmed_up(&server);
            match passes(attack, &server, before, long) {
                true => passed += 1,
                false => failed += 1,
            }
        }
    }
    println!("{passed} attacks passed, {failed} failed; conformance/attack.sh prints their figures");
    ExitCode::from(u8::from(failed > 0))
}

/// Size of the server after a few calls: its code is loaded and its workers have started.
fn warmed_up(server: &Arc<ServerProcess>) -> Size {
    for _ in 0..4 {
        Witness::of(server).end();
    }
    server.size()
}

/// Runs one attack and returns true if the server passed.
fn passes(attack: &Attack, server: &Arc<ServerProcess>, before: Size, long: bool) -> bool {
    let witness = Witness::of(server);
    let ctx = Context { server: Arc::clone(server), address: server.address, before, long };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| (attack.run)(&ctx)));
    let seen = std::panic::catch_unwind(AssertUnwindSafe(move || witness.end()));
    let (Ok(ended), Ok(seen)) = (ended, seen) else {
        println!("| {} | FAILED | | | | | | | |", attack.name);
        return false;
    };
    let left = std::panic::catch_unwind(|| {
        // The calls of the witness leave a connection or two.
        server.wait_for("descriptor leak", |size| size.files <= before.files + 2);
    });
    let grown = seen.max.resident_kb.saturating_sub(before.resident_kb);
    let ok = left.is_ok()
        && seen.slowest < if long { Duration::from_secs(1) } else { TIMEOUT }
        && grown < GROWTH_KB
        && seen.max.threads <= THREADS;
    if ok && !long {
        return true;
    }
    println!(
        "| {} | {ended} | {:.1} ms | {} | {} | {grown} | {} | {} | {} |{}",
        attack.name,
        seen.slowest.as_secs_f64() * 1e3,
        seen.calls,
        seen.max.resident_kb,
        server.size().resident_kb,
        seen.max.threads,
        seen.max.files,
        if ok { "" } else { " FAILED" }
    );
    ok
}

/// Raises the descriptor limit of this process to the maximum.
fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn idle(ctx: &Context) -> Report {
    let clients: Vec<_> = (0..2000).map(|_| connect(ctx.address)).collect();
    // One call after the connections: the server has accepted all of them.
    let mut last = connect(ctx.address);
    assert_eq!(exchange(&mut last, &call(ctx.address, 1, "echo")).map(|(s, _)| s), Some(200));
    let closed = clients.iter().filter(|s| touched(s)).count();
    format!("{closed} of {} closed to make room", clients.len())
}

/// Sends `start` on many connections, then single bytes at intervals, until all are closed.
fn trickle(ctx: &Context, start: &str) -> Report {
    let mut clients: Vec<_> = (0..200).map(|_| connect(ctx.address)).collect();
    for client in &mut clients {
        let _ = client.write_all(start.as_bytes());
    }
    let pace = Duration::from_millis(ctx.number(1000, 50) as u64);
    let began = Instant::now();
    let mut open = clients;
    let mut next = began + pace;
    let mut got_408 = 0;
    while !open.is_empty() {
        assert!(began.elapsed() < 2 * TIMEOUT, "{} still open", open.len());
        if Instant::now() >= next {
            next += pace;
            for client in &mut open {
                let _ = client.write_all(b"x");
            }
        }
        open.retain_mut(|client| {
            let ended = touched(client);
            if ended {
                got_408 += u32::from(drain(client).starts_with("HTTP/1.1 408 "));
            }
            !ended
        });
        std::thread::yield_now();
    }
    format!("{got_408} got 408 within {:.1} s", began.elapsed().as_secs_f64())
}

fn trickled_heads(ctx: &Context) -> Report {
    trickle(ctx, &head(ctx.address, "X-Slow: "))
}

fn trickled_bodies(ctx: &Context) -> Report {
    let whole = call(ctx.address, 1, "echo");
    let length = whole.find("Content-Length: ").unwrap();
    trickle(ctx, &format!("{}Content-Length: 100000\r\n\r\n{{", &whole[..length]))
}

/// Sends `start`, then `piece` repeatedly, up to `max` bytes or until the server responds.
fn stream_body(ctx: &Context, start: &str, piece: &[u8], max: usize) -> (usize, String) {
    let mut stream = connect(ctx.address);
    let mut sent = 0;
    if stream.write_all(start.as_bytes()).is_ok() {
        while sent < max && !touched(&stream) {
            match stream.write(piece) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                        "{error}"
                    );
                    break;
                }
            }
        }
    }
    let response = drain(&mut stream);
    (sent, response.get(..12).unwrap_or("no response").to_owned())
}

fn endless_line(ctx: &Context) -> Report {
    let start = head(ctx.address, "X: ");
    let ends: Vec<_> = (0..8).map(|_| stream_body(ctx, &start, &[b'x'; 4096], 1 << 30)).collect();
    assert!(ends.iter().all(|(sent, _)| *sent < 16 << 20), "{ends:?}");
    assert!(ends.iter().any(|(_, response)| response == "HTTP/1.1 431"), "{ends:?}");
    format!("431 after {} kB", ends.iter().map(|(sent, _)| sent >> 10).max().unwrap_or(0))
}

fn many_fields(ctx: &Context) -> Report {
    let fields = "A: b\r\n".repeat(10_000);
    let (_, response) = stream_body(ctx, &head(ctx.address, &fields), b"\r\n", 2);
    assert_eq!(response, "HTTP/1.1 431");
    let (_, response) = stream_body(ctx, &head(ctx.address, &"A:\r\n".repeat(200)), b"\r\n", 2);
    assert_eq!(response, "HTTP/1.1 431");
    "431".into()
}

/// Head of a call with other framing fields.
fn framed(address: SocketAddr, fields: &str) -> String {
    let whole = call(address, 1, "echo");
    format!("{}{fields}\r\n\r\n", &whole[..whole.find("Content-Length: ").unwrap()])
}

fn huge_content_length(ctx: &Context) -> Report {
    let start = framed(ctx.address, "Content-Length: 1099511627776");
    let (sent, response) = stream_body(ctx, &start, &[b' '; 4096], 1 << 30);
    assert!(response == "HTTP/1.1 413" && sent < 16 << 20, "{response} after {sent}");
    "413 at once".into()
}

fn endless_chunks(ctx: &Context) -> Report {
    let start = framed(ctx.address, "Transfer-Encoding: chunked");
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    let mut max = 0;
    for _ in 0..4 {
        let (sent, response) = stream_body(ctx, &start, &chunk, 1 << 30);
        // The server resets the connection after the response, and the reset can discard the
        // response.
        assert!(
            ["HTTP/1.1 413", "no response"].contains(&&*response) && sent < 32 << 20,
            "{response} after {sent}"
        );
        max = max.max(sent);
    }
    format!("413 after {} kB", max >> 10)
}

fn many_bodies(ctx: &Context) -> Report {
    let start = framed(ctx.address, "Content-Length: 4000000");
    let mut clients: Vec<_> = (0..64).map(|_| connect(ctx.address)).collect();
    for client in &mut clients {
        let _ = client.write_all(start.as_bytes());
    }
    for _ in 0..8 {
        for client in clients.iter_mut().filter(|s| !touched(s)) {
            let _ = client.write_all(&[b' '; 64 << 10]);
        }
    }
    let refused = clients.iter_mut().filter(|s| touched(s)).filter_map(|s| {
        let response = drain(s);
        (response.is_empty() || response.starts_with("HTTP/1.1 503 ")).then_some(())
    });
    format!("{} of 64 got 503", refused.count())
}

fn smuggling(ctx: &Context) -> Report {
    let hidden = call(ctx.address, 7, "echo");
    let pairs = [
        format!("Content-Length: 0\r\nContent-Length: {}", hidden.len()),
        format!("Content-Length: {}\r\nContent-Length: 0", hidden.len()),
        "Content-Length: 0\r\nTransfer-Encoding: chunked".into(),
        "Transfer-Encoding: chunked\r\nContent-Length: 0".into(),
        "Transfer-Encoding: xchunked".into(),
        "Transfer-Encoding : chunked".into(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".into(),
        "Content-Length: +0".into(),
        "Content-Length: 0\n".into(),
        "X: y\r\n Content-Length: 0".into(),
    ];
    for pair in &pairs {
        for body in ["", "0\r\n\r\n"] {
            let mut stream = connect(ctx.address);
            let text = format!("{}{body}{hidden}", framed(ctx.address, pair));
            let _ = stream.write_all(text.as_bytes());
            let responses = drain(&mut stream);
            assert!(
                responses.starts_with("HTTP/1.1 400 ") || responses.starts_with("HTTP/1.1 501 "),
                "{pair}: {responses}"
            );
            assert_eq!(responses.matches("HTTP/1.1 ").count(), 1, "{pair}: {responses}");
        }
    }
    "400 or 501, closed".into()
}

/// Sends requests on many connections and reads no response, until the server has closed all of
/// them.
fn unread(ctx: &Context, count: usize, requests: &str) -> Report {
    let clients: Vec<_> = (0..count)
        .map(|_| {
            let mut stream = connect(ctx.address);
            // Writes as much as the server reads at once.
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(requests.as_bytes());
            stream
        })
        .collect();
    let mut last = connect(ctx.address);
    assert_eq!(exchange(&mut last, &call(ctx.address, 1, "echo")).map(|(s, _)| s), Some(200));
    drop(last);
    let began = Instant::now();
    ctx.server.wait_for("unread responses", |size| size.files <= ctx.before.files + 4);
    let text = format!("{} closed within {:.1} s", clients.len(), began.elapsed().as_secs_f64());
    drop(clients);
    text
}

/// GET streams of valid sessions that are not read.
fn unread_streams(ctx: &Context) -> Report {
    let mut open = Vec::new();
    let mut statuses = BTreeMap::new();
    for _ in 0..ctx.number(500, 40) {
        let mut stream = connect(ctx.address);
        // A small receive buffer makes the server buffer the events sooner.
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
        let Some(session) = session(&mut stream, ctx.address, &long_uri()) else { continue };
        let request = format!(
            "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
             Mcp-Session-Id: {session}\r\n\r\n",
            ctx.address
        );
        let _ = stream.write_all(request.as_bytes());
        let mut head = [0; 12];
        let status = stream
            .read_exact(&mut head)
            .map_or("closed".into(), |()| String::from_utf8_lossy(&head[9..]).into_owned());
        *statuses.entry(status).or_insert(0) += 1;
        open.push(stream);
    }
    let mut caller = connect(ctx.address);
    let began = Instant::now();
    let mut updates = 0;
    // The events fill the socket buffers and the backlog; then the server closes the streams.
    let held = ctx.server.size().files - statuses.get("200").copied().unwrap_or(0);
    while ctx.server.size().files > held + 4 {
        assert!(began.elapsed() < 2 * TIMEOUT, "{statuses:?}, {updates} updates, {:?}", ctx.server.size());
        updates += 1;
        let response = exchange(&mut caller, &call(ctx.address, updates, "update"));
        assert!(response.is_some_and(|(status, _)| status == 200));
    }
    format!("{statuses:?}, all closed after {updates} events in {:.1} s", began.elapsed().as_secs_f64())
}

fn unread_events(ctx: &Context) -> Report {
    let request = call_with(ctx.address, 1, "flood", "", r#","progressToken":1"#);
    unread(ctx, ctx.number(100, 25), &request)
}

fn unread_responses(ctx: &Context) -> Report {
    // A response repeats the arguments.
    let long = format!(r#","x":"{}""#, "x".repeat(10_000));
    let request = call_with(ctx.address, 1, "echo", &long, "");
    unread(ctx, ctx.number(100, 25), &request.repeat(500))
}

/// Sessions store the name of the client, which can be long.
fn long_names(ctx: &Context) -> Report {
    let mut responses = BTreeMap::new();
    let long = "x".repeat(1 << 20);
    let request = initialize(ctx.address, &long);
    let mut stream = connect(ctx.address);
    for _ in 0..ctx.number(200, 40) {
        let status = exchange(&mut stream, &request).map_or(0, |(status, _)| status);
        *responses.entry(status).or_insert(0) += 1;
    }
    format!("{responses:?}")
}

/// Streams store their subscribed URIs, which can be long.
fn long_uris(ctx: &Context) -> Report {
    let uri = "x".repeat(1 << 20);
    let mut open = Vec::new();
    let mut statuses = BTreeMap::new();
    for _ in 0..ctx.number(200, 40) {
        let mut stream = connect(ctx.address);
        stream.write_all(listen(ctx.address, &format!("news:{uri}")).as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        *statuses.entry(String::from_utf8_lossy(&head[9..]).into_owned()).or_insert(0) += 1;
        open.push(stream);
    }
    format!("{statuses:?}")
}

fn abandoned_sessions(ctx: &Context) -> Report {
    let count = ctx.number(10_000, 2_000);
    let request = initialize(ctx.address, "client");
    let mut responses = BTreeMap::new();
    let mut stream = connect(ctx.address);
    for n in 0..count {
        if n % 10 == 0 {
            stream = connect(ctx.address);
        }
        let status = exchange(&mut stream, &request).map_or(0, |(status, _)| status);
        *responses.entry(status).or_insert(0) += 1;
    }
    format!("{responses:?}")
}

fn foreign_host_or_origin(ctx: &Context) -> Report {
    let good = call(ctx.address, 1, "echo");
    let host = format!("Host: {}", ctx.address);
    for bad in ["Host: evil.example", "Host: 127.0.0.1.evil.example", "Host: "] {
        let mut stream = connect(ctx.address);
        let response = exchange(&mut stream, &good.replacen(&host, bad, 1)).unwrap();
        assert_eq!(response.0, 403, "{bad}");
    }
    for bad in ["http://evil.example", "null", "http://127.0.0.1.evil.example"] {
        let mut stream = connect(ctx.address);
        let fields = format!("{host}\r\nOrigin: {bad}");
        let response = exchange(&mut stream, &good.replacen(&host, &fields, 1)).unwrap();
        assert_eq!(response.0, 403, "{bad}");
    }
    "403".into()
}
