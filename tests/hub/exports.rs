//! A hub that is exported as a whole and each of its servers alone: names, requests, updates and log
//! levels of the clients of several exports of one server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::{
    Change, Client, ClientBuilder, Content, ElicitResponse, ErrorKind, Field, Form, Handle, Hub, Level,
    Limits, Prompt, PromptOutput, Protocol, Resource, ResourceContents, Role, Root, Server, Tool, Upstream,
    json, memory_links,
};

use super::downstream::scripted;
use super::proxy::in_all_eras;

tinymcp::record! {
    struct Nothing {}
}
tinymcp::record! {
    struct Name { name: String }
}

const TIMEOUT: Duration = Duration::from_secs(20);
const SHORT_WAIT: Duration = Duration::from_millis(300);

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.client.probe_timeout, limits.client.call_timeout) = (TIMEOUT, TIMEOUT);
    limits
}

fn of(era: Protocol) -> Server {
    match era {
        Protocol::Session => Server::session_only("one", "1.0.0"),
        Protocol::Stateless => Server::stateless_only("one", "1.0.0"),
    }
}

fn client() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// A hub, its exports, and what its servers did.
struct Exported {
    hub: Hub,
    /// Numbers of connections that were made to servers.
    connections: Arc<AtomicUsize>,
    /// Handles of the servers in the order they connected.
    handles: Arc<Mutex<Vec<Handle>>>,
    /// A call of `asks` or `waits` has begun; each continues after a signal.
    begins: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
    gone: Arc<Mutex<mpsc::Receiver<()>>>,
    begun: mpsc::Sender<()>,
    /// Names of cancelled calls of `waits`.
    cancelled: mpsc::Receiver<String>,
    cancels: mpsc::Sender<String>,
}

impl Exported {
    fn new(builder: tinymcp::HubBuilder) -> Exported {
        let hub = builder.limits(limits()).build().unwrap();
        let ((go, gone), (begun, begins)) = (mpsc::channel(), mpsc::channel());
        let gone = Arc::new(Mutex::new(gone));
        let (cancels, cancelled) = mpsc::channel();
        let (connections, handles) = Default::default();
        Exported { hub, connections, handles, begins, go, gone, begun, cancelled, cancels }
    }

    fn plain() -> Exported {
        Exported::new(Hub::builder("proxy", "1.0.0"))
    }

    /// A server for this key, or for the whole hub.
    fn server(&self, key: Option<&str>) -> Server {
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits());
        match key {
            None => self.hub.export(&mut server).unwrap(),
            Some(key) => self.hub.export_server(key, &mut server).unwrap(),
        }
        server
    }

    fn add(&self, key: &str, era: Protocol, change: impl FnOnce(Upstream) -> Upstream) {
        let (connections, handles) = (Arc::clone(&self.connections), Arc::clone(&self.handles));
        let (begun, gone) = (Mutex::new(self.begun.clone()), Arc::clone(&self.gone));
        let cancels = Mutex::new(self.cancels.clone());
        let upstream = Upstream::from_fn(move |client| {
            connections.fetch_add(1, Ordering::Relaxed);
            let (theirs, ours) = memory_links();
            let mut server = upstream(era, begun.lock().unwrap().clone(), Arc::clone(&gone));
            let (begun, gone) = (begun.lock().unwrap().clone(), Arc::clone(&gone));
            add_waits(&mut server, begun, gone, cancels.lock().unwrap().clone());
            handles.lock().unwrap().push(server.handle());
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        });
        self.hub.add(key, change(upstream)).unwrap();
    }

    fn settle(&self) {
        self.hub.wait_settled(Instant::now() + TIMEOUT);
    }
}

