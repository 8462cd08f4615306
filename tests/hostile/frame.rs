//! Framing: invalid lines, messages at the limits, and lines split at any byte.

use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{Limits, ResourceContents, Server, Template, Tool};

use super::process::{any, echo, plain};
use super::wire::{MODERN, Peer, Sink, Wire, call, handshake, limits, request, text_of};
use crate::tests;

tests! {
    an_invalid_line_gets_one_error_and_the_next_line_is_served,
    a_byte_order_mark_is_dropped_from_every_line,
    the_line_limit_does_not_depend_on_read_boundaries,
    bytes_read_after_a_large_line_start_the_next_line,
    responses_do_not_depend_on_read_boundaries,
    responses_have_the_id_of_the_request_unchanged,
    invalid_ids_are_rejected,
    large_messages_finish_within_the_timeout,
    limits_of_depth_and_value_count_are_enforced,
    adversarial_uris_finish_within_the_timeout,
    nul_characters_do_not_truncate_strings,
    line_breaks_in_json_of_the_program_are_removed,
    responses_without_a_request_are_dropped,
    a_memory_link_accepts_any_text,
}

/// Error code of the single response to this line.
fn code(wire: &Wire, line: &[u8]) -> i64 {
    wire.send([line, b"\n"].concat());
    let response = wire.receive();
    assert!(response.get("result").is_none(), "{response}");
    let code = response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{response}"));
    wire.assert_no_more();
    code
}

fn an_invalid_line_gets_one_error_and_the_next_line_is_served() {
    let parse: &[&[u8]] = &[
        b"garbage",
        b"{",
        b"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xff\xfeng\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}",
        b"\xff\xfe{\x00}\x00",
        b"\x00",
        b"\x1b[2Jlog line of a library",
        b"INFO starting server",
        b"Content-Length: 12\r",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\ud800\"}",
        b"{'jsonrpc':'2.0'}",
        b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"ping\"}",
        b"\xc2\xa0",
        b"\x0b",
    ];
    let shape: &[&[u8]] = &[
        b"1",
        b"null",
        b"\"ping\"",
        b"true",
        b"[]",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        b"{}",
        b"{\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1}",
        b"{\"jsonrpc\":\"2.0\",\"method\":null}",
    ];
    let wire = Wire::open(plain(), Limits::default());
    parse.iter().for_each(|line| assert_eq!(code(&wire, line), -32700, "{}", line.escape_ascii()));
    shape.iter().for_each(|line| assert_eq!(code(&wire, line), -32600, "{}", line.escape_ascii()));
    for (method, expected) in [
        ("tools/call", -32602),
        ("no/such", -32601),
        ("", -32601),
        ("resources/read", -32602),
        ("prompts/get", -32602),
        ("server/discover", -32601),
    ] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{}}}}");
        assert_eq!(code(&wire, line.as_bytes()), expected, "{method}");
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[1]}}");
        assert_eq!(code(&wire, line.as_bytes()), -32602, "{method}");
    }
    assert!(wire.end().is_empty());
}

fn a_byte_order_mark_is_dropped_from_every_line() {
    for end in ["\n", "\r\n", ""] {
        let mut wire = Wire::start(plain(), Limits::default());
        wire.send(format!("\u{feff}{}{end}", request(1, "ping").trim_end()));
        if end.is_empty() {
            wire.finish();
        }
        assert_eq!(wire.receive()["id"], 1, "{end:?}");
    }
    let wire = Wire::start(plain(), Limits::default());
    wire.send(format!("\u{feff}\n\u{feff}{}", request(1, "ping")));
    assert_eq!(wire.receive()["id"], 1);
    // Only one mark is dropped, and only at the start of the line.
    wire.send(format!("\u{feff}\u{feff}{}", request(1, "ping")));
    assert_eq!(wire.receive()["error"]["code"], -32700);
    wire.assert_no_more();
    // Also after a line longer than the limit.
    for cut in [4000, 5001] {
        let wire = Wire::start(plain(), limits(|l| l.frame_bytes = 1024));
        let both = format!("{}\n\u{feff}{}", "x".repeat(5000), request(1, "ping"));
        wire.send(&both.as_bytes()[..cut]);
        wire.send(&both.as_bytes()[cut..]);
        assert_eq!(wire.receive()["error"]["code"], -32600, "{cut}");
        assert_eq!(wire.receive()["id"], 1, "{cut}");
    }
}

