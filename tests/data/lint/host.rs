//! Tests of the rules for hosts: each is found, and the simplified copies pass them.

use tinymcp::lint::{self, Options, PROFILES, Profile, Severity, Snapshot};

use super::tool;

fn refused(schema: &str, profile: &str) -> Vec<&'static str> {
    let options = Options::new().rules("default").unwrap().profile(Profile::find(profile).unwrap());
    let report = lint::check_with(&tool(schema), &options);
    let host = report.findings.iter().filter(|f| f.profile.is_some() && f.severity == Severity::Critical);
    host.map(|f| f.rule).collect()
}

#[track_caller]
fn simple(schema: &str, profile: &str) -> (String, Vec<String>) {
    let snapshot = tool(schema);
    let simple = lint::simplify(&snapshot, Profile::find(profile).unwrap()).unwrap();
    let doc = tinymcp::json::Doc::parse(&simple.text).unwrap();
    let text = doc.root().pointer("/0/inputSchema").unwrap().raw().to_owned();
    (text, simple.losses.into_iter().map(|f| f.message).collect())
}

#[test]
fn each_host_rule_finds_its_case() {
    for (schema, profile, rule) in [
        (r#"{"type":"object","properties":{},"anyOf":[{}]}"#, "openai", "HOST-001"),
        (r#"{"type":"object","properties":{},"oneOf":[{}]}"#, "claude", "HOST-001"),
        (r#"{"type":"object"}"#, "openai", "HOST-002"),
        (r#"{"type":"object","properties":{"a":{"type":"array"}}}"#, "vscode", "HOST-003"),
        (r#"{"type":"object","properties":{"filter[id]":{"type":"null"}}}"#, "claude", "HOST-004"),
        (r#"{"type":"object","properties":{"a":{}}}"#, "openai-strict", "HOST-006"),
        (r#"{"type":"object","properties":{"a":true}}"#, "gemini", "HOST-007"),
        (r#"{"type":"object","properties":{"a":{"type":["string","null"]}}}"#, "gemini", "HOST-008"),
        (
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a","title":"t"}},"$defs":{"a":{"type":"null"}}}"##,
            "openai-strict",
            "HOST-009",
        ),
        (r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##, "claude-strict", "HOST-009"),
        (r#"{"type":"object","properties":{"a":{"enum":[1]}}}"#, "gemini", "HOST-010"),
        (
            r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1}}}"#,
            "claude-strict",
            "HOST-010",
        ),
        (r#"{"type":"object","properties":{}}"#, "openai-strict", "HOST-015"),
        (r#"{"type":"object","properties":{"a":{"type":"null"}}}"#, "openai-strict", "HOST-016"),
    ] {
        assert!(
            refused(schema, profile).contains(&rule),
            "{profile} {schema}: {:?}",
            refused(schema, profile)
        );
        assert_eq!(refused(schema, "cursor").contains(&rule), rule == "HOST-004", "{schema}");
    }
    let old = r#"[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"}}]"#;
    let options = Options::new().profile(Profile::find("claude").unwrap());
    let report = lint::check_with(&Snapshot::parse(old).unwrap(), &options);
    assert!(report.findings.iter().any(|f| f.rule == "HOST-005"));
}

const HARD: &[&str] = &[
    r#"{"type":"object"}"#,
    r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","title":"t","description":"d","properties":{"a":{"title":"A","type":"array","items":{"type":"null"}}}}"#,
    r#"{"type":"object","oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},{"properties":{"k":{"const":"b"},"x":{"type":"null"}},"required":["k"]}]}"#,
    r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/n","description":"first"}},"$defs":{"n":{"type":"object","properties":{"v":{"type":["integer","null"],"exclusiveMinimum":0},"next":{"$ref":"#/$defs/n"}},"required":["v"]}}}"##,
    r#"{"type":"object","properties":{"a":{"allOf":[{"type":"object","properties":{"p":{"type":"string"}},"required":["p"]},{"properties":{"q":{"type":"null"}}}]},"e":{"enum":[1,2],"type":"integer"},"m":{"type":"object","additionalProperties":{"type":"string"}},"c":{"const":"x"},"no":false},"required":["a","no"]}"#,
    r#"{"type":"object","properties":{"t":{"type":["string","integer"]},"u":{"oneOf":[{"type":"string","pattern":"^a"},{"type":"null"}]},"s":{"type":"array","prefixItems":[{"type":"null"}],"uniqueItems":true}},"if":{"required":["t"]},"then":{"required":["u"]}}"#,
    r#"{"type":"string"}"#,
];

#[test]
fn simplified_copies_pass_the_rules_of_their_hosts() {
    for profile in PROFILES {
        for schema in HARD {
            let (text, _) = simple(schema, profile.id);
            assert_eq!(refused(&text, profile.id), [""; 0], "{} {schema}\n{text}", profile.id);
            let (again, losses) = simple(&text, profile.id);
            assert_eq!((again.as_str(), losses.len()), (text.as_str(), 0), "{}", profile.id);
        }
    }
}

#[test]
fn simplified_copies_are_these_texts() {
    for (schema, profile, expected) in [
        (HARD[0], "openai", r#"{"type":"object","properties":{}}"#),
        (HARD[0], "claude", HARD[0]),
        (
            HARD[1],
            "vscode",
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"null"}}}}"#,
        ),
        (
            HARD[2],
            "claude",
            r#"{"type":"object","properties":{"k":{"type":"string","enum":["a","b"]},"x":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["k"]}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x"]},"c":{"type":"string","enum":["x"]}},"required":["a"]}"#,
            "openai-strict",
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"anyOf":[{"enum":["x"]},{"type":"null"}]},"c":{"type":["string","null"],"enum":["x",null]}},"required":["a","b","c"],"additionalProperties":false}"#,
        ),
        (
            r##"{"type":"array","items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"null"}}}"##,
            "cursor",
            r##"{"type":"object","properties":{"value":{"type":"array","items":{"$ref":"#/properties/value/$defs/a"},"$defs":{"a":{"type":"null"}}}},"required":["value"],"additionalProperties":false}"##,
        ),
        (
            r#"{"properties":{"n":{"type":"number","maximum":1.50}}}"#,
            "cursor",
            r#"{"type":"object","properties":{"n":{"type":"number","maximum":1.50}}}"#,
        ),
    ] {
        assert_eq!(simple(schema, profile).0, expected, "{profile}");
    }
}

#[test]
fn losses_are_reported_and_a_copy_that_multiplies_is_an_error() {
    assert_eq!(
        simple(
            r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1,"title":"A"}}}"#,
            "claude-strict"
        )
        .1,
        ["dropped minimum"]
    );
    let defs: Vec<String> = (0..16)
        .map(|i| format!(r##""d{i}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{0}"}},"b":{{"$ref":"#/$defs/d{0}"}},"c":{{"$ref":"#/$defs/d{0}"}}}}}}"##, i + 1))
        .collect();
    let schema = format!(
        r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d16":{{"type":"null"}}}}}}"##,
        defs.join(",")
    );
    assert!(lint::simplify(&tool(&schema), Profile::find("gemini").unwrap()).is_err());
}

#[test]
fn a_root_with_several_types_keeps_one_and_reports_it() {
    for profile in PROFILES {
        let (text, losses) =
            simple(r#"{"type":["object","null"],"properties":{"a":{"type":"string"}}}"#, profile.id);
        assert!(text.starts_with(r#"{"type":"object","properties""#), "{}: {text}", profile.id);
        assert!(losses.iter().any(|loss| loss.contains("only object")), "{}: {losses:?}", profile.id);
    }
}

#[test]
fn an_object_that_is_a_reference_is_not_closed_beside_it() {
    let target = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#;
    let root = format!(r##"{{"$ref":"#/$defs/r","$defs":{{"r":{target}}},"type":"object"}}"##);
    let member = format!(
        r##"{{"type":"object","properties":{{"m":{{"type":"object","$ref":"#/$defs/r"}}}},"required":["m"],"$defs":{{"r":{target}}}}}"##
    );
    for profile in PROFILES {
        for (schema, value) in [(&root, r#"{"a":"x"}"#), (&member, r#"{"m":{"a":"x"}}"#)] {
            let (text, _) = simple(schema, profile.id);
            let compiled = tinymcp::schema::Schema::parse(&text).unwrap();
            let doc = tinymcp::json::Doc::parse(value).unwrap();
            assert!(compiled.is_valid(doc.root()), "{}: {text}", profile.id);
            assert!(!refused(&text, profile.id).contains(&"HOST-009"), "{}: {text}", profile.id);
        }
    }
}