fn upstream(era: Protocol, begun: mpsc::Sender<()>, gone: Arc<Mutex<mpsc::Receiver<()>>>) -> Server {
    let mut server = of(era);
    server.logging().resource_updates();
    let waits = move || begun.send(()).is_ok() && gone.lock().unwrap().recv_timeout(TIMEOUT).is_ok();
    server
        .tool(Tool::new("echo"), |_, _: Nothing| Ok("echo"))
        .unwrap()
        .tool(Tool::new("hidden"), |_, _: Nothing| Ok("hidden"))
        .unwrap()
        .tool(Tool::new("asks"), move |ctx, _: Nothing| {
            if !waits() {
                return Err(tinymcp::ToolError::new("nobody is there"));
            }
            ctx.elicit("sure", Form::new("Sure?").field(Field::boolean("yes")))?;
            Ok("asked")
        })
        .unwrap()
        .tool(Tool::new("logs"), |ctx, _: Nothing| {
            ctx.log(Level::Debug, None, "detail")?;
            ctx.log(Level::Error, None, "failure")?;
            Ok("logged")
        })
        .unwrap()
        .resource(Resource::new("test://same", "same"), |_, uri| Ok(ResourceContents::text(uri, "a")))
        .unwrap()
        .prompt(Prompt::new("greet"), |_, _| {
            Ok(PromptOutput::new().message(Role::User, Content::text("hello")))
        })
        .unwrap();
    server
}

/// Adds a tool that reports its name as progress, and waits until it may go on or is cancelled.
fn add_waits(
    server: &mut Server,
    begun: mpsc::Sender<()>,
    gone: Arc<Mutex<mpsc::Receiver<()>>>,
    cancels: mpsc::Sender<String>,
) {
    let waits = move |ctx: &mut tinymcp::Context<'_>, call: Name| {
        ctx.progress(1.0, None, Some(&call.name));
        begun.send(())?;
        loop {
            if ctx.wait(Duration::from_millis(1)).is_err() {
                cancels.send(call.name)?;
                return Err(tinymcp::ToolError::new("cancelled"));
            }
            if call.name == "all" && gone.lock().unwrap().try_recv().is_ok() {
                return Ok(call.name);
            }
        }
    };
    server.tool(Tool::new("waits"), waits).unwrap();
}

fn connect(server: Server, client: ClientBuilder, era: Protocol) -> Client {
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    client.protocol(era).limits(limits()).over(ours).unwrap()
}

fn tools(client: &Client) -> Vec<String> {
    client.tools().unwrap().into_iter().map(|tool| tool.name).collect()
}

/// A client and the changes that it is notified of.
fn listening(server: Server, era: Protocol) -> (Client, mpsc::Receiver<Change>) {
    let (sender, changes) = mpsc::channel();
    let sender = Mutex::new(sender);
    let builder = client().on_change(move |change| {
        // The test may be over.
        let _ = sender.lock().unwrap().send(change.clone());
    });
    (connect(server, builder, era), changes)
}

fn receives(changes: &mpsc::Receiver<Change>, expected: &Change) {
    while changes.recv_timeout(TIMEOUT).expect("the change arrives") != *expected {}
}

#[test]
fn a_server_alone_has_its_own_names_and_one_connection() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one) = (exported.server(None), exported.server(Some("one")));
        let named = |upstream: Upstream| {
            upstream.prefix("pre_").allow_tools("*").deny_tools("hidden").rename_tool("echo", "say")
        };
        exported.add("one", above, named);
        exported.add("two", above, |upstream| upstream);
        exported.settle();
        // An export that is added later shows the lists that were received already.
        let two = exported.server(Some("two"));
        let [all, one, two] = [all, one, two].map(|server| connect(server, client(), below));
        assert_eq!(tools(&one), ["say", "asks", "logs", "waits"]);
        assert_eq!(tools(&two), ["echo", "hidden", "asks", "logs", "waits"]);
        let merged = tools(&all);
        assert_eq!(merged[..4], ["pre_say", "pre_asks", "pre_logs", "pre_waits"]);
        assert_eq!(one.call_tool("say", json!({})).unwrap().texts(), "echo");
        assert_eq!(two.call_tool("hidden", json!({})).unwrap().texts(), "hidden");
        assert_eq!(all.call_tool("pre_say", json!({})).unwrap().texts(), "echo");
        for (client, name) in [(&one, "echo"), (&one, "hidden"), (&one, "pre_say"), (&two, "two__echo")] {
            assert!(client.call_tool(name, json!({})).is_err(), "{name}");
        }
        assert_eq!(one.prompts().unwrap()[0].name, "greet");
        assert!(one.prompt("greet", &[]).is_ok() && all.prompt("pre_greet", &[]).is_ok());
        // The second server's resource is skipped at the whole hub only.
        assert!(two.read_resource("test://same").is_ok());
        let skipped = exported.hub.skipped();
        let skipped: Vec<_> = skipped.iter().map(|left| (&*left.server, left.name.as_deref())).collect();
        assert_eq!(skipped, [("two", Some("test://same"))]);
        assert_eq!(exported.connections.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn each_export_follows_the_changes_of_its_server() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one) = (exported.server(None), exported.server(Some("one")));
        let ((all, all_changes), (one, changes)) = (listening(all, below), listening(one, below));
        exported.add("two", above, |upstream| upstream);
        receives(&all_changes, &Change::Tools);
        exported.settle();
        assert_eq!(changes.try_iter().count(), 0);
        assert_eq!(tools(&one), Vec::<String>::new());
        exported.add("one", above, |upstream| upstream);
        receives(&changes, &Change::Tools);
        exported.settle();
        assert_eq!(tools(&one).len(), 5);
        exported.hub.remove("one").unwrap();
        receives(&changes, &Change::Tools);
        assert_eq!(tools(&one), Vec::<String>::new());
        assert_eq!(tools(&all).len(), 5);
        assert!(one.call_tool("echo", json!({})).is_err());
        exported.add("one", above, |upstream| upstream);
        exported.settle();
        assert_eq!(one.call_tool("echo", json!({})).unwrap().texts(), "echo");
    });
}

