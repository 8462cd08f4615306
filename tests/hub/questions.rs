//! Requests of a server to the client of a served hub: what happens while one is open, and which client
//! gets it.

use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json as value};
use tinymcp::{
    Client, ClientBuilder, ElicitResponse, Hub, Limits, MemoryEnd, Protocol, Server, Upstream, json, memory,
    memory_links,
};

const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.client.probe_timeout, limits.client.call_timeout) = (TIMEOUT, TIMEOUT);
    limits
}

/// The end of a scripted server with sessions that offers the tool `t`.
#[derive(Clone)]
pub(super) struct Upper(Arc<RwLock<MemoryEnd>>);

impl Upper {
    /// The next line; `None` when the hub has closed the link.
    fn receive(&self) -> Option<String> {
        // Short, so that `hang_up` gets the lock.
        const TURN: Duration = Duration::from_millis(10);
        loop {
            let begin = Instant::now();
            let line = self.0.read().unwrap().receive(TURN);
            if line.is_some() || begin.elapsed() < TURN {
                return line;
            }
        }
    }

    pub(super) fn send(&self, message: Value) {
        self.0.read().unwrap().send(&message_text(message));
    }

    fn hang_up(&self) {
        self.0.write().unwrap().finish();
    }
}

fn message_text(mut message: Value) -> String {
    message["jsonrpc"] = "2.0".into();
    message.to_string()
}

/// A scripted server. It responds to all requests but calls, and passes what it receives to the test.
fn scripted(seen: mpsc::Sender<(Upper, Value)>) -> Upstream {
    let seen = Mutex::new(seen);
    Upstream::from_fn(move |client: ClientBuilder| {
        let (link, end) = memory();
        let (end, seen) = (Upper(Arc::new(RwLock::new(end))), seen.lock().unwrap().clone());
        std::thread::spawn(move || {
            while let Some(line) = end.receive() {
                let message: Value = serde_json::from_str(&line).unwrap();
                let result = match message["method"].as_str() {
                    Some("initialize") => Some(value!({"protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})),
                    Some("tools/list") => {
                        Some(value!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}))
                    }
                    _ => None,
                };
                if let Some(result) = result {
                    let id = &message["id"];
                    end.send(value!({"id": id, "result": result}));
                }
                if seen.send((end.clone(), message)).is_err() {
                    return;
                }
            }
        });
        client.protocol(Protocol::Session).over(link)
    })
}

/// A hub with one scripted server.
pub(super) struct Asking {
    hub: Hub,
    received: mpsc::Receiver<(Upper, Value)>,
}

impl Asking {
    /// Exports the hub to a server before the scripted one is added.
    pub(super) fn exported() -> (Asking, Server) {
        let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits());
        hub.export(&mut server).unwrap();
        (Asking::of(hub), server)
    }

    pub(super) fn of(hub: Hub) -> Asking {
        let (seen, received) = mpsc::channel();
        hub.add("one", scripted(seen)).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        Asking { hub, received }
    }

    /// Another scripted server of the hub.
    pub(super) fn beside(&self, key: &str) -> Asking {
        let (seen, received) = mpsc::channel();
        self.hub.add(key, scripted(seen)).unwrap();
        self.hub.wait_settled(Instant::now() + TIMEOUT);
        Asking { hub: self.hub.clone(), received }
    }

    /// The next message that the server receives for which this holds.
    pub(super) fn next(&self, is_it: impl Fn(&Value) -> bool) -> (Upper, Value) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (end, message) = self.received.recv_timeout(left).expect("the server gets the message");
            if is_it(&message) {
                return (end, message);
            }
        }
    }

    /// The next call of the tool.
    pub(super) fn call(&self) -> (Upper, Value) {
        let (end, call) = self.next(|message| message["method"] == "tools/call");
        (end, call["id"].clone())
    }

    /// The response to the request with this id.
    fn response(&self, id: &str) -> Value {
        self.next(|message| message.get("method").is_none() && message["id"] == id).1
    }
}

fn result(end: &Upper, id: &Value) {
    end.send(value!({"id": id, "result": {"content": [{"type": "text", "text": "done"}]}}));
}

