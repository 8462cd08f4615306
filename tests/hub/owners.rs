//! Names and URIs stay with their servers while these are down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{
    Body, Client, Error, ErrorKind, Handle, Hub, Limits, Prompt, PromptOutput, Resource, ResourceContents,
    Server, ServerState, Template, Tool, Upstream, json, memory_links,
};

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);
const PLAN: &str = "file:///plan";

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.client.probe_timeout, limits.client.call_timeout) = (TIMEOUT, TIMEOUT);
    limits
}

/// A server that can be ended and started. Its entries respond with its key.
struct Switch {
    key: &'static str,
    up: Arc<AtomicBool>,
    running: Arc<Mutex<Option<Handle>>>,
}

impl Switch {
    fn add(hub: &Hub, key: &'static str, prefix: Option<&str>, tool: &'static str, up: bool) -> Switch {
        let switch = Switch { key, up: Arc::new(AtomicBool::new(up)), running: Arc::default() };
        let (up, running) = (Arc::clone(&switch.up), Arc::clone(&switch.running));
        let upstream = Upstream::from_fn(move |client| {
            if !up.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Closed, "switched off"));
            }
            let server = server(key, tool);
            *running.lock().unwrap() = Some(server.handle());
            let (theirs, ours) = memory_links();
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        });
        let upstream = match prefix {
            Some(prefix) => upstream.prefix(prefix),
            None => upstream,
        };
        hub.add(key, upstream).unwrap();
        switch
    }

    fn end(&self, hub: &Hub) {
        self.up.store(false, Ordering::SeqCst);
        self.running.lock().unwrap().take().unwrap().stop();
        self.wait(hub, |state| matches!(state, ServerState::Down { .. }));
    }

    fn start(&self, hub: &Hub) {
        self.up.store(true, Ordering::SeqCst);
        hub.restart(self.key).unwrap();
        self.wait(hub, |state| matches!(state, ServerState::Running(_)));
        hub.wait_settled(Instant::now() + TIMEOUT);
    }

    fn wait(&self, hub: &Hub, is_it: fn(&ServerState) -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !hub.servers().iter().any(|status| status.server == self.key && is_it(&status.state)) {
            assert!(Instant::now() < until, "{}", self.key);
            std::thread::yield_now();
        }
    }
}

fn server(key: &'static str, tool: &'static str) -> Server {
    let mut server = Server::new(key, "1");
    let read = move |_: &mut tinymcp::Context<'_>, uri: &str, _: &tinymcp::Variables| {
        Ok(ResourceContents::text(uri, key))
    };
    server
        .tool(Tool::new(tool), move |_, _: Nothing| Ok(key))
        .unwrap()
        .prompt(Prompt::new(tool), move |_, _| Ok(PromptOutput::new().user(key)))
        .unwrap()
        .resource(Resource::new(PLAN, "plan"), move |_, uri| Ok(ResourceContents::text(uri, key)))
        .unwrap();
    let template = if key == "one" { "file:///{name}" } else { "file:///{+path}" };
    server.template(Template::new(template, "files").unwrap(), read).unwrap();
    server
}

fn exported() -> (Hub, Client) {
    let hub = Hub::builder("proxy", "1").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1");
    server.limits(limits());
    hub.export(&mut server).unwrap();
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1").limits(limits()).over(ours).unwrap();
    (hub, client)
}

/// The server that runs a tool; the error if it is down.
fn call(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).map_or_else(|error| error.to_string(), |output| output.texts())
}

