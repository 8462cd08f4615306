//! A client and a server of this library in one process, in both eras.

use std::sync::mpsc;
use std::thread::JoinHandle;

use tinymcp::{
    Change, Client, ClientBuilder, Completion, CompletionRequest, CompletionTarget, ElicitAction,
    ElicitResponse, ErrorKind, Field, Form, Level, Prompt, PromptOutput, Protocol, Resource,
    ResourceContents, Root, SampleResponse, Sampling, Server, Template, Tool, ToolOutput, json, memory_links,
};

use super::scripted::{TIMEOUT, plain};

tinymcp::record! {
    struct Nothing {}
}

tinymcp::record! {
    struct Add { a: i64, b: i64 }
}

fn server() -> Server {
    let mut server = Server::new("everything", "1.2.3");
    server.logging().tools_may_change().resources_may_change().resource_updates();
    server
        .tool(Tool::new("add").title("Sum").description("Adds").read_only(), |_, add: Add| {
            Ok((add.a + add.b).to_string())
        })
        .unwrap()
        .tool(Tool::new("structured"), |_, _: Nothing| Ok(json!({"n": [1, 2]})))
        .unwrap()
        .tool(Tool::new("fails"), |_, _: Nothing| Ok(ToolOutput::failed("no")))
        .unwrap()
        .tool(Tool::new("steps"), |ctx, _: Nothing| {
            for n in 1..=3 {
                ctx.progress(f64::from(n), Some(3.0), Some("on"));
            }
            Ok("done")
        })
        .unwrap()
        .tool(Tool::new("logs"), |ctx, _: Nothing| {
            ctx.log(Level::Warning, Some("unit"), "careful")?;
            Ok("logged")
        })
        .unwrap()
        .tool(Tool::new("asks"), |ctx, _: Nothing| {
            let form =
                Form::new("Who?").field(Field::text("name").required()).field(Field::integer("n").default(7));
            let answer = ctx.elicit("form", form)?;
            let roots = ctx.roots("roots")?;
            let model = ctx.sample("model", Sampling::new(9).user("A colour?"))?;
            let url = ctx.elicit_url("link", "Go", "https://example.org/x")?;
            Ok(format!(
                "{} {:?} {} {} {url:?}",
                answer.text("name").unwrap_or("nobody"),
                answer.integer("n"),
                roots.len(),
                model.text()
            ))
        })
        .unwrap()
        .tool(Tool::new("waits"), |ctx, _: Nothing| {
            ctx.progress(1.0, None, None);
            while !ctx.cancelled() {
                std::thread::yield_now();
            }
            Ok("cancelled")
        })
        .unwrap()
        .resource(Resource::new("test://a", "a").mime_type("text/plain"), |_, uri| {
            Ok(ResourceContents::text(uri, "A"))
        })
        .unwrap()
        .template(Template::new("test://{x}/b", "b").unwrap(), |_, uri, _| {
            Ok(ResourceContents::text(uri, "B"))
        })
        .unwrap()
        .prompt(Prompt::new("greet").argument(tinymcp::Argument::required("name")), |_, arguments| {
            Ok(PromptOutput::new().user(format!("Hello {}", arguments.get("name").unwrap_or_default())))
        })
        .unwrap();
    server
}

fn both(builder: impl Fn() -> ClientBuilder, test: impl Fn(&Client)) {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (client, serving) = connect(builder(), server(), Some(era));
        assert_eq!(client.protocol(), era);
        test(&client);
        drop(client);
        serving.join().unwrap().unwrap();
    }
}

fn connect(
    builder: ClientBuilder,
    server: Server,
    era: Option<Protocol>,
) -> (Client, JoinHandle<Result<(), tinymcp::Error>>) {
    let (ours, theirs) = memory_links();
    let serving = std::thread::spawn(move || server.serve(theirs));
    let builder = match era {
        Some(era) => builder.protocol(era),
        None => builder,
    };
    (builder.over(ours).unwrap(), serving)
}

#[test]
fn a_server_of_both_eras_is_used_in_the_modern_one() {
    let (client, serving) = connect(plain(), server(), None);
    let info = client.server();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("everything", "1.2.3"));
    assert_eq!((info.revision, info.protocol), ("2026-07-28", Protocol::Stateless));
    assert!(
        info.capabilities.tools_changed
            && info.capabilities.subscribe
            && info.capabilities.prompts
            && info.capabilities.logging
    );
    client.ping().unwrap();
    client.close();
    serving.join().unwrap().unwrap();
    let (client, _) = connect(plain(), Server::session_only("old", "1"), None);
    assert_eq!((client.server().revision, client.protocol()), ("2025-11-25", Protocol::Session));
    let (client, _) = connect(plain(), Server::stateless_only("new", "1"), None);
    assert_eq!(client.server().revision, "2026-07-28");
}

