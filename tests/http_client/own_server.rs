//! Client and server of this library over HTTP, in both eras.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tinymcp::{
    Change, Client, ElicitResponse, Endpoint, ErrorKind, Field, Form, Handle, Level, Prompt, PromptOutput,
    Protocol, Resource, ResourceContents, Server, Tool, json,
};

use crate::{TIMEOUT, client, limits};

tinymcp::record! {
    struct Say { text: String }
}

const ERAS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A server of this library on a free port.
struct Served {
    url: String,
    thread: ServerThread,
}

impl Served {
    fn new() -> Served {
        Served::at("127.0.0.1:0")
    }

    fn at(address: &str) -> Served {
        let mut server = Server::new("ours", "1.0.0");
        server.logging().tools_may_change().limits(limits());
        server.tool(Tool::new("say"), |_, say: Say| Ok(say.text)).unwrap();
        server
            .tool(
                Tool::new("mirrored").input_schema(json!({
                    "type": "object",
                    "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}
                })),
                |_, say: Say| Ok(say.text),
            )
            .unwrap();
        server
            .tool(Tool::new("steps"), |ctx, ()| {
                for step in 1..=3 {
                    ctx.progress(f64::from(step), Some(3.0), None);
                }
                ctx.log(Level::Warning, None, json!("nearly"))?;
                Ok("done")
            })
            .unwrap();
        server
            .tool(Tool::new("ask"), |ctx, ()| {
                let form = |label: &str| Form::new(label).field(Field::text("answer"));
                let one = ctx.elicit("one", form("first"))?;
                let two = ctx.elicit("two", form("second"))?;
                Ok(format!("{}+{}", one.text("answer").unwrap_or("-"), two.text("answer").unwrap_or("-")))
            })
            .unwrap();
        server
            .tool(Tool::new("wait"), |ctx, ()| {
                ctx.wait(TIMEOUT)?;
                Ok("waited")
            })
            .unwrap();
        server
            .resource(Resource::new("test://a", "a"), |_, _| {
                Ok(ResourceContents::text("test://a", "contents"))
            })
            .unwrap();
        server.prompt(Prompt::new("p"), |_, _| Ok(PromptOutput::new().user("hello"))).unwrap();
        let handle = server.handle();
        let bound = server.http().tokens([("token", "owner")]).bind(address).unwrap();
        let url = format!("http://{}/mcp", bound.address());
        let thread = ServerThread::new(handle, thread::spawn(move || bound.serve().unwrap()));
        Served { url, thread }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new(&*self.url).bearer_token("token")
    }

    fn connect(&self, era: Protocol) -> Client {
        client().protocol(era).connect(self.endpoint()).unwrap()
    }
}

/// Thread of a server, which is stopped on drop.
pub(crate) struct ServerThread {
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    pub(crate) fn new(handle: Handle, thread: JoinHandle<()>) -> ServerThread {
        ServerThread { handle, thread: Some(thread) }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

#[test]
fn every_method_works_in_both_eras_over_http() {
    for era in ERAS {
        let served = Served::new();
        let client = served.connect(era);
        assert_eq!(client.server().name, "ours");
        let names: Vec<String> = client.tools().unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["say", "mirrored", "steps", "ask", "wait"]);
        for text in ["plain", " edges ", "", "line\nline", "é世界", "=?base64?eA==?="] {
            for tool in ["say", "mirrored"] {
                let output = client.call_tool(tool, json!({"text": text})).unwrap();
                assert_eq!(output.texts(), text, "{tool} {era:?}");
            }
        }
        assert_eq!(client.resources().unwrap().len(), 1);
        assert!(client.read_resource("test://a").is_ok());
        assert_eq!(client.prompts().unwrap().len(), 1);
        assert!(client.prompt("p", &[]).is_ok());
        let unknown = client.call_tool("nothing", json!({})).unwrap_err();
        assert_eq!((unknown.kind(), unknown.code()), (ErrorKind::Remote, Some(-32602)));
        client.close();
    }
}

#[test]
fn the_era_is_found_out() {
    let served = Served::new();
    let client = client().connect(served.endpoint()).unwrap();
    assert_eq!(client.protocol(), Protocol::Stateless);
    client.close();
}

#[test]
fn requests_without_the_token_are_rejected_with_the_reason() {
    let served = Served::new();
    for endpoint in [Endpoint::new(&*served.url), Endpoint::new(&*served.url).bearer_token("wrong")] {
        let error = client().connect(endpoint).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(401)));
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[test]
fn progress_and_log_come_with_the_call() {
    for era in ERAS {
        let served = Served::new();
        let (sender, received) = mpsc::channel();
        let sender = Mutex::new(sender);
        let client = client().protocol(era).on_log(Level::Info, move |entry| {
            let _ = sender.lock().unwrap().send(entry.data.as_str().to_owned());
        });
        let client = client.connect(served.endpoint()).unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&steps);
        let call = client
            .request_tool("steps", json!({}))
            .on_progress(move |p| recorded.lock().unwrap().push(p.done));
        assert_eq!(call.wait().unwrap().texts(), "done");
        assert_eq!(*steps.lock().unwrap(), [1.0, 2.0, 3.0], "{era:?}");
        assert_eq!(received.recv_timeout(TIMEOUT).unwrap(), "\"nearly\"");
        client.close();
    }
}

