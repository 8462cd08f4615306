//! Responses that an HTTP client receives: each ends its call, and a valid call after that
//! succeeds.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{Client, Endpoint, Protocol, Limits};

use crate::client::DISCOVERED;

/// Deadline of a call; an endless response reaches it.
const DEADLINE: Duration = Duration::from_millis(100);
/// Timeout that only a hang reaches.
const HANG: Duration = Duration::from_secs(15);

struct Peer {
    client: Client,
    script: Arc<Mutex<Vec<u8>>>,
}

static PEER: OnceLock<Peer> = OnceLock::new();

pub fn run(bytes: &[u8]) {
    let peer = PEER.get_or_init(Peer::new);
    bytes.clone_into(&mut peer.script.lock().expect("no panic"));
    let nothing = || Json::constant("{}");
    let begun = Instant::now();
    drop(peer.client.request_method("x/y", nothing()).timeout(DEADLINE).wait());
    assert!(begun.elapsed() < HANG, "the call did not end with its deadline");
    // A connection that the server closes after a complete response may end during the next
    // request.
    let sound = || peer.client.request_method("fuzz/sound", nothing()).timeout(HANG).wait();
    let sounds = sound().or_else(|_| sound()).or_else(|_| sound());
    assert!(sounds.is_ok(), "sound calls fail afterwards: {sounds:?}");
}

impl Peer {
    fn new() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let script = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&script);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let script = Arc::clone(&read);
                std::thread::spawn(move || serve(socket, &script));
            }
        });
        let mut limits = Limits::default();
        (limits.frame_bytes, limits.http_client.reconnects) = (64 << 10, 1);
        let client = Client::builder("fuzz", "1").protocol(Protocol::Stateless).limits(limits);
        Peer { client: client.connect(Endpoint::new(url)).expect("a server"), script }
    }
}

/// Responds to valid requests with valid responses, and to others with the bytes of the input and
/// the end of the connection.
fn serve(socket: TcpStream, script: &Mutex<Vec<u8>>) {
    let _ = socket.set_nodelay(true);
    let mut requests = BufReader::new(&socket);
    let mut to = &socket;
    while let Some(body) = request(&mut requests) {
        let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let (method, id) = (message["method"].as_str().unwrap_or_default(), &message["id"]);
        let sound = match method {
            "server/discover" => Some(DISCOVERED),
            "fuzz/sound" => Some(r#"{"resultType":"complete"}"#),
            _ => None,
        };
        let Some(result) = sound else {
            let bytes = std::mem::take(&mut *script.lock().expect("no panic"));
            // `$` is replaced by the id of the request.
            let id = id.to_string();
            let bytes: Vec<u8> =
                bytes.iter().flat_map(|b| if *b == b'$' { id.as_bytes() } else { std::slice::from_ref(b) }).copied().collect();
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let _ = to.write_all(first).and_then(|()| to.write_all(second));
            return;
        };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        if to.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// The body of the next request.
fn request(requests: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if requests.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok()?,
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    requests.read_exact(&mut body).ok()?;
    Some(body)
}
