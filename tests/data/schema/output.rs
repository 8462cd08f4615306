//! The output formats of the standard.

use tinymcp::schema::{Output, Schema};

use super::doc;

#[test]
fn flag_is_the_verdict() {
    let schema = Schema::parse(r#"{"type":"null"}"#).unwrap();
    assert_eq!(schema.output(doc("null").root(), Output::Flag).as_str(), r#"{"valid":true}"#);
    assert_eq!(schema.output(doc("1").root(), Output::Flag).as_str(), r#"{"valid":false}"#);
    assert_eq!(schema.output(doc("null").root(), Output::Basic).as_str(), r#"{"valid":true}"#);
}

#[test]
fn basic_names_the_way_the_keyword_and_the_value() {
    let schema = Schema::parse(
        r##"{"$id":"https://example.com/p","properties":{"a~b":{"$ref":"#/$defs/list"}},
            "$defs":{"list":{"allOf":[{"items":{"$ref":"#n"}}]},"number":{"$anchor":"n","type":"number"}},
            "required":["c"],"additionalProperties":{"minimum":2}}"##,
    );
    let value = doc(r#"{"a~b":[1,"x"],"d":1}"#);
    let expected = concat!(
        r#"{"valid":false,"errors":["#,
        r#"{"keywordLocation":"/properties/a~0b/$ref/allOf/0/items/$ref/type","#,
        r#""absoluteKeywordLocation":"https://example.com/p#/$defs/number/type","#,
        r#""instanceLocation":"/a~0b/1","error":"expected a number, got the string \"x\""},"#,
        r#"{"keywordLocation":"/additionalProperties/minimum","#,
        r#""absoluteKeywordLocation":"https://example.com/p#/additionalProperties/minimum","#,
        r#""instanceLocation":"/d","error":"expected a number of at least 2, got 1"},"#,
        r#"{"keywordLocation":"/required","absoluteKeywordLocation":"https://example.com/p#/required","#,
        r#""instanceLocation":"","error":"missing `c`"}]}"#,
    );
    assert_eq!(schema.unwrap().output(value.root(), Output::Basic).as_str(), expected);
}

#[test]
fn basic_names_references_that_are_nothing_else_and_lead_to_others() {
    let schema = Schema::parse(
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},
            "b":{"properties":{"n":{"$ref":"#/$defs/n"},"m":{"$ref":"#/$defs/n"},"s":{"$ref":"#/$defs/t"}}},
            "n":{"allOf":[{"minimum":3}]},"t":{"$ref":"#/$defs/s"},"s":{"type":"string"}}}"##,
    );
    let value = doc(r#"{"n":1,"m":2,"s":3}"#);
    let output = schema.unwrap().output(value.root(), Output::Basic).to_doc();
    let errors = output.root().get("errors").unwrap();
    let places: Vec<_> = errors
        .items()
        .map(|e| {
            ["keywordLocation", "absoluteKeywordLocation"].map(|name| e.get(name).unwrap().as_str().unwrap())
        })
        .collect();
    let expected = [
        ["/$ref/$ref/properties/n/$ref/allOf/0/minimum", "#/$defs/n/allOf/0/minimum"],
        ["/$ref/$ref/properties/m/$ref/allOf/0/minimum", "#/$defs/n/allOf/0/minimum"],
        ["/$ref/$ref/properties/s/$ref/$ref/type", "#/$defs/s/type"],
    ];
    assert_eq!(places, expected);
}
