//! Numbers beyond 32 bits keep their value with pointers of 32 bits: ids, integers of values and
//! records, bounds of schemas, times. `cross/test armv7` runs this on such a machine.

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, ParseLimits, ToJson};
use tinymcp::record::{Constraint, FromJson};
use tinymcp::{Limits, Server, Tool, ToolError, memory};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

/// Both sides of 2^31, 2^32, 2^53 and the ends of 64 bits.
const EDGES: [i128; 12] = [
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    (1 << 53) + 1,
    i64::MAX as i128,
    i64::MAX as i128 + 1,
    u64::MAX as i128,
    -(1 << 31) - 1,
    -(1 << 32) - 1,
    i64::MIN as i128,
];

tinymcp::record! {
    struct Wide {
        /// Since 1970, in milliseconds
        time: u64,
        /// Bytes from here
        offset: i64,
    }
}

tinymcp::record! {
    struct Narrow {
        pin: u32,
    }
}

#[test]
fn integers_of_64_bits_are_read_and_written_exactly() {
    for n in EDGES {
        let doc = Doc::parse(n.to_string()).unwrap();
        assert_eq!(doc.root().as_i64().map(i128::from), i64::try_from(n).ok().map(i128::from), "{n}");
        assert_eq!(doc.root().as_u64().map(i128::from), u64::try_from(n).ok().map(i128::from), "{n}");
        assert_eq!(doc.root().as_f64(), Some(n as f64), "{n}");
    }
    assert_eq!(u64::MAX.to_json().as_str(), "18446744073709551615");
    assert_eq!(i64::MIN.to_json().as_str(), "-9223372036854775808");
}

#[test]
fn records_hold_times_and_offsets_beyond_32_bits_and_refuse_what_a_field_cannot_hold() {
    let read = |text: &str| Wide::from_json(Doc::parse(text).unwrap().root(), &Constraint::NONE);
    let wide = read(r#"{"time":4294967297000,"offset":-4294967297}"#).unwrap();
    assert_eq!((wide.time, wide.offset), (4_294_967_297_000, -4_294_967_297));
    assert!(read(r#"{"time":18446744073709551616,"offset":0}"#).is_err());
    for (text, fits) in [("4294967295", true), ("4294967296", false), ("4294967297", false), ("-1", false)] {
        let doc = Doc::parse(format!("{{\"pin\":{text}}}")).unwrap();
        let read = Narrow::from_json(doc.root(), &Constraint::NONE);
        assert_eq!(read.map(|narrow| narrow.pin).ok(), text.parse().ok(), "{text}");
        assert_eq!(text.parse::<u32>().is_ok(), fits);
    }
}

#[test]
fn requests_are_answered_under_their_own_wide_ids() {
    let (link, mut client) = memory();
    let mut server = Server::new("wide", "1");
    server
        .tool(Tool::new("wide"), |_, wide: Wide| -> Result<String, ToolError> {
            Ok(format!("{} {}", wide.time, wide.offset))
        })
        .unwrap();
    // Times that no clock reaches.
    let mut limits = Limits::default();
    (limits.handler_deadline, limits.grace) = (Duration::from_secs(1 << 40), Duration::from_millis(1 << 40));
    server.limits(limits);
    let serving = thread::spawn(move || server.serve(link));
    client.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#);
    client.receive(HANG).expect("a greeting");
    let ids: Vec<i128> = EDGES.into_iter().filter(|id| i64::try_from(*id).is_ok()).collect();
    for id in &ids {
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"wide","arguments":{{"time":18446744073709551615,"offset":-9223372036854775808}}}}}}"#
        ));
        let answer = Doc::parse(client.receive(HANG).expect("an answer")).unwrap();
        assert_eq!(answer.root().get("id").unwrap().raw(), id.to_string());
        let text = answer.root().pointer("/result/content/0/text").unwrap();
        assert_eq!(text.as_str(), Some("18446744073709551615 -9223372036854775808"));
    }
    let endless = client.request("tools/list", tinymcp::json!({}), Duration::MAX).expect("an answer");
    assert!(endless.as_str().contains("\"wide\""), "{endless}");
    client.finish();
    serving.join().unwrap().unwrap();
}

#[test]
fn limits_beyond_the_address_space_are_not_reduced() {
    // With pointers of 32 bits, these values become the maximum. None wraps to a small value.
    let limits =
        ParseLimits { bytes: usize::MAX, depth: u32::MAX, nodes: u32::MAX, ..ParseLimits::default() };
    let text = format!("[{}1]", "1,".repeat(100_000));
    let mut doc = Doc::default();
    doc.parse_again(text.as_bytes(), &limits).unwrap();
    assert_eq!(doc.root().len(), 100_001);
}

#[cfg(feature = "schema")]
#[test]
fn bounds_of_schemas_beyond_32_bits_do_not_wrap() {
    use tinymcp::schema::Schema;
    for (schema, value, fits) in [
        (r#"{"maxLength":4294967296}"#, "\"abc\"", true),
        (r#"{"minLength":4294967296}"#, "\"abc\"", false),
        (r#"{"maxItems":4294967297}"#, "[1,2]", true),
        (r#"{"minItems":4294967297}"#, "[1,2]", false),
        (r#"{"maxProperties":18446744073709551617}"#, "{\"a\":1}", true),
        (r#"{"minProperties":18446744073709551617}"#, "{\"a\":1}", false),
        (r#"{"maximum":4294967296}"#, "4294967296", true),
        (r#"{"maximum":4294967296}"#, "4294967297", false),
        (r#"{"minimum":2147483648}"#, "2147483647", false),
        (r#"{"exclusiveMaximum":9223372036854775808}"#, "9223372036854775807", true),
        (r#"{"exclusiveMaximum":9223372036854775808}"#, "9223372036854775808", false),
        (r#"{"multipleOf":4294967296}"#, "8589934592", true),
        (r#"{"multipleOf":4294967296}"#, "8589934593", false),
        (r#"{"const":4294967296}"#, "4294967296", true),
        (r#"{"const":4294967296}"#, "0", false),
    ] {
        let compiled = Schema::parse(schema).unwrap();
        let value = Doc::parse(value).unwrap();
        assert_eq!(compiled.is_valid(value.root()), fits, "{schema} {}", value.root().raw());
    }
}
