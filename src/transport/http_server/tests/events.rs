//! Tests of event streams and of peers that disconnect.

use super::*;

const EVENTS: &[Field<'_>] = &[("content-type", "text/event-stream")];

/// Service that passes every exchange to the test.
fn hand_out() -> (OnRequest, mpsc::Receiver<Responder>) {
    let (give, take) = mpsc::channel();
    let on_request: OnRequest = Box::new(move |_, _, exchange| {
        give.send(exchange).unwrap();
    });
    (on_request, take)
}

#[test]
fn every_event_is_there_before_the_next_is_sent() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    let mut client = server.connect();
    for first in ["", "data: 0\n\n"] {
        client.post("");
        let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
        assert!(exchange.start_events(EVENTS, first.as_bytes()));
        let head = client.until("\r\n\r\n");
        assert!(
            head.contains("transfer-encoding: chunked\r\n") && !head.contains("content-length"),
            "{head}"
        );
        if !first.is_empty() {
            assert_eq!(client.until("\n\n\r\n"), "9\r\ndata: 0\n\n\r\n");
        }
        for n in 1..4 {
            assert!(exchange.send_event(format!("data: {n}\n\n").as_bytes()));
            assert_eq!(client.until("\n\n\r\n"), format!("9\r\ndata: {n}\n\n\r\n"));
        }
        assert!(
            exchange.try_send_event(b"data: now\n\n") && !exchange.is_closed() && !exchange.is_congested()
        );
        assert_eq!(client.until("\n\n\r\n"), "b\r\ndata: now\n\n\r\n");
        assert!(exchange.finish(first.as_bytes()));
        let end = if first.is_empty() { "0\r\n\r\n" } else { "9\r\ndata: 0\n\n\r\n0\r\n\r\n" };
        assert_eq!(client.until("0\r\n\r\n"), end);
        assert!(exchange.is_closed() && !exchange.send_event(b"x"));
    }
    assert!(server.gone.try_recv().is_err());
}

#[test]
fn a_stream_for_http_10_ends_with_the_connection() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    assert!(exchange.start_events(EVENTS, b"data: 1\n\n") && exchange.send_event(b"data: 2\n\n"));
    assert!(exchange.finish(b"data: 3\n\n"));
    let all = String::from_utf8(client.rest()).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("chunked") && head.contains("connection: close"), "{head}");
    assert_eq!(body, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
}

#[test]
fn a_disconnect_is_detected_without_a_write() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    for open in [false, true] {
        let mut client = server.connect();
        client.post("");
        let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
        if open {
            assert!(exchange.start_events(EVENTS, b""));
            client.until("\r\n\r\n");
        }
        drop(client);
        assert_eq!(server.gone.recv_timeout(TIMEOUT).unwrap(), exchange.id());
        assert!(exchange.is_closed());
        assert!(!exchange.start_events(EVENTS, b"") && !exchange.send_event(b"x"));
    }
    assert!(server.gone.try_recv().is_err());
}

#[test]
fn a_peer_that_only_stops_sending_reads_its_answer() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    let mut client = server.connect();
    client.post("");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(server.gone.recv_timeout(TIMEOUT).unwrap(), exchange.id());
    assert!(exchange.respond(200, &[], b"hello"));
    assert_eq!(client.answer().text(), "hello");
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_dropped_or_aborted_stream_is_cut_without_a_proper_end() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    for abort in [false, true] {
        let mut client = server.connect();
        client.post("");
        let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
        assert!(exchange.start_events(EVENTS, b"data: 1\n\n"));
        if abort {
            exchange.abort();
        }
        drop(exchange);
        let all = String::from_utf8(client.rest()).unwrap();
        assert!(all.ends_with("data: 1\n\n\r\n"), "{all}");
    }
    assert!(server.gone.try_recv().is_err(), "the service is not notified of its own action");
}

#[test]
fn the_number_of_open_streams_is_limited() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits_with(|l| l.streams = 2), on_request);
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let exchange = |client: &mut Client| {
        client.post("");
        exchanges.recv_timeout(TIMEOUT).unwrap()
    };
    let [first, second, third] = &mut clients[..] else { panic!() };
    let a = exchange(first);
    let b = exchange(second);
    let c = exchange(third);
    assert!(a.start_events(EVENTS, b"") && b.start_events(EVENTS, b"") && !c.start_events(EVENTS, b""));
    assert!(c.respond(503, &[], b""));
    assert_eq!(third.answer().status, 503);
    assert!(a.finish(b""));
    let c = exchange(third);
    assert!(c.start_events(EVENTS, b""));
    b.abort();
    first.until("0\r\n\r\n");
    let a = exchange(first);
    assert!(a.start_events(EVENTS, b""));
}

