//! Tests of deadlines, limits and shutdown.

use super::*;

/// Short timeouts for a request whose first byte has arrived, and a long idle timeout.
fn short() -> Limits {
    limits_with(|l| {
        l.head_timeout = Duration::from_millis(200);
        l.body_timeout = Duration::from_millis(200);
        l.idle_timeout = 2 * TIMEOUT;
        l.linger = Duration::from_millis(200);
    })
}

#[test]
fn an_incomplete_request_gets_408() {
    let server = serve(short(), echo());
    for text in [
        "P",
        "POST / HTTP/1.1\r\nHost: x\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
    ] {
        let mut client = server.connect();
        client.send(text);
        assert_eq!(client.answer().status, 408, "{text:?}");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn trickled_bytes_do_not_extend_the_deadline() {
    let server = serve(short(), echo());
    let mut client = server.connect();
    let began = Instant::now();
    // The socket's timeout sets the pace of the slow writes.
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut answer = Vec::new();
    for byte in "POST / HTTP/1.1\r\nX: ".bytes().chain(std::iter::repeat(b'x')) {
        if client.stream.write_all(&[byte]).is_err() {
            break;
        }
        let mut piece = [0; 256];
        match client.stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&piece[..n]),
            Err(_) => {}
        }
        assert!(began.elapsed() < TIMEOUT);
    }
    // A write can fail only after the response was sent, which can still be read.
    let _ = client.stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
}

/// Both the time and the bytes of the rest of a rejected request are limited.
#[test]
fn a_peer_that_keeps_sending_after_a_rejection_is_disconnected() {
    let refused = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n";
    let slow = serve(short(), echo());
    let mut client = slow.connect();
    client.stream.write_all(refused).unwrap();
    assert_eq!(client.answer().status, 413);
    let began = Instant::now();
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // Each write is well within the stall timeout.
    while client.stream.write_all(b"x").is_ok() {
        let _ = client.stream.read(&mut [0; 16]);
        assert!(began.elapsed() < TIMEOUT);
    }
    let limits = limits_with(|l| (l.linger, l.body_timeout) = (2 * TIMEOUT, 2 * TIMEOUT));
    let fast = serve(limits, echo());
    let mut client = fast.connect();
    client.stream.write_all(refused).unwrap();
    let (piece, mut sent) = (vec![b'x'; 1 << 20], 0);
    while client.stream.write_all(&piece).is_ok() {
        sent += 1;
        assert!(sent < 256, "{sent} MiB were taken");
    }
    assert!(sent >= 60, "cut after {sent} MiB");
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    // If sending takes longer than the idle timeout, the connection is idle: retry with more time.
    let used = [200, 1000, 5000].into_iter().any(|time| {
        let server = serve(limits_with(|l| l.idle_timeout = Duration::from_millis(time)), echo());
        let mut used = server.connect();
        let sent = used.stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut fresh = server.connect();
        assert_eq!(fresh.rest(), Vec::<u8>::new());
        let answer = used.rest();
        assert!(answer.is_empty() || answer.ends_with(b"GET / "), "{}", String::from_utf8_lossy(&answer));
        sent.is_ok() && !answer.is_empty()
    });
    assert!(used, "every connection was idle before its request was read");
}

#[test]
fn empty_lines_do_not_keep_a_connection_open() {
    let server = serve(limits_with(|l| l.idle_timeout = Duration::from_millis(200)), echo());
    let mut client = server.connect();
    let began = Instant::now();
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while client.stream.write_all(b"\r\n").is_ok() {
        if matches!(client.stream.read(&mut [0; 16]), Ok(0)) {
            break;
        }
        assert!(began.elapsed() < TIMEOUT);
    }
}

#[test]
fn the_connection_that_was_idle_longest_is_closed_at_the_limit() {
    let server = serve(limits_with(|l| l.connections = 4), echo());
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.post("1");
        assert_eq!(client.answer().status, 200);
    }
    clients[0].post("2");
    assert_eq!(clients[0].answer().status, 200);
    let mut fresh = server.connect();
    fresh.post("3");
    assert_eq!(fresh.answer().status, 200);
    assert_eq!(clients[1].rest(), b"");
    for client in [0, 2, 3] {
        clients[client].post("4");
        assert_eq!(clients[client].answer().status, 200);
    }
}

#[test]
fn a_connection_beyond_the_limit_gets_503_while_all_are_busy() {
    let (give, exchanges) = mpsc::channel();
    let on_request: OnRequest = Box::new(move |_, _, exchange| {
        give.send(exchange).unwrap();
    });
    let server = serve(limits_with(|l| l.connections = 2), on_request);
    let mut busy: Vec<_> = (0..2).map(|_| server.connect()).collect();
    let open: Vec<Responder> = busy
        .iter_mut()
        .map(|client| {
            client.post("");
            exchanges.recv_timeout(TIMEOUT).unwrap()
        })
        .collect();
    for _ in 0..40 {
        let mut refused = server.connect();
        let answer = refused.answer();
        assert_eq!(answer.status, 503);
        assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    }
    assert!(open[0].respond(200, &[], b""));
    assert_eq!(busy[0].answer().status, 200);
    let mut next = server.connect();
    next.post("");
    exchanges.recv_timeout(TIMEOUT).unwrap().respond(200, &[], b"");
    assert_eq!(next.answer().status, 200);
    drop(open);
}

