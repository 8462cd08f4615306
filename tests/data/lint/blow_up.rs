//! Schemas with an exponential number of paths: checking, fixing and simplifying end soon.
//!
//! The bound is a hundred times the time of a release build. With `TEST_SCHEMA_STRICT` set it is
//! 100 ms for each step.

use std::time::{Duration, Instant};

use tinymcp::lint::{self, OptionalProperties, Options, PROFILES};

use super::tool;

/// Processor time of this thread, which the load of the machine does not affect. `None` if the
/// system does not report it.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let strict = std::env::var_os("TEST_SCHEMA_STRICT").is_some();
    let clock = Instant::now();
    let start = processor_time();
    let answer = run();
    let took = processor_time().zip(start).map_or(clock.elapsed(), |(end, start)| end - start);
    assert!(took < Duration::from_millis(if strict { 100 } else { 10_000 }), "{what} took {took:?}");
    answer
}

/// A chain of definitions, each of which refers to the next one twice under the keyword.
fn doubling(length: usize, keyword: &str) -> String {
    let link = |n: usize| {
        let to = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
        match keyword {
            "properties" => format!(r#""d{n}":{{"type":"object","properties":{{"a":{to},"b":{to}}}}}"#),
            _ => format!(r#""d{n}":{{"{keyword}":[{to},{to}]}}"#),
        }
    };
    let chain: Vec<String> = (0..length).map(link).collect();
    format!(
        r##"{{"type":"object","$defs":{{{},"d{length}":{{"type":"string"}}}},"properties":{{"a":{{"$ref":"#/$defs/d0"}}}}}}"##,
        chain.join(",")
    )
}

#[test]
fn hostile_schemas_end_soon() {
    let deep = |open: &str, close: &str| format!("{}{{}}{}", open.repeat(40), close.repeat(40));
    let wide: Vec<String> = (0..20_000).map(|i| format!(r##""p{i}":{{"$ref":"#"}}"##)).collect();
    let many: Vec<String> = (0..20_000).map(|i| format!(r#"{{"const":"{i}"}}"#)).collect();
    let cases = [
        ("not within not", deep(r#"{"not":"#, "}")),
        ("anyOf within anyOf", deep(r#"{"anyOf":["#, "]}")),
        ("objects within objects", deep(r#"{"properties":{"a":"#, "}}")),
        ("30 doubling properties", doubling(30, "properties")),
        ("30 doubling allOf", doubling(30, "allOf")),
        ("1000 doubling anyOf", doubling(1000, "anyOf")),
        ("1000 doubling allOf", doubling(1000, "allOf")),
        (
            "20,000 ways back to the root",
            format!(r#"{{"type":"object","properties":{{{}}}}}"#, wide.join(",")),
        ),
        (
            "20,000 alternatives",
            format!(r#"{{"type":"object","properties":{{"a":{{"oneOf":[{}]}}}}}}"#, many.join(",")),
        ),
    ];
    for (what, schema) in cases {
        let snapshot = timed(what, || tool(&schema));
        let options = Options::new().rules("all").unwrap();
        timed(&format!("{what}, check"), || lint::check_with(&snapshot, &options));
        timed(&format!("{what}, fix"), || lint::fix(&snapshot, OptionalProperties::Require));
        for profile in PROFILES {
            // Either a copy or the error for a copy that is too long.
            let simple = timed(&format!("{what}, {}", profile.id), || lint::simplify(&snapshot, profile));
            assert!(simple.is_err() || simple.is_ok_and(|s| s.text.len() < 4 << 20), "{what} {}", profile.id);
        }
    }
}
