//! Comparison of a received message with the expected one, as JSON.
//!
//! Members are compared without order and as exact sets, arrays in order, and numbers by their
//! text. Three forms of an expected string are patterns: `"~"` matches any string, `"~text"`
//! matches any string that contains the text, and `"${name}"` captures the first value and matches
//! only an equal value after that.

use std::collections::BTreeMap;

use serde_json::Value;

/// Captured values by name.
pub(crate) type Captured = BTreeMap<String, Value>;

/// The first difference: its JSON Pointer and a message.
#[derive(Debug)]
pub(crate) struct Difference {
    pub path: String,
    pub what: String,
}

/// Compares `received` with `expected` and captures names.
///
/// # Errors
/// The first difference.
pub(crate) fn compare(expected: &Value, received: &Value, captured: &mut Captured) -> Result<(), Difference> {
    match (expected, received) {
        (Value::String(pattern), received) => text(pattern, received, captured),
        (Value::Array(expected_items), Value::Array(items)) => {
            if expected_items.len() != items.len() {
                return differ(format!("expected {} items, got {}", expected_items.len(), items.len()));
            }
            for (i, (expected, received)) in expected_items.iter().zip(items).enumerate() {
                compare(expected, received, captured).map_err(|d| below(&i.to_string(), d))?;
            }
            Ok(())
        }
        (Value::Object(expected_members), Value::Object(members)) => {
            if let Some(name) = members.keys().find(|name| !expected_members.contains_key(*name)) {
                return differ(format!("unexpected member {name:?}"));
            }
            for (name, expected) in expected_members {
                let Some(received) = members.get(name) else {
                    return differ(format!("missing member {name:?}"));
                };
                compare(expected, received, captured).map_err(|d| below(name, d))?;
            }
            Ok(())
        }
        (expected, received) if expected == received => Ok(()),
        (expected, received) => differ(format!("expected {expected}, got {received}")),
    }
}

fn text(pattern: &str, received: &Value, captured: &mut Captured) -> Result<(), Difference> {
    if let Some(name) = name(pattern) {
        return match captured.get(name) {
            Some(earlier) if earlier == received => Ok(()),
            Some(earlier) => differ(format!("expected the captured {earlier}, got {received}")),
            None => {
                captured.insert(name.to_owned(), received.clone());
                Ok(())
            }
        };
    }
    let Value::String(received) = received else {
        return differ(format!("expected the string {pattern:?}, got {received}"));
    };
    match pattern.strip_prefix('~') {
        Some(part) if received.contains(part) => Ok(()),
        Some(part) => differ(format!("expected a string that contains {part:?}, got {received:?}")),
        None if received == pattern => Ok(()),
        None => differ(format!("expected {pattern:?}, got {received:?}")),
    }
}

/// Returns the name in `${name}`.
fn name(pattern: &str) -> Option<&str> {
    pattern.strip_prefix("${")?.strip_suffix('}')
}

/// Replaces names by captured values: `"${name}"` by the value, and `${name}` inside a longer
/// string by its text.
///
/// # Errors
/// Returns an error for a name that is not captured.
pub(crate) fn substitute(text: &str, captured: &Captured) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let end = rest[at..].find('}').map(|e| at + e).ok_or("missing } after ${")?;
        let name = &rest[at + 2..end];
        let value = captured.get(name).ok_or_else(|| format!("{name:?} is not captured yet"))?;
        let whole = rest[..at].ends_with('"') && rest[end + 1..].starts_with('"');
        if whole {
            out.push_str(&rest[..at - 1]);
            out.push_str(&value.to_string());
            rest = &rest[end + 2..];
        } else {
            let raw = value.to_string();
            out.push_str(&rest[..at]);
            out.push_str(raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or(&raw));
            rest = &rest[end + 1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn differ<T>(what: String) -> Result<T, Difference> {
    Err(Difference { path: String::new(), what })
}

fn below(step: &str, difference: Difference) -> Difference {
    Difference { path: format!("/{step}{}", difference.path), ..difference }
}