#[test]
fn a_request_of_a_server_is_sent_to_the_client_of_its_only_call_in_any_export() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one) = (exported.server(None), exported.server(Some("one")));
        exported.add("one", above, |upstream| upstream);
        exported.settle();
        let (sender, questions) = mpsc::channel();
        let asking = |name: &'static str| {
            let sender = sender.clone();
            client().on_elicit(move |_| {
                // The test may be over.
                let _ = sender.send(name);
                Ok(ElicitResponse::accept(json!({"yes": true})))
            })
        };
        let (all, one) = (connect(all, asking("all"), below), connect(one, asking("one"), below));
        for (client, tool, name) in [(&all, "one__asks", "all"), (&one, "asks", "one")] {
            // One run to elicit, and one more with the result.
            for _ in 0..2 {
                exported.go.send(()).unwrap();
            }
            assert_eq!(client.call_tool(tool, json!({})).unwrap().texts(), "asked");
            assert_eq!(questions.try_iter().collect::<Vec<_>>(), [name]);
        }
        exported.begins.try_iter().for_each(drop);
        // Calls of both clients: without a session each request names its call, with one none does.
        let calls = [(&all, "one__asks"), (&one, "asks")]
            .map(|(client, tool)| client.request_tool(tool, json!({})).start().unwrap());
        for _ in &calls {
            exported.begins.recv_timeout(TIMEOUT).unwrap();
        }
        for _ in 0..4 {
            exported.go.send(()).unwrap();
        }
        let failed = calls.map(|call| call.wait().unwrap().is_error);
        let asked: Vec<&str> = questions.try_iter().collect();
        match above {
            Protocol::Stateless => assert_eq!((failed, asked.len()), ([false; 2], 2)),
            // After the first refusal the server processes calls of one client only, so that client
            // may get requests.
            Protocol::Session => {
                assert!(failed.contains(&true), "{failed:?}");
                for (name, failed) in ["all", "one"].iter().zip(failed) {
                    assert!(!failed || !asked.contains(name), "{asked:?}");
                }
            }
        }
    });
}

#[test]
fn progress_and_cancellation_are_those_of_their_call() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one) = (exported.server(None), exported.server(Some("one")));
        exported.add("one", above, |upstream| upstream);
        exported.settle();
        let (all, one) = (connect(all, client(), below), connect(one, client(), below));
        let begin = |client: &Client, tool: &str, name: &'static str| {
            let (sender, steps) = mpsc::channel();
            let request = client.request_tool(tool, json!({"name": name}));
            // The test may be over.
            let request = request.on_progress(move |step| _ = sender.send(step.message));
            (request.start().unwrap(), steps)
        };
        let (in_all, all_steps) = begin(&all, "one__waits", "all");
        let (alone, steps) = begin(&one, "waits", "one");
        for _ in 0..2 {
            exported.begins.recv_timeout(TIMEOUT).unwrap();
        }
        let waiting = std::thread::spawn(move || in_all.wait());
        // One call is cancelled; the other one continues and gets its own progress.
        alone.cancel();
        assert_eq!(exported.cancelled.recv_timeout(TIMEOUT).as_deref(), Ok("one"));
        exported.go.send(()).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().texts(), "all");
        assert_eq!(all_steps.iter().collect::<Vec<_>>(), [Some("all".to_owned())]);
        assert!(steps.try_iter().all(|step| step.as_deref() == Some("one")));
        assert!(exported.cancelled.try_recv().is_err());
    });
}

