//! Unix sockets, and servers whose handlers are not `Send`, in both protocols.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use tinymcp::{ElicitResponse, Endpoint, Field, Form, Protocol, Server, Tool, json};

use crate::own_server::ServerThread;
use crate::{TIMEOUT, client, limits};

const ERAS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A server on a thread, whose inline tool owns a value that is not `Send`.
struct Served {
    address: String,
    _thread: ServerThread,
}

#[cfg(unix)]
fn socket(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("tinymcp-{name}-{}.sock", std::process::id()))
}

fn serve(address: &str) -> Served {
    let (started, start) = mpsc::channel();
    let address = address.to_owned();
    let thread = thread::spawn(move || {
        let mut server = Server::new("local", "1.0.0");
        server.limits(limits());
        server
            .tool(Tool::new("ask"), |ctx, ()| {
                let answer = ctx.elicit("name", Form::new("Who?").field(Field::text("name")))?;
                Ok(answer.text("name").unwrap_or("-").to_owned())
            })
            .unwrap();
        let handle = server.handle();
        let count = Rc::new(Cell::new(0));
        let mut local = server.into_local();
        local
            .inline_tool(Tool::new("count"), move |_, ()| {
                count.set(count.get() + 1);
                Ok(count.get().to_string())
            })
            .unwrap();
        let ready = started.clone();
        let report = move |line: &str| {
            let address = line.rsplit(' ').next().unwrap().to_owned();
            // OK to drop: only the first line has the address.
            let _ = ready.send((address, handle.clone()));
        };
        local.serve_http_with(&address, |http| http.no_signal_handlers().diagnostics(report)).unwrap();
    });
    let (address, handle) = start.recv_timeout(TIMEOUT).unwrap();
    Served { address, _thread: ServerThread::new(handle, thread) }
}

fn exchange(endpoint: &Endpoint, counts: [&str; 2]) {
    for (era, count) in ERAS.into_iter().zip(counts) {
        let client = client()
            .protocol(era)
            .on_elicit(|_| Ok(ElicitResponse::accept(json!({"name": "Ada"}))))
            .connect(endpoint.clone())
            .unwrap();
        assert_eq!(client.protocol(), era);
        assert_eq!(client.call_tool("count", json!({})).unwrap().texts(), count);
        assert_eq!(client.call_tool("ask", json!({})).unwrap().texts(), "Ada");
        client.close();
    }
}

#[test]
fn handlers_that_are_not_send_serve_many_clients_over_tcp() {
    let served = serve("127.0.0.1:0");
    exchange(&Endpoint::new(&*served.address), ["1", "2"]);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_reached_by_its_path_in_both_protocols() {
    let path = socket("exchange");
    let address = format!("unix:{}", path.display());
    let served = serve(&address);
    exchange(&Endpoint::new(&*address), ["1", "2"]);
    // The host of the URL is not looked up, and the server checks it.
    exchange(&Endpoint::new("http://localhost/mcp").unix_socket(&path), ["3", "4"]);
    let foreign = Endpoint::new("http://board.invalid/mcp").unix_socket(&path);
    let error = client().connect(foreign).unwrap_err();
    assert_eq!((error.kind(), error.code()), (tinymcp::ErrorKind::Refused, Some(403)));
    // Before a connection is detected, too.
    let detected = client().connect(address.as_str()).unwrap();
    assert_eq!(detected.protocol(), Protocol::Stateless);
    detected.close();
    drop(served);
    let error = client().connect(address.as_str()).unwrap_err();
    assert_eq!(error.kind(), tinymcp::ErrorKind::Io);
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}

#[cfg(unix)]
#[test]
fn an_impossible_socket_path_is_an_error() {
    let long = format!("unix:/{}", "x".repeat(300));
    for (address, kind) in [("unix:", tinymcp::ErrorKind::Invalid), (long.as_str(), tinymcp::ErrorKind::Io)] {
        assert_eq!(client().connect(address).unwrap_err().kind(), kind, "{address}");
    }
}
