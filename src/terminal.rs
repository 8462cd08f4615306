//! Characters of a peer's text that must not reach a terminal. The library and the program share
//! this file.

/// Returns whether a terminal would interpret `c`, or `c` hides or reorders other characters:
/// control characters (C0, C1), line ends, bidirectional formatting, invisible characters and tags.
/// The joiner of emoji and some scripts (U+200D) stays.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::is_control;

    #[test]
    fn controls_are_found_and_letters_are_not() {
        let controls = "\0\t\n\r\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{061c}\u{200b}\u{200e}\u{200f}\
                        \u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0001}\u{e0041}\u{e0100}";
        assert!(controls.chars().all(is_control));
        assert!(!" aé\u{a0}\u{200d}\u{fe0f}日😀\u{fffd}".chars().any(is_control));
    }
}
