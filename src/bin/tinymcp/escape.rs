//! Replacement of terminal control characters in texts of peers and files. Every such text passes
//! one of these functions on its way to standard output or standard error.

use crate::terminal::is_control;

/// Replaces terminal control characters, except newline and tab.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_control(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
}

/// Like [`plain`], but also replaces newline and tab, so that text of a peer cannot imitate an
/// output line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_control(c) { '\u{fffd}' } else { c }).collect()
}

/// Adds a character of a JSON string; a terminal control character as an escape.
#[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
pub(crate) fn push_json(text: &mut String, c: char) {
    if is_control(c) {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
    } else {
        text.push(c);
    }
}

/// Returns JSON with the characters that control a terminal as escapes. Outside of strings,
/// JSON has only white space of these.
#[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
pub(crate) fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => escaped.push(c),
            '\r' => escaped.push(' '),
            _ => push_json(&mut escaped, c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        let hidden = "\u{1b}\r\u{7}\u{85}\u{061c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202e}\u{2069}\u{e0041}";
        assert_eq!(plain(hidden), "\u{fffd}".repeat(12));
        assert_eq!(plain("a\tb\né\u{200d}"), "a\tb\né\u{200d}");
        assert_eq!(one_line("a\tb\n"), "a\u{fffd}b\u{fffd}");
        #[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
        assert_eq!(json("{\r\n\"a\":\t\"\u{9b}\u{e0041}é\"}\n"), "{ \n\"a\":\t\"\\u009b\\udb40\\udc41é\"}\n");
    }
}
