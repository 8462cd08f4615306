//! The table of attacks, and what each must come to.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::server::news;
use super::victim::{Size, Victim, Witness};
use super::wire::{
    PATIENCE, call, call_with, connect, drain, exchange, head, initialize, listen, session, touched,
};

/// What an attack is given.
struct Scene {
    victim: Arc<Victim>,
    address: SocketAddr,
    /// Before any attack.
    before: Size,
    long: bool,
}

impl Scene {
    /// A number for the long form and one for the short.
    fn number(&self, long: usize, short: usize) -> usize {
        if self.long { long } else { short }
    }
}

/// How an attack ended.
type Ended = String;

struct Attack {
    name: &'static str,
    run: fn(&Scene) -> Ended,
}

const ATTACKS: &[Attack] = &[
    Attack { name: "idle connections", run: idle },
    Attack { name: "trickled heads", run: trickled_heads },
    Attack { name: "trickled bodies", run: trickled_bodies },
    Attack { name: "a header line of 1 GiB", run: endless_line },
    Attack { name: "10,000 header fields", run: many_fields },
    Attack { name: "a body announced as 1 TiB", run: announced },
    Attack { name: "chunks without end", run: endless_chunks },
    Attack { name: "many bodies at once", run: many_bodies },
    Attack { name: "requests within requests", run: smuggled },
    Attack { name: "event streams nobody reads", run: unread_streams },
    Attack { name: "calls whose events nobody reads", run: unread_events },
    Attack { name: "answers nobody reads", run: unread_answers },
    Attack { name: "abandoned sessions", run: abandoned_sessions },
    Attack { name: "sessions with long names", run: long_names },
    Attack { name: "subscriptions to long URIs", run: long_uris },
    Attack { name: "foreign hosts and origins", run: foreign },
];

/// Threads of a server, whatever is done to it: four workers, and one each that serves, watches,
/// posts, and was started with the process; one more for a handler that another one stands in for.
const THREADS: u64 = 10;
/// Growth of resident memory under any attack.
const GROWTH_KB: u64 = 8 << 10;

/// Times for those who cannot wait.
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
    // A passing row of the short form is not printed: its figures need the explanation in attack.sh.
    if long {
        println!(
            "| attack | ended by | slowest call | calls | resident, kB: most | grown by | left | threads | files |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
    }
    let (mut failed, mut passed) = (0, 0);
    let limits = if long { &[] } else { SHORT };
    for role in ["", "files=256"] {
        let descriptors = if role.is_empty() { "the usual descriptors" } else { role };
        if long {
            println!("| with {descriptors} | | | | | | | | |");
        }
        for attack in ATTACKS.iter().filter(|a| a.name.contains(&filter)) {
            let victim = Arc::new(Victim::start(role, limits));
            let before = warmed_up(&victim);
            match stands(attack, &victim, before, long) {
                true => passed += 1,
                false => failed += 1,
            }
        }
    }
    println!("{passed} attacks passed, {failed} failed; conformance/attack.sh prints their figures");
    ExitCode::from(u8::from(failed > 0))
}

/// What the server takes after a few calls: code is loaded, workers have started.
fn warmed_up(victim: &Arc<Victim>) -> Size {
    for _ in 0..4 {
        Witness::of(victim).end();
    }
    victim.size()
}

/// Runs one attack; whether the server stood it.
fn stands(attack: &Attack, victim: &Arc<Victim>, before: Size, long: bool) -> bool {
    let witness = Witness::of(victim);
    let scene = Scene { victim: Arc::clone(victim), address: victim.address, before, long };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| (attack.run)(&scene)));
    let seen = std::panic::catch_unwind(AssertUnwindSafe(move || witness.end()));
    let (Ok(ended), Ok(seen)) = (ended, seen) else {
        println!("| {} | FAILED | | | | | | | |", attack.name);
        return false;
    };
    let left = std::panic::catch_unwind(|| {
        // The calls of the witness leave a connection or two.
        victim.wait_for("descriptors are left", |size| size.files <= before.files + 2);
    });
    let grown = seen.most.resident_kb.saturating_sub(before.resident_kb);
    let stood = left.is_ok()
        && seen.slowest < if long { Duration::from_secs(1) } else { PATIENCE }
        && grown < GROWTH_KB
        && seen.most.threads <= THREADS;
    if stood && !long {
        return true;
    }
    println!(
        "| {} | {ended} | {:.1} ms | {} | {} | {grown} | {} | {} | {} |{}",
        attack.name,
        seen.slowest.as_secs_f64() * 1e3,
        seen.calls,
        seen.most.resident_kb,
        victim.size().resident_kb,
        seen.most.threads,
        seen.most.files,
        if stood { "" } else { " FAILED" }
    );
    stood
}

