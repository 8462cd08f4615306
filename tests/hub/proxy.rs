//! Served hub as its client sees it, for every pair of eras.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{
    Argument, Client, ClientBuilder, Completion, Content, ElicitResponse, ErrorKind, Field, Form, Hub,
    HubBuilder, Level, Limits, Prompt, PromptOutput, Protocol, ReadOutput, Resource, ResourceContents, Role,
    Root, SampleResponse, Sampling, Server, Template, Tool, ToolOutput, Upstream, json, memory_links,
};

tinymcp::record! {
    struct Nothing {}
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Reports of an upstream's slow tool.
type Ends = mpsc::Sender<&'static str>;

/// A server with one entry of each kind.
fn upstream(name: &'static str, mut server: Server, ends: Ends) -> Server {
    server.tools_may_change().logging();
    let schema =
        Json::parse(r#"{ "type":"object", "x-odd":[1.50,"é"], "properties":{"n":{"type":"integer"}} }"#);
    let described = Tool::new("echo")
        .title("Echo")
        .description("Says it again")
        .input_schema(schema.unwrap())
        .read_only()
        .meta(json!({"vendor/x": [1, 2]}));
    server
        .tool(described, move |_, arguments: Json| {
            Ok(ToolOutput::structured(arguments).content(Content::text(name)).meta(json!({"vendor/y": 7})))
        })
        .unwrap()
        .tool(Tool::new("fails"), |_, _: Nothing| Err::<(), _>(tinymcp::ToolError::new("it is broken")))
        .unwrap()
        .tool(Tool::new("refuses"), |_, _: Nothing| {
            Err::<(), _>(tinymcp::ToolError::protocol(77, "not today", Some(json!({"why": "tuesday"}))))
        })
        .unwrap()
        .tool(Tool::new("steps"), |ctx, _: Nothing| {
            ctx.progress(1.0, Some(2.0), Some("half"));
            ctx.progress(2.0, Some(2.0), None);
            Ok("stepped")
        })
        .unwrap()
        .tool(Tool::new("waits"), move |ctx, _: Nothing| {
            ends.send("begun")?;
            let end = ctx.wait(TIMEOUT);
            ends.send(if end.is_err() { "cancelled" } else { "waited" })?;
            end
        })
        .unwrap()
        .tool(Tool::new("asks"), |ctx, _: Nothing| {
            let who = ctx.elicit("name", Form::new("Who?").field(Field::text("name").required()));
            let who = who?.text("name").unwrap_or("nobody").to_owned();
            // A second round, after the first response.
            let sure = ctx.elicit("sure", Form::new("Sure?").field(Field::boolean("yes")))?;
            Ok(format!("{who} {}", sure.bool("yes") == Some(true)))
        })
        .unwrap()
        .tool(Tool::new("knows"), |ctx, _: Nothing| {
            let said = ctx.sample("model", Sampling::new(9).user("How many?"));
            let roots = ctx.roots("roots");
            Ok(format!("{} {}", said?.text(), roots?.first().map_or("none", |root| &root.uri)))
        })
        .unwrap()
        .tool(Tool::new("logs"), |ctx, _: Nothing| {
            ctx.log(Level::Warning, Some("db"), json!({"password": "hush", "n": 1}))?;
            ctx.log(Level::Info, None, "done")?;
            Ok("logged")
        })
        .unwrap()
        .resource(Resource::new("test://same", "same"), move |_, uri| Ok(ResourceContents::text(uri, name)))
        .unwrap()
        .template(Template::new("test://item/{id}", "item").unwrap(), |_, uri, variables| {
            let id = variables.get("id").unwrap_or_default();
            if id == "none" {
                return Err(tinymcp::ToolError::not_found(uri));
            }
            Ok(ReadOutput::from(ResourceContents::text(uri, id)))
        })
        .unwrap()
        .prompt(Prompt::new("greet").argument(Argument::required("whom")), |_, arguments| {
            Ok(PromptOutput::new().message(Role::User, Content::text(arguments.required("whom")?)))
        })
        .unwrap()
        .complete_prompt("greet", "whom", |asked| Completion::new([format!("{}bert", asked.value)]))
        .unwrap();
    server
}

pub(super) fn limits() -> Limits {
    let mut limits = Limits::default();
    // A slow start must not select the session protocol.
    limits.client.probe_timeout = TIMEOUT;
    limits.client.call_timeout = TIMEOUT;
    limits
}

pub(super) struct Proxy {
    pub(super) hub: Hub,
    ours: Option<tinymcp::Link>,
    pub(super) ends: mpsc::Receiver<&'static str>,
    serving: Option<std::thread::JoinHandle<()>>,
    pub(super) handles: Arc<Mutex<Vec<tinymcp::Handle>>>,
}

impl Proxy {
    /// A proxy of servers with these names, in one era.
    fn of(names: &[&'static str], era: Protocol) -> Proxy {
        Proxy::with(names, era, limits())
    }

    fn with(names: &[&'static str], era: Protocol, own: Limits) -> Proxy {
        Proxy::build(Hub::builder("proxy", "1.0.0"), names, era, own)
    }

    pub(super) fn build(hub: HubBuilder, names: &[&'static str], era: Protocol, own: Limits) -> Proxy {
        let hub = hub.limits(limits()).build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(own);
        hub.export(&mut server).unwrap();
        let (received, ends) = mpsc::channel();
        let handles = Arc::new(Mutex::new(Vec::new()));
        for &name in names {
            let (received, handles) = (received.clone(), Arc::clone(&handles));
            let connect = move |client: ClientBuilder| {
                let (theirs, ours) = memory_links();
                let server = match era {
                    Protocol::Session => Server::session_only(name, "1.0.0"),
                    Protocol::Stateless => Server::stateless_only(name, "1.0.0"),
                };
                let server = upstream(name, server, received.clone());
                handles.lock().unwrap().push(server.handle());
                std::thread::spawn(move || server.serve(theirs));
                client.over(ours)
            };
            hub.add(name, Upstream::from_fn(connect)).unwrap();
        }
        hub.wait_settled(Instant::now() + TIMEOUT);
        let (theirs, ours) = memory_links();
        let serving = std::thread::spawn(move || server.serve(theirs).unwrap());
        Proxy { hub, ours: Some(ours), ends, serving: Some(serving), handles }
    }

    pub(super) fn connect(&mut self, client: ClientBuilder, era: Protocol) -> Client {
        client.protocol(era).limits(limits()).over(self.ours.take().unwrap()).unwrap()
    }
}

pub(super) fn client() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// Runs a check for every pair of eras: that of the proxy's client, and that of its servers.
pub(super) fn in_all_eras(check: impl Fn(Protocol, Protocol)) {
    for below in [Protocol::Session, Protocol::Stateless] {
        for above in [Protocol::Session, Protocol::Stateless] {
            eprintln!("client {below:?}, servers {above:?}");
            check(below, above);
        }
    }
}

#[test]
fn lists_have_the_entries_of_the_servers_under_names_that_every_host_accepts() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one", "two"], above);
        let client = proxy.connect(client(), below);
        let tools = client.tools().unwrap();
        let mut names: Vec<&str> = tools.iter().map(|t| &*t.name).collect();
        // Servers in the order they were added; each list in its own order.
        names.sort_by_key(|name| name.starts_with("two"));
        let each = ["echo", "fails", "refuses", "steps", "waits", "asks", "knows", "logs"];
        let want: Vec<String> =
            ["one", "two"].iter().flat_map(|s| each.map(|t| format!("{s}__{t}"))).collect();
        assert_eq!(names, want);
        let echo = tools.iter().find(|t| t.name == "one__echo").unwrap();
        assert_eq!(
            echo.input_schema.as_ref().unwrap().as_str(),
            r#"{ "type":"object", "x-odd":[1.50,"é"], "properties":{"n":{"type":"integer"}} }"#
        );
        assert_eq!(echo.description.as_deref(), Some("Says it again"));
        assert_eq!(echo.hints.read_only, Some(true));
        assert_eq!(echo.meta.as_ref().unwrap().as_str(), r#"{"vendor/x":[1,2]}"#);
        let prompts = client.prompts().unwrap();
        assert!(prompts.iter().any(|p| p.name == "two__greet" && p.arguments[0].required));
        assert_eq!(client.resources().unwrap().len(), 1);
        assert_eq!(client.templates().unwrap().len(), 1);
        // The second server has the resource and template URIs of the first.
        let left = proxy.hub.skipped();
        let left: Vec<_> = left.iter().map(|l| (&*l.server, l.name.as_deref().unwrap())).collect();
        assert_eq!(left, [("two", "test://same"), ("two", "test://item/{id}")]);
    });
}

#[test]
fn calls_reach_their_server_and_results_are_unchanged() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one", "two"], above);
        let client = proxy.connect(client(), below);
        for name in ["one", "two"] {
            let output = client.call_tool(&format!("{name}__echo"), json!({"n": 5, "more": [1]})).unwrap();
            assert_eq!(output.texts(), name);
            assert_eq!(output.structured.unwrap().as_str(), r#"{"n":5,"more":[1]}"#);
            let meta = output.meta.unwrap();
            let meta = meta.to_doc();
            assert_eq!(meta.root().get("vendor/y").unwrap().as_u64(), Some(7));
            // The name is that of the proxy, and no member is duplicated.
            let named: Vec<_> = meta.root().members().filter(|(k, _)| k.contains("serverInfo")).collect();
            assert_eq!(named.len(), usize::from(below == Protocol::Stateless));
            assert!(named.iter().all(|(_, info)| info.get("name").unwrap().as_str() == Some("proxy")));
        }
        let broken = client.call_tool("two__fails", json!({})).unwrap();
        assert!(broken.is_error);
        assert_eq!(broken.texts(), "it is broken");
        let refused = client.call_tool("one__refuses", json!({})).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (ErrorKind::Remote, Some(77)));
        assert_eq!(refused.data().unwrap().as_str(), r#"{"why":"tuesday"}"#);
        assert_eq!(client.call_tool("one__missing", json!({})).unwrap_err().kind(), ErrorKind::Remote);
        assert!(format!("{:?}", client.read_resource("test://same").unwrap()).contains("one"));
        assert!(format!("{:?}", client.read_resource("test://item/nine").unwrap()).contains("nine"));
        let none = client.read_resource("test://item/none").unwrap_err();
        let plain = client.read_resource("test://nowhere").unwrap_err();
        assert_eq!(none.code(), plain.code(), "{none}");
        let filled = client.prompt("two__greet", &[("whom", "Bo")]).unwrap();
        assert_eq!(filled.messages[0].1.as_text(), Some("Bo"));
        let about = tinymcp::CompletionTarget::Prompt("two__greet");
        assert_eq!(client.complete(about, "whom", "Al", &[]).unwrap().values, ["Albert"]);
    });
}

#[test]
fn progress_and_cancellation_pass_through() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one"], above);
        let client = proxy.connect(client(), below);
        let steps = Arc::new(Mutex::new(Vec::new()));
        let delivered = Arc::clone(&steps);
        let request = client.request_tool("one__steps", json!({}));
        let output = request.on_progress(move |step| delivered.lock().unwrap().push(step)).wait().unwrap();
        assert_eq!(output.texts(), "stepped");
        let steps = steps.lock().unwrap();
        assert_eq!(steps.iter().map(|s| s.done).collect::<Vec<_>>(), [1.0, 2.0]);
        assert_eq!((steps[0].total, steps[0].message.as_deref()), (Some(2.0), Some("half")));

        let call = client.request_tool("one__waits", json!({})).start().unwrap();
        assert_eq!(proxy.ends.recv_timeout(TIMEOUT), Ok("begun"));
        call.cancel();
        assert_eq!(proxy.ends.recv_timeout(TIMEOUT / 2), Ok("cancelled"));
    });
}

