//! A server with two tools, and its own demonstration.
//!
//! ```sh
//! cargo run --example quickstart              # starts itself as a server and talks to it
//! cargo run --example quickstart -- --stdio   # the server alone, for a client of yours
//! ```
//!
//! `greet` asks the user for a name. Its handler is written once; the demonstration calls it in
//! both eras of the protocol: in a session that `initialize` opens (2025-11-25), where the question
//! is a request of the server, and without a session (2026-07-28), where the question is part of
//! the answer and the client calls again.
//!
//! The server is everything down to `serve`; the rest is a client in as few lines as possible.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use tinymcp::json::{Doc, Json, Value, Writer};
use tinymcp::{Context, Failure, Field, Form, Server, Tool, json};

tinymcp::record! {
    /// Two numbers.
    struct Add {
        /// First summand
        a: f64,
        /// Second summand
        b: f64,
    }
}

tinymcp::record! {
    /// How to greet.
    struct Greet {
        /// The word to greet with
        greeting: String [len 1..=20] = "Hello",
    }
}

fn add(_: &mut Context<'_>, arguments: Add) -> Result<String, Failure> {
    Ok((arguments.a + arguments.b).to_string())
}

fn greet(ctx: &mut Context<'_>, arguments: Greet) -> Result<String, Failure> {
    let form = Form::new("What is your name?").field(Field::text("name").least(1).required());
    // Until the user has answered, the `?` leaves the function; then it runs again from the top.
    let answer = ctx.elicit("name", form)?;
    Ok(match answer.text("name") {
        Some(name) => format!("{}, {name}!", arguments.greeting),
        None => format!("{}, whoever you are!", arguments.greeting),
    })
}

