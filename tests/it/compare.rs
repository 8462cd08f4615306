//! Compares what came with what was expected, as JSON.
//!
//! Members are compared without their order and as exact sets, arrays in order, numbers by their
//! text. Three forms of an expected string stand for more than themselves: `"~"` is any string and
//! `"~words"` any string with these words in it; `"${name}"` captures whatever comes the first time
//! and must be equal from then on.

use std::collections::BTreeMap;

use serde_json::Value;

/// What was captured so far, by name.
pub(crate) type Captured = BTreeMap<String, Value>;

/// The first difference: a JSON Pointer, and what is wrong there.
#[derive(Debug)]
pub(crate) struct Difference {
    pub path: String,
    pub what: String,
}

/// Whether `came` is what was expected; captures names on the way.
///
/// # Errors
/// The first difference.
pub(crate) fn compare(expected: &Value, came: &Value, captured: &mut Captured) -> Result<(), Difference> {
    match (expected, came) {
        (Value::String(pattern), came) => text(pattern, came, captured),
        (Value::Array(expected_items), Value::Array(items)) => {
            if expected_items.len() != items.len() {
                return differ(format!("expected {} items, came {}", expected_items.len(), items.len()));
            }
            for (i, (expected, came)) in expected_items.iter().zip(items).enumerate() {
                compare(expected, came, captured).map_err(|d| below(&i.to_string(), d))?;
            }
            Ok(())
        }
        (Value::Object(expected_members), Value::Object(members)) => {
            if let Some(name) = members.keys().find(|name| !expected_members.contains_key(*name)) {
                return differ(format!("member {name:?} was not expected"));
            }
            for (name, expected) in expected_members {
                let Some(came) = members.get(name) else {
                    return differ(format!("member {name:?} is missing"));
                };
                compare(expected, came, captured).map_err(|d| below(name, d))?;
            }
            Ok(())
        }
        (expected, came) if expected == came => Ok(()),
        (expected, came) => differ(format!("expected {expected}, came {came}")),
    }
}

fn text(pattern: &str, came: &Value, captured: &mut Captured) -> Result<(), Difference> {
    if let Some(name) = name(pattern) {
        return match captured.get(name) {
            Some(earlier) if earlier == came => Ok(()),
            Some(earlier) => differ(format!("expected {earlier} as before, came {came}")),
            None => {
                captured.insert(name.to_owned(), came.clone());
                Ok(())
            }
        };
    }
    let Value::String(came) = came else {
        return differ(format!("expected the string {pattern:?}, came {came}"));
    };
    match pattern.strip_prefix('~') {
        Some(words) if came.contains(words) => Ok(()),
        Some(words) => differ(format!("expected a text with {words:?} in it, came {came:?}")),
        None if came == pattern => Ok(()),
        None => differ(format!("expected {pattern:?}, came {came:?}")),
    }
}

/// The name in `${name}`.
fn name(pattern: &str) -> Option<&str> {
    pattern.strip_prefix("${")?.strip_suffix('}')
}

/// Puts captured values in the place of their names: `"${name}"` becomes the value itself,
/// `${name}` inside a longer string its text.
///
/// # Errors
/// A name that was not captured.
pub(crate) fn substitute(text: &str, captured: &Captured) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let end = rest[at..].find('}').map(|e| at + e).ok_or("${ is not closed")?;
        let name = &rest[at + 2..end];
        let value = captured.get(name).ok_or_else(|| format!("{name:?} was not captured yet"))?;
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