/// Answers the two elicitations of the tool `asks`.
pub(super) fn answering(asked: Arc<AtomicUsize>) -> ClientBuilder {
    client().on_elicit(move |form| {
        asked.fetch_add(1, Ordering::SeqCst);
        match &*form.message {
            "Who?" => Ok(ElicitResponse::accept(json!({"name": "Ada"}))),
            "Sure?" => Ok(ElicitResponse::accept(json!({"yes": true}))),
            _ => Ok(ElicitResponse::decline()),
        }
    })
}

#[test]
fn elicitations_of_servers_are_forwarded_to_the_client() {
    in_all_eras(|below, above| {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut proxy = Proxy::of(&["one"], above);
        let client = proxy.connect(answering(Arc::clone(&asked)), below);
        assert_eq!(client.call_tool("one__asks", json!({})).unwrap().texts(), "Ada true");
        // Each elicitation is sent once, although the handlers ran several times.
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn sampling_and_roots_are_forwarded_as_well() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one"], above);
        let asking = client()
            .on_sample(|sampling| {
                Ok(SampleResponse::new("tiny").text(format!("{} words", sampling.max_tokens)))
            })
            .roots([Root { uri: "file:///srv/data".into(), name: None }]);
        let client = proxy.connect(asking, below);
        let output = client.call_tool("one__knows", json!({})).unwrap();
        assert_eq!(output.texts(), "9 words file:///srv/data");
    });
}

