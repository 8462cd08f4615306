//! The response to a frame depends only on the session and the registry, never on earlier frames.

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::{Context, Level, Limits, MemoryEnd, Server, Tool, ToolError, memory, record};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

const OPEN: &str = r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","more":[{"n":1}]},"_meta":{"progressToken":"p"}}}"#;
const STATELESS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","more":[{"n":1}]},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Replacements that keep the shape of a frame, and mostly its length.
const CHANGES: &[(&str, &str)] = &[
    ("\"2.0\"", "\"2.1\""),
    ("\"id\":1", "\"id\":2"),
    ("\"id\":1", "\"id\":123456"),
    ("\"id\":1", "\"id\":1.5"),
    ("\"id\":1", "\"id\":99999999999999999999"),
    ("\"id\":1", "\"id\":\"one\""),
    ("tools/call", "tools/list"),
    ("tools/call", "tools/cull"),
    ("tools/call", "ping"),
    ("\"echo\"", "\"shout\""),
    ("\"echo\"", "\"none\""),
    ("hello", "hullo"),
    ("hello", "something longer than before"),
    ("hello", ""),
    ("hello", "a \\\"quoted\\\" word"),
    ("\"n\":1", "\"n\":22"),
    ("\"progressToken\":\"p\"", "\"progressToken\":\"q\""),
    ("\"progressToken\":7", "\"progressToken\":8"),
    ("\"progressToken\":7", "\"progressToken\":7.5"),
    ("2026-07-28", "2026-07-29"),
    ("2026-07-28", "2025-11-25"),
    ("\"arguments\":{\"text\"", "\"arguments\":{\"test\""),
];

fn echo(ctx: &mut Context<'_>, arguments: Json, loud: bool) -> Result<String, ToolError> {
    ctx.log(Level::Info, None, "called")?;
    ctx.progress(1.0, Some(2.0), Some("half"));
    let text = arguments.as_str().to_owned();
    Ok(if loud { text.to_uppercase() } else { text })
}

record! {
    struct Numbers { l: Vec<i64>, a: Option<i64> }
}

fn sum(numbers: &Numbers) -> String {
    format!("{} {:?}", numbers.l.iter().sum::<i64>(), numbers.a)
}

/// The thread that runs the handlers.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    /// The reader thread.
    Inline,
    /// A worker.
    Pool,
    /// A worker, while the serving thread reads.
    Local,
}

struct Client {
    end: MemoryEnd,
    serving: thread::JoinHandle<Result<(), tinymcp::Error>>,
    handle: tinymcp::Handle,
}

