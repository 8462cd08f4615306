//! A server for the tests, and a small HTTP client with one connection per request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{
    Context, Error, Form, Handle, HttpServer, Level, Limits, Resource, ResourceContents, Server, Tool,
    ToolError,
};

/// Upper bound for every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const BOTH: &str = "application/json, text/event-stream";
pub(crate) const META: &str = "io.modelcontextprotocol/";

tinymcp::record! {
    pub(crate) struct Nothing {}
}
tinymcp::record! {
    pub(crate) struct Echo { text: String }
}
tinymcp::record! {
    pub(crate) struct Region { region: Option<String>, size: Option<i64> }
}

/// Lets handlers wait for a test, and the test for handlers.
#[derive(Default)]
pub(crate) struct Stage {
    marks: Mutex<Vec<&'static str>>,
    changed: Condvar,
}

impl Stage {
    pub(crate) fn mark(&self, mark: &'static str) {
        self.marks.lock().unwrap().push(mark);
        self.changed.notify_all();
    }

    /// Waits until this is marked.
    pub(crate) fn await_mark(&self, mark: &str) {
        let marks = self.marks.lock().unwrap();
        let (marks, _) =
            self.changed.wait_timeout_while(marks, TIMEOUT, |marks| !marks.contains(&mark)).unwrap();
        assert!(marks.contains(&mark), "{mark} was not reached");
    }

    fn has(&self, mark: &str) -> bool {
        self.marks.lock().unwrap().contains(&mark)
    }
}

/// One stage for each server, which lives as long as the test process.
pub(crate) fn stage() -> &'static Stage {
    Box::leak(Box::default())
}

pub(crate) fn server(stage: &'static Stage) -> Server {
    let mut server = Server::new("fixture", "1");
    server.logging().tools_may_change().resource_updates();
    server
        .tool(Tool::new("echo"), |_, echo: Echo| Ok(echo.text))
        .unwrap()
        .inline_tool(Tool::new("inline"), |_, echo: Echo| Ok(echo.text))
        .unwrap()
        .tool(Tool::new("who"), |ctx, _: Nothing| Ok(ctx.principal().unwrap_or("nobody").to_owned()))
        .unwrap()
        .tool(Tool::new("ask"), |ctx, _: Nothing| {
            let answer = ctx.elicit("name", Form::new("Who?"))?;
            Ok(format!("{:?}", answer.action()))
        })
        .unwrap()
        .tool(Tool::new("report"), |ctx, _: Nothing| {
            for step in 1..=3 {
                ctx.log(Level::Error, None, format!("step {step}").as_str())?;
            }
            Ok("reported")
        })
        .unwrap()
        .tool(Tool::new("refuse_late"), |ctx, _: Nothing| {
            ctx.log(Level::Error, None, "first")?;
            ctx.sample("model", tinymcp::Sampling::new(1).user("?")).map(|answer| answer.text())
        })
        .unwrap()
        .tool(Tool::new("sleep"), move |ctx, _: Nothing| {
            stage.mark("sleeps");
            // The handler does not check for a disconnect; the test must wake it.
            let woken = ctx.wait(10 * TIMEOUT).is_err();
            stage.mark("woken");
            Ok(woken.to_string())
        })
        .unwrap()
        .tool(Tool::new("wait"), move |ctx, _: Nothing| wait(ctx, stage))
        .unwrap()
        .tool(Tool::new("leave"), move |ctx, _: Nothing| {
            ctx.log(Level::Error, None, "before")?;
            ctx.detach(Duration::from_millis(10));
            stage.mark("left");
            wait(ctx, stage)
        })
        .unwrap()
        .tool(region(), |_, region: Region| Ok(region.region.unwrap_or_default()))
        .unwrap()
        .resource(Resource::new("text://note", "note"), |_, uri| Ok(ResourceContents::text(uri, "hello")))
        .unwrap();
    server
}

fn region() -> Tool {
    Tool::new("region").input_schema(tinymcp::json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "size": {"type": "integer", "x-mcp-header": "Size"}
        }
    }))
}

