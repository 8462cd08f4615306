//! Notifications and client requests through a served hub, between one client and servers that send
//! notifications, send requests outside of a call, or end.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{
    Change, Client, ClientBuilder, ElicitResponse, ErrorKind, Field, Form, Handle, Hub, Limits, Protocol,
    Resource, ResourceContents, Root, Server, Tool, Upstream, json, memory_links,
};

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    let mut limits = Limits::default();
    // A slow start must not look like an old server.
    limits.client.probe_timeout = TIMEOUT;
    limits.client.call_timeout = TIMEOUT;
    limits
}

fn of(era: Protocol) -> Server {
    match era {
        Protocol::Session => Server::session_only("one", "1.0.0"),
        Protocol::Stateless => Server::stateless_only("one", "1.0.0"),
    }
}

/// A client of a hub with one server.
struct Between {
    hub: Hub,
    client: Client,
    /// Handle of the hub's own server.
    own: Handle,
    /// Handles of the servers, in the order they were started.
    handles: Arc<Mutex<Vec<Handle>>>,
}

fn between(
    below: Protocol,
    client: ClientBuilder,
    own: Limits,
    make: impl Fn() -> Server + Send + Sync + 'static,
) -> Between {
    let hub = Hub::builder("proxy", "1.0.0").limits(own.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(own);
    let own = server.handle();
    hub.export(&mut server).unwrap();
    let handles = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&handles);
    let connect = move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let server = make();
        made.lock().unwrap().push(server.handle());
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    };
    hub.add("one", Upstream::from_fn(connect)).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = client.protocol(below).limits(limits()).over(ours).unwrap();
    Between { hub, client, own, handles }
}

fn in_all_eras(check: impl Fn(Protocol, Protocol)) {
    for below in [Protocol::Session, Protocol::Stateless] {
        for above in [Protocol::Session, Protocol::Stateless] {
            eprintln!("client {below:?}, servers {above:?}");
            check(below, above);
        }
    }
}

fn client() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

#[test]
fn updates_of_resources_are_forwarded_to_subscribers() {
    in_all_eras(|below, above| {
        let (sender, changes) = mpsc::channel();
        let sender = Mutex::new(sender);
        let listening = client().on_change(move |change| {
            // The test may be over.
            let _ = sender.lock().unwrap().send(change.clone());
        });
        let it = between(below, listening, limits(), move || {
            let mut server = of(above);
            server.resource_updates();
            for uri in ["test://a", "test://b"] {
                server
                    .resource(Resource::new(uri, "a"), |_, uri| Ok(ResourceContents::text(uri, "a")))
                    .unwrap();
            }
            server
        });
        it.client.subscribe("test://a").unwrap();
        let server = it.handles.lock().unwrap()[0].clone();
        server.resource_updated("test://b").unwrap();
        server.resource_updated("test://a").unwrap();
        let updated = loop {
            if let Change::ResourceUpdated(uri) = changes.recv_timeout(TIMEOUT).expect("an update arrives") {
                break uri;
            }
        };
        assert_eq!(updated, "test://a");
        it.client.unsubscribe("test://a").unwrap();
    });
}