/// The requests that a server may send in a call.
fn questions() -> [(&'static str, Value, Value); 3] {
    let schema = value!({"type": "object", "properties": {"yes": {"type": "boolean"}}});
    let text = value!({"type": "text", "text": "Hi"});
    [
        (
            "elicitation/create",
            value!({"message": "Sure?", "requestedSchema": schema}),
            value!({"action": "accept", "content": {"yes": true}}),
        ),
        (
            "sampling/createMessage",
            value!({"messages": [{"role": "user", "content": text}], "maxTokens": 9}),
            value!({"role": "assistant", "content": text, "model": "m"}),
        ),
        ("roots/list", value!({}), value!({"roots": []})),
    ]
}

/// A client with a session, whose messages the test reads.
pub(super) struct Lower(MemoryEnd);

impl Lower {
    pub(super) fn open(server: Server) -> Lower {
        let (link, client) = memory();
        std::thread::spawn(move || server.serve(link));
        let lower = Lower(client);
        let capabilities = value!({"elicitation": {}, "sampling": {}, "roots": {}});
        let params = value!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "c", "version": "1"}});
        lower.send(value!({"id": 0, "method": "initialize", "params": params}));
        lower.next(|message| message["id"] == 0);
        lower.send(value!({"method": "notifications/initialized"}));
        lower
    }

    pub(super) fn send(&self, message: Value) {
        self.0.send(&message_text(message));
    }

    pub(super) fn call(&self, id: u32) {
        let params = value!({"name": "one__t", "arguments": {}, "_meta": {"progressToken": "p"}});
        self.send(value!({"id": id, "method": "tools/call", "params": params}));
    }

    pub(super) fn next(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.0.receive(left).expect("the client gets the message");
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_it(&message) {
                return message;
            }
        }
    }

    /// The next request with this method. Returns its id.
    fn request(&self, method: &str) -> Value {
        self.next(|message| message["method"] == method)["id"].clone()
    }

    /// Reads until a request is withdrawn; the call must not have ended before.
    fn withdrawn(&self, id: &Value, call: u32) {
        let is_it = |m: &Value| m["method"] == "notifications/cancelled" || m["id"] == call;
        let message = self.next(is_it);
        assert_eq!(&message["params"]["requestId"], id, "{message}");
    }
}

/// What the server sends while its request is open.
#[derive(Clone, Copy, Debug)]
enum During {
    Result,
    Error,
    Death,
}

#[test]
fn the_end_of_a_call_withdraws_its_open_requests() {
    for (method, params, _) in questions() {
        for during in [During::Result, During::Error, During::Death] {
            eprintln!("{method}, {during:?}");
            let (asking, server) = Asking::exported();
            let client = Lower::open(server);
            client.call(1);
            let (end, call) = asking.call();
            end.send(value!({"id": "q", "method": method, "params": params}));
            let asked = client.request(method);
            match during {
                During::Result => result(&end, &call),
                During::Error => end.send(value!({"id": call, "error": {"code": -32000, "message": "no"}})),
                During::Death => end.hang_up(),
            }
            client.withdrawn(&asked, 1);
            let answer = client.next(|message| message["id"] == 1);
            assert_eq!(matches!(during, During::Result), answer["result"]["isError"] != true, "{answer}");
            // A late response is for nobody.
            client.send(value!({"id": asked, "result": {"action": "accept", "content": {"yes": true}}}));
            client.send(value!({"id": 2, "method": "ping"}));
            client.next(|message| message["id"] == 2);
        }
    }
}

