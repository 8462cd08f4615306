//! A scripted server: the other end of a link, read and written line by line.

use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, ClientBuilder, Error, Limits, Link, MemoryEnd, Protocol, json as ours, memory};

/// Long enough for a busy machine; a test that waits so long has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The server's end.
pub(crate) struct ScriptedPeer {
    pub(crate) end: MemoryEnd,
}

impl ScriptedPeer {
    pub(crate) fn new() -> (Link, ScriptedPeer) {
        let (link, end) = memory();
        (link, ScriptedPeer { end })
    }

    /// The next message of the client.
    pub(crate) fn receive(&self) -> Value {
        let text = self.end.receive(TIMEOUT).expect("the client sends a message");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Reads the next message, which must be a request of this method. Returns its id.
    pub(crate) fn asked(&self, method: &str) -> Value {
        let message = self.receive();
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

    /// Responds to the probe as a server of the modern era.
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
            json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "scripted", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}}}),
        );
        let ready = self.receive();
        assert_eq!(ready, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
}

/// A connected client of this era, and the server's end.
pub(crate) fn connected(builder: ClientBuilder, era: Protocol) -> (Client, ScriptedPeer) {
    let (link, scripted) = ScriptedPeer::new();
    let greeting = std::thread::spawn(move || {
        match era {
            Protocol::Session => scripted.greet_legacy(),
            Protocol::Stateless => scripted.greet_modern(),
        }
        scripted
    });
    let client = builder.protocol(era).over(link).expect("the server was greeted");
    (client, greeting.join().unwrap())
}

/// Limits with a short time after which silence selects the session protocol.
pub(crate) fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.client.probe_timeout = Duration::from_millis(30);
    limits
}

pub(crate) fn plain() -> ClientBuilder {
    Client::builder("tester", "0").limits(Limits::default())
}

/// A tool's result, for both eras.
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

/// Runs a call on another thread.
pub(crate) fn call(client: &Client, tool: &'static str) -> JoinHandle<Result<String, Error>> {
    let client = client.clone();
    std::thread::spawn(move || client.call_tool(tool, ours!({"a": 1})).map(|output| output.texts()))
}

/// A handler that reports its start, and waits until the test releases it.
pub(crate) fn holding<T: Send + 'static>() -> (impl Fn(T) + Send + Sync + 'static, Held<T>) {
    let ((enter, entered), (leave, left)) = (mpsc::channel(), mpsc::channel::<()>());
    let left = Mutex::new(left);
    let hold = move |what| {
        enter.send(what).unwrap();
        // The end of the channel releases all handlers.
        let _ = left.lock().unwrap().recv();
    };
    (hold, Held { entered, leave })
}

/// The test's side of [`holding`]. Dropping it releases all handlers.
pub(crate) struct Held<T> {
    entered: mpsc::Receiver<T>,
    leave: mpsc::Sender<()>,
}

impl<T> Held<T> {
    /// Waits until a handler begins.
    pub(crate) fn begun(&self) -> T {
        self.entered.recv_timeout(TIMEOUT).expect("the handler begins")
    }

    /// Releases one handler.
    pub(crate) fn go_on(&self) {
        self.leave.send(()).unwrap();
    }

    /// Releases all handlers, running and later ones.
    pub(crate) fn let_all_go(self) -> mpsc::Receiver<T> {
        self.entered
    }
}