#[test]
fn a_stalled_reader_is_disconnected_and_delays_no_other() {
    let (on_request, exchanges) = hand_out();
    let mut limits = limits_with(|l| l.stall_timeout = Duration::from_millis(300));
    limits.backlog_bytes = 100_000;
    let server = serve(limits, on_request);
    let event = vec![b'x'; 50_000];
    for patient in [false, true] {
        let mut client = server.connect();
        client.post("");
        let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
        assert!(exchange.start_events(EVENTS, b""));
        let mut sent = 0;
        while if patient { exchange.send_event(&event) } else { exchange.try_send_event(&event) } {
            sent += 1;
            assert!(sent < 10_000, "the backlog has no limit");
        }
        assert!(sent > 2, "the backlog accepted nothing");
        assert_eq!(server.gone.recv_timeout(TIMEOUT).unwrap(), exchange.id());
        assert!(exchange.is_closed());
    }
    // No thread sends now: the timeout ends the stream.
    let mut client = server.connect();
    client.post("");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    assert!(exchange.respond(200, &[], &vec![b'x'; 30_000_000]));
    assert_eq!(server.gone.try_recv(), Err(mpsc::TryRecvError::Empty));
    let mut other = server.connect();
    other.post("");
    let quick = exchanges.recv_timeout(TIMEOUT).unwrap();
    assert!(quick.respond(200, &[], b"quick"));
    assert_eq!(other.answer().text(), "quick");
    server.wait_for(|shared| shared.unsent() == 0);
    assert!(client.rest().len() < 30_000_000);
}

#[test]
fn blocked_threads_are_bounded() {
    let (on_request, exchanges) = hand_out();
    let mut limits = limits_with(|l| l.stall_timeout = TIMEOUT);
    (limits.backlog_bytes, limits.workers) = (100_000, 4);
    let server = serve(limits, on_request);
    let (over, hear_over) = mpsc::channel();
    let stuck: Vec<_> = (0..4)
        .map(|n| {
            let mut client = server.connect();
            client.post("");
            let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
            let over = over.clone();
            let sender = std::thread::spawn(move || {
                assert!(exchange.start_events(EVENTS, b""));
                while exchange.send_event(&[b'x'; 50_000]) {}
                over.send(n).unwrap();
            });
            (client, sender)
        })
        .collect();
    // Two streams wait; the senders of the others fail at once.
    for _ in 0..2 {
        hear_over.recv_timeout(TIMEOUT / 2).unwrap();
    }
    assert!(hear_over.try_recv().is_err());
    for (client, sender) in stuck {
        drop(client);
        sender.join().unwrap();
    }
}

#[test]
fn a_slow_reader_gets_everything() {
    let (on_request, exchanges) = hand_out();
    let mut limits = limits();
    limits.backlog_bytes = 100_000;
    let server = serve(limits, on_request);
    let mut client = server.connect();
    client.post("");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    let (congested, hear_congested) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        assert!(exchange.start_events(EVENTS, b""));
        for n in 0..2000 {
            assert!(exchange.send_event(format!("{n:10000}").as_bytes()), "cut at {n}");
            if exchange.is_congested() {
                let _ = congested.send(());
            }
        }
        assert!(exchange.finish(b"last"));
    });
    hear_congested.recv_timeout(TIMEOUT).unwrap();
    client.until("\r\n\r\n");
    for n in 0..2000 {
        assert_eq!(client.until(&format!("{n:10000}\r\n")).len(), 10_000 + "2710\r\n\r\n".len());
    }
    assert_eq!(client.until("0\r\n\r\n"), "4\r\nlast\r\n0\r\n\r\n");
    sender.join().unwrap();
    client.post("");
    exchanges.recv_timeout(TIMEOUT).unwrap().respond(200, &[], b"next");
    assert_eq!(client.answer().text(), "next");
}

#[test]
fn stalled_readers_are_evicted_when_too_much_is_unsent() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits_with(|l| l.unsent_bytes = 1 << 20), on_request);
    let stuck: Vec<_> = (0..40)
        .map(|_| {
            let mut client = server.connect();
            client.post("");
            let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
            // More than the buffer of any socket.
            let alive = exchange.start_events(EVENTS, &vec![b'x'; 8 << 20]);
            assert!(server.shared().unsent() <= 8 << 20);
            (client, exchange, alive)
        })
        .collect();
    server.wait_for(|shared| shared.unsent() <= 1 << 19);
    let open = stuck.iter().filter(|(_, exchange, _)| !exchange.is_closed()).count();
    assert!(open <= 1, "{open} still open");
    server.wait_for(|shared| shared.streams() <= 1);
}

#[test]
fn large_responses_to_slow_readers_arrive() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits(), on_request);
    let body = vec![b'x'; 3 << 19];
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.post("");
        assert!(exchanges.recv_timeout(TIMEOUT).unwrap().respond(200, &[], &body));
    }
    for client in &mut clients {
        assert_eq!(client.answer().body.len(), body.len());
    }
}

#[test]
fn a_silent_stream_gets_comments() {
    let (on_request, exchanges) = hand_out();
    let server = serve(limits_with(|l| l.comment_interval = Duration::from_millis(100)), on_request);
    let mut client = server.connect();
    client.post("");
    let exchange = exchanges.recv_timeout(TIMEOUT).unwrap();
    assert!(exchange.start_events(EVENTS, b""));
    client.until("\r\n\r\n");
    for _ in 0..3 {
        assert_eq!(client.until("\n\n\r\n"), "3\r\n:\n\n\r\n");
    }
}
