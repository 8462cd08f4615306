//! Ready-made observers: access log, metrics, spans, and the crates `log` and `tracing`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tinymcp::{OtlpSpans, RequestMetrics, Server, Tool, ToolError, access_log_line};

use crate::client::{META, Nothing, Served, TIMEOUT, serve_with};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn server() -> Server {
    let mut server = Server::new("exported", "1");
    server
        .tool(Tool::new("ok"), |_, _: Nothing| Ok(""))
        .unwrap()
        .tool(Tool::new("fails"), |_, _: Nothing| Err::<(), _>(ToolError::new("no")))
        .unwrap();
    server
}

fn call(served: &Served, tool: &str, parent: &str) {
    let meta = json!({"traceparent": parent, format!("{META}protocolVersion"): "2026-07-28",
        format!("{META}clientCapabilities"): {}});
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    served
        .post(&fields, &json!({"jsonrpc": "2.0", "id": "r-1", "method": "tools/call", "params": params}))
        .json();
}

#[test]
fn the_access_log_has_one_line_for_each_request() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let mut server = server();
    server.observe(move |request| kept.lock().unwrap().push(access_log_line(request)));
    let served = serve_with(server, |http| http);
    call(&served, "ok", PARENT);
    call(&served, "fails", "");
    call(&served, "a\"b", "");
    call(&served, &"n".repeat(300), "");
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let rest = |at: usize| lines[at].split_once(' ').unwrap().1;
    assert!(lines[0].starts_with("20") && lines[0].as_bytes()[10] == b'T', "{lines:?}");
    assert!(rest(0).starts_with("method=\"tools/call\" name=\"ok\" outcome=ok ms="), "{lines:?}");
    assert!(rest(0).contains(" peer=127.0.0.1:"), "{lines:?}");
    assert!(rest(0).ends_with(" trace=4bf92f3577b34da6a3ce929d0e0e4736"), "{lines:?}");
    assert!(rest(1).contains(" outcome=tool_error ms="), "{lines:?}");
    assert!(rest(2).contains(r#" name="a\"b" outcome=error code=-32602 "#), "{lines:?}");
    assert!(rest(3).contains(&format!("{}…\" outcome=error", "n".repeat(256))), "{lines:?}");
}

#[test]
fn metrics_count_requests_by_method_name_and_outcome() {
    let metrics = RequestMetrics::new();
    assert_eq!(metrics.text(), "");
    let mut server = server();
    server.observe(metrics.observer());
    let served = serve_with(server, |http| http);
    for tool in ["ok", "ok", "fails", "absent", "absent_2"] {
        call(&served, tool, "");
    }
    served.modern(&[], "no/such", json!({})).json();
    let text = metrics.text();
    let has = |line: &str| assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
    has("# TYPE mcp_server_operation_duration_seconds histogram");
    let count = "mcp_server_operation_duration_seconds_count";
    has(&format!("{count}{{method=\"tools/call\",name=\"ok\",outcome=\"ok\"}} 2"));
    has(&format!("{count}{{method=\"tools/call\",name=\"fails\",outcome=\"tool_error\"}} 1"));
    // Names and methods that do not exist make no series of their own.
    has(&format!("{count}{{method=\"tools/call\",name=\"other\",outcome=\"error\"}} 2"));
    has(&format!("{count}{{method=\"other\",name=\"\",outcome=\"error\"}} 1"));
    has(
        "mcp_server_operation_duration_seconds_bucket{method=\"tools/call\",name=\"ok\",outcome=\"ok\",le=\"+Inf\"} 2",
    );
    assert!(text.contains("mcp_server_sent_bytes_total{method=\"tools/call\",name=\"ok\",outcome=\"ok\"} "));
    assert!(!text.contains("absent") && !text.contains("no/such"), "{text}");
}

/// A collector that passes on each body that it receives, and responds with this status.
fn collector(status: &'static str) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (send, bodies) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // Before the response: then the exporter reports that the spans were sent.
            if send.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}")
                .unwrap();
        }
    });
    (url, bodies)
}

/// An attribute of a span.
fn attribute<'v>(span: &'v Value, key: &str) -> Option<&'v str> {
    let all = span["attributes"].as_array().unwrap();
    all.iter().find(|one| one["key"] == key)?["value"]["stringValue"].as_str()
}