#[test]
fn a_server_is_subscribed_to_for_the_clients_of_all_exports() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one, two) =
            (exported.server(None), exported.server(Some("one")), exported.server(Some("two")));
        exported.add("one", above, |upstream| upstream);
        exported.settle();
        exported.add("two", above, |upstream| upstream);
        exported.settle();
        let (all, all_changes) = listening(all, below);
        let (one, one_changes) = listening(one, below);
        let (two, two_changes) = listening(two, below);
        let uri = "test://same";
        let updated = Change::ResourceUpdated(uri.to_owned());
        let update = |server: usize| exported.handles.lock().unwrap()[server].resource_updated(uri).unwrap();
        for client in [&all, &one, &two] {
            client.subscribe(uri).unwrap();
        }
        update(0);
        receives(&all_changes, &updated);
        receives(&one_changes, &updated);
        // At the whole hub the resource is that of the first server.
        update(1);
        receives(&two_changes, &updated);
        assert_eq!(all_changes.try_iter().filter(|change| *change == updated).count(), 0);
        assert_eq!(two_changes.try_iter().filter(|change| *change == updated).count(), 0);
        // The other client of the server stays subscribed.
        one.unsubscribe(uri).unwrap();
        update(0);
        receives(&all_changes, &updated);
        all.unsubscribe(uri).unwrap();
        update(1);
        receives(&two_changes, &updated);
        assert!(one_changes.recv_timeout(SHORT_WAIT).is_err());
    });
}

#[test]
fn a_server_logs_from_the_lowest_level_of_all_exports_on() {
    in_all_eras(|below, above| {
        let exported = Exported::plain();
        let (all, one) = (exported.server(None), exported.server(Some("one")));
        exported.add("one", above, |upstream| upstream);
        exported.settle();
        let logging = |server: Server, level: Level| {
            let (sender, logs) = mpsc::channel();
            let sender = Mutex::new(sender);
            let builder = client().on_log(level, move |entry| {
                // The test may be over.
                let _ = sender.lock().unwrap().send(entry.level);
            });
            (connect(server, builder, below), logs)
        };
        let (one, one_logs) = logging(one, Level::Debug);
        one.call_tool("logs", json!({})).unwrap();
        let (all, all_logs) = logging(all, Level::Error);
        all.call_tool("one__logs", json!({})).unwrap();
        assert_eq!(all_logs.recv_timeout(TIMEOUT).ok(), Some(Level::Error));
        one.call_tool("logs", json!({})).unwrap();
        for level in [Level::Debug, Level::Error, Level::Debug, Level::Error] {
            assert_eq!(one_logs.recv_timeout(TIMEOUT).ok(), Some(level));
        }
        assert_eq!(all_logs.try_iter().count(), 0);
    });
}

#[test]
fn requests_and_log_entries_outside_of_calls_are_sent_to_the_only_client() {
    let exported = Exported::plain();
    let (all, one) = (exported.server(None), exported.server(Some("one")));
    let other = exported.server(Some("other"));
    let (seen, messages) = mpsc::channel();
    exported.hub.add("one", scripted(seen)).unwrap();
    exported.settle();
    let next = |part: &str| loop {
        let (end, line) = messages.recv_timeout(TIMEOUT).expect(part);
        if line.contains(part) {
            break (end, line);
        }
    };
    let (end, _) = next("notifications/initialized");
    let (sender, logs) = mpsc::channel();
    let with_root = |name: &'static str| {
        let sender = Mutex::new(sender.clone());
        let root = Root { uri: format!("file:///{name}"), name: None };
        client().roots([root]).on_log(Level::Info, move |_| {
            // The test may be over.
            let _ = sender.lock().unwrap().send(name);
        })
    };
    let roots = || {
        end.send(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}"#);
        end.send(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
        let (_, answer) = next("\"roots\"");
        answer.split("file:///").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned())
    };
    // The client of another server's endpoint does not count.
    let _other = connect(other, with_root("other"), Protocol::Session);
    assert_eq!(roots(), None);
    let _one = connect(one, with_root("one"), Protocol::Session);
    assert_eq!(roots().as_deref(), Some("one"));
    assert_eq!(logs.recv_timeout(TIMEOUT), Ok("one"));
    let _all = connect(all, with_root("all"), Protocol::Session);
    assert_eq!(roots(), None);
    assert_eq!(logs.try_iter().count(), 0);
}

