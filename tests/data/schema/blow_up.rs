//! Schemas and values with a high cost for their size.
//!
//! Each case gets a correct result or the keyword `limit`, within a hundred times its time on a
//! small board in a release build. Without their defences these cases take minutes or more. With
//! TEST_SCHEMA_STRICT set, the bound is 100 ms.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tinymcp::json::ParseLimits;
use tinymcp::schema::{Schema, SchemaLimits};

use super::doc;

fn bound() -> Duration {
    let strict = std::env::var_os("TEST_SCHEMA_STRICT").is_some();
    Duration::from_millis(if strict { 100 } else { 10_000 })
}

/// Processor time of this thread, which the load of the machine does not affect. `None` if the
/// system does not report it.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let clock = Instant::now();
    let start = processor_time();
    let answer = run();
    let took = processor_time().zip(start).map_or(clock.elapsed(), |(end, start)| end - start);
    assert!(took < bound(), "{what} took {took:?}");
    answer
}

/// The keyword of the first violation; `None` for a valid value.
fn answer(what: &str, schema: &str, value: &str) -> Option<&'static str> {
    let schema = timed(&format!("{what}, compile"), || Schema::parse(schema)).expect(what);
    let value = doc(value);
    let valid = timed(&format!("{what}, is_valid"), || schema.is_valid(value.root()));
    let first = timed(&format!("{what}, check"), || schema.check(value.root()));
    let all = timed(&format!("{what}, check_all"), || schema.check_all(value.root(), 100));
    assert_eq!(valid, first.is_ok(), "{what}");
    assert_eq!(valid, all.is_empty(), "{what}");
    first.err().map(|violation| violation.keyword)
}

fn refusal(what: &str, schema: &str) -> String {
    let refused = timed(&format!("{what}, compile"), || Schema::parse(schema));
    refused.err().unwrap_or_else(|| panic!("{what} was accepted")).to_string()
}

fn array(len: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<_> = (0..len).map(item).collect();
    format!("[{}]", items.join(","))
}

#[test]
fn unique_items_of_many_are_not_compared_pairwise() {
    let schema = r#"{"uniqueItems": true}"#;
    type Item = fn(usize) -> String;
    let kinds: [(&str, Item); 4] = [
        ("integers", |i| i.to_string()),
        ("strings", |i| format!("\"item {i}\"")),
        ("objects", |i| format!("{{\"b\":[{i}],\"a\":{i}.0}}")),
        ("long common starts", |i| format!("\"{}{i}\"", "x".repeat(100))),
    ];
    for (what, item) in kinds {
        assert_eq!(answer(what, schema, &array(40_000, item)), None);
        let twice = array(40_000, |i| item(if i == 39_999 { 7 } else { i }));
        assert_eq!(answer(what, schema, &twice), Some("uniqueItems"));
    }
}

#[test]
fn long_enums_are_searched_not_scanned() {
    let words = array(10_000, |i| format!("\"word {i}\""));
    let schema = format!("{{\"items\": {{\"enum\": {words}}}}}");
    assert_eq!(answer("enum of strings", &schema, &words), None);
    assert_eq!(answer("enum of strings", &schema, "[\"word 10000\"]"), Some("enum"));
    let mixed = array(10_000, |i| if i % 2 == 0 { format!("{i}.50") } else { format!("[{i}]") });
    let schema = format!("{{\"items\": {{\"enum\": {mixed}}}}}");
    assert_eq!(answer("enum of numbers and arrays", &schema, &mixed), None);
    assert_eq!(answer("enum of numbers and arrays", &schema, "[[2]]"), Some("enum"));
}

#[test]
fn recursion_through_alternatives_is_linear_in_the_value() {
    let branch = r##"{"type":"object","properties":{"c":{"$ref":"#"}},"required":["c"]}"##;
    for combinator in ["anyOf", "oneOf"] {
        let schema = format!("{{\"{combinator}\":[{branch},{branch},{{\"type\":\"null\"}}]}}");
        for depth in [12, 16, 20, 24, 60, 110] {
            let value = format!("{}1{}", "{\"c\":".repeat(depth), "}".repeat(depth));
            let what = format!("{combinator} to depth {depth}");
            assert_eq!(answer(&what, &schema, &value), Some(combinator));
        }
        let value = format!("{}null{}", "{\"c\":".repeat(110), "}".repeat(110));
        let expected = (combinator == "oneOf").then_some("oneOf");
        assert_eq!(answer(&format!("{combinator} that fits"), &schema, &value), expected);
    }
}