#[test]
fn spans_reach_the_collector_with_the_attributes_of_the_conventions() {
    let (url, bodies) = collector("200 OK");
    let spans = OtlpSpans::start(url, "board").unwrap();
    let mut server = server();
    server.observe(spans.observer());
    let served = serve_with(server, |http| http);
    call(&served, "ok", PARENT);
    call(&served, "fails", "");
    call(&served, &"n".repeat(300), "");
    // The caller does not record this trace.
    call(&served, "ok", &PARENT.replace("-01", "-00"));
    assert!(spans.flush(TIMEOUT));
    assert_eq!(spans.dropped(), 0);
    let mut all = Vec::new();
    while let Ok(body) = bodies.try_recv() {
        let resource = &body["resourceSpans"][0];
        let service = json!([{"key": "service.name", "value": {"stringValue": "board"}}]);
        assert_eq!(resource["resource"]["attributes"], service);
        assert_eq!(resource["scopeSpans"][0]["scope"]["name"], "tinymcp");
        all.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    assert_eq!(all.len(), 3, "{all:?}");
    let span = &all[0];
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(
        (&span["name"], &span["kind"], &span["status"]),
        (&json!("tools/call ok"), &json!(2), &json!({}))
    );
    let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "ok"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "r-1"),
        ("mcp.protocol.version", "2026-07-28"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(attribute(span, key), Some(value), "{key}");
    }
    assert_eq!(attribute(span, "error.type"), None);
    assert_eq!(
        (attribute(&all[1], "error.type"), &all[1]["status"]["code"]),
        (Some("tool_error"), &json!(2))
    );
    assert_eq!(all[1]["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(all[1]["parentSpanId"], Value::Null);
    assert_eq!(attribute(&all[2], "error.type"), Some("-32602"));
    assert_eq!(attribute(&all[2], "gen_ai.tool.name"), Some(&*format!("{}…", "n".repeat(256))));
    assert_eq!(attribute(&all[2], "rpc.response.status_code"), Some("-32602"));
}

#[test]
fn a_collector_that_fails_or_is_absent_delays_no_request() {
    let (failing, _bodies) = collector("503 Service Unavailable");
    // The system gives no privileged port to another test.
    let absent = "http://127.0.0.1:1/v1/traces".to_owned();
    for url in [failing, absent] {
        let spans = OtlpSpans::start(url, "board").unwrap();
        let mut server = server();
        server.observe(spans.observer());
        let served = serve_with(server, |http| http);
        call(&served, "ok", "");
        assert!(spans.flush(TIMEOUT));
    }
    assert!(OtlpSpans::start("not a url", "board").is_err());
}

/// The loggers of both crates are global, so one test uses them.
#[test]
fn requests_reach_the_crates_log_and_tracing() {
    struct Lines(Mutex<Vec<String>>);
    impl log::Log for Lines {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            self.0.lock().unwrap().push(format!("{} {} {}", record.target(), record.level(), record.args()));
        }
        fn flush(&self) {}
    }
    static LINES: Lines = Lines(Mutex::new(Vec::new()));
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Info);

    #[derive(Default)]
    struct Fields(String);
    impl tracing::field::Visit for Fields {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            self.0.push_str(&format!(" {}={value:?}", field.name()));
        }
    }
    struct Events(Arc<Mutex<Vec<String>>>);
    impl tracing::Subscriber for Events {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let metadata = event.metadata();
            self.0.lock().unwrap().push(format!("{} {}{}", metadata.target(), metadata.level(), fields.0));
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    tracing::subscriber::set_global_default(Events(Arc::clone(&events))).unwrap();

    let mut server = server();
    server.observe(tinymcp::log_requests).observe(tinymcp::trace_requests).observe(tinymcp::access_log);
    let served = serve_with(server, |http| http);
    call(&served, "ok", PARENT);
    call(&served, "fails", "");
    let own = |all: &Mutex<Vec<String>>| -> Vec<String> {
        all.lock().unwrap().iter().filter(|line| line.starts_with("tinymcp::request ")).cloned().collect()
    };
    let lines = own(&LINES.0);
    assert!(lines[0].starts_with("tinymcp::request INFO \"tools/call\" \"ok\" ok in "), "{lines:?}");
    assert!(
        lines[1].starts_with("tinymcp::request WARN \"tools/call\" \"fails\" tool_error in "),
        "{lines:?}"
    );
    let events = own(&events);
    assert!(events[0].starts_with("tinymcp::request INFO"), "{events:?}");
    for field in [
        "method=\"tools/call\"",
        "name=\"ok\"",
        "outcome=\"ok\"",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
    ] {
        assert!(events[0].contains(field), "{events:?}");
    }
    assert!(events[1].starts_with("tinymcp::request WARN") && events[1].contains("tool_error"), "{events:?}");
}