#[test]
fn a_refusal_reaches_the_server_or_ends_the_call() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one"], above);
        let refusing = client().on_elicit(|_| Err("not me".into()));
        let client = proxy.connect(refusing, below);
        match client.call_tool("one__asks", json!({})) {
            Ok(output) => assert!(output.is_error && below == Protocol::Session, "{output:?}"),
            // A refusal has no form on the wire without sessions: the call is over for the client.
            Err(error) => {
                assert!(error.kind() == ErrorKind::Cancelled && below == Protocol::Stateless, "{error}")
            }
        }
        // No thread is blocked.
        assert_eq!(client.call_tool("one__steps", json!({})).unwrap().texts(), "stepped");
    });
}

#[test]
fn calls_that_wait_for_their_servers_hold_no_worker() {
    in_all_eras(|below, above| {
        let mut few = limits();
        few.workers = 1;
        few.queue = 1;
        let mut proxy = Proxy::with(&["one", "two"], above, few);
        let client = proxy.connect(client(), below);
        let slow: Vec<_> =
            (0..3).map(|_| client.request_tool("one__waits", json!({})).start().unwrap()).collect();
        for _ in &slow {
            assert_eq!(proxy.ends.recv_timeout(TIMEOUT), Ok("begun"));
        }
        for name in ["one__echo", "two__echo"] {
            assert!(!client.call_tool(name, json!({"n": 1})).unwrap().is_error);
        }
        drop(slow);
        for _ in 0..3 {
            assert_eq!(proxy.ends.recv_timeout(TIMEOUT), Ok("cancelled"));
        }
    });
}