#[test]
fn recursion_through_alternatives_that_are_tracked_is_linear_too() {
    let branch = r##"{"type":"object","properties":{"c":{"$ref":"#"}},"required":["c"]}"##;
    let schema =
        format!("{{\"anyOf\":[{branch},{branch},{{\"type\":\"null\"}}],\"unevaluatedProperties\":false}}");
    let value = format!("{}null{}", "{\"c\":".repeat(110), "}".repeat(110));
    assert_eq!(answer("tracked anyOf", &schema, &value), None);
    let value = format!("{}1{}", "{\"c\":".repeat(110), "}".repeat(110));
    assert_eq!(answer("tracked anyOf", &schema, &value), Some("anyOf"));
}

/// `d0` applies `d1` twice, that `d2` twice, and so on.
fn doubling(combinator: &str, levels: usize, last: &str) -> String {
    let mut schema = "{\"$ref\":\"#/$defs/d0\",\"$defs\":{".to_owned();
    for i in 0..levels {
        let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", i + 1);
        write!(schema, "\"d{i}\":{{\"{combinator}\":[{next},{next}]}},").unwrap();
    }
    write!(schema, "\"d{levels}\":{last}}}}}").unwrap();
    schema
}

#[test]
fn doubling_definitions_cost_their_size_not_their_power() {
    for levels in [24, 30, 200] {
        for (combinator, value, expected) in [
            ("allOf", "1", None),
            ("allOf", "\"x\"", Some("type")),
            ("anyOf", "1", None),
            ("anyOf", "\"x\"", Some("anyOf")),
            ("oneOf", "1", Some("oneOf")),
            ("oneOf", "\"x\"", Some("oneOf")),
        ] {
            let schema = doubling(combinator, levels, r#"{"type":"integer","minimum":0}"#);
            assert_eq!(answer(&format!("{combinator} doubling {levels} times"), &schema, value), expected);
        }
    }
    let inner = doubling("anyOf", 30, r#"{"properties":{"a":{"minimum":0}}}"#);
    let tracked = format!("{{\"unevaluatedProperties\":false,{}", inner.strip_prefix('{').unwrap());
    assert_eq!(answer("tracked doubling", &tracked, r#"{"a":1}"#), None);
    assert_eq!(answer("tracked doubling", &tracked, r#"{"b":1}"#), Some("unevaluatedProperties"));
}

#[test]
fn chains_of_definitions_are_followed_or_refused() {
    let chain = |levels: usize, wrap: fn(String) -> String| {
        let mut schema = "{\"$ref\":\"#/$defs/d0\",\"$defs\":{".to_owned();
        for i in 0..levels {
            let next = wrap(format!("{{\"$ref\":\"#/$defs/d{}\"}}", i + 1));
            write!(schema, "\"d{i}\":{next},").unwrap();
        }
        write!(schema, "\"d{levels}\":{{\"type\":\"integer\"}}}}}}").unwrap();
        schema
    };
    let plain = chain(5_000, |next| next);
    assert_eq!(answer("a chain of 5,000 references", &plain, "1"), None);
    assert_eq!(answer("a chain of 5,000 references", &plain, "\"x\""), Some("type"));
    let wrapped = chain(5_000, |next| format!("{{\"allOf\":[{next}]}}"));
    assert!(refusal("a chain of 5,000 allOf", &wrapped).contains("nested subschemas"));
    let dependent = chain(5_000, |next| format!("{{\"dependentSchemas\":{{\"a\":{next}}}}}"));
    assert!(refusal("a chain of 5,000 dependentSchemas", &dependent).contains("nested subschemas"));
    let short = chain(60, |next| format!("{{\"dependentSchemas\":{{\"a\":{next},\"b\":{next}}}}}"));
    assert_eq!(answer("dependentSchemas doubling 60 times", &short, r#"{"a":1,"b":2}"#), Some("type"));
}

#[test]
fn cycles_that_stay_on_one_value_are_refused() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"not":{"$ref":"#"}}"##,
        r##"{"if":true,"then":{"$ref":"#"}}"##,
        r##"{"dependentSchemas":{"a":{"$ref":"#"}}}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}"##,
    ] {
        assert!(refusal(schema, schema).contains("cycle"), "{schema}");
    }
}

#[test]
fn wide_objects_are_looked_up_by_name() {
    let names = |n: usize, inner: &str| {
        let members: Vec<_> = (0..n).map(|i| format!("\"name {i}\":{inner}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let schema = format!(
        "{{\"properties\":{},\"required\":{},\"additionalProperties\":false}}",
        names(64_000, r#"{"type":"integer"}"#),
        array(64_000, |i| format!("\"name {i}\""))
    );
    assert_eq!(answer("64,000 properties", &schema, &names(64_000, "1")), None);
    assert_eq!(answer("64,000 properties", &schema, &names(63_999, "1")), Some("required"));
    assert_eq!(answer("64,000 properties", &schema, &names(64_000, "true")), Some("type"));
    let dependent = format!(
        "{{\"dependentRequired\":{{{}}}}}",
        (0..20_000).map(|i| format!("\"name {i}\":[\"name {}\"]", i + 1)).collect::<Vec<_>>().join(",")
    );
    assert_eq!(answer("20,000 dependents", &dependent, &names(20_001, "1")), None);
    assert_eq!(answer("20,000 dependents", &dependent, &names(20_000, "1")), Some("dependentRequired"));
    let value = names(64_000, "1");
    let constant = format!("{{\"const\":{value}}}");
    assert_eq!(answer("const of 64,000 members", &constant, &value), None);
}

#[test]
fn deep_values_end_at_the_limit_and_not_at_the_end_of_the_stack() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let recursive = r##"{"type":"array","items":{"$ref":"#"}}"##;
    assert_eq!(answer("depth 128", recursive, &deep(128)), None);
    assert_eq!(answer("depth 100,000", recursive, &deep(100_000)), Some("limit"));
    assert_eq!(answer("not of depth 100,000", &format!("{{\"not\":{recursive}}}"), "1"), None);
    let denied =
        r##"{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}"##;
    assert_eq!(answer("not of depth 100,000", denied, &deep(100_000)), Some("limit"));
    assert_eq!(answer("untouched depth 100,000", r#"{"type":"array"}"#, &deep(100_000)), None);
    assert_eq!(
        answer("unique depth 100,000", r#"{"uniqueItems":true}"#, &format!("[1,{}]", deep(100_000))),
        None
    );
    let open = format!("{}1", "{\"a\":".repeat(200));
    assert!(Schema::parse(&format!("{open}{}", "}".repeat(200))).is_err());
    let nested = format!("{}true{}", "{\"not\":".repeat(120), "}".repeat(120));
    assert_eq!(answer("120 times not", &nested, "1"), None);
}

#[test]
fn long_texts_are_measured_no_further_than_needed() {
    let long = format!("\"{}\"", "é".repeat(2_500_000));
    assert_eq!(answer("5 MB under maxLength", r#"{"maxLength":10}"#, &long), Some("maxLength"));
    assert_eq!(answer("5 MB under minLength", r#"{"minLength":10}"#, &long), None);
    assert_eq!(answer("5 MB under const", r#"{"const":"x"}"#, &long), Some("const"));
    let digits = "7".repeat(100_000);
    assert_eq!(answer("100,000 digits", r#"{"multipleOf":7}"#, &digits), None);
    assert_eq!(answer("100,000 digits", r#"{"maximum":7}"#, &digits), Some("maximum"));
    assert_eq!(answer("a huge exponent", r#"{"multipleOf":0.3}"#, "1e1000000000"), Some("multipleOf"));
    let violation = Schema::parse(r#"{"type":"object"}"#).unwrap().check(doc(&long).root()).unwrap_err();
    assert!(violation.message.len() < 500);
}

#[test]
fn many_branches_that_track_are_linear() {
    let branches = array(2_000, |i| format!("{{\"properties\":{{\"p{i}\":true}}}}"));
    let schema = format!("{{\"allOf\":{branches},\"unevaluatedProperties\":false}}");
    let members: Vec<_> = (0..2_000).map(|i| format!("\"p{i}\":{i}")).collect();
    let value = format!("{{{}}}", members.join(","));
    let verdict = answer("2,000 branches on 2,000 members", &schema, &value);
    // Four million look-ups exceed the steps, which is a valid result.
    assert!(matches!(verdict, None | Some("limit")), "{verdict:?}");
    let mut nested = r#"{"properties":{"x":true}}"#.to_owned();
    for i in 0..12 {
        nested = format!(
            "{{\"anyOf\":[{{\"properties\":{{\"p{i}\":true}}}},{nested}],\"unevaluatedProperties\":false}}"
        );
    }
    answer("12 times anyOf that tracks", &nested, r#"{"p11":1}"#);
}

#[test]
fn evaluated_members_are_tracked_also_with_cached_verdicts() {
    for (rule, good, bad) in [
        (
            r#"{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}"#,
            r#"{"a":1}"#,
            r#"{"b":1}"#,
        ),
        (r#"{"allOf":[{"prefixItems":[true]}],"unevaluatedItems":false}"#, "[1]", "[1,2]"),
    ] {
        // Enough branches to cache verdicts, here those of `rule`, used twice.
        let mut branches: Vec<_> =
            (0..100).map(|i| format!("{{\"properties\":{{\"p{i}\":{{}}}}}}")).collect();
        branches.extend([1, 2].map(|_| r##"{"allOf":[{"$ref":"#/$defs/rule"},{}]}"##.to_owned()));
        let schema =
            format!("{{\"$defs\":{{\"rule\":{rule}}},\"items\":{{\"allOf\":[{}]}}}}", branches.join(","));
        for before in [0, 100] {
            let value = array(before + 1, |i| if i < before { good } else { bad }.to_owned());
            let expected = if rule.contains("Items") { "unevaluatedItems" } else { "unevaluatedProperties" };
            assert_eq!(answer("kept verdicts", &schema, &value), Some(expected), "{before} {rule}");
            let value = array(before + 1, |_| good.to_owned());
            assert_eq!(answer("kept verdicts", &schema, &value), None, "{before} {rule}");
        }
    }
}

#[test]
fn branches_without_nodes_of_their_own_take_steps() {
    let numbers = array(100_000, |_| "1".to_owned());
    let objects = array(40_000, |_| "{\"a\":1}".to_owned());
    for (combinator, branch, value) in [
        ("allOf", r#"{"type":"number"}"#, &numbers),
        ("anyOf", r#"{"type":"null"}"#, &numbers),
        ("oneOf", r#"{"type":"null"}"#, &numbers),
        ("allOf", r#"{"minimum":0}"#, &numbers),
        ("anyOf", r#"{"type":"object","required":["b"]}"#, &objects),
    ] {
        let branches = array(20_000, |i| if i == 0 { r#"{"minProperties":0}"# } else { branch }.to_owned());
        let schema = format!("{{\"items\":{{\"{combinator}\":{branches}}}}}");
        let schema = timed("compile", || Schema::parse(&schema)).unwrap();
        let value = doc(value);
        timed(combinator, || schema.check(value.root())).ok();
    }
    // The steps do not suffice, which is a valid result; a few branches on as many values are
    // cheap.
    let few = r#"{"items":{"anyOf":[{"type":"null"},{"type":"string"},{"type":"number"}]}}"#;
    assert_eq!(answer("few branches", few, &numbers), None);
}

#[test]
fn long_texts_take_steps_each_time_they_are_read() {
    let digits = "1".repeat(400_000);
    let word = "x".repeat(400_000);
    let again = |branch: &str| array(5_000, |_| branch.to_owned());
    for (schema, value) in [
        (format!("{{\"allOf\":{}}}", again(r#"{"type":"integer"}"#)), digits.clone()),
        (format!("{{\"allOf\":{}}}", again(r#"{"minimum":-5}"#)), format!("0.{digits}")),
        (
            format!("{{\"allOf\":{}}}", again(r#"{"maxLength":800000}"#)),
            format!("\"{}\"", "é".repeat(500_000)),
        ),
        (
            format!(
                "{{\"$defs\":{{\"w\":{{\"const\":\"{word}\"}}}},\"allOf\":{}}}",
                again(r##"{"$ref":"#/$defs/w"}"##)
            ),
            format!("\"{word}\""),
        ),
        (format!("{{\"allOf\":{}}}", again(r#"{"uniqueItems":true}"#)), array(10_000, |i| i.to_string())),
    ] {
        assert_eq!(answer("read again and again", &schema, &value), Some("limit"));
    }
    // Once is cheap.
    assert_eq!(answer("a long integer", r#"{"type":"integer"}"#, &digits), None);
    let long = format!("\"{word}\"");
    assert_eq!(answer("a long word", &format!("{{\"const\":{long}}}"), &long), None);
    assert_eq!(answer("a long word", &format!("{{\"enum\":[1,{long}]}}"), &long), None);
    assert_eq!(answer("another long word", &format!("{{\"enum\":[{long}]}}"), "\"x\""), Some("enum"));
}

#[test]
fn many_anchors_are_found_without_going_through_all() {
    for (anchor, reference) in [("$anchor", "$ref"), ("$dynamicAnchor", "$dynamicRef")] {
        let list = |entry: &dyn Fn(usize) -> String| (0..20_000).map(entry).collect::<Vec<_>>().join(",");
        let places = list(&|i| format!("\"a{i}\":{{\"{anchor}\":\"a{i}\",\"const\":{i}}}"));
        let uses = list(&|i| format!("\"p{i}\":{{\"{reference}\":\"#a{i}\"}}"));
        let schema = format!("{{\"$defs\":{{{places}}},\"properties\":{{{uses}}}}}");
        assert_eq!(answer(anchor, &schema, r#"{"p0":0,"p19999":19999}"#), None);
        assert_eq!(answer(anchor, &schema, r#"{"p19999":1}"#), Some("const"));
    }
}

#[cfg(feature = "pattern")]
#[test]
fn the_total_cost_of_patterns_is_limited() {
    let many = array(3_000, |i| format!("{{\"pattern\":\"^(?:a|b)*a(?:a|b){{9}}c{i}\"}}"));
    assert!(refusal("3,000 large patterns", &format!("{{\"allOf\":{many}}}")).contains("in total"));
    let long = array(20_000, |i| format!("{{\"pattern\":\"^(?:){{0,9000}}{i}\"}}"));
    assert!(refusal("20,000 long counts", &format!("{{\"allOf\":{long}}}")).contains("in total"));
    let usual = array(300, |i| format!("{{\"pattern\":\"^[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-{i}$\"}}"));
    assert_eq!(answer("300 usual patterns", &format!("{{\"anyOf\":{usual}}}"), "\"x\""), Some("anyOf"));
}

#[test]
fn steps_run_out_closed_also_under_not() {
    let mut limits = SchemaLimits::default();
    (limits.steps, limits.steps_per_byte) = (100, 0);
    let value = doc(&array(1_000, |i| i.to_string()));
    for schema in [
        r#"{"items":{"minimum":0}}"#,
        r#"{"not":{"items":{"minimum":5000}}}"#,
        r#"{"not":{"not":{"items":{"minimum":0}}}}"#,
    ] {
        let schema = Schema::options().limits(limits.clone()).parse(schema).unwrap();
        let violation = schema.check(value.root()).err();
        let keyword = violation.map(|v| v.keyword);
        assert!(matches!(keyword, Some("limit")) || schema.is_valid(value.root()), "{keyword:?}");
    }
    let schema = Schema::options().limits(limits.clone()).parse(r#"{"items":{"minimum":0}}"#).unwrap();
    assert_eq!(schema.check(value.root()).unwrap_err().keyword, "limit");
    let denied = r#"{"not":{"items":{"minimum":0}}}"#;
    let schema = Schema::options().limits(limits).parse(denied).unwrap();
    assert_eq!(schema.check(value.root()).unwrap_err().keyword, "limit");
}

#[test]
fn schemas_beyond_the_limits_are_refused() {
    let mut limits = SchemaLimits::default();
    limits.nodes = 10;
    let wide = array(20, |_| "{\"minimum\":1}".to_owned());
    let refused = Schema::options().limits(limits).parse(&format!("{{\"allOf\":{wide}}}")).unwrap_err();
    assert!(refused.message.contains("subschemas"), "{refused}");
    let mut limits = SchemaLimits::default();
    limits.bytes = 100;
    assert!(
        Schema::options().limits(limits).parse(&format!("{{\"title\":\"{}\"}}", "x".repeat(100))).is_err()
    );
}

#[test]
fn a_validation_fits_the_documented_stack_of_its_depth() {
    // Debug frames are several times as large as those of a release build.
    let stack = if cfg!(debug_assertions) { 1 << 20 } else { 128 << 10 };
    let limits = SchemaLimits::default().fitting(128 << 10);
    assert_eq!(limits.depth, 128);
    let nested = format!("{}{}", "[{\"a\":".repeat(64), "1".to_owned() + &"}]".repeat(64));
    let mut value = tinymcp::json::Doc::default();
    value.parse_again(nested.as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
    let schema = Schema::options().limits(limits).parse(
        r##"{"anyOf":[{"prefixItems":[{"additionalProperties":{"$ref":"#"},"unevaluatedProperties":false}],"type":"array"},{"type":"integer"}]}"##,
    );
    let schema = schema.unwrap();
    let checked = std::thread::Builder::new().stack_size(stack).spawn(move || schema.check(value.root()));
    // The result does not matter, only that the thread returns one.
    let _ = checked.unwrap().join().unwrap();
}