fn serve() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("quickstart", env!("CARGO_PKG_VERSION"));
    server.tool(Tool::new("add").description("Adds two numbers").read_only(), add)?;
    server.tool(Tool::new("greet").description("Greets the user by name").read_only(), greet)?;
    server.serve_stdio()
}

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        None => demonstrate(&mut io::stdout()),
        Some("--stdio") => serve().map_err(Into::into),
        Some(other) => Err(format!("unknown argument {other}; usage: quickstart [--stdio]").into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Era {
    /// A session, opened by a handshake.
    Session,
    /// Everything that matters in every request.
    Stateless,
}

fn demonstrate(out: &mut dyn Write) -> Outcome<()> {
    writeln!(out, "Revision 2025-11-25: initialize opens a session")?;
    let mut client = Client::start(Era::Session)?;
    let opened = client.request(
        out,
        "initialize",
        &[
            ("protocolVersion", json!("2025-11-25")),
            ("capabilities", json!({"elicitation": {}})),
            ("clientInfo", json!({"name": "quickstart", "version": "1"})),
        ],
    )?;
    let version = found(&opened, "/result/protocolVersion")?;
    same("the revision", version, "2025-11-25")?;
    let server = found(&opened, "/result/serverInfo/name")?;
    writeln!(out, "  initialize   {server} speaks {version}")?;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    use_tools(&mut client, out)?;
    client.finish()?;

    writeln!(out, "Revision 2026-07-28: no session, each request stands alone")?;
    let mut client = Client::start(Era::Stateless)?;
    let discovered = client.request(out, "server/discover", &[])?;
    let version = found(&discovered, "/result/supportedVersions/0")?;
    same("the revision", version, "2026-07-28")?;
    writeln!(out, "  discover     the server speaks {version}")?;
    use_tools(&mut client, out)?;
    client.finish()?;
    writeln!(out, "Everything was answered as expected.")?;
    Ok(())
}

/// What both eras have in common: everything that a user of the server sees.
fn use_tools(client: &mut Client, out: &mut dyn Write) -> Outcome<()> {
    let listed = client.request(out, "tools/list", &[])?;
    let tools = listed.root().pointer("/result/tools").map(Value::items).into_iter().flatten();
    let names: Vec<&str> = tools.filter_map(|tool| tool.get("name")?.as_str()).collect();
    writeln!(out, "  tools        {}", names.join(", "))?;
    same("the tools", &names.join(" "), "add greet")?;

    let sum = client.call(out, "add", json!({"a": 2, "b": 3}))?;
    writeln!(out, "  add 2 3      {sum}")?;
    same("the sum", &sum, "5")?;

    let refused = client.call(out, "add", json!({"a": 2, "b": "three"}))?;
    writeln!(out, "  add 2 three  {refused}")?;
    same("whether the refusal names the argument", &refused.contains("/b").to_string(), "true")?;

    writeln!(out, "  greet")?;
    let greeting = client.call(out, "greet", json!({}))?;
    writeln!(out, "               {greeting}\n")?;
    same("the greeting", &greeting, "Hello, Ada!")
}

/// A client of this very program.
struct Client {
    server: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    era: Era,
    last_id: u64,
}

impl Client {
    fn start(era: Era) -> Outcome<Client> {
        let mut server = Command::new(std::env::current_exe()?)
            .arg("--stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = server.stdin.take().ok_or("the server has no input")?;
        let from = BufReader::new(server.stdout.take().ok_or("the server has no output")?);
        Ok(Client { server, to, from, era, last_id: 0 })
    }

    /// Calls a tool and gives back what it says.
    fn call(&mut self, out: &mut dyn Write, tool: &str, arguments: Json) -> Outcome<String> {
        let called = self.request(out, "tools/call", &[("name", tool.into()), ("arguments", arguments)])?;
        Ok(found(&called, "/result/content/0/text")?.to_owned())
    }

    /// Sends a request and waits for its answer; what the server asks meanwhile is answered.
    fn request(&mut self, out: &mut dyn Write, method: &str, params: &[(&str, Json)]) -> Outcome<Doc> {
        self.post(method, params)?;
        loop {
            let message = self.receive()?;
            let root = message.root();
            if root.get("method").and_then(Value::as_str) == Some("elicitation/create") {
                // In a session the server asks by a request of its own.
                let id = root.get("id").ok_or("a question without an id")?;
                let answer = answer(out, root)?;
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer}))?;
            } else if let Some(questions) = root.pointer("/result/inputRequests") {
                // Without a session the questions are the answer, for now: call again with theirs.
                let mut w = Writer::new();
                w.begin_object();
                for (key, question) in questions.members() {
                    w.key(key).json(&answer(out, question)?);
                }
                w.end_object();
                let state = found(&message, "/result/requestState")?;
                let mut again = params.to_vec();
                again.push(("inputResponses", w.into_json()));
                again.push(("requestState", state.into()));
                self.post(method, &again)?;
            } else if let Some(error) = root.get("error") {
                return Err(format!("{method} was answered with {error}").into());
            } else if root.get("id").and_then(Value::as_u64) == Some(self.last_id) {
                return Ok(message);
            }
        }
    }

    /// Sends a request, with what every request of its era carries.
    fn post(&mut self, method: &str, params: &[(&str, Json)]) -> Outcome<()> {
        self.last_id += 1;
        let mut w = Writer::new();
        w.begin_object();
        for (name, value) in params {
            w.key(name).json(value);
        }
        if self.era == Era::Stateless {
            w.key("_meta").json(&json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "quickstart", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            }));
        }
        w.end_object();
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": w.into_json()}))
    }

    fn send(&mut self, message: &Json) -> Outcome<()> {
        Ok(writeln!(self.to, "{message}")?)
    }

    fn receive(&mut self) -> Outcome<Doc> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err("the server is gone".into()),
            _ => Ok(Doc::parse(line)?),
        }
    }

    /// Closes the server's input, which ends it.
    fn finish(mut self) -> Outcome<()> {
        drop(self.to);
        let status = self.server.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

/// Stands in for the user.
fn answer(out: &mut dyn Write, question: Value<'_>) -> Outcome<Json> {
    let message = question.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
    writeln!(out, "    it asks    {message}\n    we answer  Ada")?;
    same("the question", message, "What is your name?")?;
    Ok(json!({"action": "accept", "content": {"name": "Ada"}}))
}

fn found<'d>(message: &'d Doc, pointer: &str) -> Outcome<&'d str> {
    let value = message.root().pointer(pointer).and_then(Value::as_str);
    value.ok_or_else(|| format!("no text at {pointer} in {}", message.text()).into())
}

fn same(what: &str, got: &str, expected: &str) -> Outcome<()> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what}: got {got:?}, expected {expected:?}").into())
}
