//! Tests of the rules: what each one reports, and what it accepts.

use tinymcp::lint::{self, Options, Profile, RULES, RuleSet, Severity, Snapshot};

use super::tool;

/// Rule and pointer of each finding of the chosen rules.
fn found(schema: &str, rules: &str) -> Vec<String> {
    let options = Options::new().rules(rules).unwrap();
    let report = lint::check_with(&tool(schema), &options);
    report.findings.iter().map(|f| format!("{} {}", f.rule, f.pointer)).collect()
}

/// A closed root with this property required.
fn property(schema: &str) -> String {
    format!(
        r#"{{"type":"object","properties":{{"x":{schema}}},"required":["x"],"additionalProperties":false}}"#
    )
}

const FOUR: &str = "SCH-001,SCH-002,SCH-003,SCH-004";

#[test]
fn properties_without_type_are_critical_unless_another_keyword_restricts_them() {
    for schema in [
        "{}",
        r#"{"description":"anything"}"#,
        r#"{"minLength":1}"#,
        r#"{"not":{"type":"null"}}"#,
        r#"{"anyOf":[{"type":"string","maxLength":1},{}]}"#,
        r#"{"properties":{},"additionalProperties":false}"#,
        r#"{"allOf":[{"minimum":1}]}"#,
    ] {
        assert_eq!(found(&property(schema), "SCH-003"), ["SCH-003 /inputSchema/properties/x"], "{schema}");
    }
    for schema in [
        "true",
        "false",
        r#"{"const":1}"#,
        r#"{"enum":[1,"a"]}"#,
        r##"{"$ref":"#/$defs/a"}"##,
        r##"{"$ref":"#"}"##,
        r#"{"$ref":"https://example.com/x"}"#,
        r#"{"anyOf":[{"type":"boolean"},{"type":"null"}]}"#,
        r#"{"oneOf":[{"const":1},{"type":"null"},true]}"#,
        r#"{"allOf":[{"type":"boolean"},{"not":{"const":true}}]}"#,
        r#"{"allOf":[{"description":"d"},{"anyOf":[{"type":"boolean"},{"type":"null"}]}]}"#,
        r#"{"type":["boolean","null"]}"#,
    ] {
        assert_eq!(found(&property(schema), "SCH-003"), [""; 0], "{schema}");
    }
}

#[test]
fn strings_and_arrays_need_a_largest_size() {
    for schema in [
        r#"{"type":"string"}"#,
        r#"{"type":["string","null"]}"#,
        r#"{"type":"array","items":{"type":"boolean"}}"#,
        r#"{"type":"array","prefixItems":[{"type":"boolean"}]}"#,
        r#"{"type":"string","format":"uri"}"#,
        r#"{"type":"string","format":"invented"}"#,
        r#"{"type":"string","pattern":"^a+$"}"#,
        r#"{"type":"string","contentEncoding":"base64"}"#,
    ] {
        assert_eq!(found(&property(schema), "SCH-004"), ["SCH-004 /inputSchema/properties/x"], "{schema}");
    }
    for schema in [
        r#"{"type":"string","maxLength":9}"#,
        r#"{"type":"string","enum":["a"]}"#,
        r#"{"type":"string","const":"a"}"#,
        r#"{"type":"string","format":"date-time"}"#,
        r#"{"type":"string","pattern":"^[a-f]{1,8}$"}"#,
        r#"{"type":"string","allOf":[{"maxLength":3}]}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}],"maxLength":3}"#,
        r#"{"type":"array","items":{"type":"boolean"},"maxItems":2}"#,
        r#"{"type":"array","prefixItems":[{"type":"boolean"}],"items":false}"#,
        r#"{"type":"boolean","not":{"type":"string"}}"#,
    ] {
        assert_eq!(found(&property(schema), "SCH-004"), [""; 0], "{schema}");
    }
}

