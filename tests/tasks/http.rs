//! Tasks over HTTP: principals, and clients that disconnect.

use std::time::Instant;

use tinymcp::{
    Client, ElicitResponse, Endpoint, ErrorKind, Limits, Outcome, Protocol, Server, TaskStatus, json,
};

use crate::wire::{Gate, HANG, server};

pub(crate) struct Served {
    pub url: String,
    handle: tinymcp::Handle,
    serving: Option<std::thread::JoinHandle<Result<(), tinymcp::Error>>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        let served = self.serving.take().unwrap().join();
        if !std::thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

pub(crate) fn serve(mut server: Server, limits: Limits, tokens: &[(&str, &str)]) -> Served {
    server.limits(limits);
    let handle = server.handle();
    let mut http = server.http().no_signal_handlers();
    if !tokens.is_empty() {
        http = http.tokens(tokens.iter().copied());
    }
    let bound = http.bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    Served { url, handle, serving: Some(std::thread::spawn(move || bound.serve())) }
}

pub(crate) fn client(served: &Served, protocol: Protocol, token: &str) -> Client {
    let mut endpoint = Endpoint::new(served.url.as_str());
    if !token.is_empty() {
        endpoint = endpoint.bearer_token(token);
    }
    Client::builder("c", "1").protocol(protocol).connect(endpoint).unwrap()
}

fn create(client: &Client, tool: &str) -> String {
    let call = client.request_tool(tool, json!({})).as_task().start().unwrap();
    match call.wait_outcome().unwrap() {
        Outcome::Task(task) => task.id,
        other => panic!("{other:?}"),
    }
}

/// T26-18, T11-17.
#[test]
fn a_task_belongs_to_its_principal() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let gate = Gate::default();
        let served = serve(server(&gate), Limits::default(), &[("a", "alice"), ("b", "bob")]);
        let (alice, bob) = (client(&served, protocol, "a"), client(&served, protocol, "b"));
        let id = create(&alice, "gated");
        assert_eq!(bob.task(&id).unwrap_err().code(), Some(-32602));
        assert_eq!(bob.cancel_task(&id).unwrap_err().code(), Some(-32602));
        if protocol == Protocol::Session {
            assert_eq!(bob.request("tasks/list", json!({})).unwrap(), json!({"tasks": []}));
            assert!(alice.request("tasks/list", json!({})).unwrap().as_str().contains(&id));
        }
        gate.open();
        assert_eq!(alice.follow_task(&id).wait().unwrap().texts(), "Some(\"alice\") true");
        // From another connection of the same principal.
        let again = client(&served, protocol, "a");
        assert_eq!(again.follow_task(&id).wait().unwrap().texts(), "Some(\"alice\") true");
    }
}

/// T11-09: clients that cannot be distinguished may not list tasks.
#[test]
fn tasks_of_unknown_clients_are_not_listed() {
    let served = serve(server(&Gate::default()), Limits::default(), &[]);
    let client = client(&served, Protocol::Session, "");
    assert_eq!(client.request("tasks/list", json!({})).unwrap_err().code(), Some(-32601));
}

#[test]
fn a_task_outlives_the_connection_of_its_client() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let gate = Gate::default();
        let served = serve(server(&gate), Limits::default(), &[]);
        let first = client(&served, protocol, "");
        let id = create(&first, "gated");
        gate.await_arrivals(1);
        drop(first);
        gate.open();
        let second = client(&served, protocol, "");
        assert_eq!(second.follow_task(&id).wait().unwrap().texts(), "None true");
    }
}

/// The client that creates the task declares elicitation; the one that follows it does not.
#[test]
fn a_client_without_a_handler_leaves_the_question_open() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let served = serve(server(&Gate::default()), Limits::default(), &[]);
        let able = || {
            let builder = Client::builder("c", "1").protocol(protocol);
            let builder = builder.on_elicit(|_| Ok(ElicitResponse::accept(json!({"x": "yes"}))));
            builder.connect(Endpoint::new(served.url.as_str())).unwrap()
        };
        let id = create(&able(), "asks");
        let unable = client(&served, protocol, "");
        let deadline = Instant::now() + HANG;
        while unable.task(&id).unwrap().status != TaskStatus::InputRequired {
            assert!(Instant::now() < deadline);
        }
        let error = unable.follow_task(&id).timeout(HANG).wait().unwrap_err();
        let (kind, words) = match protocol {
            Protocol::Session => (ErrorKind::Remote, "elicitation"),
            _ => (ErrorKind::Misuse, "the task requires the capability `elicitation`"),
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(unable.task(&id).unwrap().status, TaskStatus::InputRequired);
        assert_eq!(able().follow_task(&id).timeout(HANG).wait().unwrap().texts(), "yes yes yes");
    }
}
