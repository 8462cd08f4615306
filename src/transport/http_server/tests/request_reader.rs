//! Tests of the request reader: requests split at every point, ambiguous requests, mutated heads.

use crate::transport::http_server::head::Head;
use crate::transport::http_server::request_reader::{Bounds, RequestReader, RequestSink, Step};
use crate::transport::http_server::response_head::ResponseOptions;
use crate::transport::http_server::{Admission, Response};

const BOUNDS: Bounds = Bounds { head_bytes: 512, head_fields: 16, body_bytes: 1000 };

/// Records the requests.
#[derive(Default)]
struct RecordingSink {
    lines: Vec<String>,
    proceeded: usize,
    /// The last request with the path `/wait` has waited.
    waited: bool,
}

impl RequestSink for RecordingSink {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        match head.path() {
            "/no" => Admission::Respond(Response::new(404)),
            "/wait" if !std::mem::replace(&mut self.waited, true) => Admission::Wait,
            _ => Admission::ReadBody,
        }
    }

    fn send_continue(&mut self) {
        self.proceeded += 1;
    }

    fn handle(&mut self, head: &Head<'_>, options: ResponseOptions, body: &[u8]) {
        let keep = if options.keep_alive { "keep" } else { "close" };
        let body = String::from_utf8_lossy(body);
        self.lines.push(format!("{} {} {keep} {body}", head.method, head.path()));
    }
}

/// Pushes the pieces one after the other. Returns the requests and the final state.
fn push(pieces: &[&[u8]]) -> (Vec<String>, String, usize) {
    let (mut reader, mut book) = (RequestReader::new(), RecordingSink::default());
    let mut ahead = Vec::new();
    for piece in pieces {
        ahead.extend_from_slice(piece);
        while !ahead.is_empty() {
            match reader.push(&ahead, &BOUNDS, &mut book) {
                Err(refused) => return (book.lines, refused.0.to_string(), reader.memory()),
                Ok((n, Step::Waiting)) => {
                    assert_eq!(n, ahead.len(), "not all input was consumed");
                    ahead = reader.take_pipelined().unwrap();
                    continue;
                }
                Ok((n, Step::Incomplete)) => assert_eq!(n, ahead.len(), "not all input was consumed"),
                Ok((n, Step::Handled)) => {
                    ahead.drain(..n);
                    continue;
                }
                Ok((n, Step::Rejected { response, whole, .. })) => {
                    book.lines.push(response.status.to_string());
                    if !whole {
                        return (book.lines, "unread".into(), reader.memory());
                    }
                    ahead.drain(..n);
                    continue;
                }
            }
            ahead.clear();
        }
    }
    let end = if reader.is_empty() { "" } else { "more" };
    (book.lines, end.into(), reader.memory())
}

#[test]
fn a_request_that_waits_is_read_as_if_it_had_not() {
    for (text, lines) in [
        ("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", &["GET /wait keep "][..]),
        (
            "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
            &["POST /wait keep hello", "GET /x keep "],
        ),
        (
            "POST /wait HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            &["POST /wait keep hello"],
        ),
    ] {
        assert_at_every_split(text.as_bytes(), lines, "");
    }
}

fn assert_at_every_split(text: &[u8], lines: &[&str], end: &str) {
    for split in 0..=text.len() {
        let (got, ended, kept) = push(&[&text[..split], &text[split..]]);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(
            (got.iter().map(String::as_str).collect::<Vec<_>>(), &*ended),
            (lines.to_vec(), end),
            "{shown:?} at {split}"
        );
        assert!(end == "more" || kept == 0 || !end.is_empty(), "{shown:?} at {split} keeps {kept}");
    }
    let single: Vec<&[u8]> = text.chunks(1).collect();
    let (got, ended, _) = push(&single);
    assert_eq!((got.iter().map(String::as_str).collect::<Vec<_>>(), &*ended), (lines.to_vec(), end));
}