/// As many descriptors for ourselves as the system gives.
fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn idle(scene: &Scene) -> Ended {
    let strangers: Vec<_> = (0..2000).map(|_| connect(scene.address)).collect();
    // One round trip behind them all: the last of them has been taken in.
    let mut last = connect(scene.address);
    assert_eq!(exchange(&mut last, &call(scene.address, 1, "echo")).map(|(s, _)| s), Some(200));
    let closed = strangers.iter().filter(|s| touched(s)).count();
    format!("{closed} of {} closed for others", strangers.len())
}

/// Sends `start` on many connections and then a byte now and then on each, until all are closed.
fn trickle(scene: &Scene, start: &str) -> Ended {
    let mut strangers: Vec<_> = (0..200).map(|_| connect(scene.address)).collect();
    for stranger in &mut strangers {
        let _ = stranger.write_all(start.as_bytes());
    }
    let pace = Duration::from_millis(scene.number(1000, 50) as u64);
    let began = Instant::now();
    let mut open = strangers;
    let mut next = began + pace;
    let mut said_408 = 0;
    while !open.is_empty() {
        assert!(began.elapsed() < 2 * PATIENCE, "{} still open", open.len());
        if Instant::now() >= next {
            next += pace;
            for stranger in &mut open {
                let _ = stranger.write_all(b"x");
            }
        }
        open.retain_mut(|stranger| {
            let ended = touched(stranger);
            if ended {
                said_408 += u32::from(drain(stranger).starts_with("HTTP/1.1 408 "));
            }
            !ended
        });
        std::thread::yield_now();
    }
    format!("{said_408} told 408 within {:.1} s", began.elapsed().as_secs_f64())
}

fn trickled_heads(scene: &Scene) -> Ended {
    trickle(scene, &head(scene.address, "X-Slow: "))
}

fn trickled_bodies(scene: &Scene) -> Ended {
    let whole = call(scene.address, 1, "echo");
    let length = whole.find("Content-Length: ").unwrap();
    trickle(scene, &format!("{}Content-Length: 100000\r\n\r\n{{", &whole[..length]))
}