#[test]
fn every_entry_of_a_server_can_be_used() {
    both(plain, |client| {
        let tools = client.tools().unwrap();
        let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["add", "structured", "fails", "steps", "logs", "asks", "waits"]);
        assert_eq!(tools[0].title.as_deref(), Some("Sum"));
        assert_eq!(tools[0].hints.read_only, Some(true));
        assert!(tools[0].source.as_ref().unwrap().as_str().contains("\"inputSchema\""));
        assert_eq!(client.call_tool("add", json!({"a": 2, "b": 40})).unwrap().texts(), "42");
        let output = client.call_tool("structured", ()).unwrap();
        assert_eq!(output.structured, Some(json!({"n": [1, 2]})));
        assert!(client.call_tool("fails", ()).unwrap().is_error);
        let error = client.call_tool("unknown", ()).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(-32602)));
        assert_eq!(client.resources().unwrap()[0].uri, "test://a");
        assert_eq!(client.templates().unwrap()[0].uri_template().as_str(), "test://{x}/b");
        let read = client.read_resource("test://q/b").unwrap();
        assert_eq!(read.contents[0].body, tinymcp::Body::Text("B".to_owned()));
        assert_eq!(client.prompts().unwrap()[0].arguments[0].name, "name");
        let prompt = client.prompt("greet", &[("name", "Ada")]).unwrap();
        assert_eq!(prompt.messages[0].1.as_text(), Some("Hello Ada"));
        client.ping().unwrap();
        let raw =
            client.request("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 1}})).unwrap();
        assert!(raw.as_str().contains("\"text\":\"2\""), "{raw}");
        let error = client.request("no/such", ()).unwrap_err();
        assert_eq!(error.code(), Some(-32601));
        assert_eq!(client.in_flight(), 0);
    });
}

#[test]
fn requests_of_every_kind_get_responses_in_both_eras() {
    let builder = || {
        plain()
            .on_elicit(|form| {
                assert_eq!(form.message, "Who?");
                Ok(ElicitResponse::accept(json!({"name": "Ada"})))
            })
            .on_elicit_url(|page| {
                assert_eq!(page.url, "https://example.org/x");
                Ok(ElicitAction::Accept)
            })
            .on_sample(|sampling| {
                assert_eq!(sampling.max_tokens, 9);
                Ok(SampleResponse::new("m").text("Teal"))
            })
            .roots([Root { uri: "file:///x".into(), name: None }])
    };
    both(builder, |client| {
        let output = client.call_tool("asks", ()).unwrap();
        assert_eq!(output.texts(), "Ada Some(7) 1 Teal Accept");
        client.set_roots([]).unwrap();
        assert_eq!(client.call_tool("asks", ()).unwrap().texts(), "Ada Some(7) 0 Teal Accept");
    });
    both(plain, |client| {
        match client.call_tool("asks", ()) {
            Err(error) => assert_eq!((client.protocol(), error.code()), (Protocol::Stateless, Some(-32021))),
            Ok(output) => assert!(output.is_error && client.protocol() == Protocol::Session, "{output:?}"),
        }
        assert_eq!(client.set_roots([]).unwrap_err().kind(), ErrorKind::Misuse);
    });
}

#[test]
fn a_handler_that_refuses_panics_or_answers_wrongly_ends_the_call() {
    for era in [Protocol::Stateless, Protocol::Session] {
        for wrong in 0..3 {
            let builder = plain().on_elicit(move |_| match wrong {
                0 => Err("not now".into()),
                1 => std::panic::resume_unwind(Box::new("a handler of the program, quietly")),
                _ => Ok(ElicitResponse::accept(json!({"name": 7}))),
            });
            let (client, _) = connect(builder, server(), Some(era));
            match (era, wrong, client.call_tool("asks", ())) {
                (Protocol::Stateless, 0 | 1, Err(error)) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                (Protocol::Stateless, _, Err(error)) => assert_eq!(error.kind(), ErrorKind::Invalid),
                // In a session the server is notified, and decides what to do.
                (Protocol::Session, _, Ok(output)) => assert!(output.is_error, "{output:?}"),
                (_, _, other) => panic!("{era:?} {wrong}: {other:?}"),
            }
            assert_eq!(client.call_tool("add", json!({"a": 1, "b": 1})).unwrap().texts(), "2");
        }
    }
}