#[test]
fn members_that_no_revision_knows_are_passed_on_as_they_are() {
    in_all_eras(|below, above| {
        let it = between(below, client(), limits(), move || {
            let mut server = of(above);
            let mut tool = Tool::new("odd").description("Odd");
            let text =
                r#"{"name":"x","vendor":{ "n":1.50 },"execution":{"taskSupport":"required"},"cost":7}"#;
            tool.source = Some(Json::parse(text).unwrap());
            server.tool(tool, |_, _: Nothing| Ok("odd")).unwrap();
            server
        });
        let tools = it.client.tools().unwrap();
        assert_eq!(tools[0].name, "one__odd");
        let source = tools[0].source.clone().unwrap();
        assert!(source.as_str().contains(r#""vendor":{ "n":1.50 },"cost":7"#), "{source:?}");
        // `execution` depends on the caller, so it is not passed on.
        assert!(!source.as_str().contains("execution"), "{source:?}");
        assert_eq!(source.as_str().matches("\"name\"").count(), 1, "{source:?}");
    });
}

/// A server with a tool that elicits and waits for the response without a limit.
fn asks(ends: mpsc::Sender<String>, above: Protocol) -> impl Fn() -> Server + Send + Sync {
    let ends = Mutex::new(ends);
    move || {
        let mut server = of(above);
        let ends = ends.lock().unwrap().clone();
        server
            .tool(Tool::new("asks"), move |ctx, _: Nothing| {
                let answer = ctx.elicit("sure", Form::new("Sure?").field(Field::boolean("yes")));
                if let Err(why) = &answer {
                    ends.send(format!("{why:?}"))?;
                }
                Ok(format!("{:?}", answer?.bool("yes")))
            })
            .unwrap()
            .tool(Tool::new("quick"), |_, _: Nothing| Ok("quick"))
            .unwrap();
        server
    }
}

#[test]
fn a_request_without_a_timely_response_ends_the_call_and_is_rejected() {
    for below in [Protocol::Session, Protocol::Stateless] {
        let (ends, ended) = mpsc::channel();
        let mut short = limits();
        short.client_input_timeout = Duration::from_millis(200);
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        // Answers when the test is over.
        let asking = client().on_elicit(move |_| {
            let _ = held.lock().unwrap().recv_timeout(TIMEOUT);
            Ok(ElicitResponse::accept(json!({"yes": true})))
        });
        let it = between(below, asking, short, asks(ends, Protocol::Session));
        let call = it.client.request_tool("one__asks", json!({})).start().unwrap();
        let waiting = std::thread::spawn(move || call.wait());
        assert!(ended.recv_timeout(TIMEOUT).unwrap().contains("waiting"));
        // Zero calls in flight: the server got the cancellation.
        let upstream = it.hub.client("one").unwrap();
        let end = Instant::now() + TIMEOUT;
        while upstream.in_flight() > 0 {
            assert!(Instant::now() < end, "still held");
            std::thread::yield_now();
        }
        assert_eq!(it.client.call_tool("one__quick", json!({})).unwrap().texts(), "quick");
        drop(hold);
        match waiting.join().unwrap() {
            Ok(output) => assert!(output.is_error, "{output:?}"),
            // The response may come so late that the sealed state, which lives a little longer, has expired too.
            Err(error) => assert_eq!((below, error.code()), (Protocol::Stateless, Some(-32602)), "{error}"),
        }
    }
}

#[test]
fn a_server_that_ends_ends_the_calls_that_were_passed_on_to_it() {
    in_all_eras(|below, above| {
        let (begun, begins) = mpsc::channel();
        let begun = Mutex::new(begun);
        // The hub lets the call run for this time after the removal.
        let mut limits = limits();
        limits.grace = Duration::from_millis(100);
        let it = between(below, client(), limits, move || {
            let mut server = of(above);
            let begun = begun.lock().unwrap().clone();
            server
                .tool(Tool::new("waits"), move |ctx, _: Nothing| {
                    begun.send(())?;
                    ctx.wait(TIMEOUT * 10)
                })
                .unwrap();
            server
        });
        let call = it.client.request_tool("one__waits", json!({})).start().unwrap();
        begins.recv_timeout(TIMEOUT).unwrap();
        it.hub.remove("one").unwrap();
        let output = call.wait().unwrap();
        assert!(output.is_error, "{output:?}");
        assert_eq!(it.client.call_tool("one__waits", json!({})).unwrap_err().kind(), ErrorKind::Remote);
    });
}

#[test]
fn calls_in_flight_at_the_end_of_serving_get_the_grace_period() {
    in_all_eras(|below, above| {
        let (begun, begins) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (begun, gone) = (Mutex::new(begun), Arc::new(Mutex::new(gone)));
        let it = between(below, client(), limits(), move || {
            let mut server = of(above);
            let (begun, gone) = (begun.lock().unwrap().clone(), Arc::clone(&gone));
            server
                .tool(Tool::new("waits"), move |_, _: Nothing| {
                    begun.send(())?;
                    gone.lock().unwrap().recv_timeout(TIMEOUT)?;
                    Ok("done")
                })
                .unwrap();
            server
        });
        let call = it.client.request_tool("one__waits", json!({})).start().unwrap();
        begins.recv_timeout(TIMEOUT).unwrap();
        it.own.stop();
        go.send(()).unwrap();
        assert_eq!(call.wait().unwrap().texts(), "done");
    });
}

#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn a_request_during_calls_of_two_clients_is_sent_to_neither() {
    let (sender, questions) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let (begun, gone) = (Mutex::new(begun), Arc::new(Mutex::new(gone)));
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits());
    hub.export(&mut server).unwrap();
    let connect = move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = of(Protocol::Session);
        let (begun, gone) = (begun.lock().unwrap().clone(), Arc::clone(&gone));
        server
            .tool(Tool::new("asks"), move |ctx, _: Nothing| {
                if !begun.send(()).is_ok_and(|()| gone.lock().unwrap().recv_timeout(TIMEOUT).is_ok()) {
                    return Err(tinymcp::ToolError::new("nobody is there"));
                }
                ctx.elicit("sure", Form::new("Sure?").field(Field::boolean("yes")))?;
                Ok("asked")
            })
            .unwrap();
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    };
    hub.add("one", Upstream::from_fn(connect)).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let stop = server.handle();
    let bound = server.http().no_signal_handlers().bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    let serving = std::thread::spawn(move || bound.serve());
    let connect = |name: &'static str| {
        let sender = sender.clone();
        client()
            .protocol(Protocol::Session)
            .limits(limits())
            .on_elicit(move |_| {
                // The test may be over.
                let _ = sender.send(name);
                Ok(ElicitResponse::accept(json!({"yes": true})))
            })
            .connect(&*url)
            .unwrap()
    };
    let (ann, bob) = (connect("ann"), connect("bob"));
    let calls = [&ann, &bob].map(|c| c.request_tool("one__asks", json!({})).start().unwrap());
    for _ in &calls {
        begins.recv_timeout(TIMEOUT).unwrap();
    }
    // One run to elicit, and one more of each handler with the result.
    for _ in 0..4 {
        go.send(()).unwrap();
    }
    // After the first refusal the server processes calls of one client only, so that client may get
    // requests.
    let failed = calls.map(|call| call.wait().unwrap().is_error);
    assert!(failed.contains(&true), "{failed:?}");
    let asked: Vec<&str> = questions.try_iter().collect();
    assert!(asked.len() <= failed.iter().filter(|failed| !**failed).count() * 2, "{asked:?}");
    for (name, failed) in ["ann", "bob"].iter().zip(failed) {
        assert!(!failed || !asked.contains(name), "{asked:?}");
    }
    drop((ann, bob));
    stop.stop();
    serving.join().unwrap().unwrap();
}

#[test]
fn changed_roots_are_reported_to_servers_that_get_the_new_ones() {
    const CHANGED: &[u8] = b"notifications/roots/list_changed";
    let (sender, notices) = mpsc::channel();
    let sender = Mutex::new(sender);
    let with_roots = || client().roots([Root::new("file:///a")]);
    let it = between(Protocol::Session, with_roots(), limits(), move || {
        let mut server = of(Protocol::Session);
        let sender = sender.lock().unwrap().clone();
        server.on_frame(move |frame| {
            if frame.bytes.windows(CHANGED.len()).any(|part| part == CHANGED) {
                // The test may be over.
                let _ = sender.send(());
            }
        });
        server
    });
    it.client.set_roots([Root::new("file:///b")]).unwrap();
    notices.recv_timeout(TIMEOUT).expect("the server is notified");
}