#[test]
fn requests_are_read_at_every_split() {
    for (text, lines) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &["GET / keep "][..]),
        ("\r\n\r\nGET /x?y=z HTTP/1.1\r\nhOST:a\r\n\r\n", &["GET /x keep "]),
        ("GET / HTTP/1.0\r\n\r\n", &["GET / close "]),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &["GET / keep "]),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n", &["GET / close "]),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &["POST / keep hello"]),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \t005 \r\n\r\nhello", &["POST / keep hello"]),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", &["POST / keep "]),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nA: b\r\n\r\n",
            &["POST / keep abcde"],
        ),
        ("POST http://a/p?q HTTP/1.1\r\nHost: A\r\nContent-Length: 1\r\n\r\nx", &["POST /p keep x"]),
        ("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", &["GET / keep "]),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &["OPTIONS * keep "]),
        (
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxyGET /3 HTTP/1.1\r\nHost:\r\n\r\n",
            &["GET /1 keep ", "POST /2 keep xy", "GET /3 keep "],
        ),
        ("POST /no HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["404", "GET / keep "]),
    ] {
        assert_at_every_split(text.as_bytes(), lines, "");
        // The reader waits for the rest of a truncated request.
        if lines.len() == 1 {
            for end in 5..text.len() {
                let (got, ended, _) = push(&[&text.as_bytes()[..end]]);
                assert_eq!((got.len(), &*ended), (0, "more"), "{text:?} up to {end}");
            }
        }
    }
}

#[test]
fn ambiguous_requests_are_rejected() {
    for (fields, status) in [
        ("Content-Length: 1\r\nContent-Length: 1", "400"),
        ("Content-Length: 1\r\nContent-Length: 2", "400"),
        ("Content-Length: 1, 1", "400"),
        ("Content-Length: +1", "400"),
        ("Content-Length: -1", "400"),
        ("Content-Length: 1 1", "400"),
        ("Content-Length: 0x1", "400"),
        ("Content-Length: 1.0", "400"),
        ("Content-Length: ", "400"),
        ("Content-Length: 1;", "400"),
        ("Content-Length : 1", "400"),
        ("Content-Length\t: 1", "400"),
        (" Content-Length: 1", "400"),
        ("Content-Length: 1\r\n 2", "400"),
        ("Content-Length:\r\n\t1", "400"),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 1", "400"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "400"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "400"),
        ("Transfer-Encoding: chunked, chunked", "400"),
        ("Transfer-Encoding: gzip, chunked", "400"),
        ("Transfer-Encoding: chunked;a=b", "400"),
        ("Transfer-Encoding: \"chunked\"", "400"),
        ("Transfer-Encoding:", "400"),
        ("Transfer-Encoding: xchunked", "501"),
        ("Transfer-Encoding: identity", "501"),
        ("Transfer-Encoding: gzip", "501"),
        ("Transfer-Encoding: chun\x0bked", "400"),
        ("Transfer-Encoding : chunked", "400"),
        ("Transfer_Encoding\0: chunked", "400"),
        ("X: a\0b", "400"),
        ("X: a\rb", "400"),
        ("X: a\nY: b", "400"),
        ("X: a\r\n\nY: b", "400"),
        (": a", "400"),
        ("X", "400"),
        ("X\r\n: b", "400"),
        ("Host: b", "400"),
        ("host: a", "400"),
        ("Expect: 200-ok", "417"),
        ("Content-Length: 1001", "413"),
        ("Content-Length: 1099511627776", "413"),
        ("Content-Length: 99999999999999999999999999", "413"),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\nx");
        assert_at_every_split(text.as_bytes(), &[], status);
    }
    for (text, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\n\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", "400"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400"),
        ("GET / a HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET /\r\nHost: a\r\n\r\n", "400"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "505"),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505"),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET / HTTP/11\r\nHost: a\r\n\r\n", "400"),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "400"),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("\x16\x03\x01\x02\x00", "400"),
        ("\n", "400"),
        (" GET / HTTP/1.1\r\n\r\n", "400"),
        ("\r\r\n", "400"),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
    ] {
        assert_at_every_split(text.as_bytes(), &[], status);
    }
    // Bytes after a rejected request are never parsed as a request.
    let pair = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_at_every_split(pair.as_bytes(), &[], "400");
}