fn read(client: &Client, uri: &str) -> String {
    match client.read_resource(uri) {
        Ok(output) => match &output.contents[0].body {
            Body::Text(text) => text.clone(),
            Body::Bytes(_) => "bytes".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

fn prompt(client: &Client, name: &str) -> String {
    match client.prompt(name, &[]) {
        Ok(output) => format!("{:?}", output.messages),
        Err(error) => error.to_string(),
    }
}

fn is_down(text: &str, key: &str) {
    // The second until the hub has handled the end of the connection.
    let reasons = [format!("{key:?} is down"), "closed the connection".to_owned()];
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
}

#[test]
fn a_name_with_the_prefix_of_a_server_is_that_servers_alone() {
    for order in [["a__b", "a"], ["a", "a__b"]] {
        for up in [true, false] {
            let (hub, client) = exported();
            let add = |key: &'static str| {
                let tool = if key == "a" { "b__pay" } else { "pay" };
                Switch::add(&hub, key, None, tool, up || key == "a")
            };
            let servers = order.map(add);
            hub.wait_settled(Instant::now() + TIMEOUT);
            let inner = servers.iter().find(|server| server.key == "a__b").unwrap();
            let skipped = hub.skipped();
            let clashes = skipped.iter().filter(|s| s.name.as_deref() == Some("a__b__pay"));
            assert!(clashes.clone().count() >= 2, "a tool and a prompt: {skipped:?}");
            assert!(clashes.clone().all(|s| s.server == "a" && s.owner.as_deref() == Some("a__b")));
            if up {
                assert_eq!(call(&client, "a__b__pay"), "a__b");
                inner.end(&hub);
            }
            is_down(&call(&client, "a__b__pay"), "a__b");
            is_down(&prompt(&client, "a__b__pay"), "a__b");
            assert_eq!(client.tools().unwrap().len(), 0);
            assert!(hub.call_tool("a__b__pay", json!({})).is_err());
            inner.start(&hub);
            assert_eq!(call(&client, "a__b__pay"), "a__b");
        }
    }
}

#[test]
fn what_a_server_offered_stays_with_it_while_it_is_down() {
    let (hub, client) = exported();
    let one = Switch::add(&hub, "one", Some(""), "pay", true);
    let _two = Switch::add(&hub, "two", Some(""), "pay", true);
    hub.wait_settled(Instant::now() + TIMEOUT);
    // A file of the template of both, and one of the second only.
    for uri in [PLAN, "file:///other"] {
        assert_eq!(read(&client, uri), "one");
    }
    assert_eq!(read(&client, "file:///a/b"), "two");
    one.end(&hub);
    is_down(&call(&client, "pay"), "one");
    is_down(&prompt(&client, "pay"), "one");
    for uri in [PLAN, "file:///other"] {
        is_down(&read(&client, uri), "one");
    }
    assert_eq!(read(&client, "file:///a/b"), "two");
    assert_eq!(hub.server_of_resource(PLAN).as_deref(), Some("one"));
    assert!(client.subscribe(PLAN).is_err());
    one.start(&hub);
    assert_eq!((call(&client, "pay"), read(&client, PLAN)), ("one".to_owned(), "one".to_owned()));
    // Without the server the names are free.
    one.end(&hub);
    hub.remove("one").unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    assert_eq!((call(&client, "pay"), read(&client, PLAN)), ("two".to_owned(), "two".to_owned()));
}

#[test]
fn a_server_that_starts_later_takes_no_name_from_another() {
    let (hub, client) = exported();
    let one = Switch::add(&hub, "one", Some(""), "pay", false);
    let _two = Switch::add(&hub, "two", Some(""), "pay", true);
    one.wait(&hub, |state| matches!(state, ServerState::Down { .. }));
    hub.wait_settled(Instant::now() + TIMEOUT);
    assert_eq!((call(&client, "pay"), read(&client, PLAN)), ("two".to_owned(), "two".to_owned()));
    one.start(&hub);
    assert_eq!((call(&client, "pay"), read(&client, PLAN)), ("two".to_owned(), "two".to_owned()));
    let skipped = hub.skipped();
    assert!(skipped.iter().any(|s| s.server == "one" && s.owner.as_deref() == Some("two")), "{skipped:?}");
}

#[test]
fn a_host_calls_no_other_server_in_place_of_one_that_is_down() {
    let hub = Hub::builder("host", "1").limits(limits()).build().unwrap();
    let one = Switch::add(&hub, "one", Some(""), "pay", true);
    let _two = Switch::add(&hub, "two", Some(""), "pay", true);
    let tools = hub.tools();
    assert_eq!(tools.entries.len() + hub.prompts().entries.len(), 4);
    assert_eq!(hub.call_tool("pay", json!({})).unwrap().texts(), "one");
    one.end(&hub);
    assert!(hub.call_tool("pay", json!({})).is_err());
    assert!(hub.prompt("pay", &[]).is_err());
}