fn the_line_limit_does_not_depend_on_read_boundaries() {
    let limits = limits(|l| l.frame_bytes = 1024);
    let line = |len: usize| {
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}"#;
        bare.replace("\"\"", &format!("\"{}\"", "x".repeat(len - bare.len())))
    };
    for mark in ["", "\u{feff}"] {
        for end in ["\n", "\r\n", ""] {
            for len in [1023, 1024, 1025, 1026, 1030, 5000, 300_000] {
                for max in [1, 7, 1024, usize::MAX] {
                    let mut wire = Wire::start_with(plain(), limits.clone(), max, Sink::default());
                    wire.send(format!("{mark}{}{end}", line(len)));
                    if end.is_empty() {
                        wire.finish();
                    }
                    let response = wire.receive();
                    if len <= 1024 {
                        assert_eq!(response["id"], 1, "{len} {end:?} {max}");
                    } else {
                        assert_eq!(response["error"]["code"], -32600, "{len} {end:?} {max}");
                        assert!(
                            response["error"]["message"].as_str().unwrap().contains("1024"),
                            "{response}"
                        );
                    }
                    if !end.is_empty() {
                        wire.assert_no_more();
                    }
                    assert!(wire.end().is_empty());
                }
            }
        }
    }
}

fn bytes_read_after_a_large_line_start_the_next_line() {
    let large = |id: u64| call(id, "inline", &format!(r#"{{"text":"{}"}}"#, "x".repeat(300_000)));
    for end in ["\n", "\r\n", "\n\n"] {
        // The read that ends the large line also delivers this many bytes of the next one.
        for more in [0, 1, 2, 3, 100, 65_535] {
            for next in [request(1, "ping"), large(1)] {
                let mut server = plain();
                server.inline_tool(any("inline"), echo).unwrap();
                let wire = Wire::open(server, Limits::default());
                let first = large(0).replace('\n', end);
                let both = format!("{first}{next}");
                let cut = both.len().min(first.len() + more);
                wire.send(&both[..cut]);
                wire.send(&both[cut..]);
                for id in [0, 1] {
                    let response = wire.receive();
                    assert_eq!(response["id"], id, "{more} {end:?}");
                    assert!(response["result"].is_object(), "{more} {end:?}");
                }
                wire.assert_no_more();
                assert!(wire.end().is_empty());
            }
        }
    }
}

/// Conversation with one message of each kind, whose responses have a fixed order.
fn conversation() -> (String, fn() -> Server) {
    let server = || {
        let mut server = plain();
        server.inline_tool(any("inline"), echo).unwrap();
        server
    };
    let call = |id: u64, arguments: &str| call(id, "inline", arguments);
    let text = [
        "\u{feff}",
        &handshake("2025-11-25"),
        "\r\n",
        &request(1, "ping"),
        &request("\"zwei\"", "tools/list"),
        &call(3, r#"{"ключ":"значение \ud83d\ude00"}"#).replace('\n', "\r\n"),
        "no message\n\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}\n",
        "   \t\r\n",
        "\u{fffd}\u{0}\n",
        &format!("{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"server/discover\",\"params\":{{{MODERN}}}}}\n"),
        "[1,2]\n",
        &call(5, "{}"),
        request(6, "ping").trim_end(),
    ]
    .concat();
    (text, server)
}

fn responses_do_not_depend_on_read_boundaries() {
    let (text, server) = conversation();
    let bytes = text.as_bytes();
    let talk = |pieces: &[&[u8]], max| {
        let wire = Wire::start_with(server(), Limits::default(), max, Sink::default());
        pieces.iter().for_each(|piece| wire.send(piece));
        wire.end()
    };
    let whole = talk(&[bytes], usize::MAX);
    assert_eq!(whole.len(), 10, "{whole:#?}");
    assert_eq!(talk(&[bytes], 1), whole, "byte by byte");
    let every = if super::long() { 1 } else { 3 };
    for at in (0..bytes.len()).step_by(every) {
        assert_eq!(talk(&[&bytes[..at], &bytes[at..]], usize::MAX), whole, "split at {at}");
    }
}

fn responses_have_the_id_of_the_request_unchanged() {
    let ids = [
        "0",
        "-0",
        "1",
        "-1",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "\"\"",
        "\"1\"",
        "\"a\\u0000b\"",
        "\"\\ud83d\\ude00\\n\\u2028\"",
        "\"null\"",
    ];
    let long = format!("\"{}\"", "i".repeat(100_000));
    let wire = Wire::open(plain(), Limits::default());
    for id in ids.iter().copied().chain([long.as_str()]) {
        for line in [request(id, "ping"), call(id, "echo", "{}"), call(id, "none", "{}"), request(id, "none")]
        {
            wire.send(line);
            let line = wire.line(super::wire::TIMEOUT).expect("no response");
            assert!(line.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")), "{id}: {line}");
        }
    }
}

fn invalid_ids_are_rejected() {
    let ids = [
        "null",
        "true",
        "false",
        "1.0",
        "1.5",
        "1e0",
        "1e3",
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "[]",
        "[1]",
        "{}",
        "{\"a\":1}",
    ];
    let wire = Wire::open(plain(), Limits::default());
    for id in ids {
        for line in [request(id, "ping"), call(id, "echo", "{}"), request(id, "none")] {
            wire.send(line);
            let response = wire.receive();
            assert_eq!(response["error"]["code"], -32600, "{id}");
            assert!(response.get("id").is_none(), "{response}");
        }
    }
}

fn large_messages_finish_within_the_timeout() {
    tinymcp::record! {
        /// Accepts any members and reads two.
        struct Two { first: String, last: String }
    }
    let mut server = plain();
    server
        .tool(Tool::new("two"), |_, two: Two| Ok(two.first + &two.last))
        .and_then(|s| {
            s.tool(any("count"), |_, arguments: Json| {
                let doc = arguments.to_doc();
                Ok(doc.root().get("all").map_or(0, |v| v.len()).to_string())
            })
        })
        .unwrap();
    let wire = Wire::open(server, Limits::default());
    let all = |items: String| format!("{{\"all\":{items}}}");
    let keys = |n: usize| (0..n).map(|k| format!("\"key_{k}\":{k},")).collect::<String>();
    let common = format!("\"{}", "prefix_".repeat(20));
    let long_keys = (0..20_000).map(|k| format!("{common}{k}\":0")).collect::<Vec<_>>().join(",");
    let rows: Vec<(String, &str)> = vec![
        (all(format!("{{{}}}", keys(64_000).trim_end_matches(','))), "64000"),
        (all(format!("{{{long_keys}}}")), "20000"),
        (all(format!("[{}]", vec!["0"; 70_000].join(","))), "70000"),
        (all(format!("[{}]", vec!["\"\\u0000\""; 70_000].join(","))), "70000"),
        (all(format!("[{}]", vec!["[]"; 70_000].join(","))), "70000"),
        (all(format!("[{}]", vec!["{\"a\":{}}"; 50_000].join(","))), "50000"),
    ];
    for (id, (arguments, expected)) in rows.iter().enumerate() {
        wire.send(call(id, "count", arguments));
        let response = wire.receive();
        assert_eq!(text_of(&response), *expected, "row {id}");
    }
    // The first and the last of many members are read.
    wire.send(call(100, "two", &format!("{{\"first\":\"a\",{}\"last\":\"b\"}}", keys(64_000))));
    let response = wire.receive();
    assert!(response["result"].is_object(), "{}", &response.to_string()[..200]);
    // A duplicate name at the other end is rejected quickly.
    wire.send(call(101, "count", &format!("{{\"twice\":1,{}\"twice\":2}}", keys(64_000))));
    assert_eq!(wire.receive()["error"]["code"], -32700);
    let same = vec!["\"k\":1"; 64_000].join(",");
    wire.send(call(102, "count", &format!("{{{same}}}")));
    assert_eq!(wire.receive()["error"]["code"], -32700);
    // Numbers with a million digits, and strings with millions of bytes and escapes.
    for (id, value) in [
        (103, "9".repeat(1_000_000)),
        (104, format!("0.{}", "0".repeat(1_000_000) + "1")),
        (105, format!("1e{}", "9".repeat(1_000_000))),
        (106, format!("\"{}\"", "x".repeat(4_000_000))),
        (107, format!("\"{}\"", "\\u00e9".repeat(600_000))),
    ] {
        wire.send(call(id, "echo", &format!("{{\"v\":{value}}}")));
        let response = wire.receive();
        assert_eq!(response["id"], id);
        assert!(text_of(&response).len() > 1_000_000);
    }
    assert!(wire.end().is_empty());
}

fn limits_of_depth_and_value_count_are_enforced() {
    let wire = Wire::open(plain(), Limits::default());
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for (depth, good) in [(100, true), (124, true), (126, false), (1000, false), (100_000, false)] {
            let inner = if open == "[" { "" } else { "1" };
            let nested = format!("{{\"v\":{}{inner}{}}}", open.repeat(depth), close.repeat(depth));
            for line in [call(1, "echo", &nested), nested.clone() + "\n", open.repeat(depth) + "\n"] {
                wire.send(&line);
                let response = wire.receive();
                let served = response["result"].is_object();
                assert_eq!(served, good && line.contains("tools/call"), "{depth}");
            }
        }
    }
    // The limit is 250,000 values and names.
    for (count, good) in [(249_000, true), (250_001, false), (2_000_000, false)] {
        wire.send(call(2, "echo", &format!("{{\"v\":[{}0]}}", "0,".repeat(count))));
        assert_eq!(wire.receive()["result"].is_object(), good, "{count}");
    }
    assert!(wire.end().is_empty());
}

fn adversarial_uris_finish_within_the_timeout() {
    let mut server = plain();
    for template in [
        "a:{+x}",
        "b:{x}/{y}/{z}",
        "c:{x}a{y}a{z}a",
        "d:{+x}aa{+y}aa{+z}aab",
        "e:{a}a{b}a{c}a{d}a{e}a{f}a",
        "f:{+a}a{+b}a{+c}a{+d}x",
        "g:{#x}a{#y}",
    ] {
        server
            .template(Template::new(template, "t").unwrap(), |_, uri, _| {
                Ok(ResourceContents::text("x:y", uri.len().to_string()))
            })
            .unwrap();
    }
    for ambiguous in ["h:{a}{b}{c}{d}{e}{f}", "h:{+a}{+b}{+c}{+d}x", "h:{#x}{#y}"] {
        let template = Template::new(ambiguous, "t").unwrap();
        let refused = server.template(template, |_, _, _| Ok(ResourceContents::text("x:y", "")));
        assert!(refused.is_err_and(|error| error.to_string().contains("ambiguous")), "{ambiguous}");
    }
    let wire = Wire::open(server, Limits::default());
    let mut id = 0;
    for scheme in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        for piece in ["a", "aa", "/", "a/", "%61", "%", "#", "\\u0000", "\\u00e9", "ab", "{x}"] {
            for times in [1000, if super::long() { 600_000 } else { 20_000 }] {
                let uri = format!("{scheme}:{}", piece.repeat(times));
                for end in ["", "b", "!"] {
                    id += 1;
                    wire.send(format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"resources/read\",\"params\":{{\"uri\":\"{uri}{end}\"}}}}\n"
                    ));
                    assert_eq!(wire.receive()["id"], id);
                }
            }
        }
    }
}

fn nul_characters_do_not_truncate_strings() {
    tinymcp::record! {
        /// Record with one member.
        struct One { text: String }
    }
    let mut server = plain();
    server.tool(Tool::new("one"), |_, one: One| Ok(one.text)).unwrap();
    let wire = Wire::open(server, Limits::default());
    wire.send(call(1, "one", r#"{"text":"a\u0000b"}"#));
    assert_eq!(text_of(&wire.receive()), "a\0b");
    wire.send(call(2, "one\\u0000", r#"{"text":"a"}"#));
    assert_eq!(wire.receive()["error"]["code"], -32602);
    wire.send(call(3, "one", r#"{"text\u0000":"a"}"#));
    assert_eq!(wire.receive()["result"]["isError"], true);
    wire.send(request(4, "ping\\u0000"));
    assert_eq!(wire.receive()["error"]["code"], -32601);
    wire.send(r#"{"jsonrpc":"2.0\u0000","id":5,"method":"ping"}"#.to_owned() + "\n");
    assert_eq!(wire.receive()["error"]["code"], -32600);
}

fn line_breaks_in_json_of_the_program_are_removed() {
    const PRETTY: &str = "{\r\n  \"type\": \"object\",\n\r\n  \"x-note\": \"a\\nb\"\r\n}";
    let mut server = plain();
    let tool = Tool::new("pretty").input_schema(Json::constant(PRETTY)).output_schema(Json::constant(PRETTY));
    server
        .tool(tool.meta(Json::constant(PRETTY)), |ctx, _: Json| {
            ctx.log(tinymcp::Level::Error, None, Json::constant(PRETTY))?;
            Ok(Json::constant(PRETTY))
        })
        .unwrap();
    server.logging();
    let wire = Wire::open(server, Limits::default());
    let expected: Value = serde_json::from_str(PRETTY).unwrap();
    wire.send(request(1, "tools/list"));
    let list = wire.receive();
    let tool = list["result"]["tools"].as_array().unwrap().iter().find(|t| t["name"] == "pretty").unwrap();
    assert_eq!(
        (&tool["inputSchema"], &tool["outputSchema"], &tool["_meta"]),
        (&expected, &expected, &expected)
    );
    wire.send(call(2, "pretty", "{}"));
    assert_eq!(wire.receive()["params"]["data"], expected);
    assert_eq!(wire.receive()["result"]["structuredContent"], expected);
    assert!(wire.end().is_empty());
}

fn responses_without_a_request_are_dropped() {
    let wire = Wire::open(plain(), Limits::default());
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":18446744073709551615,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
    ] {
        wire.send(line.to_owned() + "\n");
        wire.assert_no_more();
    }
}

fn a_memory_link_accepts_any_text() {
    let (link, mut end) = tinymcp::memory();
    let server = plain();
    let serving = std::thread::spawn(move || {
        let mut server = server;
        server.limits(limits(|l| l.frame_bytes = 1024));
        server.serve(link)
    });
    let response = |message: &str| {
        assert!(end.send(message));
        let response = end.receive(super::wire::TIMEOUT).expect("no response");
        serde_json::from_str::<Value>(&response).unwrap()
    };
    assert_eq!(response("")["error"]["code"], -32700);
    assert_eq!(response("\n")["error"]["code"], -32700);
    assert_eq!(response("x")["error"]["code"], -32700);
    assert!(response(&"x".repeat(5000))["error"].is_object());
    assert_eq!(response("{\n\"jsonrpc\":\r\n\"2.0\",\n\"id\":1,\n\"method\":\"ping\"\n}\n")["id"], 1);
    let spread = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{{MODERN},\"name\":\"echo\",\"arguments\":{{\n\"a\":\n[1,\r\n2]}}}}}}"
    );
    assert_eq!(text_of(&response(&spread)), "{\n\"a\":\n[1,\r\n2]}");
    end.finish();
    serving.join().unwrap().unwrap();
    assert!(end.receive(Duration::from_millis(1)).is_none());
}