#[test]
fn incomplete_bodies_are_bounded_together() {
    let server = serve(limits_with(|l| l.arriving_bytes = 100_000), echo());
    let slow: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.connect();
            client
                .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n")
                .send(vec![b'x'; 30_000]);
            client
        })
        .collect();
    // A single body may have the size of the largest message, and small bodies are accepted.
    let mut large = server.connect();
    large.post(&"y".repeat(3_000_000));
    assert_eq!(large.answer().status, 200);
    let mut small = server.connect();
    small.post("z");
    assert_eq!(small.answer().text(), "POST /mcp z");
    for mut client in slow {
        assert_eq!(client.answer().status, 503);
    }
}

#[test]
fn pipelined_input_is_bounded_together() {
    let (give, exchanges) = mpsc::channel();
    let on_request: OnRequest = Box::new(move |_, _, exchange| {
        give.send(exchange).unwrap();
    });
    let server = serve(limits_with(|l| l.arriving_bytes = 30_000), on_request);
    let ahead =
        "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n".to_owned() + &"x".repeat(9000);
    let mut open = Vec::new();
    for n in 0..8 {
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: x\r\n\r\n{ahead}"));
        open.push((exchanges.recv_timeout(TIMEOUT).unwrap(), client));
        if n >= 3 {
            // The connections that did so first were closed.
            assert_eq!(server.gone.recv_timeout(TIMEOUT).unwrap(), open[n - 3].0.id());
        }
    }
    assert_eq!(open.iter().filter(|(exchange, _)| !exchange.is_closed()).count(), 3);
}

#[test]
fn stopping_frees_the_address_and_lets_open_exchanges_finish() {
    let (give, exchanges) = mpsc::channel();
    let on_request: OnRequest = Box::new(move |_, _, exchange| {
        give.send(exchange).unwrap();
    });
    let mut server = serve(limits(), on_request);
    let mut idle = server.connect();
    let mut busy = server.connect();
    busy.post("");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    server.handle.stop(Instant::now() + TIMEOUT);
    server.stopped.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(idle.rest(), b"");
    let again = Listener::bind(&server.address.to_string()).unwrap();
    assert_eq!(again[0].address(), server.address.to_string());
    assert!(exchange.respond(200, &[], b"last"));
    let answer = busy.answer();
    assert_eq!(answer.text(), "last");
    assert_eq!(busy.rest(), b"");
    server.stop(TIMEOUT);
}

#[test]
fn stopping_is_over_at_the_deadline_whatever_is_open() {
    let (give, exchanges) = mpsc::channel();
    let on_request: OnRequest = Box::new(move |_, _, exchange| {
        give.send(exchange).unwrap();
    });
    let mut server = serve(limits(), on_request);
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let open: Vec<Responder> = clients
        .iter_mut()
        .map(|client| {
            client.post("");
            exchanges.recv_timeout(TIMEOUT).unwrap()
        })
        .collect();
    assert!(open[0].start_events(&[], b"x"));
    // A connection whose response is not read.
    assert!(open[1].respond(200, &[], &vec![0; 30_000_000]));
    let began = Instant::now();
    server.stop(Duration::from_millis(100));
    assert!(began.elapsed() < TIMEOUT / 2);
    let mut gone: Vec<u64> = server.gone.try_iter().collect();
    gone.sort_unstable();
    assert_eq!(gone, [open[0].id(), open[2].id()]);
    assert!(open.iter().all(Responder::is_closed));
}

#[test]
fn a_wake_is_a_tick() {
    struct Ticks(mpsc::Sender<()>, u32);
    impl Service for Ticks {
        fn check(&mut self, _: &Head<'_>) -> Admission {
            Admission::ReadBody
        }
        fn handle(&mut self, _: &Head<'_>, _: &[u8], _: Responder) {}
        fn error_response(&mut self, status: u16) -> Response {
            Response::new(status)
        }
        fn disconnected(&mut self, _: u64) {}
        fn tick(&mut self, now: Instant) -> Option<Instant> {
            self.1 += 1;
            self.0.send(()).unwrap();
            (self.1 < 3).then(|| now + Duration::from_millis(1))
        }
        fn stop(&mut self) {}
    }
    let (tick, ticks) = mpsc::channel();
    let (handle, thread) = run(Vec::new(), limits(), Ticks(tick, 0));
    for _ in 0..3 {
        ticks.recv_timeout(TIMEOUT).unwrap();
    }
    handle.wake();
    ticks.recv_timeout(TIMEOUT).unwrap();
    handle.stop(Instant::now());
    thread.join().unwrap();
}
