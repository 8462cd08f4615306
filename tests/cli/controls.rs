//! Characters that control a terminal, in catalogs, schemas and values.

use std::fs;

use super::{folder, run};

/// Raw in files: a file of JSON must escape the others.
const RAW: &str = "\u{7f}\u{85}\u{9b}2J\u{9d}0;t\u{9c}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{e0041}";

fn controls(text: &str) -> Vec<char> {
    let is_control =
        |c: &char| c.is_control() && *c != '\n' || RAW.contains(*c) && !c.is_ascii_alphanumeric();
    text.chars().filter(|c| is_control(c) && *c != ';').collect()
}

#[test]
fn no_output_of_a_command_on_files_controls_a_terminal() {
    let folder = folder("controls");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let hostile = format!("{RAW}\\u001b[31m\\u0007\\r");
    let tool = |number: u32| {
        format!(
            r#"{{"name":"a{hostile}","description":"{hostile}{number}","inputSchema":{{"type":"object",
                "properties":{{"x{hostile}":{{"type":"nothing","title":"{hostile}","enum":["{hostile}"],"default":{number}}}}},"required":["{hostile}"]}}}}"#
        )
    };
    fs::write(path("one.json"), format!(r#"{{"tools":[{}]}}"#, tool(1))).unwrap();
    fs::write(path("two.json"), format!(r#"{{"tools":[{},{}]}}"#, tool(2), tool(3))).unwrap();
    let schema = format!(
        r#"{{"additionalProperties":false,"required":["{hostile}"],"properties":{{"n":{{"const":"{hostile}"}}}}}}"#
    );
    let value = format!(r#"{{"{hostile}":1,"y{hostile}":2,"n":"z{hostile}"}}"#);
    fs::write(path("schema.json"), &schema).unwrap();
    fs::write(path("value.json"), &value).unwrap();
    let batch = format!(
        "{{\"schema\":{schema},\"value\":{value}}}\n{{\"schema\":{{\"type\":\"{hostile}\"}},\"value\":1}}\n"
    );
    fs::write(path("batch"), batch).unwrap();
    let (one, two) = (path("one.json"), path("two.json"));
    let (schema, value, batch) = (path("schema.json"), path("value.json"), path("batch"));
    let rows: &[&[&str]] = &[
        &["schema-lint", &one],
        &["schema-lint", &one, "--json"],
        &["schema-lint", &one, "--format", "sarif"],
        &["schema-lint", &one, "--format", "github"],
        &["schema-lint", &one, "--profile", "openai", "--json"],
        &["schema-lint", &one, "--matrix"],
        &["schema-lint", &one, "--matrix", "--json"],
        &["schema-lint", &one, "--fix"],
        &["schema-simplify", &one, "--profile", "openai"],
        &["validate", &schema, &value],
        &["validate", &schema, &value, "--json"],
        &["validate", &schema, &value, "--all", "--json"],
        &["validate", &schema, &value, "--all"],
        &["validate", "--batch", &batch],
        &["diff", &one, &two],
        &["diff", &one, &two, "--text"],
        &["diff", &one, &two, "--json"],
        &["diff", &one, &two, "--pretty"],
    ];
    for row in rows {
        let (_, out, err) = run(row, "");
        assert!(controls(&out).is_empty(), "{row:?}: {:?} in {out:?}", controls(&out));
        assert!(controls(&err).is_empty(), "{row:?}: {:?} in {err:?}", controls(&err));
        assert!(!out.is_empty(), "{row:?}: {err}");
        if row.contains(&"--json") {
            assert!(out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{out}");
            assert!(out.contains(r"\u009b") && out.contains(r"\udb40\udc41"), "{row:?}: {out}");
        }
    }
}
