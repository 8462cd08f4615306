//! Requests and responses of regular peers.

use super::*;

#[test]
fn many_requests_share_a_connection() {
    let server = serve(limits(), echo());
    let mut peer = server.connect();
    for n in 0..3 {
        peer.post(&n.to_string());
        let answer = peer.answer();
        assert_eq!((answer.status, answer.text()), (200, format!("POST /mcp {n}").as_str()));
        assert!(answer.head.contains("content-type: text/plain\r\n"), "{}", answer.head);
        assert!(answer.head.contains("\r\ndate: "), "{}", answer.head);
        assert!(!answer.head.contains("connection:"), "{}", answer.head);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_one_after_the_other() {
    let (give, take) = mpsc::channel::<Responder>();
    let server = serve(
        limits(),
        Box::new(move |_, body, exchange| {
            if body == b"0" {
                give.send(exchange).unwrap();
            } else {
                exchange.respond(200, &[], body);
            }
        }),
    );
    let mut peer = server.connect();
    for n in 0..200 {
        peer.post(&n.to_string());
    }
    let first = take.recv_timeout(TIMEOUT).unwrap();
    assert!(!first.is_closed());
    first.respond(200, &[], b"0");
    for n in 0..200 {
        assert_eq!(peer.answer().text(), n.to_string());
    }
}

#[test]
fn connection_close_is_honoured() {
    let server = serve(limits(), echo());
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = peer.answer();
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
    assert_eq!(peer.rest(), b"");
    assert!(server.gone.try_recv().is_err());
}

#[test]
fn http_10_is_answered_and_closed_unless_it_asks_otherwise() {
    let server = serve(limits(), echo());
    let mut peer = server.connect();
    peer.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = peer.answer();
    assert!(answer.head.contains("\r\nconnection: keep-alive\r\n"), "{}", answer.head);
    peer.send("GET /b HTTP/1.0\r\n\r\n");
    assert_eq!(peer.answer().text(), "GET /b ");
    assert_eq!(peer.rest(), b"");
}

#[test]
fn head_and_204_have_no_body() {
    let server = serve(
        limits(),
        Box::new(|head, _, exchange| {
            let status = if head.path() == "/204" { 204 } else { 200 };
            exchange.respond(status, &[], b"hello");
        }),
    );
    let mut peer = server.connect();
    peer.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /204 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(peer.until("\r\n\r\n").contains("content-length: 5\r\n"));
    let empty = peer.until("\r\n\r\n");
    assert!(empty.starts_with("HTTP/1.1 204 No Content\r\n") && !empty.contains("content-length"), "{empty}");
    assert_eq!(peer.answer().text(), "hello");
}

#[test]
fn continue_is_sent_only_if_the_body_is_read() {
    let admit: OnHead = Box::new(|head| match head.path() {
        "/mcp" => Admission::ReadBody,
        _ => Admission::Respond(Response {
            status: 401,
            fields: vec![("www-authenticate", "Bearer".into())],
            body: b"no".to_vec(),
        }),
    });
    let server = serve_with(limits(), admit, echo());
    let mut peer = server.connect();
    peer.send("POST /mcp HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(peer.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("ok");
    assert_eq!(peer.answer().text(), "POST /mcp ok");
    peer.send("POST /no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    let answer = peer.answer();
    assert_eq!((answer.status, answer.text()), (401, "no"));
    assert!(answer.head.contains("www-authenticate: Bearer\r\n"), "{}", answer.head);
    assert!(answer.head.contains("connection: close\r\n"), "{}", answer.head);
    peer.send("ok");
    assert_eq!(peer.rest(), b"");
}

#[test]
fn a_rejected_whole_request_leaves_the_connection_open() {
    let admit: OnHead = Box::new(|head| match head.path() {
        "/mcp" => Admission::ReadBody,
        _ => Admission::Respond(Response::new(404)),
    });
    let server = serve_with(limits(), admit, echo());
    let mut peer = server.connect();
    let refused = "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nno";
    peer.send(format!("{refused}{refused}POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!((peer.answer().status, peer.answer().status), (404, 404));
    assert_eq!(peer.answer().text(), "POST /mcp ok");
}

#[test]
fn large_bodies_pass_both_ways() {
    let server = serve(
        limits(),
        Box::new(|_, body, exchange| {
            exchange.respond(200, &[], body);
        }),
    );
    let body: String = (0..4_000_000_u32).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.post(&body);
        assert_eq!(peer.answer().text(), body);
    }
    let mut sender = peer.stream.try_clone().unwrap();
    sender.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for chunk in body.as_bytes().chunks(70_001) {
        sender.write_all(format!("{:X}\r\n", chunk.len()).as_bytes()).unwrap();
        sender.write_all(chunk).unwrap();
        sender.write_all(b"\r\n").unwrap();
    }
    sender.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(peer.answer().text(), body);
}

#[test]
fn an_exchange_that_is_dropped_is_answered_with_500() {
    let server = serve(limits(), Box::new(|_, _, _| {}));
    let mut peer = server.connect();
    peer.post("");
    assert_eq!(peer.answer().status, 500);
    peer.post("");
    assert_eq!(peer.answer().status, 500);
}

#[test]
fn an_exchange_is_answered_once() {
    let server = serve(
        limits(),
        Box::new(|_, body, exchange| {
            assert!(exchange.respond(200, &[], body));
            assert!(!exchange.respond(200, &[], b"again"));
            assert!(!exchange.start_events(&[], b"again"));
            assert!(
                !exchange.send_event(b"again")
                    && !exchange.try_send_event(b"again")
                    && !exchange.finish(b"again")
            );
            exchange.abort();
            assert!(exchange.is_closed() && !exchange.is_congested());
        }),
    );
    let mut peer = server.connect();
    peer.post("1").post("2");
    assert_eq!((peer.answer().text(), peer.answer().text()), ("1", "2"));
}

#[test]
fn fields_are_found_in_any_case_and_repeated_ones_are_invalid() {
    let server = serve(
        limits(),
        Box::new(|head, _, exchange| {
            let values = ["X-A", "x-b", "c"].map(|name| head.field(name).map(<[u8]>::escape_ascii));
            let values = values.map(|value| value.map(|value| value.to_string()));
            let text = format!("{} {values:?}", head.path());
            exchange.respond(200, &[], text.as_bytes());
        }),
    );
    let mut peer = server.connect();
    peer.send("GET /p?q=1?2 HTTP/1.1\r\nhost: x\r\nX-a:  1 \r\nX-b: 2\r\nx-B:2\r\n\r\n");
    assert_eq!(peer.answer().text(), r#"/p [Some("1"), Some("\\x00"), None]"#);
}

#[test]
fn a_request_waits_until_the_service_is_ready() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let checks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&checks);
    let on_head = move |_: &Head<'_>| match counted.fetch_add(1, Ordering::SeqCst) {
        0..=2 => Admission::Wait,
        _ => Admission::ReadBody,
    };
    let running = serve_with(
        limits(),
        Box::new(on_head),
        Box::new(|_, body, exchange| {
            exchange.respond(200, &[], body);
        }),
    );
    let mut client = running.connect();
    client.send(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let mut other = running.connect();
    for turn in 1..=3 {
        while checks.load(Ordering::SeqCst) < turn {
            std::thread::yield_now();
        }
        running.handle.wake();
    }
    assert_eq!(client.answer().text(), "hello");
    assert_eq!(client.answer().text(), "");
    other.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(other.answer().status, 200);
}

#[test]
fn a_request_that_waits_too_long_gets_503() {
    let limits = limits_with(|http| http.body_timeout = Duration::from_millis(200));
    let running =
        serve_with(limits, Box::new(|_| Admission::Wait), Box::new(|_, _, exchange| drop(exchange)));
    let mut client = running.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 503);
}
