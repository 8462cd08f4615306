//! Tests of the lint: rules, autofix, hosts, random catalogs.

mod blow_up;
#[cfg(unix)]
mod examples;
mod fix;
mod host;
mod random;
mod rules;
mod typed;

use tinymcp::lint::Snapshot;

/// A catalog of one tool with this input schema.
fn tool(schema: &str) -> Snapshot {
    let text = format!(r#"[{{"name":"t","description":"d","inputSchema":{schema}}}]"#);
    Snapshot::parse(text).unwrap()
}