#[test]
fn progress_cancellation_and_log_entries_in_both_eras() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (sender, logged) = mpsc::channel();
        let builder = plain().on_log(Level::Info, move |entry| sender.send(entry.clone()).unwrap());
        let (client, _) = connect(builder, server(), Some(era));
        let (sender, receiver) = mpsc::channel();
        let request = client.request_tool("steps", ()).on_progress(move |step| sender.send(step).unwrap());
        assert_eq!(request.wait().unwrap().texts(), "done");
        let steps: Vec<f64> = receiver.iter().map(|step| step.done).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0]);
        assert_eq!(client.call_tool("logs", ()).unwrap().texts(), "logged");
        let entry = logged.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(
            (entry.level, entry.logger.as_deref(), entry.data.as_str()),
            (Level::Warning, Some("unit"), "\"careful\"")
        );
        // The tool reports that it runs, the call is cancelled, and the connection continues.
        let (sender, receiver) = mpsc::channel();
        let mut call = client
            .request_tool("waits", ())
            .on_progress(move |step| sender.send(step).unwrap())
            .start()
            .unwrap();
        while receiver.try_recv().is_err() {
            assert!(
                call.wait_until(std::time::Instant::now() + std::time::Duration::from_millis(5)).is_none()
            );
        }
        call.cancel();
        assert_eq!(client.call_tool("add", json!({"a": 1, "b": 2})).unwrap().texts(), "3");
    }
}

#[test]
fn changes_are_delivered_to_their_listeners_in_both_eras() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let server = server();
        let handle = server.handle();
        let (sender, receiver) = mpsc::channel();
        let builder = plain().on_change(move |change| sender.send(change.clone()).unwrap());
        let (client, _) = connect(builder, server, Some(era));
        // Responses are in order, so the session is ready by now.
        client.ping().unwrap();
        handle.add_tool(Tool::new("more"), |_, _: Nothing| Ok("")).unwrap();
        assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), Change::Tools, "{era:?}");
        client.subscribe("test://a").unwrap();
        client.subscribe("test://a").unwrap();
        handle.resource_updated("test://other").unwrap();
        handle.resource_updated("test://a").unwrap();
        assert_eq!(
            receiver.recv_timeout(TIMEOUT).unwrap(),
            Change::ResourceUpdated("test://a".into()),
            "{era:?}"
        );
        // No caller waits for the listen request.
        assert_eq!(client.in_flight(), 0, "{era:?}");
        client.unsubscribe("test://a").unwrap();
        handle.resource_updated("test://a").unwrap();
        handle.remove_resource("test://a").unwrap();
        assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), Change::Resources, "{era:?}");
    }
}

#[test]
fn a_long_list_is_followed_over_its_pages() {
    let mut server = Server::new("long", "1");
    let mut limits = tinymcp::Limits::default();
    limits.page = 7;
    server.limits(limits);
    for n in 0..100 {
        server.tool(Tool::new(format!("t{n}")), |_, _: Nothing| Ok("")).unwrap();
    }
    let (client, _) = connect(plain(), server, None);
    assert_eq!(client.tools().unwrap().len(), 100);
    let page = client.request_tools(None).wait().unwrap();
    assert_eq!(page.entries.len(), 7);
    let second = client.request_tools(page.next.as_deref()).wait().unwrap();
    assert_eq!(second.entries[0].name, "t7");
    let mut limits = tinymcp::Limits::default();
    limits.client.list_entries = 99;
    let mut server = Server::new("long", "1");
    for n in 0..100 {
        server.tool(Tool::new(format!("t{n}")), |_, _: Nothing| Ok("")).unwrap();
    }
    let (client, _) = connect(plain().limits(limits), server, None);
    assert_eq!(client.tools().unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn an_argument_is_completed_in_both_eras() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let mut server = server();
        server
            .complete_prompt("greet", "name", |asked: &CompletionRequest<'_>| {
                Completion::matching(asked.value, ["Ada", "Alan"])
            })
            .unwrap();
        let (client, _) = connect(plain(), server, Some(era));
        let offered = client.complete(CompletionTarget::Prompt("greet"), "name", "al", &[]).unwrap();
        assert_eq!(offered.values, ["Alan"]);
    }
}
