//! Violations: path, keyword and message.

use tinymcp::schema::{Formats, Schema};

use super::doc;

/// Schema, value, path, keyword, message.
const TABLE: &[(&str, &str, &str, &str, &str)] = &[
    (r#"{"type":"string"}"#, "5", "", "type", "expected a string, got 5"),
    (
        r#"{"type":["string","null"]}"#,
        "[1,2]",
        "",
        "type",
        "expected a string or null, got an array of 2 items",
    ),
    (
        r#"{"type":["integer","boolean","null"]}"#,
        "1.5",
        "",
        "type",
        "expected an integer, true or false or null, got 1.5",
    ),
    (
        r#"{"properties":{"a":{"minimum":3}}}"#,
        r#"{"a":2}"#,
        "/a",
        "minimum",
        "expected a number of at least 3, got 2",
    ),
    (
        r#"{"minimum":3,"exclusiveMaximum":5}"#,
        "5",
        "",
        "exclusiveMaximum",
        "expected a number of at least 3 and less than 5, got 5",
    ),
    (r#"{"multipleOf":0.01}"#, "0.001", "", "multipleOf", "expected a multiple of 0.01, got 0.001"),
    (
        r#"{"minLength":3}"#,
        r#""ab""#,
        "",
        "minLength",
        "expected at least 3 characters, got 2 characters: the string \"ab\"",
    ),
    (
        r#"{"minLength":3,"maxLength":5}"#,
        r#""abcdef""#,
        "",
        "maxLength",
        "expected 3 to 5 characters, got 6 characters: the string \"abcdef\"",
    ),
    (r#"{"minItems":1}"#, "[]", "", "minItems", "expected at least 1 item, got 0"),
    (r#"{"maxProperties":0}"#, r#"{"a":1}"#, "", "maxProperties", "expected at most 0 members, got 1"),
    (
        r#"{"uniqueItems":true}"#,
        "[1,2,1.0]",
        "",
        "uniqueItems",
        "expected items that differ, but those at 0 and 2 are equal",
    ),
    (
        r#"{"enum":["fast","slow"]}"#,
        r#""Fastt""#,
        "",
        "enum",
        "expected one of \"fast\", \"slow\", got the string \"Fastt\", did you mean \"fast\"?",
    ),
    (r#"{"enum":[1,null,"x"]}"#, "2", "", "enum", r#"expected one of [1,null,"x"], got 2"#),
    (r#"{"const":{"a":1}}"#, "{}", "", "const", r#"expected {"a":1}, got an object of 0 members"#),
    (r#"{"required":["a","b","c"]}"#, r#"{"b":1}"#, "", "required", "missing `a`, `c`"),
    (
        r#"{"properties":{"path":true,"mode":true},"additionalProperties":false}"#,
        r#"{"pth":1}"#,
        "",
        "additionalProperties",
        "unknown member `pth`, did you mean `path`? Allowed are `path`, `mode`",
    ),
    (
        r#"{"additionalProperties":false}"#,
        r#"{"a":1}"#,
        "",
        "additionalProperties",
        "unknown member `a`. No members are allowed",
    ),
    (r#"{"properties":{"a":false}}"#, r#"{"a":1}"#, "/a", "false schema", "no value is allowed here, got 1"),
    (
        r#"{"contains":{"type":"string"}}"#,
        "[1]",
        "",
        "contains",
        "expected at least 1 item that match `contains`, got 0",
    ),
    (
        r#"{"contains":true,"maxContains":1}"#,
        "[1,2]",
        "",
        "maxContains",
        "expected at most 1 item that match `contains`, got more",
    ),
    (
        r#"{"propertyNames":{"maxLength":2}}"#,
        r#"{"abc":1}"#,
        "",
        "propertyNames",
        "the member name `abc` is not allowed: expected at most 2 characters, got 3 characters: the string \"abc\"",
    ),
    (
        r#"{"dependentRequired":{"a":["b"]}}"#,
        r#"{"a":1}"#,
        "",
        "dependentRequired",
        "missing `b`, which is required beside `a`",
    ),
    (
        r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        "5",
        "",
        "anyOf",
        "expected a string or null, got 5",
    ),
    (
        r#"{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"},"n":{"type":"integer"}},"required":["k","n"]}]}"#,
        r#"{"k":"b","n":"x"}"#,
        "",
        "oneOf",
        "matches none of 2 alternatives; the closest is at 1: /n: expected an integer, got the string \"x\"",
    ),
    (
        r#"{"oneOf":[{"minimum":1},{"maximum":5}]}"#,
        "3",
        "",
        "oneOf",
        "expected a value that matches exactly one alternative, but it matches those at 0 and 1",
    ),
    (
        r#"{"not":{"type":"null"}}"#,
        "null",
        "",
        "not",
        "expected a value that does not match the schema under `not`, got null",
    ),
    (
        r#"{"allOf":[true,{"properties":{"a/b":{"items":{"type":"null"}}}}]}"#,
        r#"{"a/b":[null,1]}"#,
        "/a~1b/1",
        "type",
        "expected null, got 1",
    ),
    (
        r#"{"if":{"type":"integer"},"then":{"maximum":1}}"#,
        "2",
        "",
        "maximum",
        "expected a number of at most 1, got 2",
    ),
    (
        r#"{"properties":{"a":true},"unevaluatedProperties":false}"#,
        r#"{"a":1,"b":2}"#,
        "",
        "unevaluatedProperties",
        "unknown member `b`",
    ),
    (
        r#"{"prefixItems":[true],"unevaluatedItems":false}"#,
        "[1,2]",
        "",
        "unevaluatedItems",
        "the item at 1 is one too many",
    ),
    (
        r#"{"format":"date"}"#,
        r#""2026-02-30""#,
        "",
        "format",
        "expected a date like \"2026-01-31\", got the string \"2026-02-30\"",
    ),
];

#[test]
fn each_keyword_has_its_message() {
    for (schema, value, path, keyword, message) in TABLE {
        let compiled = Schema::options().formats(Formats::Assert).parse(schema).expect(schema);
        let value = doc(value);
        let violation = *compiled.check(value.root()).expect_err(schema);
        assert_eq!((violation.path.as_str(), violation.keyword), (*path, *keyword), "{schema}");
        assert_eq!(violation.message, *message, "{schema}");
        assert_eq!(compiled.check_all(value.root(), 10), [violation], "{schema}");
        assert!(!compiled.is_valid(value.root()), "{schema}");
    }
}

#[test]
fn all_failures_are_listed_up_to_the_cap() {
    let schema = Schema::parse(
        r#"{"properties":{"a":{"type":"integer"},"b":{"items":{"maximum":1}}},"required":["c"],"additionalProperties":false}"#,
    );
    let schema = schema.unwrap();
    let value = doc(r#"{"a":"x","b":[0,5,1,6],"d":null}"#);
    let all = schema.check_all(value.root(), 100);
    let found: Vec<_> = all.iter().map(|v| (v.path.as_str(), v.keyword)).collect();
    let expected = [
        ("/a", "type"),
        ("/b/1", "maximum"),
        ("/b/3", "maximum"),
        ("", "additionalProperties"),
        ("", "required"),
    ];
    assert_eq!(found, expected);
    for most in 1..5 {
        assert_eq!(schema.check_all(value.root(), most), all[..most]);
    }
}

#[test]
fn names_of_the_peer_are_shortened() {
    let schema = Schema::parse(r#"{"additionalProperties":false}"#).unwrap();
    let value = doc(&format!("{{\"{}\":1}}", "é".repeat(100_000)));
    assert!(schema.check(value.root()).unwrap_err().message.len() < 300);
}
