//! Masks credentials in log data, at any depth.
//!
//! The value of a member is replaced if the name contains one of the words below, ignoring case and
//! separators. The name `key` alone is not masked, because it is common for other data. Source: MCP
//! server/utilities/logging, security (no credentials in log entries).

use crate::json::sort::sort;
use crate::json::{Doc, Json, Value};

const WORDS: [&str; 7] = ["password", "token", "secret", "apikey", "authorization", "bearer", "credential"];

/// Replacement of a masked value.
const MASK: &str = "\"[masked]\"";

/// Masks credentials in `data`. Text without credentials is not copied.
pub(crate) fn masked(data: Json) -> Json {
    let Ok(doc) = Doc::parse(data.as_str().as_bytes()) else { return data };
    // An explicit stack instead of recursion, because the nesting depends on the data.
    let mut hidden: Vec<(usize, usize)> = Vec::new();
    let mut open: Vec<Value<'_>> = vec![doc.root()];
    while let Some(value) = open.pop() {
        for (name, member) in value.members() {
            if is_credential(name) {
                hidden.push((member.offset(), member.offset() + member.raw().len()));
            } else if !member.is_empty() {
                open.push(member);
            }
        }
        open.extend(value.items().filter(|item| !item.is_empty()));
    }
    if hidden.is_empty() {
        return data;
    }
    sort(&mut hidden, |a, b| a.0.cmp(&b.0));
    let (mut text, mut from) = (String::with_capacity(data.as_str().len()), 0);
    for (start, end) in hidden {
        text.push_str(doc.text().get(from..start).unwrap_or_default());
        text.push_str(MASK);
        from = end;
    }
    text.push_str(doc.text().get(from..).unwrap_or_default());
    // OK because each value was replaced by a value. If parsing failed nevertheless, the result
    // would contain no data.
    Json::parse(text).unwrap_or_default()
}

fn is_credential(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    WORDS.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn credentials_are_masked_at_any_depth() {
        let rows = [
            (r#"{"password":"x"}"#, r#"{"password":"[masked]"}"#),
            (r#"{"a":[{"API-Key":{"b":1}, "k":2}]}"#, r#"{"a":[{"API-Key":"[masked]", "k":2}]}"#),
            (
                r#"{"x_access_token":1,"Authorization":null}"#,
                r#"{"x_access_token":"[masked]","Authorization":"[masked]"}"#,
            ),
            (
                r#"[{"clientSecret":"s"},{"credentials":[]}]"#,
                r#"[{"clientSecret":"[masked]"},{"credentials":"[masked]"}]"#,
            ),
            (r#"{"key":"v","keys":[1]}"#, r#"{"key":"v","keys":[1]}"#),
            (r#""password""#, r#""password""#),
        ];
        for (given, expected) in rows {
            assert_eq!(masked(Json::parse(given).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn deep_data_takes_no_stack() {
        let text = format!("{}{{\"token\":1}}{}", "[".repeat(100), "]".repeat(100));
        let expected = text.replace('1', MASK);
        assert_eq!(masked(Json::parse(text).unwrap()).as_str(), expected);
    }
}