#[test]
fn a_cancelled_call_ends_even_if_the_frame_observer_panics() {
    let served = Served::new();
    let client = client().protocol(Protocol::Session).on_frame(|frame| {
        let text = String::from_utf8_lossy(frame.bytes);
        assert!(!text.contains("notifications/cancelled"), "panic of the test");
    });
    let client = client.connect(served.endpoint()).unwrap();
    let call = client.request_tool("wait", json!({})).start().unwrap();
    let canceller = call.canceller();
    let (sender, received) = mpsc::channel();
    thread::spawn(move || sender.send(call.wait()));
    assert!(thread::spawn(move || canceller.cancel()).join().is_err(), "the observer panics");
    let error = received.recv_timeout(TIMEOUT / 2).expect("the cancelled call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    client.close();
}

#[test]
fn elicitations_take_several_rounds() {
    for era in ERAS {
        let served = Served::new();
        let client = client()
            .protocol(era)
            .on_elicit(|form| Ok(ElicitResponse::accept(json!({"answer": (&form.message)}))));
        let client = client.connect(served.endpoint()).unwrap();
        assert_eq!(client.call_tool("ask", json!({})).unwrap().texts(), "first+second", "{era:?}");
        client.close();
    }
}

#[test]
fn a_cancelled_call_ends_on_both_sides() {
    for era in ERAS {
        let served = Served::new();
        let client = served.connect(era);
        let call = client.request_tool("wait", json!({})).start().unwrap();
        let canceller = call.canceller();
        thread::scope(|scope| {
            let waits = scope.spawn(|| call.wait());
            canceller.cancel();
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
        // The workers are free again, one after the other.
        for _ in 0..8 {
            let slow = client.request_tool("wait", json!({})).timeout(Duration::from_millis(30));
            assert_eq!(slow.wait().unwrap_err().kind(), ErrorKind::Timeout);
        }
        assert_eq!(client.call_tool("say", json!({"text": "x"})).unwrap().texts(), "x");
        client.close();
    }
}

#[test]
fn changes_are_reported() {
    for era in ERAS {
        let served = Served::new();
        let (sender, received) = mpsc::channel();
        let sender = Mutex::new(sender);
        let client = client().protocol(era).on_change(move |change| {
            let _ = sender.lock().unwrap().send(matches!(change, Change::Tools));
        });
        let client = client.connect(served.endpoint()).unwrap();
        assert_eq!(client.tools().unwrap().len(), 5);
        served.thread.handle.add_tool(Tool::new("new"), |_, ()| Ok("new")).unwrap();
        assert!(received.recv_timeout(TIMEOUT).unwrap(), "{era:?}");
        assert_eq!(client.tools().unwrap().len(), 6);
        client.close();
    }
}

#[test]
fn a_restarted_server_gets_a_new_session() {
    for era in ERAS {
        let mut served = Served::new();
        let client = served.connect(era);
        assert_eq!(client.call_tool("say", json!({"text": "x"})).unwrap().texts(), "x");
        let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        // The client's connection keeps the port from other programs, in TIME-WAIT.
        drop(served);
        served = Served::at(&address);
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    assert_eq!(
                        client.call_tool("say", json!({"text": "y"})).unwrap().texts(),
                        "y",
                        "{era:?}"
                    );
                });
            }
        });
        client.close();
        drop(served);
    }
}

#[test]
fn many_threads_share_a_client() {
    for era in ERAS {
        let served = Served::new();
        let client = served.connect(era);
        thread::scope(|scope| {
            for thread in 0..8 {
                let client = &client;
                scope.spawn(move || {
                    for call in 0..25 {
                        let text = format!("{thread}-{call}");
                        let output = client.call_tool("say", json!({"text": (&text)})).unwrap();
                        assert_eq!(output.texts(), text);
                    }
                });
            }
        });
        let calls: Vec<_> = (0..32)
            .map(|n| client.request_tool("say", json!({"text": (n.to_string())})).start().unwrap())
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.wait().unwrap().texts(), n.to_string());
        }
        client.close();
    }
}