impl Client {
    /// A client of a fresh server. Opens a session if `base` needs one.
    fn new(place: Where, base: &str) -> Client {
        let (link, end) = memory();
        let mut server = Server::new("again", "1");
        server.tools_may_change().logging();
        let handle = server.handle();
        for (name, loud) in [("echo", false), ("shout", true)] {
            let tool = Tool::new(name);
            if place == Where::Inline {
                server.inline_tool(tool, move |ctx, a: Json| echo(ctx, a, loud)).unwrap();
            } else {
                server.tool(tool, move |ctx: &mut Context<'_>, a: Json| echo(ctx, a, loud)).unwrap();
            }
        }
        if place == Where::Inline {
            server.inline_tool(Tool::new("sum"), |_, n: Numbers| Ok(sum(&n))).unwrap();
        } else {
            server.tool(Tool::new("sum"), |_, n: Numbers| Ok(sum(&n))).unwrap();
        }
        let serving = thread::spawn(move || match place {
            Where::Local => server.into_local().serve(link),
            _ => server.serve(link),
        });
        let client = Client { end, serving, handle };
        if base == SESSION {
            client.all_of(OPEN);
        }
        client
    }

    /// All messages that the server sends up to the response to this frame.
    fn all_of(&self, frame: &str) -> Vec<String> {
        assert!(self.end.send(frame));
        let mut said = Vec::new();
        loop {
            let message = self.end.receive(HANG).expect("an answer");
            let answer = !message.contains("\"method\"");
            said.push(message);
            if answer {
                return said;
            }
        }
    }

    fn end(mut self) {
        self.end.finish();
        self.serving.join().unwrap().unwrap();
    }
}

/// Sends each changed frame after several unchanged ones, and compares with a fresh server.
fn compare_with_fresh(place: Where, base: &str) {
    for (from, to) in CHANGES {
        let changed = base.replace(from, to);
        if changed == base {
            continue;
        }
        let fresh = Client::new(place, base);
        let expected = fresh.all_of(&changed);
        fresh.end();
        let used = Client::new(place, base);
        let usual = used.all_of(base);
        for _ in 0..2 {
            assert_eq!(used.all_of(base), usual);
        }
        assert_eq!(used.all_of(&changed), expected, "{changed}");
        assert_eq!(used.all_of(base), usual, "after {changed}");
        used.end();
    }
}

#[test]
fn inline_tools_of_sessions() {
    compare_with_fresh(Where::Inline, SESSION);
}

#[test]
fn inline_tools_without_sessions() {
    compare_with_fresh(Where::Inline, STATELESS);
}

#[test]
fn pooled_tools_of_sessions() {
    compare_with_fresh(Where::Pool, SESSION);
}

#[test]
fn pooled_tools_without_sessions() {
    compare_with_fresh(Where::Pool, STATELESS);
}

#[test]
fn local_servers_with_sessions() {
    compare_with_fresh(Where::Local, SESSION);
}

#[test]
fn local_servers_without_sessions() {
    compare_with_fresh(Where::Local, STATELESS);
}

#[test]
fn a_removed_tool_is_not_called() {
    for base in [SESSION, STATELESS] {
        let client = Client::new(Where::Inline, base);
        for _ in 0..3 {
            assert!(client.all_of(base).last().unwrap().contains("hello"));
        }
        assert!(client.handle.remove_tool("echo").unwrap());
        let answer = client.all_of(base).pop().unwrap();
        assert!(answer.contains("Unknown tool"), "{answer}");
        client.end();
    }
}

#[test]
fn a_changed_log_level_applies_at_once() {
    let client = Client::new(Where::Inline, SESSION);
    let all = client.all_of(SESSION);
    for (level, expected) in [("emergency", all.len() - 1), ("debug", all.len())] {
        client.all_of(&format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
        ));
        for _ in 0..3 {
            assert_eq!(client.all_of(SESSION).len(), expected, "{level}");
        }
    }
    client.end();
}

#[test]
fn a_frame_in_between_changes_nothing() {
    for base in [SESSION, STATELESS] {
        let client = Client::new(Where::Inline, base);
        // A progress token must be a string or an integer; this member may be anything.
        let base = &base.replace("progressToken", "example.com/x");
        let usual = client.all_of(base);
        for between in [r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "nonsense", "[]", r#"{"id":1}"#] {
            assert_eq!(client.all_of(between), client.all_of(between));
            assert_eq!(client.all_of(base), usual, "after {between}");
        }
        client.end();
    }
}