#[test]
fn log_entries_are_passed_on_under_the_name_of_their_server() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one"], above);
        let (received, logs) = mpsc::channel();
        let received = Mutex::new(received);
        let listening = client().on_log(Level::Info, move |entry| {
            // The test may be over.
            let _ = received.lock().unwrap().send(entry.clone());
        });
        let client = proxy.connect(listening, below);
        assert_eq!(client.call_tool("one__logs", json!({})).unwrap().texts(), "logged");
        let entry = logs.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((entry.level, entry.logger.as_deref()), (Level::Warning, Some("one/db")));
        assert_eq!(entry.data.as_str(), r#"{"password":"***","n":1}"#.replace("***", "[masked]"));
        let entry = logs.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((entry.level, entry.logger.as_deref()), (Level::Info, Some("one")));
    });
}

#[test]
fn a_call_fails_if_its_client_lacks_the_capability() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one"], above);
        let client = proxy.connect(client(), below);
        // A JSON-RPC error where the client's revision has a code for it; otherwise text for the model.
        let numbered = (below, above) == (Protocol::Stateless, Protocol::Stateless);
        match client.call_tool("one__asks", json!({})) {
            Ok(output) => assert!(output.is_error && !numbered, "{output:?}"),
            Err(error) => assert!(error.kind() == ErrorKind::Remote && numbered, "{error}"),
        }
    });
}

#[test]
fn tools_are_added_and_removed_with_their_servers_and_clients_notified() {
    in_all_eras(|below, above| {
        let mut proxy = Proxy::of(&["one", "two"], above);
        let (received, changes) = mpsc::channel();
        let received = Mutex::new(received);
        let listening = client().on_change(move |change| drop(received.lock().unwrap().send(change.clone())));
        let client = proxy.connect(listening, below);
        let has = |name: &str| client.tools().unwrap().iter().any(|t| t.name == name);
        let until = |name: &str, there: bool| {
            let end = Instant::now() + TIMEOUT;
            while has(name) != there {
                changes.recv_timeout(end.saturating_duration_since(Instant::now())).expect(name);
            }
        };
        assert!(has("two__echo"));
        for handle in proxy.handles.lock().unwrap().iter() {
            handle.add_tool(Tool::new("late"), |_, _: Nothing| Ok("late")).unwrap();
        }
        until("one__late", true);
        until("two__late", true);
        assert_eq!(client.call_tool("two__late", json!({})).unwrap().texts(), "late");
        // Both have the resource; it stays when the first server is removed.
        proxy.hub.remove("one").unwrap();
        until("one__late", false);
        assert!(has("two__late"));
        assert!(format!("{:?}", client.read_resource("test://same").unwrap()).contains("two"));
        assert!(proxy.hub.skipped().iter().all(|l| l.name.is_none()), "{:?}", proxy.hub.skipped());
    });
}