/// Waits until the test marks `go`, or the call is cancelled.
fn wait(ctx: &mut Context<'_>, stage: &Stage) -> Result<&'static str, ToolError> {
    stage.mark("waits");
    while !stage.has("go") {
        if ctx.wait(Duration::from_millis(1)).is_err() {
            stage.mark("cancelled");
            return Ok("cancelled");
        }
    }
    Ok("went")
}

pub(crate) struct Served {
    pub(crate) address: String,
    /// Path of the endpoint.
    path: String,
    pub(crate) handle: Handle,
    done: Mutex<mpsc::Receiver<Result<(), Error>>>,
    #[cfg(feature = "tiny_http")]
    endpoint: Option<tinymcp::HttpEndpoint>,
}

pub(crate) fn serve(server: Server) -> Served {
    let mut server = server;
    server.limits(Limits::default());
    serve_with(server, |http| http)
}

/// Serves with the limits that the server has.
pub(crate) fn serve_with(server: Server, options: impl FnOnce(HttpServer) -> HttpServer) -> Served {
    #[cfg(feature = "tiny_http")]
    if is_mounted() {
        return mounted_with(server, options);
    }
    let handle = server.handle();
    let bound = options(server.http().no_signal_handlers().diagnostics(|_| ())).bind("127.0.0.1:0").unwrap();
    let address = bound.address().to_owned();
    let (received, done) = mpsc::channel();
    thread::spawn(move || received.send(bound.serve()));
    let mut served = Served::elsewhere(address);
    (served.handle, served.done) = (handle, Mutex::new(done));
    served
}

/// Returns whether [`serve_with`] mounts its servers in a program that runs `tiny_http`. Such a
/// server does not see that a client disconnects, and leaves framing and connections to `tiny_http`:
/// tests of these return at once.
pub(crate) fn is_mounted() -> bool {
    cfg!(feature = "tiny_http") && std::env::var_os("TEST_MOUNTED").is_some()
}

/// Like [`serve_with`], mounted in a program that runs `tiny_http`.
#[cfg(feature = "tiny_http")]
pub(crate) fn mounted_with(server: Server, options: impl FnOnce(HttpServer) -> HttpServer) -> Served {
    let handle = server.handle();
    let endpoint = options(server.http().diagnostics(|_| ())).endpoint().unwrap();
    let http = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = http.server_addr().to_string();
    let mounted = endpoint.clone();
    thread::spawn(move || {
        for request in http.incoming_requests() {
            let endpoint = mounted.clone();
            thread::spawn(move || match request.url() {
                "/page" => request.respond(tiny_http::Response::from_string("the page of the program")),
                _ => endpoint.respond(request),
            });
        }
    });
    let mut served = Served::elsewhere(address);
    (served.handle, served.endpoint) = (handle, Some(endpoint));
    served
}

impl Served {
    /// A server that another function started.
    pub(crate) fn elsewhere(address: String) -> Served {
        let handle = Server::new("nobody", "1").handle();
        Served {
            address,
            path: "/mcp".to_owned(),
            handle,
            done: Mutex::new(mpsc::channel().1),
            #[cfg(feature = "tiny_http")]
            endpoint: None,
        }
    }

    /// Another endpoint of the same server.
    pub(crate) fn at(&self, path: &str) -> Served {
        let mut served = Served::elsewhere(self.address.clone());
        served.path = path.to_owned();
        served
    }

    /// Waits for the end of serving.
    pub(crate) fn ended(&self) {
        #[cfg(feature = "tiny_http")]
        if let Some(endpoint) = &self.endpoint {
            return endpoint.close();
        }
        self.done.lock().unwrap().recv_timeout(TIMEOUT).expect("serving did not end").unwrap();
    }

    /// Sends a request.
    pub(crate) fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "Host") {
            head += "Host: localhost\r\n";
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        Answer::read(stream)
    }

    /// Posts a message with the fields that every client sends, and these.
    pub(crate) fn post(&self, fields: &[(&str, &str)], message: &Value) -> Answer {
        let mut all = vec![("Content-Type", "application/json")];
        if !fields.iter().any(|(name, _)| *name == "Accept") {
            all.push(("Accept", BOTH));
        }
        all.extend_from_slice(fields);
        self.send("POST", &self.path, &all, &message.to_string())
    }

    /// Posts a modern request with the right fields, and these.
    pub(crate) fn modern(&self, fields: &[(&str, &str)], method: &str, params: Value) -> Answer {
        let message = request(1, method, params);
        let name =
            message["params"]["name"].as_str().or(message["params"]["uri"].as_str()).unwrap_or_default();
        let mut all = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        if matches!(method, "tools/call" | "resources/read" | "prompts/get") {
            all.push(("Mcp-Name", name));
        }
        all.extend_from_slice(fields);
        self.post(&all, &message)
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.modern(&[], "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Opens a session and returns its id.
    pub(crate) fn open(&self, date: &str, capabilities: Value) -> String {
        let answer = self.post(&[], &initialize(date, capabilities));
        assert_eq!(answer.status, 200);
        let id = answer.field("mcp-session-id").expect("no session id").to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], &ready).status, 202);
        id
    }

    /// Posts a request in a session.
    pub(crate) fn ask(&self, session: &str, id: u64, method: &str, params: Value) -> Answer {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(&[("Mcp-Session-Id", session)], &message)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

pub(crate) fn initialize(date: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": date, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}})
}

/// A modern request.
pub(crate) fn request(id: u64, method: &str, mut params: Value) -> Value {
    if params.get("_meta").is_none() {
        params["_meta"] = json!({});
    }
    let meta = &mut params["_meta"];
    for (name, value) in [
        ("protocolVersion", json!("2026-07-28")),
        ("clientCapabilities", json!({})),
        ("logLevel", json!("debug")),
    ] {
        let name = format!("{META}{name}");
        if meta.get(&name).is_none() {
            meta[&name] = value;
        }
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A response whose head has arrived.
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    text: String,
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: String,
    pub(crate) retry: Option<u64>,
}

impl Event {
    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Answer {
    pub(crate) fn read(stream: TcpStream) -> Answer {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}")).parse().unwrap();
        let mut fields = Vec::new();
        loop {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            fields.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Answer { status, fields, stream, text: String::new() }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Number of header fields with this name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.fields.iter().filter(|(known, _)| known == name).count()
    }

    pub(crate) fn is_events(&self) -> bool {
        self.field("content-type") == Some("text/event-stream")
    }

    /// The whole body.
    pub(crate) fn body(mut self) -> String {
        assert!(!self.is_events(), "events came");
        let length = self.field("content-length").map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// All bytes after the head until the connection ends.
    pub(crate) fn raw_rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    pub(crate) fn json(self) -> Value {
        assert_eq!(self.field("content-type"), Some("application/json"));
        serde_json::from_str(&self.body()).unwrap()
    }

    /// Status and error code.
    pub(crate) fn refusal(self) -> (u16, i64) {
        let status = self.status;
        (status, self.json()["error"]["code"].as_i64().unwrap_or(0))
    }

    /// The next event; `None` at the end of the stream, or when it was cut.
    pub(crate) fn event(&mut self) -> Option<Event> {
        assert!(self.is_events(), "expected an event stream, got {} {:?}", self.status, self.fields);
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let part = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
                };
                let (id, data, retry) = (part("id:"), part("data:"), part("retry:"));
                if id.is_none() && data.is_none() && retry.is_none() {
                    continue;
                }
                let retry = retry.map(|n| n.parse().unwrap());
                return Some(Event { id, data: data.unwrap_or_default(), retry });
            }
            let mut size = String::new();
            let Ok(1..) = self.stream.read_line(&mut size) else { return None };
            let Ok(size @ 1..) = usize::from_str_radix(size.trim_end(), 16) else { return None };
            // A stream may be cut in a chunk: what has arrived counts, as in other clients.
            let mut chunk = Vec::new();
            let _ = self.stream.by_ref().take(size as u64 + 2).read_to_end(&mut chunk);
            chunk.truncate(size);
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// The next message; comments and empty events before it are skipped.
    pub(crate) fn message(&mut self) -> Value {
        loop {
            let event = self.event().expect("the stream ended");
            if !event.data.is_empty() {
                return event.message();
            }
        }
    }

    /// All remaining bytes.
    pub(crate) fn rest(mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.event()).collect()
    }

    /// Closes the connection.
    pub(crate) fn hang_up(self) {
        self.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}