#[test]
fn the_lazy_tools_of_a_server_alone_have_its_tools() {
    let exported = Exported::new(Hub::builder("proxy", "1.0.0").lazy_tools());
    let (_all, one) = (exported.server(None), exported.server(Some("one")));
    exported.add("one", Protocol::Session, |upstream| upstream.rename_tool("echo", "say"));
    exported.add("two", Protocol::Session, |upstream| upstream);
    exported.settle();
    let one = connect(one, client(), Protocol::Stateless);
    assert_eq!(tools(&one), ["tool_list", "tool_schema", "tool_invoke"]);
    let list = one.call_tool("tool_list", json!({})).unwrap().texts();
    assert!(list.contains("say\n") && list.contains("Tools 1 to 5 of 5."), "{list}");
    let output = one.call_tool("tool_invoke", json!({"name": "say"})).unwrap();
    assert_eq!(output.texts(), "echo");
}

#[test]
fn an_export_ends_without_the_hub_and_comes_before_the_servers() {
    let exported = Exported::plain();
    let one = exported.server(Some("one"));
    exported.add("one", Protocol::Session, |upstream| upstream);
    exported.settle();
    let handle = one.handle();
    let first = connect(one, client(), Protocol::Session);
    handle.stop();
    assert!(first.call_tool("echo", json!({})).is_err());
    let again = connect(exported.server(Some("one")), client(), Protocol::Session);
    assert_eq!(again.call_tool("echo", json!({})).unwrap().texts(), "echo");
    assert_eq!(exported.connections.load(Ordering::Relaxed), 1);

    let late = Exported::plain();
    late.add("one", Protocol::Session, |upstream| upstream);
    let mut server = Server::new("proxy", "1.0.0");
    assert_eq!(late.hub.export_server("one", &mut server).unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(late.hub.export_server("a b", &mut server).unwrap_err().kind(), ErrorKind::Invalid);
}

/// A hub for each session that waits for its client.
#[cfg(all(feature = "http-server", feature = "http-client"))]
#[test]
fn a_session_with_its_own_hub_opens_when_the_lists_are_known() {
    for above in [Protocol::Session, Protocol::Stateless] {
        let (begun, begins) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (begun, gone) = (Mutex::new(begun), Arc::new(Mutex::new(gone)));
        let make = move || {
            let hub = Hub::builder("proxy", "1.0.0").limits(limits()).wait_for_client(TIMEOUT).build()?;
            let mut server = Server::new("proxy", "1.0.0");
            hub.export(&mut server)?;
            let (begun, gone) = (Mutex::new(begun.lock().unwrap().clone()), Arc::clone(&gone));
            let upstream = Upstream::from_fn(move |client| {
                begun.lock().unwrap().send(()).unwrap();
                gone.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                let (theirs, ours) = memory_links();
                let mut server = of(above);
                server.tool(Tool::new("echo"), |_, _: Nothing| Ok("echo"))?;
                std::thread::spawn(move || server.serve(theirs));
                client.over(ours)
            });
            hub.add("one", upstream)?;
            Ok(server)
        };
        let server = Server::new("shared", "1.0.0");
        let stop = server.handle();
        let bound = server.http().no_signal_handlers().per_session(make).bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", bound.address());
        let serving = std::thread::spawn(move || bound.serve());
        let opening = std::thread::spawn(move || {
            let session = client().protocol(Protocol::Session).limits(limits());
            let client = session.connect(&*url).unwrap();
            (tools(&client), client.call_tool("one__echo", json!({})).unwrap().texts())
        });
        begins.recv_timeout(TIMEOUT).unwrap();
        go.send(()).unwrap();
        assert_eq!(opening.join().unwrap(), (vec!["one__echo".to_owned()], "echo".to_owned()));
        stop.stop();
        serving.join().unwrap().unwrap();
    }
}