#[test]
fn tool_names_that_hosts_reject_are_shortened_with_a_stable_suffix() {
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.tool(Tool::new("odd__own"), |_, _: Nothing| Ok("mine")).unwrap();
    hub.export(&mut server).unwrap();
    let names = ["l".repeat(60), format!("{}m", "l".repeat(60)), "own".into(), "fine".into()];
    let add = move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = Server::new("odd", "1.0.0");
        for name in names.clone() {
            let said = name.clone();
            server.tool(Tool::new(name), move |_, _: Nothing| Ok(said.clone())).unwrap();
        }
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    };
    hub.add("odd", Upstream::from_fn(add)).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let left = hub.skipped();
    let left: Vec<_> = left.iter().map(|l| (l.name.clone().unwrap(), l.error.kind())).collect();
    assert_eq!(left, [("odd__own".to_owned(), ErrorKind::Misuse)]);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = client().over(ours).unwrap();
    assert_eq!(client.call_tool("odd__own", json!({})).unwrap().texts(), "mine");
    assert_eq!(client.call_tool("odd__fine", json!({})).unwrap().texts(), "fine");
    let cut = format!("odd__{}", "l".repeat(50));
    for (suffix, name) in [("f1fbe6d4", "l".repeat(60)), ("a88c353b", format!("{}m", "l".repeat(60)))] {
        let shortened = format!("{cut}_{suffix}");
        assert_eq!(shortened.len(), 64);
        assert_eq!(client.call_tool(&shortened, json!({})).unwrap().texts(), name);
    }
}

#[test]
fn a_tool_whose_name_is_not_ascii_is_offered_under_one_that_is() {
    // ScriptedPeer, because a server of this library rejects such a name.
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    hub.export(&mut server).unwrap();
    let connect = move |client: ClientBuilder| {
        let (link, end) = tinymcp::memory();
        std::thread::spawn(move || {
            while let Some(line) = end.receive(TIMEOUT) {
                let message: serde_json::Value = serde_json::from_str(&line).unwrap();
                let Some(id) = message.get("id") else { continue };
                let result = match message["method"].as_str().unwrap() {
                    "initialize" => serde_json::json!({"protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}),
                    "tools/list" => serde_json::json!({"tools": [
                        {"name": "größe a/b", "inputSchema": {"type": "object"}}]}),
                    _ => {
                        let name = &message["params"]["name"];
                        serde_json::json!({"content": [{"type": "text", "text": name}]})
                    }
                };
                end.send(&serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
            }
        });
        client.protocol(Protocol::Session).over(link)
    };
    hub.add("x", Upstream::from_fn(connect)).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = client().over(ours).unwrap();
    let names: Vec<String> = client.tools().unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["x__gr__e_a_b_2f4f094c"]);
    assert_eq!(client.call_tool(&names[0], json!({})).unwrap().texts(), "größe a/b");
}

#[test]
fn a_hub_that_has_servers_already_is_not_exported() {
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    hub.add(
        "dead",
        Upstream::from_fn(|_| Err(tinymcp::Client::spawn(std::process::Command::new("/")).unwrap_err())),
    )
    .unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    assert_eq!(hub.export(&mut server).unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn serving_ends_the_hub() {
    let mut proxy = Proxy::of(&["one"], Protocol::Stateless);
    let client = proxy.connect(client(), Protocol::Stateless);
    assert_eq!(proxy.hub.servers().len(), 1);
    client.close();
    proxy.serving.take().unwrap().join().unwrap();
    assert!(proxy.hub.servers().is_empty());
}

#[test]
fn lists_have_the_order_of_the_servers_regardless_of_their_speed() {
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    hub.export(&mut server).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(Some(gate));
    for key in ["first", "second", "third"] {
        let gate = if key == "second" { gate.lock().unwrap().take() } else { None };
        let gate = Mutex::new(gate);
        let connect = move |client: ClientBuilder| {
            // The second server connects on a signal.
            let gate = gate.lock().unwrap().take();
            let _ = gate.map(|gate| gate.recv_timeout(TIMEOUT));
            let (theirs, ours) = memory_links();
            let mut server = Server::new(key, "1.0.0");
            for tool in ["z", "a"] {
                server.tool(Tool::new(tool), |_, _: Nothing| Ok("")).unwrap();
            }
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        };
        hub.add(key, Upstream::from_fn(connect)).unwrap();
    }
    let (theirs, ours) = memory_links();
    let serving = std::thread::spawn(move || server.serve(theirs).unwrap());
    let (sender, received) = mpsc::channel();
    let client = Client::builder("c", "1").limits(limits()).on_change(move |change| {
        // OK to drop: the test is over.
        let _ = sender.send(change.clone());
    });
    let client = client.over(ours).unwrap();
    let names = || client.tools().unwrap().into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    while names() != ["first__z", "first__a", "third__z", "third__a"] {
        received.recv_timeout(TIMEOUT).unwrap();
    }
    open.send(()).unwrap();
    let all = ["first__z", "first__a", "second__z", "second__a", "third__z", "third__a"];
    while names() != all {
        received.recv_timeout(TIMEOUT).unwrap();
    }
    client.close();
    serving.join().unwrap();
}
