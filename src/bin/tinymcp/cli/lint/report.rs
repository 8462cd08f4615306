//! Findings of the lint for other programs: annotations of GitHub, and SARIF.
//!
//! Sources: the workflow commands of GitHub Actions; SARIF 2.1.0 (OASIS Standard), sections 3.14 to
//! 3.28.

use tinymcp::json::Writer;
use tinymcp::lint::{Finding, RULES, Severity};

use crate::escape::one_line;

/// Returns a workflow command for each finding. `file` is empty for a server.
pub(crate) fn github(findings: &[Finding], file: &str) -> String {
    let mut text = String::new();
    for finding in findings {
        let command = match finding.severity {
            Severity::Critical => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let file = if file.is_empty() { String::new() } else { format!("file={},", property(file)) };
        let title = property(&format!("{} {}", finding.rule, finding.tool));
        let message = data(&message(finding));
        text.push_str(&format!("::{command} {file}title={title}::{message}\n"));
    }
    text
}

/// Escapes the characters that would end the data of a workflow command.
fn data(text: &str) -> String {
    one_line(&text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A"))
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

fn message(finding: &Finding) -> String {
    let place = if finding.pointer.is_empty() { "" } else { ": " };
    let hint = if finding.hint.is_empty() { String::new() } else { format!(" ({})", finding.hint) };
    format!("{}{place}{}{hint}", finding.pointer, finding.message)
}

/// Returns a SARIF log with one run. `file` is empty for a server.
pub(crate) fn sarif(findings: &[Finding], file: &str) -> String {
    let mut w = Writer::new();
    w.begin_object().key("$schema").string("https://json.schemastore.org/sarif-2.1.0.json");
    w.key("version").string("2.1.0").key("runs").begin_array().begin_object();
    w.key("tool").begin_object().key("driver").begin_object();
    w.key("name").string("tinymcp").key("version").string(env!("CARGO_PKG_VERSION"));
    w.key("rules").begin_array();
    for rule in RULES {
        w.begin_object().key("id").string(rule.id);
        w.key("shortDescription").begin_object().key("text").string(rule.summary).end_object();
        if !rule.hint.is_empty() {
            w.key("help").begin_object().key("text").string(rule.hint).end_object();
        }
        w.key("defaultConfiguration").begin_object().key("level").string(level(rule.severity));
        w.end_object().end_object();
    }
    w.end_array().end_object().end_object();
    w.key("results").begin_array();
    for finding in findings {
        w.begin_object().key("ruleId").string(finding.rule);
        w.key("level").string(level(finding.severity));
        w.key("message").begin_object().key("text").string(&message(finding)).end_object();
        w.key("locations").begin_array().begin_object();
        if !file.is_empty() {
            w.key("physicalLocation").begin_object().key("artifactLocation").begin_object();
            w.key("uri").string(file).end_object().end_object();
        }
        w.key("logicalLocations").begin_array().begin_object().key("fullyQualifiedName");
        w.string_fmt(format_args!("{}{}", finding.tool, finding.pointer));
        w.end_object().end_array().end_object().end_array().end_object();
    }
    w.end_array().end_object().end_array().end_object().newline();
    w.as_str().to_owned()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_workflow_command_ends_with_its_line() {
        assert_eq!(data("100%\r\n::x\u{1b}"), "100%25%0D%0A::x\u{fffd}");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
