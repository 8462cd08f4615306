//! Tests of the handler inside a server, in both protocols.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use tinymcp::{MemoryEnd, Server, json, memory};

use super::super::programs::process::tests::Folder;
use super::super::read;
use super::*;

const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    folder: Folder,
    shared: Arc<Shared>,
    client: MemoryEnd,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Fixture {
    /// Serves a file with these tools.
    fn new(name: &str, tools: &str) -> Fixture {
        let folder = Folder::new(name);
        let file = folder.0.join("f.json");
        fs::write(&file, format!("{{\"tools\": {{{tools}}}}}")).unwrap();
        let problems =
            |problems: Vec<read::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let definition = read::definition(&[file]).map_err(problems).unwrap();
        let shared = Arc::new(Shared::new(16).unwrap());
        let mut server = Server::new("s", "1");
        for tool in definition.tools {
            server.tool(tool.tool.clone(), handler(tool, Arc::clone(&shared))).unwrap();
        }
        let (link, client) = memory();
        let serving = std::thread::spawn(move || server.serve(link).unwrap());
        Fixture { folder, shared, client, serving: Some(serving) }
    }

    fn call_with(&mut self, tool: &str, arguments: &str, more: &str, capabilities: &str) -> Doc {
        let params = format!(
            r#"{{"name": "{tool}", "arguments": {arguments}, {more} "_meta": {{
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {capabilities}}}}}"#
        );
        self.client.request("tools/call", Json::parse(params).unwrap(), LONG).unwrap().to_doc()
    }

    fn call(&mut self, tool: &str, arguments: &str) -> String {
        let answer = self.call_with(tool, arguments, "", "{}");
        let content = answer.root().pointer("/result/content");
        let texts = content.unwrap().items().map(|block| block.get("text").unwrap().as_str().unwrap());
        texts.collect::<Vec<_>>().join("|")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.client.finish();
        self.serving.take().unwrap().join().unwrap();
        self.shared.stop();
    }
}

