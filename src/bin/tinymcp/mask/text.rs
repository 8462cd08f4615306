//! Credentials in texts that are not JSON as a whole: query parameters, headers, settings, and JSON
//! inside a message.
//!
//! A value is found by its name before a separator: `token=V`, `"token": "V"`, `Authorization: V`.
//! One pass from separator to separator: each character belongs to one name at most.

use std::borrow::Cow;
use std::ops::Range;

use super::{MASKED, is_credential};

/// Kind of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A text in a frame. A name before a colon is masked if it is quoted or the name of a header,
    /// because prose has colons, too.
    Data,
    /// A message of a program.
    Message,
}

/// Names of headers with credentials, without case and separators, for texts in frames.
const HEADERS: [&str; 5] = ["authorization", "cookie", "apikey", "authtoken", "accesstoken"];
/// Characters that end a value without quotes.
const ENDS: &str = "&;,\"'<>)]}|";

/// Returns the text without the values of credentials.
pub(super) fn masked(text: &str, style: Style) -> Cow<'_, str> {
    let (mut kept, mut from, mut at) = (String::new(), 0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(['=', ':'])) {
        let separator = at + found;
        at = separator + 1;
        let (before, after) =
            (text.get(from..separator).unwrap_or_default(), text.get(at..).unwrap_or_default());
        let Some(value) = value(before, after, text.as_bytes().get(separator) == Some(&b'='), style) else {
            continue;
        };
        let (start, end) = (at + value.start, at + value.end);
        kept.push_str(text.get(from..start).unwrap_or_default());
        kept.push_str(MASKED);
        (from, at) = (end, end);
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(kept)
}

/// Returns whether a text has escapes that may hide the letters of a name.
pub(super) fn hides_names(text: &str) -> bool {
    text.contains("\\u")
}

/// Returns the place of the value behind a separator, if the name before it is that of a
/// credential.
fn value(before: &str, after: &str, is_equals: bool, style: Style) -> Option<Range<usize>> {
    let named = before.trim_end_matches([' ', '\t']);
    let unquoted = named.strip_suffix(['"', '\'']).map(|name| name.trim_end_matches('\\'));
    let name = unquoted.unwrap_or(named);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = name.get(name.trim_end_matches(is_part).len()..).unwrap_or_default();
    if !is_credential(name) {
        return None;
    }
    let is_close = named.len() == before.len();
    let is_meant = match (style, unquoted, is_equals) {
        (Style::Message, ..) | (_, Some(_), _) => true,
        (Style::Data, None, true) => is_close,
        (Style::Data, None, false) => is_close && is_header(name),
    };
    let start = after.len() - after.trim_start_matches([' ', '\t']).len();
    let rest = after.get(start..).filter(|rest| is_meant && !rest.is_empty())?;
    // `a == b`, and `a=` before a space, in text that is not a message.
    if rest.starts_with(['=', '\n', '\r'])
        || style == Style::Data && unquoted.is_none() && is_equals && start > 0
    {
        return None;
    }
    let place = match rest.trim_start_matches('\\').chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(rest, quote),
        Some('{' | '[') if !rest.starts_with(MASKED) => 0..rest.len(),
        _ if unquoted.is_none() && !is_equals => 0..rest.find(['\n', '\r']).unwrap_or(rest.len()),
        _ => 0..rest.find(|c: char| c.is_whitespace() || ENDS.contains(c)).unwrap_or(rest.len()),
    };
    let is_shown = !place.is_empty() && !rest.get(place.start..)?.starts_with(MASKED);
    is_shown.then(|| start + place.start..start + place.end)
}

fn is_header(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    HEADERS.iter().any(|header| plain.to_ascii_lowercase().ends_with(header))
}

/// Place of a value inside its quotes, which may be escaped as in JSON inside JSON. All of the text
/// if the end is missing.
fn quoted(text: &str, quote: char) -> Range<usize> {
    let escapes = text.find(quote).unwrap_or_default();
    let start = escapes + 1;
    let mut backslashes = 0;
    for (at, c) in text.get(start..).unwrap_or_default().char_indices() {
        match c {
            '\\' => backslashes += 1,
            // A quote inside the value has more escapes than those around it.
            c if c == quote && backslashes <= escapes => return start..start + at - backslashes,
            _ => backslashes = 0,
        }
    }
    start..text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        for (style, text, expected) in [
            (
                Style::Data,
                "GET /x?a=1&access_token=sk-1&b=2 HTTP",
                "GET /x?a=1&access_token=[masked]&b=2 HTTP",
            ),
            (Style::Data, r#"got {"password": "a\"b", "n": 1}"#, r#"got {"password": "[masked]", "n": 1}"#),
            (Style::Data, r#"{\"password\":\"a\\\"b\",\"n\":1}"#, r#"{\"password\":\"[masked]\",\"n\":1}"#),
            (Style::Data, r#""token":17, x"#, r#""token":[masked], x"#),
            (Style::Data, r#""secret": {"a": 1}, x"#, r#""secret": [masked]"#),
            (Style::Data, r#""secret": "cut off"#, r#""secret": "[masked]"#),
            (
                Style::Data,
                "curl -H 'Authorization: Bearer sk-1'\nnext",
                "curl -H 'Authorization: [masked]\nnext",
            ),
            (
                Style::Data,
                "The token: a text. maxTokens=3, if token == x",
                "The token: a text. maxTokens=3, if token == x",
            ),
            (Style::Message, "invalid token: sk-1 x\nnext", "invalid token: [masked]\nnext"),
            (Style::Message, "API_KEY = 'sk-1', a=b", "API_KEY = '[masked]', a=b"),
            (Style::Message, "Listening on http://x:1", "Listening on http://x:1"),
            (Style::Message, "password:", "password:"),
        ] {
            let masked_text = masked(text, style);
            assert_eq!(masked_text, expected);
            assert_eq!(masked(&masked_text, style), expected);
        }
    }

    #[test]
    fn a_long_text_takes_linear_time() {
        // Each of these would take hours if every separator were compared with all of the text.
        for part in ["token=", ":", "-", "a =", "\"token\":", "'"] {
            masked(&part.repeat(1 << 20), Style::Message);
        }
    }
}
