//! base64 (RFC 4648): binary contents, cursors and sealed state as text.
//!
//! Both alphabets in one small coder; there is no streaming and no leniency.
//!
//! Invariant: one text for each value. What decodes is exactly what [`encode`] gives: padding where
//! the form has it, no stray bits, no line ends.

/// How bytes are spelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `+`, `/`, and `=` up to a multiple of four (§4).
    Standard,
    /// `-`, `_`, no padding (§5).
    Url,
}

const LETTERS: [u8; 62] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// What no letter stands for.
const NONE: u8 = 64;

/// What the letters stand for that both forms have.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < LETTERS.len() {
        values[LETTERS[i] as usize] = i as u8;
        i += 1;
    }
    values
};

impl Form {
    /// The letters for 62 and 63.
    fn last(self) -> [u8; 2] {
        match self {
            Form::Standard => *b"+/",
            Form::Url => *b"-_",
        }
    }
}

/// The bytes as text.
pub(crate) fn encode(form: Form, bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    let mut letters = [0; 64];
    letters[..62].copy_from_slice(&LETTERS);
    letters[62..].copy_from_slice(&form.last());
    for group in bytes.chunks(3) {
        let byte = |i| u32::from(group.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let four = [18, 12, 6, 0].map(|shift| letters[(word >> shift & 63) as usize]);
        text.extend_from_slice(&four);
    }
    let missing = (3 - bytes.len() % 3) % 3;
    text.truncate(text.len() - missing);
    if form == Form::Standard {
        text.extend_from_slice(&b"=="[..missing]);
    }
    // Only ASCII was written.
    String::from_utf8(text).unwrap_or_default()
}

/// The bytes that encode to this text.
pub(crate) fn decode(form: Form, text: &str) -> Option<Vec<u8>> {
    let mut text = text.as_bytes();
    if form == Form::Standard {
        if text.len() % 4 != 0 {
            return None;
        }
        text = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    }
    let [plus, slash] = form.last();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut word = 0;
        for letter in group {
            let six = match VALUES[usize::from(*letter)] {
                NONE if *letter == plus => 62,
                NONE if *letter == slash => 63,
                NONE => return None,
                value => value,
            };
            word = word << 6 | u32::from(six);
        }
        let [_, two @ .., last] = word.to_be_bytes();
        match group.len() {
            4 => {
                bytes.extend_from_slice(&two);
                bytes.push(last);
            }
            3 if word & 3 == 0 => bytes.extend_from_slice(&((word >> 2) as u16).to_be_bytes()),
            2 if word & 15 == 0 => bytes.push((word >> 4) as u8),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Form, decode, encode};

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 4648 section 10.
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(Form::Standard, plain.as_bytes()), coded);
            assert_eq!(encode(Form::Url, plain.as_bytes()), coded.trim_end_matches('='));
            assert_eq!(decode(Form::Standard, coded).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn every_byte_comes_back_from_every_place() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for form in [Form::Standard, Form::Url] {
            for start in 0..bytes.len() {
                let text = encode(form, &bytes[start..]);
                assert_eq!(decode(form, &text).as_deref(), Some(&bytes[start..]));
            }
        }
        assert_eq!(encode(Form::Standard, &[0xfb, 0xff, 0xfe]), "+//+");
        assert_eq!(encode(Form::Url, &[0xfb, 0xff, 0xfe]), "-__-");
    }

    #[test]
    fn what_encoding_never_gives_is_refused() {
        for text in
            ["A", "AA", "AAA", "A===", "====", "=", "AA=A", "AB==", "AAB=", "AA==AA==", "AA A", "-__-"]
        {
            assert_eq!(decode(Form::Standard, text), None, "{text}");
        }
        for text in ["A", "AA==", "AB", "AAB", "AAAAA", "+//+", "AA\nA", "ÄAA"] {
            assert_eq!(decode(Form::Url, text), None, "{text}");
        }
    }
}
