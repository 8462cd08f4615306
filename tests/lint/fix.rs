//! What the autofix does, what it leaves, and that it changes nothing else.

use std::fs;
use std::path::Path;

use tinymcp::json::Doc;
use tinymcp::lint::{self, Optional, Snapshot};
use tinymcp::schema::Schema;

use crate::tool;

/// The schema after the fix, and why something was left.
fn fixed(schema: &str, optional: Optional) -> (String, Vec<String>) {
    let fixed = lint::tighten(&tool(schema), optional);
    let again = lint::tighten(&Snapshot::parse(&fixed.text).unwrap(), optional);
    assert_eq!(
        (again.text.as_str(), again.changes),
        (fixed.text.as_str(), 0),
        "a second run changed {schema}"
    );
    let doc = Doc::parse(&fixed.text).unwrap();
    let text = doc.root().pointer("/0/inputSchema").unwrap().raw().to_owned();
    (text, fixed.left.into_iter().map(|f| format!("{} {}", f.pointer, f.message)).collect())
}

#[track_caller]
fn becomes(schema: &str, expected: &str) {
    assert_eq!(fixed(schema, Optional::Require).0, expected);
}

/// Nothing changes, and the reason names this.
#[track_caller]
fn left(schema: &str, reason: &str) {
    let (text, left) = fixed(schema, Optional::Require);
    assert_eq!(text, schema);
    assert!(left.iter().any(|l| l.contains(reason)), "{left:?}");
}

#[test]
fn the_example_is_tightened_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tool-schema-lint");
    let loose = fs::read_to_string(folder.join("loose.json")).unwrap();
    let tightened = fs::read_to_string(folder.join("tightened.json")).unwrap();
    let fixed = lint::tighten(&Snapshot::parse(&loose).unwrap(), Optional::Require);
    assert_eq!(fixed.text, tightened);
    let again = lint::tighten(&Snapshot::parse(&tightened).unwrap(), Optional::Require);
    assert_eq!((again.text, again.changes), (tightened, 0));
}

#[test]
fn objects_are_closed_and_their_members_required_at_every_depth() {
    let a = r#"{"type":"object","properties":{"a":{"type":"null"}}}"#;
    let closed = r#"{"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false}"#;
    becomes(a, closed);
    for frame in [
        r#"{"type":"array","items":@}"#,
        r#"{"type":"array","prefixItems":[@]}"#,
        r#"{"anyOf":[@,{"type":"null"}]}"#,
        r#"{"type":"object","additionalProperties":@}"#,
        r#"{"$defs":{"d":@}}"#,
        r#"{"allOf":[@],"description":"wrapped"}"#,
    ] {
        becomes(&frame.replace('@', a), &frame.replace('@', closed));
    }
    becomes(
        r#"{"properties":{},"type":"object"}"#,
        r#"{"properties":{},"type":"object","additionalProperties":false}"#,
    );
    becomes(
        r#"{"type":"object","additionalProperties":true,"required":["b"],"properties":{"a":{"const":1},"b":{"type":"null"}}}"#,
        r#"{"type":"object","additionalProperties":false,"required":["b", "a"],"properties":{"a":{"const":1},"b":{"type":"null"}}}"#,
    );
}

#[test]
fn layout_numbers_and_escapes_stay_as_they_are() {
    becomes(
        "{ \"type\" : \"object\",\n\t\"properties\" : { \"\\u0061\" : {\"type\":\"number\",\"maximum\":1.50e2} }\n}",
        "{ \"type\" : \"object\",\n\t\"properties\" : { \"\\u0061\" : {\"type\":\"number\",\"maximum\":1.50e2} },\n\t\"required\" : [\"\\u0061\"],\n\t\"additionalProperties\" : false\n}",
    );
}

#[test]
fn optional_members_stay_optional_on_request() {
    let (text, _) = fixed(
        r#"{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"required":["a"]}"#,
        Optional::Keep,
    );
    assert_eq!(
        text,
        r#"{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"required":["a"],"additionalProperties":false}"#
    );
}

