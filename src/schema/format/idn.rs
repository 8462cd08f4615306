//! Internationalised host names: RFC 5890 to 5892, with the tables of the crate `idna`.
//!
//! The crate implements UTS 46: mapping, hyphens, lengths, joiners and text direction. This module
//! adds the rules of IDNA 2008 beyond it: characters disallowed by name (RFC 5892 §2.6), and
//! characters allowed only beside certain others (RFC 5892 appendix A).
//!
//! Invariant: each name is read a fixed number of times.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// Returns `true` if a text is a host name, internationalised or not.
pub(super) fn is_hostname(text: &str) -> bool {
    let idna = Uts46::new();
    let deny = AsciiDenyList::STD3;
    if idna.to_ascii(text.as_bytes(), deny, Hyphens::Check, DnsLength::Verify).is_err() {
        return false;
    }
    let (shown, sound) = idna.to_unicode(text.as_bytes(), deny, Hyphens::Check);
    sound.is_ok() && shown.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let any = |is: fn(char) -> bool| label.chars().any(is);
    let mut before = None;
    let mut rest = label.chars();
    while let Some(c) = rest.next() {
        let after = rest.clone().next();
        let good = match c {
            // Disallowed by name.
            '\u{640}' | '\u{7fa}' | '\u{302e}' | '\u{302f}' | '\u{3031}'..='\u{3035}' | '\u{303b}' => false,
            // MIDDLE DOT, between two l.
            '\u{b7}' => before == Some('l') && after == Some('l'),
            // GREEK LOWER NUMERAL SIGN, before Greek.
            '\u{375}' => after.is_some_and(is_greek),
            // HEBREW GERESH and GERSHAYIM, after Hebrew.
            '\u{5f3}' | '\u{5f4}' => before.is_some_and(is_hebrew),
            // KATAKANA MIDDLE DOT, with any character of these scripts.
            '\u{30fb}' => any(is_japanese),
            // The two kinds of Arabic digits do not mix.
            '\u{660}'..='\u{669}' => !any(|c| ('\u{6f0}'..='\u{6f9}').contains(&c)),
            '\u{6f0}'..='\u{6f9}' => !any(|c| ('\u{660}'..='\u{669}').contains(&c)),
            _ => true,
        };
        if !good {
            return false;
        }
        before = Some(c);
    }
    true
}

fn is_greek(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}')
}

fn is_hebrew(c: char) -> bool {
    matches!(c, '\u{591}'..='\u{5f4}' | '\u{fb1d}'..='\u{fb4f}')
}

/// Hiragana, Katakana or Han.
fn is_japanese(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}')
        || matches!(c, '\u{3005}' | '\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
        || matches!(c, '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_their_labels() {
        for (name, expected) in [
            ("실례.테스트", true),
            ("xn--ihqwcrb4cv8a8dqg056pqjye", true),
            ("faß.example", true),
            ("l·l", true),
            ("a·l", false),
            ("α͵β", true),
            ("α͵s", false),
            ("א׳ב", true),
            ("a׳b", false),
            ("def・abc", false),
            ("カ・abc", true),
            ("ب٠ب", true),
            ("ب٠۰", false),
            ("〱〲", false),
            ("-a", false),
            ("ab--c", false),
            ("xn--X", false),
            ("。", false),
            ("", false),
        ] {
            assert_eq!(is_hostname(name), expected, "{name}");
        }
    }
}
