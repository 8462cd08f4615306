//! A server played by hand: the other end of a link, read and written line by line.

use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, ClientBuilder, Error, Limits, Link, MemoryEnd, Protocol, json as ours, memory};

/// Long enough for a busy machine; a test that waits so long has failed.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server's end.
pub(crate) struct Played {
    pub(crate) end: MemoryEnd,
}

impl Played {
    pub(crate) fn new() -> (Link, Played) {
        let (link, end) = memory();
        (link, Played { end })
    }

    /// The next message of the client.
    pub(crate) fn hear(&self) -> Value {
        let text = self.end.receive(SOON).expect("the client says something");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// The next message, which must be a request of this method; gives its id.
    pub(crate) fn asked(&self, method: &str) -> Value {
        let message = self.hear();
        assert_eq!(message["method"], method, "{message}");
        message["id"].clone()
    }

    pub(crate) fn say(&self, message: Value) {
        assert!(self.end.send(&message.to_string()), "the client listens");
    }

    pub(crate) fn answer(&self, id: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn refuse(&self, id: &Value, code: i32, message: &str) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }

    /// Answers the first question as a server of the modern era.
    pub(crate) fn greet_modern(&self) {
        let id = self.asked("server/discover");
        self.answer(
            &id,
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}}}),
        );
    }

    /// Opens a session.
    pub(crate) fn greet_legacy(&self) {
        let id = self.asked("initialize");
        self.answer(
            &id,
            json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "played", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}}}),
        );
        let ready = self.hear();
        assert_eq!(ready, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
}

/// A connected client of this era, and the server's end.
pub(crate) fn connected(builder: ClientBuilder, era: Protocol) -> (Client, Played) {
    let (link, played) = Played::new();
    let greeting = std::thread::spawn(move || {
        match era {
            Protocol::Session => played.greet_legacy(),
            Protocol::Stateless => played.greet_modern(),
        }
        played
    });
    let client = builder.protocol(era).over(link).expect("the server was greeted");
    (client, greeting.join().unwrap())
}

/// Limits under which silence is soon taken for an answer.
pub(crate) fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.probe_timeout = Duration::from_millis(30);
    limits
}

/// Plays a scene that has to be set within a time which the scene itself waits to be over. A machine
/// that is too slow for it makes the scene give nothing; then it is played again with ten times the time.
pub(crate) fn in_time(shortest: Duration, scene: impl Fn(Duration) -> Option<()>) {
    let set = [1, 10, 100].into_iter().any(|times| scene(shortest * times).is_some());
    assert!(set, "the scene was not set in time, however much there was");
}

pub(crate) fn plain() -> ClientBuilder {
    Client::builder("tester", "0").limits(Limits::default())
}

/// A tool's answer, in both eras.
pub(crate) fn ok() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})
}

/// The metadata of a modern request with these capabilities.
pub(crate) fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A call on a thread of its own.
pub(crate) fn call(client: &Client, tool: &'static str) -> JoinHandle<Result<String, Error>> {
    let client = client.clone();
    std::thread::spawn(move || client.call_tool(tool, ours!({"a": 1})).map(|output| output.texts()))
}

/// What a handler does that says when it begins, and waits until the test lets it go on.
pub(crate) fn holding<T: Send + 'static>() -> (impl Fn(T) + Send + Sync + 'static, Held<T>) {
    let ((enter, entered), (leave, left)) = (mpsc::channel(), mpsc::channel::<()>());
    let left = Mutex::new(left);
    let hold = move |what| {
        enter.send(what).unwrap();
        // The end of the channel lets everybody go.
        let _ = left.lock().unwrap().recv();
    };
    (hold, Held { entered, leave })
}

/// The test's side of [`holding`]; dropped, it holds nobody any more.
pub(crate) struct Held<T> {
    entered: mpsc::Receiver<T>,
    leave: mpsc::Sender<()>,
}

impl<T> Held<T> {
    /// Waits until a handler begins.
    pub(crate) fn begun(&self) -> T {
        self.entered.recv_timeout(SOON).expect("the handler begins")
    }

    /// Lets one handler go on.
    pub(crate) fn go_on(&self) {
        self.leave.send(()).unwrap();
    }

    /// Lets all go on, now and later; what began and begins.
    pub(crate) fn let_all_go(self) -> mpsc::Receiver<T> {
        self.entered
    }
}