#[test]
fn a_request_that_the_server_cancels_is_withdrawn_and_its_call_goes_on() {
    for (method, params, response) in questions() {
        eprintln!("{method}");
        let (asking, server) = Asking::exported();
        let client = Lower::open(server);
        client.call(1);
        let (end, call) = asking.call();
        end.send(value!({"id": "q1", "method": method, "params": params}));
        let first = client.request(method);
        end.send(value!({"method": "notifications/cancelled", "params": {"requestId": "q1"}}));
        client.withdrawn(&first, 1);
        end.send(value!({"id": "q2", "method": method, "params": params}));
        let second = client.request(method);
        assert_ne!(first, second);
        client.send(value!({"id": second, "result": response}));
        let answer = asking.response("q2");
        assert!(answer.get("result").is_some(), "{answer}");
        result(&end, &call);
        let answer = client.next(|message| message["id"] == 1);
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
}

#[test]
fn one_of_two_open_requests_is_withdrawn_alone() {
    let [(method, params, response), ..] = questions();
    let (asking, server) = Asking::exported();
    let client = Lower::open(server);
    client.call(1);
    let (end, call) = asking.next(|message| message["method"] == "tools/call");
    let ask = |id: &str| end.send(value!({"id": id, "method": method, "params": params}));
    let cancel = |id: &str| {
        end.send(value!({"method": "notifications/cancelled", "params": {"requestId": id}}));
    };
    ask("q1");
    let first = client.request(method);
    // This one waits for the response to the first, and is never sent.
    ask("q2");
    cancel("q2");
    // The hub has read both when this has passed it.
    let token = &call["params"]["_meta"]["progressToken"];
    let progress = value!({"progressToken": token, "progress": 1});
    end.send(value!({"method": "notifications/progress", "params": progress}));
    client.next(|message| message["method"] == "notifications/progress");
    ask("q3");
    client.send(value!({"id": first, "result": response}));
    assert!(asking.response("q1").get("result").is_some());
    let third = client.request(method);
    cancel("q3");
    client.withdrawn(&third, 1);
    result(&end, &call["id"]);
    let answer = client.next(|message| message["id"] == 1 || message["method"] == method);
    assert_eq!(answer["result"]["content"][0]["text"], "done");
}

#[test]
fn progress_is_passed_on_while_a_request_is_open() {
    for (method, params, response) in questions() {
        eprintln!("{method}");
        let (asking, server) = Asking::exported();
        let client = Lower::open(server);
        client.call(1);
        let (end, call) = asking.next(|message| message["method"] == "tools/call");
        end.send(value!({"id": "q", "method": method, "params": params}));
        let asked = client.request(method);
        let token = &call["params"]["_meta"]["progressToken"];
        let params = value!({"progressToken": token, "progress": 1, "message": "half"});
        end.send(value!({"method": "notifications/progress", "params": params}));
        let progress = client.next(|message| message["method"] == "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], "p", "{progress}");
        client.send(value!({"id": asked, "result": response}));
        assert!(asking.response("q").get("result").is_some());
        result(&end, &call["id"]);
        client.next(|message| message["id"] == 1);
    }
}

#[test]
fn a_request_outside_of_calls_is_withdrawn_if_the_server_cancels_it_or_ends() {
    for ends in [false, true] {
        let (asking, server) = Asking::exported();
        let client = Lower::open(server);
        let (end, _) = asking.next(|message| message["method"] == "tools/list");
        end.send(value!({"id": "q", "method": "roots/list"}));
        let asked = client.request("roots/list");
        match ends {
            false => end.send(value!({"method": "notifications/cancelled", "params": {"requestId": "q"}})),
            true => end.hang_up(),
        }
        let withdrawn = client.next(|message| message["method"] == "notifications/cancelled");
        assert_eq!(withdrawn["params"]["requestId"], asked);
    }
}

/// A client whose user answers a form when the test says so.
fn slow_user(client: ClientBuilder) -> (ClientBuilder, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, asks) = mpsc::channel();
    let (answer, answers) = mpsc::channel::<()>();
    let (asked, answers) = (Mutex::new(asked), Mutex::new(answers));
    let client = client.on_elicit(move |_| {
        // The test may be over.
        let _ = asked.lock().unwrap().send(());
        let _ = answers.lock().unwrap().recv_timeout(TIMEOUT);
        Ok(ElicitResponse::accept(json!({"yes": true})))
    });
    (client, asks, answer)
}

#[test]
fn a_stateless_client_gets_the_result_that_came_while_its_user_answered() {
    let (asking, server) = Asking::exported();
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let (client, asks, answer) = slow_user(Client::builder("test", "1.0.0"));
    let client = client.protocol(Protocol::Stateless).limits(limits()).over(ours).unwrap();
    let [(method, params, _), ..] = questions();
    for fails in [false, true] {
        let call = client.request_tool("one__t", json!({})).start().unwrap();
        let waiting = std::thread::spawn(move || call.wait());
        let (end, call) = asking.call();
        end.send(value!({"id": "q", "method": method, "params": params}));
        asks.recv_timeout(TIMEOUT).unwrap();
        match fails {
            false => result(&end, &call),
            true => end.send(value!({"id": call, "error": {"code": -32000, "message": "no"}})),
        }
        // The response of the hub to the open request: the result has arrived there.
        asking.response("q");
        answer.send(()).unwrap();
        let output = waiting.join().unwrap().unwrap();
        assert_eq!((output.is_error, &*output.texts()), (fails, if fails { "no" } else { "done" }));
    }
}

#[test]
fn a_hosts_call_ends_while_its_user_answers() {
    let hub = Hub::builder("host", "1.0.0").limits(limits());
    let ((asked, asks), (answer, answers)) = (mpsc::channel(), mpsc::channel::<()>());
    let (asked, answers) = (Mutex::new(asked), Mutex::new(answers));
    let hub = hub.on_elicit(move |_, _| {
        // The test may be over.
        let _ = asked.lock().unwrap().send(());
        let _ = answers.lock().unwrap().recv_timeout(TIMEOUT);
        Ok(ElicitResponse::decline())
    });
    let asking = Asking::of(hub.build().unwrap());
    let [(method, params, _), ..] = questions();
    let call = asking.hub.request_tool("one__t", json!({})).unwrap().start().unwrap();
    let waiting = std::thread::spawn(move || call.wait());
    let (end, id) = asking.call();
    end.send(value!({"id": "q", "method": method, "params": params}));
    asks.recv_timeout(TIMEOUT).unwrap();
    result(&end, &id);
    assert_eq!(waiting.join().unwrap().unwrap().texts(), "done");
    drop(answer);
}

/// Two principals of a hub with two scripted servers over HTTP. The users of both answer each form.
#[cfg(all(feature = "http-server", feature = "http-client"))]
struct Shared {
    one: Asking,
    two: Asking,
    url: String,
    /// Names of the principals whose users were asked.
    asked: mpsc::Receiver<&'static str>,
    asks: mpsc::Sender<&'static str>,
    stop: tinymcp::Handle,
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
impl Shared {
    fn new() -> Shared {
        let (one, server) = Asking::exported();
        let two = one.beside("two");
        let stop = server.handle();
        let tokens = [("alices", "alice"), ("bobs", "bob")];
        let bound = server.http().no_signal_handlers().tokens(tokens).bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", bound.address());
        std::thread::spawn(move || bound.serve());
        let (asks, asked) = mpsc::channel();
        Shared { one, two, url, asked, asks, stop }
    }

    fn client(&self, name: &'static str, protocol: Protocol) -> Client {
        let asks = Mutex::new(self.asks.clone());
        let client = Client::builder("test", "1.0.0").protocol(protocol).limits(limits());
        let client = client.on_elicit(move |_| {
            // The test may be over.
            let _ = asks.lock().unwrap().send(name);
            Ok(ElicitResponse::accept(json!({"yes": true})))
        });
        client.connect(tinymcp::Endpoint::new(&*self.url).bearer_token(format!("{name}s"))).unwrap()
    }

    /// Completes one call of this client at the first server.
    fn call(&self, client: &Client) -> Upper {
        let call = client.request_tool("one__t", json!({})).start().unwrap();
        let (end, id) = self.one.call();
        result(&end, &id);
        call.wait().unwrap();
        end
    }
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
impl Asking {
    /// Whether a client answers a request that the server sends now.
    fn is_answered(&self, end: &Upper) -> bool {
        let [(method, params, _), ..] = questions();
        end.send(value!({"id": "q", "method": method, "params": params}));
        self.response("q").get("result").is_some()
    }
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn a_request_after_a_stateless_call_is_sent_to_no_other_client() {
    let shared = Shared::new();
    let bob = shared.client("bob", Protocol::Session);
    let end = shared.call(&bob);
    assert!(shared.one.is_answered(&end), "all calls were those of the only client");
    assert_eq!(shared.asked.recv_timeout(TIMEOUT), Ok("bob"));
    let alice = shared.client("alice", Protocol::Stateless);
    let end = shared.call(&alice);
    assert!(!shared.one.is_answered(&end));
    // It belongs to no call of the other server either, which nobody has called.
    let (end, _) = shared.two.next(|message| message["method"] == "tools/list");
    assert!(!shared.two.is_answered(&end));
    // A later call of the only client with a session changes nothing.
    let end = shared.call(&bob);
    assert!(!shared.one.is_answered(&end));
    assert!(shared.asked.try_recv().is_err());
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn a_request_after_a_cancelled_call_is_sent_to_no_other_client() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let shared = Shared::new();
        let (alice, bob) = (shared.client("alice", protocol), shared.client("bob", protocol));
        let call = alice.request_tool("one__t", json!({})).start().unwrap();
        shared.one.call();
        call.cancel();
        shared.one.next(|message| message["method"] == "notifications/cancelled");
        let call = bob.request_tool("one__t", json!({})).start().unwrap();
        let (end, id) = shared.one.call();
        // The server may not have stopped the call of the other client yet.
        assert!(!shared.one.is_answered(&end), "{protocol:?}");
        result(&end, &id);
        assert_eq!(call.wait().unwrap().texts(), "done");
        assert!(shared.asked.try_recv().is_err());
    }
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn a_cancelled_call_of_the_only_principal_keeps_no_request_from_its_client() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let shared = Shared::new();
        let alice = shared.client("alice", protocol);
        let call = alice.request_tool("one__t", json!({})).start().unwrap();
        shared.one.call();
        call.cancel();
        shared.one.next(|message| message["method"] == "notifications/cancelled");
        let call = alice.request_tool("one__t", json!({})).start().unwrap();
        // The call handles the requests of the stateless protocol.
        let waits = std::thread::spawn(move || call.wait().unwrap().texts());
        let (end, id) = shared.one.call();
        assert!(shared.one.is_answered(&end), "{protocol:?}");
        result(&end, &id);
        assert_eq!(waits.join().unwrap(), "done");
        assert_eq!(shared.asked.recv_timeout(TIMEOUT).unwrap(), "alice");
    }
}