/// Sends `start`, then `piece` again and again up to `most` bytes, until the server has enough.
fn pour(scene: &Scene, start: &str, piece: &[u8], most: usize) -> (usize, String) {
    let mut stream = connect(scene.address);
    let mut sent = 0;
    if stream.write_all(start.as_bytes()).is_ok() {
        while sent < most && !touched(&stream) {
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
    let answer = drain(&mut stream);
    (sent, answer.get(..12).unwrap_or("no answer").to_owned())
}

fn endless_line(scene: &Scene) -> Ended {
    let start = head(scene.address, "X: ");
    let ends: Vec<_> = (0..8).map(|_| pour(scene, &start, &[b'x'; 4096], 1 << 30)).collect();
    assert!(ends.iter().all(|(sent, _)| *sent < 16 << 20), "{ends:?}");
    assert!(ends.iter().any(|(_, answer)| answer == "HTTP/1.1 431"), "{ends:?}");
    format!("431 after {} kB", ends.iter().map(|(sent, _)| sent >> 10).max().unwrap_or(0))
}

fn many_fields(scene: &Scene) -> Ended {
    let fields = "A: b\r\n".repeat(10_000);
    let (_, answer) = pour(scene, &head(scene.address, &fields), b"\r\n", 2);
    assert_eq!(answer, "HTTP/1.1 431");
    let (_, answer) = pour(scene, &head(scene.address, &"A:\r\n".repeat(200)), b"\r\n", 2);
    assert_eq!(answer, "HTTP/1.1 431");
    "431".into()
}

/// The head of a call with another framing.
fn framed(address: SocketAddr, fields: &str) -> String {
    let whole = call(address, 1, "echo");
    format!("{}{fields}\r\n\r\n", &whole[..whole.find("Content-Length: ").unwrap()])
}

fn announced(scene: &Scene) -> Ended {
    let start = framed(scene.address, "Content-Length: 1099511627776");
    let (sent, answer) = pour(scene, &start, &[b' '; 4096], 1 << 30);
    assert!(answer == "HTTP/1.1 413" && sent < 16 << 20, "{answer} after {sent}");
    "413 at once".into()
}

fn endless_chunks(scene: &Scene) -> Ended {
    let start = framed(scene.address, "Transfer-Encoding: chunked");
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    let mut most = 0;
    for _ in 0..4 {
        let (sent, answer) = pour(scene, &start, &chunk, 1 << 30);
        // Behind the answer the connection is reset, and a reset can take the answer back.
        assert!(
            ["HTTP/1.1 413", "no answer"].contains(&&*answer) && sent < 32 << 20,
            "{answer} after {sent}"
        );
        most = most.max(sent);
    }
    format!("413 after {} kB", most >> 10)
}

fn many_bodies(scene: &Scene) -> Ended {
    let start = framed(scene.address, "Content-Length: 4000000");
    let mut strangers: Vec<_> = (0..64).map(|_| connect(scene.address)).collect();
    for stranger in &mut strangers {
        let _ = stranger.write_all(start.as_bytes());
    }
    for _ in 0..8 {
        for stranger in strangers.iter_mut().filter(|s| !touched(s)) {
            let _ = stranger.write_all(&[b' '; 64 << 10]);
        }
    }
    let refused = strangers.iter_mut().filter(|s| touched(s)).filter_map(|s| {
        let answer = drain(s);
        (answer.is_empty() || answer.starts_with("HTTP/1.1 503 ")).then_some(())
    });
    format!("{} of 64 told 503", refused.count())
}

fn smuggled(scene: &Scene) -> Ended {
    let hidden = call(scene.address, 7, "echo");
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
            let mut stream = connect(scene.address);
            let text = format!("{}{body}{hidden}", framed(scene.address, pair));
            let _ = stream.write_all(text.as_bytes());
            let answers = drain(&mut stream);
            assert!(
                answers.starts_with("HTTP/1.1 400 ") || answers.starts_with("HTTP/1.1 501 "),
                "{pair}: {answers}"
            );
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{pair}: {answers}");
        }
    }
    "400 or 501, closed".into()
}

/// Opens many requests and reads nothing of the answers, until the server has closed them all.
fn unread(scene: &Scene, count: usize, requests: &str) -> Ended {
    let strangers: Vec<_> = (0..count)
        .map(|_| {
            let mut stream = connect(scene.address);
            // As much as the server takes in without being read.
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(requests.as_bytes());
            stream
        })
        .collect();
    let mut last = connect(scene.address);
    assert_eq!(exchange(&mut last, &call(scene.address, 1, "echo")).map(|(s, _)| s), Some(200));
    drop(last);
    let began = Instant::now();
    scene.victim.wait_for("unread answers", |size| size.files <= scene.before.files + 4);
    let text = format!("{} cut within {:.1} s", strangers.len(), began.elapsed().as_secs_f64());
    drop(strangers);
    text
}