/// A call of `sum` with these arguments, as text: it need not be JSON.
fn sum_of(base: &str, arguments: &str) -> String {
    base.replace("\"echo\"", "\"sum\"").replace(r#"{"text":"hello","more":[{"n":1}]}"#, arguments)
}

#[test]
fn lists_may_grow_and_shrink() {
    for place in [Where::Inline, Where::Pool] {
        for base in [SESSION, STATELESS] {
            let client = Client::new(place, base);
            for (list, total) in [
                ("77777,123456,12", 201_245),
                ("77777,12", 77_789),
                ("77777,12", 77_789),
                ("1,2", 3),
                ("1,22", 23),
                ("1,222,2", 225),
                ("", 0),
                ("5", 5),
            ] {
                let answer = client.all_of(&sum_of(base, &format!("{{\"l\":[{list}]}}"))).pop().unwrap();
                let expected = format!("\"text\":\"{total} None\"");
                assert!(answer.contains(&expected), "[{list}]: {answer}");
            }
            client.end();
        }
    }
}

#[test]
fn text_that_is_not_json_is_never_accepted() {
    for (before, bad) in [("4.0", "4.099002.000"), ("4.0", "4.0.0"), ("1e5", "1e5e5"), ("12", "1-2")] {
        for base in [SESSION, STATELESS] {
            let client = Client::new(Where::Inline, base);
            let usual = client.all_of(&sum_of(base, &format!("{{\"l\":[],\"a\":{before}}}")));
            for _ in 0..2 {
                let answer =
                    client.all_of(&sum_of(base, &format!("{{\"l\":[],\"a\":{bad}}}"))).pop().unwrap();
                assert!(answer.contains("-32700"), "{bad}: {answer}");
            }
            let again = client.all_of(&sum_of(base, &format!("{{\"l\":[],\"a\":{before}}}")));
            assert_eq!(again, usual, "after {bad}");
            client.end();
        }
    }
}

/// A small xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn number(&mut self) -> String {
        let digits = 1 + self.below(7) as u32;
        let n = self.below(10_u64.pow(digits));
        match self.below(12) {
            0 => format!("{n}.0"),
            1 => format!("{n}.{}", self.below(1000)),
            2 => format!("-{n}"),
            3 => "\"x\"".to_owned(),
            4 => format!("0{n}"),
            5 => format!("{n}.5.{}", self.below(10)),
            _ => n.to_string(),
        }
    }

    /// Adds, removes or replaces an element, or adds or removes the other member.
    fn change(&mut self, list: &mut Vec<String>, a: &mut Option<String>) {
        let at = self.below(list.len() as u64 + 1) as usize;
        match self.below(5) {
            0 | 1 => list.insert(at, self.number()),
            2 if at < list.len() => drop(list.remove(at)),
            3 => *a = (self.below(2) == 0).then(|| self.number()),
            _ if at < list.len() => list[at] = self.number(),
            _ => {}
        }
        list.truncate(5);
    }
}

#[test]
fn random_sequences_are_answered_as_by_a_fresh_server() {
    for (seed, base) in [(0x5eed, SESSION), (0xface, STATELESS)] {
        let mut random = Random(seed);
        let used = Client::new(Where::Inline, base);
        let (mut list, mut a) = (vec!["1".to_owned(), "2".to_owned()], None);
        let mut refused = 0;
        for _ in 0..150 {
            random.change(&mut list, &mut a);
            let a = a.as_ref().map_or(String::new(), |a| format!(",\"a\":{a}"));
            let frame = sum_of(base, &format!("{{\"l\":[{}]{a}}}", list.join(",")));
            let fresh = Client::new(Where::Inline, base);
            let expected = fresh.all_of(&frame);
            fresh.end();
            assert_eq!(used.all_of(&frame), expected, "seed {seed:#x}: {frame}");
            refused += usize::from(Doc::parse(frame.as_bytes()).is_err());
        }
        assert!((10..140).contains(&refused), "{refused} of 150 frames are not JSON");
        used.end();
    }
}

#[test]
fn a_batch_beyond_the_memory_for_calls_is_answered_in_full() {
    for local in [false, true] {
        let (link, mut end) = memory();
        let mut limits = Limits::default();
        (limits.in_flight_bytes, limits.workers) = (8 << 10, 1);
        let mut server = Server::new("small", "1");
        server.limits(limits);
        server.tool(Tool::new("length"), |_, a: Json| Ok(a.as_str().len().to_string())).unwrap();
        let serving =
            thread::spawn(move || if local { server.into_local().serve(link) } else { server.serve(link) });
        assert!(end.send(&OPEN.replace("2025-11-25", "2025-03-26")));
        end.receive(HANG).expect("a greeting");
        let text = "x".repeat(2000);
        let calls: Vec<String> = (0..20)
            .map(|id| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"length","arguments":{{"t":"{text}"}}}}}}"#
                )
            })
            .collect();
        assert!(end.send(&format!("[{}]", calls.join(","))));
        let answers = Doc::parse(end.receive(HANG).expect("an answer")).unwrap();
        let served = answers.root().items().filter(|answer| answer.get("result").is_some());
        assert_eq!((answers.root().len(), served.count()), (20, 20), "{answers:?}");
        end.finish();
        serving.join().unwrap().unwrap();
    }
}
