//! Invalid schemas, with the pointer to the error.

use tinymcp::schema::{Dialect, Schema};

/// Schema, pointer to the error, part of the message.
const TABLE: &[(&str, &str, &str)] = &[
    ("5", "", "expected a schema"),
    (r#"{"type":"strnig"}"#, "/type", "expected one of"),
    (r#"{"type":[]}"#, "/type", "at least one"),
    (r#"{"type":["null","null"]}"#, "/type/1", "duplicate"),
    (r#"{"required":"a"}"#, "/required", "array of strings"),
    (r#"{"required":true}"#, "/required", "array of strings"),
    (r#"{"required":["a",1]}"#, "/required/1", "expected a string"),
    (r#"{"required":["a","b","a"]}"#, "/required/2", "duplicate"),
    (r#"{"properties":[]}"#, "/properties", "expected an object"),
    (r#"{"properties":{"a":null}}"#, "/properties/a", "expected a schema"),
    (r#"{"properties":{"a/b":{"minimum":"1"}}}"#, "/properties/a~1b/minimum", "expected a number"),
    (r#"{"allOf":[]}"#, "/allOf", "at least one schema"),
    (r#"{"anyOf":{}}"#, "/anyOf", "at least one schema"),
    (r#"{"items":5}"#, "/items", "expected a schema"),
    (r#"{"prefixItems":{}}"#, "/prefixItems", "at least one schema"),
    (r#"{"prefixItems":[true],"items":[true]}"#, "/items", "prefixItems"),
    (r#"{"multipleOf":0}"#, "/multipleOf", "positive"),
    (r#"{"multipleOf":-2}"#, "/multipleOf", "positive"),
    (r#"{"minLength":-1}"#, "/minLength", "non-negative"),
    (r#"{"maxItems":2.5}"#, "/maxItems", "non-negative"),
    (r#"{"uniqueItems":"yes"}"#, "/uniqueItems", "true or false"),
    (r#"{"enum":5}"#, "/enum", "an array"),
    (r#"{"$anchor":"1a"}"#, "/$anchor", "letter"),
    (r#"{"$id":"http://a/#b"}"#, "/$id", "without fragment"),
    (r#"{"dependentRequired":{"a":["b","b"]}}"#, "/dependentRequired/a/1", "duplicate"),
    (r##"{"$ref":"#/$defs/nope"}"##, "/$ref", "has no target"),
    (r##"{"$defs":{"a":{"$ref":"#nope"}}}"##, "/$defs/a/$ref", "anchor"),
    (r##"{"$ref":"#/title","title":"x"}"##, "/$ref", "not a schema"),
    (r#"{"$ref":"http://example.com/a.json"}"#, "/$ref", "nothing is fetched"),
    (r#"{"$ref":"file:///etc/hostname"}"#, "/$ref", "nothing is fetched"),
    (r#"{"$schema":"http://example.com/dialect"}"#, "", "unsupported dialect"),
    (r#"{"$schema":"http://json-schema.org/draft-04/schema#"}"#, "", "unsupported dialect"),
    (r#"{"type":"object","type":"array"}"#, "", "name"),
    (r#"{"not":{"#, "", "end"),
    (r#"{"title":5}"#, "/title", "expected a string"),
];

#[test]
fn invalid_schemas_are_rejected_with_a_pointer() {
    for (schema, pointer, message) in TABLE {
        let refused = Schema::parse(schema).expect_err(schema);
        assert_eq!(refused.pointer, *pointer, "{schema}: {refused}");
        assert!(refused.message.contains(message), "{schema}: {refused}");
    }
}

#[test]
fn unknown_keywords_are_annotations() {
    for schema in [
        r#"{"propertees":5,"x-mine":[],"nullable":true}"#,
        r#"{"$comment":"x","default":{},"examples":[1]}"#,
        r#"{"format":"colour"}"#,
    ] {
        assert!(Schema::parse(schema).unwrap().is_valid(super::doc("7").root()), "{schema}");
    }
}

#[test]
fn old_spellings_work_in_new_schemas() {
    let schema = r##"{"definitions":{"n":{"type":"null"}},"properties":{"t":{"items":[{"$ref":"#/definitions/n"}],"additionalItems":false}},"dependencies":{"a":["b"],"c":{"required":["d"]}}}"##;
    for dialect in [Dialect::Draft07, Dialect::Draft202012] {
        let schema = Schema::options().dialect(dialect).parse(schema).unwrap();
        for (value, valid) in [
            (r#"{"t":[null]}"#, true),
            (r#"{"t":[1]}"#, false),
            (r#"{"t":[null,1]}"#, false),
            (r#"{"a":1}"#, false),
            (r#"{"a":1,"b":1,"c":1,"d":1}"#, true),
            (r#"{"c":1}"#, false),
        ] {
            assert_eq!(schema.is_valid(super::doc(value).root()), valid, "{value}");
        }
    }
}

// The metaschemas contain patterns.
#[cfg(feature = "pattern")]
#[test]
fn metaschemas_need_no_network() {
    for uri in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"] {
        let schema = Schema::parse(&format!("{{\"$ref\":\"{uri}\"}}")).expect(uri);
        assert!(schema.is_valid(super::doc(r#"{"type":"object","minLength":1}"#).root()));
        assert!(!schema.is_valid(super::doc(r#"{"allOf":[{"minLength":-1}]}"#).root()));
    }
}

#[cfg(not(feature = "pattern"))]
#[test]
fn patterns_without_the_engine_are_refused_and_not_ignored() {
    for schema in [r#"{"pattern":"a"}"#, r#"{"patternProperties":{"a":true}}"#] {
        let refused = Schema::parse(schema).expect_err(schema);
        assert!(refused.message.contains("feature"), "{refused}");
    }
}