/// Streams that belong to no call, of clients that came in properly.
fn unread_streams(scene: &Scene) -> Ended {
    let mut open = Vec::new();
    let mut told = BTreeMap::new();
    for _ in 0..scene.number(500, 40) {
        let mut stream = connect(scene.address);
        // The less the system takes, the sooner the server has it.
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
        let Some(session) = session(&mut stream, scene.address, &news()) else { continue };
        let request = format!(
            "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
             Mcp-Session-Id: {session}\r\n\r\n",
            scene.address
        );
        let _ = stream.write_all(request.as_bytes());
        let mut head = [0; 12];
        let status = stream
            .read_exact(&mut head)
            .map_or("closed".into(), |()| String::from_utf8_lossy(&head[9..]).into_owned());
        *told.entry(status).or_insert(0) += 1;
        open.push(stream);
    }
    let mut caller = connect(scene.address);
    let began = Instant::now();
    let mut shouts = 0;
    // The system takes some, the server's backlog takes some, and then they are cut.
    let held = scene.victim.size().files - told.get("200").copied().unwrap_or(0);
    while scene.victim.size().files > held + 4 {
        assert!(began.elapsed() < 2 * PATIENCE, "{told:?}, {shouts} shouts, {:?}", scene.victim.size());
        shouts += 1;
        let answer = exchange(&mut caller, &call(scene.address, shouts, "shout"));
        assert!(answer.is_some_and(|(status, _)| status == 200));
    }
    format!("{told:?}, all cut after {shouts} events in {:.1} s", began.elapsed().as_secs_f64())
}

fn unread_events(scene: &Scene) -> Ended {
    let request = call_with(scene.address, 1, "flood", "", r#","progressToken":1"#);
    unread(scene, scene.number(100, 25), &request)
}

fn unread_answers(scene: &Scene) -> Ended {
    // An answer repeats what was sent.
    let long = format!(r#","x":"{}""#, "x".repeat(10_000));
    let request = call_with(scene.address, 1, "echo", &long, "");
    unread(scene, scene.number(100, 25), &request.repeat(500))
}

/// What a client says of itself is kept with its session; it can say a lot.
fn long_names(scene: &Scene) -> Ended {
    let mut answers = BTreeMap::new();
    let long = "x".repeat(1 << 20);
    let request = initialize(scene.address, &long);
    let mut stream = connect(scene.address);
    for _ in 0..scene.number(200, 40) {
        let status = exchange(&mut stream, &request).map_or(0, |(status, _)| status);
        *answers.entry(status).or_insert(0) += 1;
    }
    format!("{answers:?}")
}

/// What is listened for is kept with its stream.
fn long_uris(scene: &Scene) -> Ended {
    let uri = "x".repeat(1 << 20);
    let mut open = Vec::new();
    let mut told = BTreeMap::new();
    for _ in 0..scene.number(200, 40) {
        let mut stream = connect(scene.address);
        stream.write_all(listen(scene.address, &format!("news:{uri}")).as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        *told.entry(String::from_utf8_lossy(&head[9..]).into_owned()).or_insert(0) += 1;
        open.push(stream);
    }
    format!("{told:?}")
}

fn abandoned_sessions(scene: &Scene) -> Ended {
    let count = scene.number(10_000, 2_000);
    let request = initialize(scene.address, "stranger");
    let mut answers = BTreeMap::new();
    let mut stream = connect(scene.address);
    for n in 0..count {
        if n % 10 == 0 {
            stream = connect(scene.address);
        }
        let status = exchange(&mut stream, &request).map_or(0, |(status, _)| status);
        *answers.entry(status).or_insert(0) += 1;
    }
    format!("{answers:?}")
}

fn foreign(scene: &Scene) -> Ended {
    let good = call(scene.address, 1, "echo");
    let host = format!("Host: {}", scene.address);
    for bad in ["Host: evil.example", "Host: 127.0.0.1.evil.example", "Host: "] {
        let mut stream = connect(scene.address);
        let answer = exchange(&mut stream, &good.replacen(&host, bad, 1)).unwrap();
        assert_eq!(answer.0, 403, "{bad}");
    }
    for bad in ["http://evil.example", "null", "http://127.0.0.1.evil.example"] {
        let mut stream = connect(scene.address);
        let fields = format!("{host}\r\nOrigin: {bad}");
        let answer = exchange(&mut stream, &good.replacen(&host, &fields, 1)).unwrap();
        assert_eq!(answer.0, 403, "{bad}");
    }
    "403".into()
}