#[test]
fn nested_schemas_are_checked() {
    let open = r#"{"type":"object","properties":{"s":{"type":"string"}}}"#;
    for (schema, at) in [
        (property(open), "/properties/x"),
        (property(&format!(r#"{{"type":"array","maxItems":1,"items":{open}}}"#)), "/properties/x/items"),
        (property(&format!(r#"{{"anyOf":[{open},{{"type":"null"}}]}}"#)), "/properties/x/anyOf/0"),
        (
            property(&format!(r#"{{"type":"object","additionalProperties":{open}}}"#)),
            "/properties/x/additionalProperties",
        ),
        (
            property(r##"{"$ref":"#/$defs/a~1b"}"##)
                .replace("\"required\"", &format!("\"$defs\":{{\"a/b\":{open}}},\"required\"")),
            "/$defs/a~1b",
        ),
    ] {
        let expected = [
            format!("SCH-001 /inputSchema{at}"),
            format!("SCH-002 /inputSchema{at}"),
            format!("SCH-004 /inputSchema{at}/properties/s"),
        ];
        assert_eq!(found(&schema, FOUR), expected, "{schema}");
    }
    let text = format!(
        r#"{{"tools":[{{"name":"t","inputSchema":{},"outputSchema":{open}}}]}}"#,
        property(r#"{"const":1}"#)
    );
    let report = lint::check(&Snapshot::parse(text).unwrap());
    let output: Vec<&str> =
        report.findings.iter().filter(|f| f.pointer.starts_with("/outputSchema")).map(|f| f.rule).collect();
    assert_eq!(output, ["SCH-001"]);
}

/// Rule, pointer and message of each finding in an output schema.
fn found_in_output(schema: &str, rules: &str) -> Vec<String> {
    let text = format!(
        r#"[{{"name":"t","description":"d","inputSchema":{{"type":"object","additionalProperties":false}},"outputSchema":{schema}}}]"#
    );
    let options = Options::new().rules(rules).unwrap();
    let report = lint::check_with(&Snapshot::parse(text).unwrap(), &options);
    report.findings.iter().map(|f| format!("{} {} {}", f.rule, f.pointer, f.message)).collect()
}

#[test]
fn only_inputs_need_limits_and_descriptions() {
    let open = r#"{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"m":{"type":"object","additionalProperties":{"type":"null"}}},"required":["s"]}"#;
    let rules = "SCH-002,SCH-004,SCH-005,SCH-006,SCH-026";
    assert_eq!(found_in_output(open, rules), [""; 0]);
    let input: Vec<String> = found(open, rules).into_iter().map(|f| f[..7].to_owned()).collect();
    for rule in rules.split(',') {
        assert!(input.iter().any(|f| f == rule), "{rule} {input:?}");
    }
    // An output schema that accepts anything is still a finding.
    assert_eq!(found_in_output(r#"{"type":"object","properties":{"x":{}}}"#, "SCH-003").len(), 1);
}

#[test]
fn unused_definitions_are_one_finding() {
    let open = r#"{"type":"object","properties":{"x":{},"s":{"type":"string"}}}"#;
    let schema = |reference: &str| {
        property(reference).replace("\"required\"", &format!(r##""$defs":{{"a":{open},"b":{{"$ref":"#/$defs/a"}},"c":{{"$defs":{{"d":{open}}}}}}},"required""##))
    };
    let report = lint::check_with(
        &tool(&schema(r#"{"type":"null"}"#)),
        &Options::new().rules("default,SCH-005").unwrap(),
    );
    let found: Vec<String> =
        report.findings.iter().map(|f| format!("{} {} {}", f.rule, f.pointer, f.message)).collect();
    assert_eq!(
        found,
        [
            "SCH-028 /inputSchema 3 definitions are never referenced: a, b, c",
            "SCH-026 /inputSchema/properties/x property \"x\" has no description",
        ]
    );
    // A reference to a definition reaches what that one refers to.
    let found =
        self::found(&schema(r##"{"$ref":"#/$defs/b","description":"d"}"##), "SCH-001,SCH-003,SCH-028");
    assert_eq!(
        found,
        ["SCH-028 /inputSchema", "SCH-001 /inputSchema/$defs/a", "SCH-003 /inputSchema/$defs/a/properties/x",]
    );
    // Errors that make the schema invalid are reported everywhere.
    let lost = schema(r#"{"type":"null"}"#).replace("#/$defs/a", "#/$defs/none");
    assert_eq!(self::found(&lost, "SCH-012"), ["SCH-012 /inputSchema/$defs/b"]);
    // A definition is used if a reference leads into a part of it.
    let part = schema(r##"{"$ref":"#/$defs/c/$defs/d/properties/s"}"##)
        .replace(r##""b":{"$ref":"#/$defs/a"},"##, "");
    let report = lint::check_with(&tool(&part), &Options::new().rules("SCH-028").unwrap());
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].message, "the definition a is never referenced");
}

#[test]
fn an_output_schema_of_an_old_draft_is_critical() {
    let old = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}"#;
    for rules in ["default", "recommended", "SCH-027"] {
        let found = found_in_output(old, rules);
        assert!(found.iter().any(|f| f.starts_with("SCH-027 /outputSchema ")), "{rules}: {found:?}");
    }
    assert_eq!(found_in_output(r#"{"type":"object"}"#, "recommended"), [""; 0]);
    assert_eq!(found(old, "SCH-027"), [""; 0]);
    // A host that refuses it is not counted twice.
    let text = format!(
        r#"[{{"name":"t","description":"d","inputSchema":{{"type":"object"}},"outputSchema":{old}}}]"#
    );
    let options = Options::new().profile(Profile::find("claude").unwrap());
    let report = lint::check_with(&Snapshot::parse(text).unwrap(), &options);
    assert_eq!(report.criticals, 1, "{:?}", report.findings);
}

#[test]
fn the_recommended_set_is_the_default_set_without_limits() {
    let ids = |rules: &str| -> Vec<&str> {
        let set = |rule: &&lint::Rule| match rules {
            "recommended" => rule.set == RuleSet::Recommended,
            _ => rule.set != RuleSet::Optional,
        };
        RULES.iter().filter(set).map(|r| r.id).collect()
    };
    let (recommended, mut default) = (ids("recommended"), ids("default"));
    default.retain(|id| !recommended.contains(id));
    assert_eq!(default, ["SCH-001", "SCH-002", "SCH-004"]);
    // The name selects the set: an open object without limits passes, a missing description does not.
    let open = r#"{"type":"object","properties":{"s":{"type":"string","description":"d"}}}"#;
    assert_eq!(found(open, "recommended"), [""; 0]);
    assert_eq!(found(open, "default").len(), 3);
    assert_eq!(
        found(&open.replace(r#","description":"d""#, ""), "recommended"),
        ["SCH-026 /inputSchema/properties/s"]
    );
}

#[test]
fn combinators_may_require_and_close() {
    for schema in [
        r#"{"type":"object","properties":{"a":{"const":1}},"anyOf":[{"required":["a"]}],"unevaluatedProperties":false}"#,
        r#"{"type":"object","allOf":[{"properties":{"a":{"const":1}},"required":["a"]}],"unevaluatedProperties":false}"#,
        r##"{"type":"object","properties":{"k":{"enum":["a"]}},"required":["k"],"unevaluatedProperties":false,
            "if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"k":{"minLength":1}}}}"##,
        r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"a":{"const":1}},"required":[],"additionalProperties":{"type":"null"}}"#,
        r##"{"type":"object","allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"const":1}}}],"unevaluatedProperties":false,
            "$defs":{"a":{"type":"object","properties":{"x":{"const":1}},"required":["x"]}}}"##,
    ] {
        assert_eq!(found(schema, FOUR), [""; 0], "{schema}");
    }
    for schema in [
        r#"{"type":"object","additionalProperties":true}"#,
        r#"{"type":"object","additionalProperties":{}}"#,
        r#"{"type":"object","allOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{}}]}"#,
        r#"{"type":["object","null"]}"#,
    ] {
        assert_eq!(found(schema, FOUR), ["SCH-002 /inputSchema"], "{schema}");
    }
}

#[test]
fn mistakes_are_found_by_default_and_style_only_when_chosen() {
    let default = |schema: &str| -> Vec<&'static str> {
        let report = lint::check(&tool(schema));
        report.findings.iter().filter(|f| f.severity == Severity::Critical).map(|f| f.rule).collect()
    };
    for (schema, rule) in [
        (r#"{"type":"string","maxLength":1}"#, "SCH-011"),
        (&*property(r##"{"$ref":"#/$defs/none"}"##), "SCH-012"),
        (&*property(r##"{"$ref":"https://example.com/x"}"##), "SCH-012"),
        (&*property(r##"{"$ref":"#/properties/x"}"##), "SCH-013"),
        (&*property(r##"{"anyOf":[{"$ref":"#/properties/x"},{"type":"null"}]}"##), "SCH-013"),
        (r#"{"$schema":"https://example.com/mine","type":"object","additionalProperties":false}"#, "SCH-015"),
        (&*property(r#"{"enum":[]}"#), "SCH-021"),
        (&*property(r#"{"type":"integer","minimum":3,"maximum":2}"#), "SCH-021"),
        (&*property(r#"{"type":"integer","minimum":1.2,"maximum":1.8}"#), "SCH-021"),
        (&*property(r#"{"type":"string","const":1}"#), "SCH-021"),
        (&*property(r#"{"type":["string","null"],"enum":[1,true]}"#), "SCH-021"),
        (r#"{"type":"object","required":["y"],"additionalProperties":false}"#, "SCH-021"),
    ] {
        assert!(default(schema).contains(&rule), "{schema}: {:?}", default(schema));
    }
    for (schema, rule) in [
        (property(r#"{"type":"integer","minimum":1}"#), "SCH-005"),
        (property(r#"{"type":"object","additionalProperties":{"type":"null"}}"#), "SCH-006"),
        (property(r#"{"type":"object","definitions":{}}"#), "SCH-025"),
        (
            r#"{"type":"object","allOf":[{"properties":{"a":{}}}],"additionalProperties":false}"#.to_owned(),
            "SCH-007",
        ),
        (r#"{"type":"object","properties":{},"required":["a"]}"#.to_owned(), "SCH-022"),
        (property(r#"{"enum":[1,1]}"#), "SCH-023"),
        (property(r#"{"type":"string","maxLenght":3}"#), "SCH-024"),
        (property(r#"{"type":"null"}"#), "SCH-026"),
    ] {
        let on = |options: &Options| {
            lint::check_with(&tool(&schema), options).findings.iter().any(|f| f.rule == rule)
        };
        let style = ["SCH-005", "SCH-006", "SCH-025"].contains(&rule);
        assert_eq!(on(&Options::new()), !style, "{rule}");
        assert_eq!(on(&Options::new().rules("recommended").unwrap()), !style, "{rule}");
        assert!(on(&Options::new().rules(rule).unwrap()), "{rule}");
        assert!(on(&Options::new().rules("all").unwrap()), "{rule}");
    }
}

#[test]
#[cfg(feature = "pattern")]
fn compile_errors_are_findings() {
    for (schema, rule, pointer) in [
        (property(r#"{"type":"strin"}"#), "SCH-010", "/inputSchema/properties/x/type"),
        (property(r#"{"type":"string","pattern":"(a)\\1"}"#), "SCH-014", "/inputSchema/properties/x/pattern"),
    ] {
        assert!(found(&schema, rule).contains(&format!("{rule} {pointer}")), "{:?}", found(&schema, rule));
    }
}

#[test]
fn names_of_tools_are_checked() {
    let text = r#"[{"name":"a","inputSchema":{"type":"object"}},{"name":"a b"},{"name":"a","inputSchema":{"type":"object"}}]"#;
    let report = lint::check_with(
        &Snapshot::parse(text).unwrap(),
        &Options::new().rules("TOOL-001,TOOL-002,TOOL-003,SCH-011").unwrap(),
    );
    let found: Vec<String> = report.findings.iter().map(|f| format!("{} {}", f.rule, f.tool)).collect();
    assert_eq!(
        found,
        ["TOOL-002 a", "TOOL-003 a", "SCH-011 a b", "TOOL-001 a b", "TOOL-003 a b", "TOOL-003 a"]
    );
}

#[test]
fn names_of_tools_have_up_to_128_characters() {
    for (length, findings) in [(1, 0), (128, 0), (129, 1)] {
        let text = format!(r#"[{{"name":"{}","inputSchema":{{"type":"object"}}}}]"#, "a".repeat(length));
        let options = Options::new().rules("TOOL-001").unwrap();
        let report = lint::check_with(&Snapshot::parse(&text).unwrap(), &options);
        assert_eq!(report.findings.len(), findings, "{length}");
    }
}

#[test]
fn ids_are_unique_and_known_by_name() {
    let mut ids: Vec<&str> = RULES.iter().map(|r| r.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len());
    assert!(Options::new().rules("SCH-001,NOPE").is_err());
    assert!(Profile::find("openai-strict").is_some() && Profile::find("").is_none());
}

#[test]
fn catalogs_have_one_of_three_shapes() {
    let tool = r#"{"name":"t","inputSchema":{"type":"object"}}"#;
    for text in [
        format!("[{tool}]"),
        format!(r#"{{"tools":[{tool}],"nextCursor":null}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#),
    ] {
        let snapshot = Snapshot::parse(&text).unwrap();
        assert_eq!((snapshot.tools().count(), snapshot.is_partial()), (1, false), "{text}");
    }
    for text in [
        "",
        "{",
        "{}",
        "null",
        "3",
        r#"{"tools":{}}"#,
        r#"{"tools":[3]}"#,
        r#"[{"title":"x"}]"#,
        r#"{"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}]"#,
    ] {
        assert!(Snapshot::parse(text).is_err(), "{text}");
    }
    assert!(Snapshot::parse(r#"{"tools":[],"nextCursor":"x"}"#).unwrap().is_partial());
}