#[test]
fn heads_and_bodies_have_bounds() {
    let long = "x".repeat(600);
    for (text, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "414"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(80)), "431"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(16)), "431"),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{}\r\n1\r\n",
                "x".repeat(1000)
            ),
            "413",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n".into(), "413"),
    ] {
        assert_at_every_split(text.as_bytes(), &[], status);
    }
    let fits = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(15));
    assert_at_every_split(fits.as_bytes(), &["GET / keep "], "");
    let whole = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    let fits = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(512 - whole));
    assert_at_every_split(fits.as_bytes(), &["GET / keep "], "");
    let too_long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(513 - whole));
    assert_at_every_split(too_long.as_bytes(), &[], "431");
    // A bare line feed after the limit.
    let malformed_later = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\n\n", "x".repeat(600));
    assert_at_every_split(malformed_later.as_bytes(), &[], "431");
}

#[test]
fn a_rejected_request_is_skipped_if_it_is_complete() {
    let text =
        "POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (lines, end, _) = push(&[text.as_bytes()]);
    assert_eq!((lines.as_slice(), &*end), (&["404".to_string(), "GET / keep ".to_string()][..], ""));
    let (lines, end, _) = push(&[&text.as_bytes()[..text.len() - 30]]);
    assert_eq!((lines.as_slice(), &*end), (&["404".to_string()][..], "unread"));
}

#[test]
fn continue_is_sent_once_and_only_if_the_peer_waits() {
    let text = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for (body, proceeded) in [(&b""[..], 1), (b"he", 0), (b"hello", 0)] {
        let (mut reader, mut book) = (RequestReader::new(), RecordingSink::default());
        let all = [text, body].concat();
        reader.push(&all, &BOUNDS, &mut book).ok().unwrap();
        assert_eq!(book.proceeded, proceeded);
        if body.len() < 5 {
            reader.push(&b"hello"[body.len()..], &BOUNDS, &mut book).ok().unwrap();
        }
        assert_eq!((book.proceeded, &*book.lines[0]), (proceeded, "POST / keep hello"));
    }
}

/// Pseudo-random numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn damaged_requests_parse_alike_at_every_split() {
    let models: [&[u8]; 4] = [
        b"POST /mcp?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nAccept: */*\r\n\r\n{\"a\":[1,2]}\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
        b"OPTIONS http://a/x HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    let spice: [&[u8]; 12] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b":",
        b" ",
        b"\t",
        b",",
        b"0",
        b"\xff",
        b"chunked",
        b"Content-Length: 3\r\n",
    ];
    let mut dice = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let mut text = models[dice.below(models.len())].to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(text.len());
            match dice.below(4) {
                0 => text[at] = dice.below(256) as u8,
                1 => drop(text.remove(at)),
                2 => {
                    let end = (at + dice.below(20)).min(text.len());
                    let piece = text[at..end].to_vec();
                    text.splice(at..at, piece);
                }
                _ => drop(text.splice(at..at, spice[dice.below(spice.len())].iter().copied())),
            }
        }
        let whole = push(&[&text]);
        let split = dice.below(text.len() + 1);
        let halves = push(&[&text[..split], &text[split..]]);
        let single = push(&text.chunks(1).collect::<Vec<_>>());
        let shown = String::from_utf8_lossy(&text);
        assert_eq!((&whole.0, &whole.1), (&halves.0, &halves.1), "{shown:?} at {split}");
        assert_eq!((&whole.0, &whole.1), (&single.0, &single.1), "{shown:?}");
    }
}
