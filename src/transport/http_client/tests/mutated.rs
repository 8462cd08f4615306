//! Randomly mutated responses: each one ends the call without a panic. A failure prints the seed.

use super::stage::{EVENTS, JSON, Next, Stage};
use super::*;

/// Pseudo-random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Valid responses, to be mutated.
fn valid_responses() -> Vec<String> {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"é"}]}}"#;
    let length = body.len();
    let event = format!("id: 1\nretry: 5\ndata: {{\"n\":1}}\n\n: c\r\n\r\nevent: message\ndata: {body}\n\n");
    let size = event.len();
    vec![
        format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: {length}\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 200 OK\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        ),
        format!("HTTP/1.1 200 OK\r\n{EVENTS}\r\n{event}"),
        format!(
            "HTTP/1.1 200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n\r\n{size:x};x=y\r\n{event}\r\n0\r\nA: b\r\n\r\n"
        ),
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n{JSON}Content-Length: {length}\r\n\r\n{body}"
        ),
        format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n{body}"),
        "HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Bearer a=\"b\"\r\n\r\nno".to_owned(),
    ]
}

fn mutated_response(random: &mut Random) -> Vec<u8> {
    let sound = valid_responses();
    let mut bytes = sound[random.below(sound.len())].clone().into_bytes();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 => drop(bytes.splice(at..at, std::iter::repeat_n(b'9', random.below(30)))),
            3 => {
                let other = sound[random.below(sound.len())].as_bytes();
                bytes.splice(at..at, other.iter().copied());
            }
            4 => {
                let end = (at + random.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = *b"\0\r\n: ;\xFF0fF-+"[..].get(random.below(13)).unwrap_or(&b'x');
                }
            }
        }
    }
    bytes
}

#[test]
fn a_damaged_answer_ends_the_call() {
    let seeds = AtomicU64::new(1);
    let current = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&current);
    let stage = Stage::new(move |_, to| {
        let seed = seeds.fetch_add(1, Ordering::Relaxed);
        known.store(seed, Ordering::Relaxed);
        let bytes = mutated_response(&mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let split = bytes.len() / 2;
        for part in [&bytes[..split], &bytes[split..]] {
            let _ = std::io::Write::write_all(to, part);
        }
        Next::Close
    });
    let limits = Limits { frame_bytes: 4096, ..reconnecting(1) };
    let line = Line::to(Endpoint::new(stage.url()), &limits);
    let (mut good, mut bad) = (0, 0);
    for n in 0..600 {
        let session = if n % 2 == 0 { Session::Within } else { Session::None };
        let begun = Instant::now();
        // A mutated reconnection time may be long.
        line.deadline(Duration::from_millis(200));
        match line.call(1, session) {
            Ok(()) => good += 1,
            Err(_) => bad += 1,
        }
        let seed = current.load(Ordering::Relaxed);
        assert!(begun.elapsed() < TIMEOUT, "seed {seed}");
    }
    assert!(good > 50 && bad > 50, "{good} {bad}");
    line.close();
}