#[test]
fn beside_combinators_only_unevaluated_members_are_refused() {
    for tail in [
        r#""allOf":[{"properties":{"b":{"const":1}},"required":["b"]}]"#,
        r#""anyOf":[{"required":["a"]},{"properties":{"b":{"const":1}},"required":["b"]}]"#,
        r#""oneOf":[{"required":["a"]},{"properties":{"b":{"const":1}}}]"#,
        r##""$ref":"#/$defs/d","$defs":{"d":{"properties":{"b":{"const":1}}}}"##,
        r#""if":{"properties":{"a":{"const":1}}},"then":{"properties":{"b":{"const":1}}}"#,
        r#""dependentSchemas":{"a":{"properties":{"b":{"const":1}}}}"#,
        r#""not":{"required":["a"]}"#,
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{{"const":1}}}},{tail}}}"#);
        let expected = format!("{},\"unevaluatedProperties\":false}}", schema.strip_suffix('}').unwrap());
        becomes(&schema, &expected);
    }
    becomes(
        r#"{"type":"object","additionalProperties":true,"allOf":[{"properties":{"b":{"const":1}}}]}"#,
        r#"{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"b":{"const":1}}}]}"#,
    );
}

#[test]
fn what_closing_would_make_impossible_is_left_and_told() {
    left(r#"{"type":"object"}"#, "declares no properties");
    left(r#"{"type":"object","additionalProperties":{"type":"null"}}"#, "is a schema");
    left(r#"{"type":"object","properties":{},"required":["b"]}"#, "\"b\"");
    left(r#"{"type":"object","properties":{},"minProperties":1}"#, "minProperties");
    left(r#"{"type":"object","properties":{},"anyOf":[{"required":["b"]},{"required":["c"]}]}"#, "\"b\"");
    left(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"anyOf":[{}]}"#,
        "draft-07",
    );
    left(r##"{"type":"object","properties":{},"allOf":[{"$ref":"https://example.com/x"}]}"##, "elsewhere");
    left(r#"{"type":"object","properties":{},"if":{"properties":{"k":{"const":1}}}}"#, "\"k\"");
}

#[test]
fn what_an_alternative_allows_in_any_object_is_not_refused() {
    // The first two are what random catalogs found: `false` makes the other alternative fail, so
    // nobody declares the members of a value that the empty one accepts.
    let never = r#""a":{"type":"null"},"c":false"#;
    for schema in [
        format!(
            r#"{{"oneOf":[{{}},{{"type":"object","properties":{{{never}}},"if":{{"properties":{{"a":{{"const":1}}}}}},"then":{{"required":["a"]}}}}]}}"#
        ),
        format!(
            r#"{{"anyOf":[{{"type":"object","properties":{{{never}}},"patternProperties":{{"^a":{{"type":"null"}}}}}},{{}}]}}"#
        ),
        format!(r#"{{"anyOf":[{{"maxLength":5}},{{"type":"object","properties":{{{never}}}}}]}}"#),
        format!(
            r#"{{"type":"object","properties":{{"a":{{"const":null}}}},"anyOf":[true,{{"properties":{{{never}}}}}]}}"#
        ),
        format!(
            r##"{{"type":"object","properties":{{"a":{{"const":null}}}},"oneOf":[{{"properties":{{{never}}}}},{{"$ref":"#/$defs/any"}}],"$defs":{{"any":{{"allOf":[{{"anyOf":[{{"type":"string"}},{{"title":"any"}}]}}]}}}}}}"##
        ),
    ] {
        let valid = |schema: &str| {
            let (schema, value) =
                (Doc::parse(schema).unwrap(), Doc::parse(r#"{"a":null,"c":null}"#).unwrap());
            Schema::compile(schema.root()).unwrap().is_valid(value.root())
        };
        assert!(valid(&schema), "{schema}");
        left(&schema, "any object");
    }
    // An alternative that adds nothing to what is declared anyway, or takes no object, opens nothing.
    for tail in [
        r#""anyOf":[{},{"properties":{"a":{"const":1}}}]"#,
        r#""oneOf":[{"type":"string"},{"properties":{"b":{"const":1}}}]"#,
        r#""oneOf":[{"not":{"required":["a"]}},{"properties":{"b":{"const":1}}}]"#,
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{{"const":1}}}},{tail}}}"#);
        becomes(&schema, &format!("{},\"unevaluatedProperties\":false}}", schema.strip_suffix('}').unwrap()));
    }
}

#[test]
fn alternatives_with_members_are_each_closed_against_the_other() {
    // `{"a":1,"b":1}` was valid, by the second alternative, which does not declare `b`.
    becomes(
        r#"{"oneOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]},{"type":"object","properties":{"a":{"const":1}}}]}"#,
        r#"{"oneOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"additionalProperties":false},{"type":"object","properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false}]}"#,
    );
}

#[test]
fn what_requiring_would_make_impossible_stays_optional() {
    let closed = |properties: &str, rest: &str| {
        format!(r#"{{"type":"object","properties":{{{properties}}},"additionalProperties":false{rest}}}"#)
    };
    for (property, reason) in [
        ("false", "certain"),
        (r##"{"$ref":"#"}"##, "certain"),
        (r##"{"type":"array","items":{"$ref":"#"},"minItems":1}"##, "certain"),
        (r##"{"anyOf":[{"$ref":"#"},{"$ref":"#/properties/x"}]}"##, "certain"),
        (r#"{"enum":[]}"#, "certain"),
        (r#"{"type":"string","const":1}"#, "certain"),
        (r#"{"type":"integer","minimum":1.2,"maximum":1.8}"#, "certain"),
        (r#"{"type":"string","minLength":3,"maxLength":2}"#, "certain"),
        (r#"{"allOf":[{"type":"string"},{"type":"null"}]}"#, "certain"),
        (r#"{"oneOf":[{"type":"integer"},{"type":"integer"}]}"#, "certain"),
        (r#"{"not":{}}"#, "certain"),
    ] {
        left(&closed(&format!("\"x\":{property}"), ""), reason);
    }
    left(&closed(r#""a":{"const":1},"b":{"const":1}"#, r#","maxProperties":1"#), "maxProperties");
    left(&closed(r#""a":{"const":1}"#, r#","propertyNames":{"const":"b"}"#), "names");
    left(&closed(r#""a":{"const":1},"b":false"#, r#","dependentRequired":{"a":["b"]}"#), "depend");
    becomes(
        &closed(r##""n":{"type":"null"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, ""),
        &closed(
            r##""n":{"type":"null"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##,
            r#","required":["n","next"]"#,
        ),
    );
    // Of two that demand each other only the first can be required; what leads to them can.
    let cycle = |root: &str, a: &str, b: &str| {
        format!(
            r##"{{"type":"object","properties":{{"x":{{"$ref":"#/$defs/a"}}}},"$defs":{{"a":{{"type":"object","properties":{{"b":{{"$ref":"#/$defs/b"}}}}{a}}},"b":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/a"}}}}{b}}}}}{root}}}"##
        )
    };
    let shut = r#","additionalProperties":false"#;
    becomes(
        &cycle("", "", ""),
        &cycle(&format!(r#","required":["x"]{shut}"#), &format!(r#","required":["b"]{shut}"#), shut),
    );
}

#[test]
fn schemas_that_share_their_object_are_not_touched() {
    let inner = r#"{"type":"object","properties":{"x":{"const":1}}}"#;
    for schema in [
        format!(r#"{{"not":{inner}}}"#),
        format!(r#"{{"type":"array","contains":{inner}}}"#),
        format!(
            r##"{{"allOf":[{{"$ref":"#/$defs/a"}},{{"$ref":"#/$defs/b"}}],"unevaluatedProperties":false,"$defs":{{"a":{inner},"b":{inner}}}}}"##
        ),
        format!(
            r#"{{"properties":{{"c":{inner}}},"allOf":[{{"properties":{{"c":{inner}}}}}],"unevaluatedProperties":false}}"#
        ),
        format!(r#"{{"patternProperties":{{"^a":{inner},"b$":{inner}}},"additionalProperties":false}}"#),
        format!(
            r##"{{"$id":"https://example.com/","$defs":{{"a":{{"$id":"x","$defs":{{"b":{inner}}}}}}}}}"##
        ),
    ] {
        becomes(&schema, &schema);
    }
}

#[test]
fn what_one_requirement_makes_certain_is_required_in_the_same_run() {
    // Of `p` a value is certain once its `b` is required, because of minProperties; that of `b` is
    // certain once its own member is not.
    let b = r#"{"type":"object","properties":{"never":false},"additionalProperties":false}"#;
    becomes(
        &format!(
            r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/p"}}}},"additionalProperties":false,"$defs":{{"p":{{"type":"object","properties":{{"b":{b}}},"required":["kind"],"minProperties":2}}}}}}"##
        ),
        &format!(
            r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/p"}}}},"additionalProperties":false,"$defs":{{"p":{{"type":"object","properties":{{"b":{b}}},"required":["kind", "b"],"minProperties":2}}}},"required":["a"]}}"##
        ),
    );
}