#[test]
fn arguments_reach_the_program() {
    let mut fixture = Fixture::new(
        "tool-arguments",
        r#""argv": {"description": "d", "input": {"a": "string", "b?": "string", "n?": "integer = 7"},
            "run": ["/bin/sh", "-c", "for a; do printf '<%s>' \"$a\"; done", "sh", "{a}", "{?b}", "{n}"]},
        "json": {"description": "d", "input": {"a": "string", "n?": "integer = 7"}, "stdin": "json", "run": ["cat"]},
        "text": {"description": "d", "input": {"a": "string"}, "stdin": "[{a}]", "run": ["cat"]},
        "env": {"description": "d", "env": {"X": "1 2"}, "run": ["/bin/sh", "-c", "echo \"$X,$HOME,$CARGO_PKG_NAME\"; pwd"]},
        "missing": {"description": "d", "run": ["./missing"]}"#,
    );
    assert_eq!(fixture.call("argv", r#"{"a": "$(id) 'x'\n"}"#), "<$(id) 'x'\n><7>");
    assert_eq!(fixture.call("argv", r#"{"a": "-rf", "b": "", "n": 1}"#), "<-rf><><1>");
    assert_eq!(fixture.call("argv", r#"{"a": "a\u0000b"}"#), "argument `a` must not contain a NUL character");
    assert_eq!(fixture.call("json", r#"{"a": "é"}"#), "{\"a\":\"é\",\"n\":7}\n");
    assert_eq!(fixture.call("text", r#"{"a": "é"}"#), "[é]");
    let home = std::env::var("HOME").unwrap_or_default();
    let folder = fs::canonicalize(&fixture.folder.0).unwrap();
    assert_eq!(fixture.call("env", "{}"), format!("1 2,{home},\n{}\n", folder.display()));
    assert_not_found(&fixture.call("missing", "{}"));
}

/// The emulator copies the memory that posix_spawn shares with the child, so the parent does not
/// see the error: there, the program seems to start and to exit with 127.
fn assert_not_found(answer: &str) {
    if std::env::var_os("TEST_EMULATED").is_some() {
        assert!(answer.starts_with("the program exited with status 127"), "{answer}");
        return;
    }
    assert!(answer.starts_with("cannot start the program "), "{answer}");
    assert!(answer.contains("not found, or its interpreter is not found"), "{answer}");
}

/// Key and request of the only elicitation.
fn asked_question(asked: &Doc) -> (&str, Value<'_>) {
    let mut questions = asked.root().pointer("/result/inputRequests").unwrap().members();
    questions.next().unwrap()
}

#[test]
fn a_missing_program_is_not_searched_in_the_working_folder() {
    use std::os::unix::fs::PermissionsExt;
    let mut fixture = Fixture::new(
        "tool-missing",
        r#""path": {"description": "d", "cwd": "sub", "run": ["./there"]},
        "name": {"description": "d", "cwd": "sub", "run": ["there-and-not-in-path"]}"#,
    );
    let sub = fixture.folder.0.join("sub");
    fs::create_dir(&sub).unwrap();
    for name in ["there", "there-and-not-in-path"] {
        fs::write(sub.join(name), "#!/bin/sh\necho started").unwrap();
        fs::set_permissions(sub.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_not_found(&fixture.call("path", "{}"));
    assert!(fixture.call("name", "{}").contains("it was not found in PATH when the server read"));
}

const VALVE: &str = r#""valve": {"description": "d", "input": {"bed": "integer", "why?": "string"},
    "confirm": "Open {bed}?{?why}", "run": ["/bin/sh", "-c", "echo >> runs; echo opened $1", "sh", "{bed}"]}"#;

#[test]
fn a_stateless_client_gets_the_question() {
    let mut fixture = Fixture::new("tool-confirm", VALVE);
    let elicitation = r#"{"elicitation": {"form": {}}}"#;
    let asked = fixture.call_with("valve", r#"{"bed": 3}"#, "", elicitation);
    let (key, question) = asked_question(&asked);
    let question = question.get("params").unwrap();
    assert_eq!(question.get("message").unwrap().as_str(), Some("Open 3?"));
    assert!(question.pointer("/requestedSchema/properties").unwrap().is_empty());
    assert!(!fixture.folder.0.join("runs").exists());
    let cases = [
        ("accept", r#", "content": {}"#, "opened 3\n"),
        ("decline", "", "the user declined"),
        ("cancel", "", "the user declined"),
    ];
    for (action, content, expected) in cases {
        let state = asked.root().pointer("/result/requestState").map_or("null", Value::raw);
        let more = format!(
            r#""requestState": {state}, "inputResponses": {{"{key}": {{"action": "{action}"{content}}}}},"#
        );
        let answer = fixture.call_with("valve", r#"{"bed": 3}"#, &more, elicitation);
        assert_eq!(answer.root().pointer("/result/content/0/text").unwrap().as_str(), Some(expected));
        assert_eq!(answer.root().pointer("/result/isError").is_some(), action != "accept");
    }
    assert_eq!(fs::read(fixture.folder.0.join("runs")).unwrap().len(), 1);
    let refused = fixture.call("valve", r#"{"bed": 3}"#);
    assert!(refused.contains("cannot ask the user"), "{refused}");
    let arguments = format!(r#"{{"bed": 3, "why": "{}"}}"#, "x".repeat(10_000));
    let long = fixture.call_with("valve", &arguments, "", elicitation);
    assert!(long.root().raw().contains("the question to the user would have 10007 bytes"));
    assert_eq!(fs::read(fixture.folder.0.join("runs")).unwrap().len(), 1);
}

#[test]
fn a_consent_counts_only_for_its_question() {
    let closed = VALVE.replace("\"valve\"", "\"closed\"");
    let mut fixture = Fixture::new("tool-consent", &format!("{VALVE}, {closed}"));
    let elicitation = r#"{"elicitation": {"form": {}}}"#;
    let accept =
        |key: &str| format!(r#""inputResponses": {{"{key}": {{"action": "accept", "content": {{}}}}}},"#);
    let asked = fixture.call_with("valve", r#"{"bed": 3}"#, "", elicitation);
    let (key, _) = asked_question(&asked);
    let state = asked.root().pointer("/result/requestState").map_or("null", Value::raw);
    let with_state = format!("\"requestState\": {state}, {}", accept(key));
    let table = [
        ("valve", r#"{"bed": 3}"#, accept("confirm")),
        ("valve", r#"{"bed": 4}"#, accept(key)),
        ("valve", r#"{"bed": 3, "why": ""}"#, accept(key)),
        ("valve", r#"{"bed": 4}"#, with_state),
        ("closed", r#"{"bed": 3}"#, accept(key)),
    ];
    for (tool, arguments, more) in table {
        let answer = fixture.call_with(tool, arguments, &more, elicitation);
        let text = answer.root().pointer("/result/content/0/text").and_then(|text| text.as_str());
        assert!(text.is_none_or(|text| !text.contains("opened")), "{tool} {arguments} {more}: {text:?}");
    }
    assert!(!fixture.folder.0.join("runs").exists());
    // A server that starts again, or has another definition, has other keys.
    for text in [VALVE.to_owned(), VALVE.replace("opened", "drained")] {
        let mut other = Fixture::new("tool-consent-other", &text);
        let answer = other.call_with("valve", r#"{"bed": 3}"#, &accept(key), elicitation);
        assert!(answer.root().pointer("/result/inputRequests").is_some());
    }
    let definition = |text: &str| {
        let folder = Folder::new("tool-consent-definition");
        let file = folder.0.join("f.json");
        fs::write(&file, format!("{{\"tools\": {{{text}}}}}")).unwrap();
        Handler::new(read::definition(&[file]).unwrap().tools.remove(0), Arc::clone(&fixture.shared))
    };
    let (old, new) = (definition(VALVE), definition(&VALVE.replace("opened", "drained")));
    assert_eq!(old.question_key("q", "{}"), definition(VALVE).question_key("q", "{}"));
    assert_ne!(old.question_key("q", "{}"), new.question_key("q", "{}"));
}

#[test]
fn a_client_with_a_session_gets_the_question() {
    for (action, expected) in [("accept", "opened 2\\n"), ("decline", "the user declined")] {
        let mut fixture = Fixture::new(&format!("tool-session-{action}"), VALVE);
        let client = &mut fixture.client;
        let info = json!({"name": "c", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info});
        client.request("initialize", hello, LONG).unwrap();
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client.send(
            r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"valve","arguments":{"bed":2}}}"#,
        );
        let question = Doc::parse(client.receive(LONG).unwrap()).unwrap();
        assert_eq!(question.root().pointer("/params/message").unwrap().as_str(), Some("Open 2?"));
        let id = question.root().get("id").unwrap().raw();
        client.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"{action}"}}}}"#));
        let answer = client.receive(LONG).unwrap();
        assert!(answer.contains(expected), "{answer}");
        assert_eq!(fixture.folder.0.join("runs").exists(), action == "accept");
    }
}

#[test]
fn structured_results_and_rests() {
    let mut fixture = Fixture::new(
        "tool-results",
        r#""json": {"description": "d", "output": "json", "run": ["/bin/sh", "-c", "printf '{{\\n \"a\": 1\\n}}\\n'"]},
        "long": {"description": "d", "outputLimit": 1000, "rest": "link", "run": ["/bin/sh", "-c", "head -c 3000 /dev/zero | tr '\\0' x"]}"#,
    );
    let answer = fixture.call_with("json", "{}", "", "{}");
    assert_eq!(answer.root().pointer("/result/structuredContent/a").unwrap().raw(), "1");
    let answer = fixture.call_with("long", "{}", "", "{}");
    let block = |at: usize| answer.root().pointer("/result/content").unwrap().index(at).unwrap();
    assert_eq!(block(1).get("text").unwrap().as_str(), Some("[cut: 2000 more bytes]"));
    assert_eq!(block(2).get("type").unwrap().as_str(), Some("resource_link"));
    let rest = fixture.shared.read_rest(block(2).get("uri").unwrap().as_str().unwrap()).unwrap();
    assert_eq!(rest.body, tinymcp::Body::Text("x".repeat(2000)));
}

#[test]
fn results_that_do_not_fit_the_schema_are_errors() {
    let schema =
        r#""outputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}"#;
    let tool = |name: &str, printed: &str| {
        let printed = printed.replace('{', "{{").replace('}', "}}").replace('"', "\\\"");
        format!(
            r#""{name}": {{"description": "d", "output": "json", "run": ["printf", "%s", "{printed}"], {schema}}}"#
        )
    };
    let script =
        r#"while read line; do id=${line#*:}; echo "{\"id\": ${id%%,*}, \"result\": {\"a\": \"x\"}}"; done"#;
    let script = script.replace('{', "{{").replace('}', "}}").replace('\\', "\\\\").replace('"', "\\\"");
    let worker =
        format!(r#""worker": {{"description": "d", "worker": ["/bin/sh", "-c", "{script}"], {schema}}}"#);
    let tools = [tool("fits", r#"{"a": 1}"#), tool("string", r#"{"a": "x"}"#), tool("missing", "{}"), worker];
    let mut fixture = Fixture::new("tool-schema", &tools.join(","));
    let answer = fixture.call_with("fits", "{}", "", "{}");
    assert_eq!(answer.root().pointer("/result/structuredContent/a").unwrap().raw(), "1");
    for (tool, reason) in [
        ("string", "/a: expected an integer, got the string \"x\""),
        ("worker", "/a: expected an integer, got the string \"x\""),
        ("missing", "missing `a`"),
    ] {
        let answer = fixture.call_with(tool, "{}", "", "{}");
        assert_eq!(answer.root().pointer("/result/isError").map(Value::raw), Some("true"), "{tool}");
        let text = fixture.call(tool, "{}");
        assert!(
            text.starts_with("the output does not match `outputSchema`: ") && text.contains(reason),
            "{text}"
        );
    }
}

#[test]
fn failures_in_a_sandbox_are_marked() {
    let folder = Folder::new("sandbox-note");
    let file = folder.0.join("f.json");
    let text = r#"{"tools": {"t": {"description": "d", "run": ["true"], "sandbox": {"read": ["system"]}}}}"#;
    fs::write(&file, text).unwrap();
    let mut definition = read::definition(&[file]).unwrap().tools.remove(0);
    let note = |definition: &Arc<ToolDefinition>, status: i32| {
        let handler = Handler::new(Arc::clone(definition), Arc::new(Shared::new(1).unwrap()));
        let status = std::os::unix::process::ExitStatusExt::from_raw(status);
        handler.launch.sandbox_note(Some(status))
    };
    let expected = cfg!(target_os = "linux").then_some("(this tool runs in a sandbox)");
    assert_eq!(note(&definition, 2 << 8), expected);
    assert_eq!((note(&definition, 0), note(&definition, 9)), (None, None));
    Arc::make_mut(&mut definition).program.sandbox = None;
    assert_eq!(note(&definition, 2 << 8), None);
}

#[test]
fn programs_that_are_not_found_are_described() {
    let mut tool = one_at_a_time("1");
    let of = |tool: &ToolDefinition| not_found(tool);
    assert!(
        of(&tool).contains("/tools/t: the program \"true\" is not in PATH, which is \"/"),
        "{}",
        of(&tool)
    );
    Arc::make_mut(&mut tool).program.argv =
        super::super::template::Argv::parse(&["./x"], &Default::default()).unwrap();
    assert!(of(&tool).ends_with("the program \"./x\" does not exist or is not executable"), "{}", of(&tool));
}

fn one_at_a_time(timeout: &str) -> Arc<ToolDefinition> {
    let folder = Folder::new("one-at-a-time");
    let file = folder.0.join("f.json");
    let text =
        format!(r#"{{"tools": {{"t": {{"run": ["true"], "concurrency": 1, "timeout": {timeout}}}}}}}"#);
    fs::write(&file, text).unwrap();
    read::definition(&[file]).unwrap().tools.remove(0)
}

#[test]
fn calls_beyond_the_concurrency_wait() {
    let limit = CallLimit::default();
    let places = WaitingPlaces::new(1);
    let (short, long) = (one_at_a_time("0.01"), one_at_a_time("60"));
    let caller = super::super::programs::process::tests::Recorder::default();
    let first = limit.enter(&caller, &short, &places).unwrap();
    let error = limit.enter(&caller, &short, &places).err().unwrap();
    let expected =
        "this call waited 0.01 s (`timeout`) for other calls of the tool to end (`concurrency` 1); try";
    assert!(format!("{error:?}").contains(expected), "{error:?}");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let caller = super::super::programs::process::tests::Recorder::default();
            limit.enter(&caller, &long, &places).is_ok()
        });
        // The second call waits in the only place.
        while places.is_free() {
            std::thread::yield_now();
        }
        let error = limit.enter(&caller, &long, &places).err().unwrap();
        assert!(format!("{error:?}").contains("the server is busy"), "{error:?}");
        drop(first);
        assert!(second.join().unwrap());
    });
    assert!(places.is_free());
    let _first = limit.enter(&caller, &long, &places).unwrap();
    caller.cancelled.store(true, Ordering::Relaxed);
    assert!(format!("{:?}", limit.enter(&caller, &long, &places).err().unwrap()).contains("cancelled"));
}

#[test]
fn calls_run_in_the_order_of_their_arrival() {
    let (limit, places, tool) = (CallLimit::default(), WaitingPlaces::new(8), one_at_a_time("60"));
    let caller = super::super::programs::process::tests::Recorder::default;
    let await_waiting = |count: usize| {
        while lock(&limit.calls).waiting.len() != count {
            std::thread::yield_now();
        }
    };
    for _ in 0..20 {
        let order = Mutex::new(Vec::new());
        let first = limit.enter(&caller(), &tool, &places).unwrap();
        std::thread::scope(|scope| {
            for number in 1..4 {
                let (limit, places, tool, order) = (&limit, &places, &tool, &order);
                scope.spawn(move || {
                    let permit = limit.enter(&caller(), tool, places).unwrap();
                    lock(order).push(number);
                    drop(permit);
                });
                await_waiting(number);
            }
            drop(first);
            // A new call does not overtake them.
            let permit = limit.enter(&caller(), &tool, &places).unwrap();
            lock(&order).push(4);
            drop(permit);
        });
        assert_eq!(*lock(&order), [1, 2, 3, 4]);
    }
    assert!(lock(&limit.calls).waiting.is_empty());
}
