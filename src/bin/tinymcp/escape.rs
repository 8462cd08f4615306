//! Replacement of terminal control characters in texts of peers and files.

/// Replaces terminal control characters, except newline and tab.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if is_terminal_control(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c })
        .collect()
}

/// Like [`plain`], but also replaces newline and tab, so that text of a peer cannot imitate an
/// output line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_terminal_control(c) { '\u{fffd}' } else { c }).collect()
}

/// Adds a character of a JSON string; a terminal control character as an escape.
#[cfg(feature = "cli")]
pub(crate) fn push_json(text: &mut String, c: char) {
    if is_terminal_control(c) {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
    } else {
        text.push(c);
    }
}

/// Returns whether `c` is a control character, a line end, a bidirectional formatting character or
/// an invisible tag.
fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
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
    }
}
