//! Masking of credentials in frames, and shortening of long ones.
//!
//! Masked are the value of a member whose name contains one of [`WORDS`], and every text that
//! contains a value which the configuration gives to a server. A name is compared without its case
//! and separators. [`HARMLESS`] names of the protocol are not masked.

use std::borrow::Cow;

use tinymcp::json::{Doc, ErrorKind, Kind, ParseError, ParseLimits, Value, Writer};

/// Parts of the names of credentials.
const WORDS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "bearer",
    "credential",
    "cookie",
    "sessionid",
];
/// Names of the protocol that are not credentials.
const HARMLESS: [&str; 2] = ["progresstoken", "maxtokens"];
/// Replacement of a credential.
pub(crate) const MASKED: &str = "[masked]";
/// Shortest value of a variable or header that is masked: a shorter one, such as `true`, is in many
/// texts.
const MIN_SECRET: usize = 8;
/// Bytes of a text that are kept if a frame is too long.
const TEXT: usize = 200;
/// Entries of an array that are kept if a frame is too long.
const ENTRIES: usize = 8;
/// Nesting of a frame, together with the JSON in its texts: the functions below recurse as deep.
const DEPTH: u32 = 128;

/// The values that are masked in texts, the longest first.
pub(crate) struct Mask(Vec<String>);

/// The forms in which a value occurs: whole, the part after its first space (as in `Bearer TOKEN`),
/// its lines, such as the lines of a key, and each of these inside JSON.
pub(crate) fn parts(value: &str) -> Vec<String> {
    let behind = value.split_once(' ').map(|(_, behind)| behind.trim());
    let whole = std::iter::once(value.trim()).chain(behind);
    let mut found: Vec<String> = Vec::new();
    for part in whole.chain(value.lines().map(str::trim)).filter(|part| part.len() >= MIN_SECRET) {
        let mut w = Writer::new();
        let quoted = w.string(part).as_str();
        let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
        let ascii: String = inner.chars().map(escaped).collect();
        for form in [part, inner, &*ascii] {
            if !found.iter().any(|known| known == form) {
                found.push(form.to_owned());
            }
        }
    }
    found
}

/// Returns a character as JSON in ASCII has it.
fn escaped(c: char) -> String {
    match c.is_ascii() {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    }
}

/// Form of a frame that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    /// Long texts and arrays are cut.
    Short,
    /// Only `jsonrpc`, `id` and `method`.
    Outline,
}

impl Mask {
    pub(crate) fn new(mut values: Vec<String>) -> Mask {
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Mask(values)
    }

    /// The text without known values.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked = Cow::Borrowed(text);
        for value in &self.0 {
            if masked.contains(&**value) {
                masked = Cow::Owned(masked.replace(&**value, MASKED));
            }
        }
        masked
    }

    /// Writes a whole frame: byte for byte if it has no credential.
    #[cfg_attr(not(all(unix, feature = "cli")), allow(dead_code))] // For `record`.
    pub(crate) fn write(&self, w: &mut Writer, frame: Value<'_>) {
        match self.is_found(frame, DEPTH) {
            true => self.value(w, frame, Form::Whole, DEPTH),
            false => _ = w.value(frame),
        }
    }

    /// Text in place of a frame that cannot be parsed. Without the frame if that begins as JSON,
    /// because the names of its members cannot be recognized.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))] // For `record` and `--verbose`.
    pub(crate) fn invalid(&self, frame: &[u8], error: &ParseError) -> String {
        match frame.trim_ascii_start().first() {
            Some(b'{' | b'[' | b'"') => format!("[left out: {} bytes, {error}]", frame.len()),
            _ => self.text(&String::from_utf8_lossy(frame)).into_owned(),
        }
    }

    /// Returns whether a value of at most this nesting contains a credential.
    fn is_found(&self, value: Value<'_>, depth: u32) -> bool {
        let is_known = |text: &str| self.0.iter().any(|known| text.contains(&**known));
        let inner = depth.saturating_sub(1);
        match value.kind() {
            Kind::Object => value
                .members()
                .any(|(name, member)| is_credential(name) || is_known(name) || self.is_found(member, inner)),
            Kind::Array => value.items().any(|item| self.is_found(item, inner)),
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                is_known(text) || self.json_text(text, depth).is_some()
            }
            _ => false,
        }
    }

    /// Writes a frame as JSON on one line, in at most `most` bytes, and returns whether it was cut.
    ///
    /// # Errors
    /// The frame is not JSON.
    pub(crate) fn frame(&self, frame: &[u8], most: usize) -> Result<(String, bool), ParseError> {
        let doc = Doc::parse(frame)?;
        for form in [Form::Whole, Form::Short] {
            let mut w = Writer::new();
            self.value(&mut w, doc.root(), form, DEPTH);
            if w.len() <= most {
                return Ok((w.as_str().to_owned(), form != Form::Whole));
            }
        }
        let mut w = Writer::new();
        self.value(&mut w, doc.root(), Form::Outline, DEPTH);
        Ok((w.as_str().to_owned(), true))
    }

    /// Writes a value of at most this nesting.
    fn value(&self, w: &mut Writer, value: Value<'_>, form: Form, depth: u32) {
        let inner = depth.saturating_sub(1);
        match value.kind() {
            Kind::Object => {
                w.begin_object();
                for (name, member) in value.members() {
                    if form == Form::Outline && !matches!(name, "jsonrpc" | "id" | "method") {
                        continue;
                    }
                    w.key(&self.cut(name, form));
                    match is_credential(name) {
                        true => _ = w.string(MASKED),
                        false => self.value(w, member, form, inner),
                    }
                }
                w.end_object();
            }
            Kind::Array => {
                w.begin_array();
                let kept = if form == Form::Whole { usize::MAX } else { ENTRIES };
                for item in value.items().take(kept) {
                    self.value(w, item, form, inner);
                }
                if value.len() > kept {
                    w.string(&format!("[cut: {} entries]", value.len()));
                }
                w.end_array();
            }
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                let masked = self.json_text(text, depth);
                w.string(&self.cut(masked.as_deref().unwrap_or(text), form));
            }
            _ => _ = w.value(value),
        }
    }

    /// Masks the credentials in a text that is JSON. JSON beyond the limits is replaced as a whole,
    /// because its members are not read.
    fn json_text(&self, text: &str, depth: u32) -> Option<String> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let mut doc = Doc::default();
        match doc.parse_again(text.as_bytes(), &ParseLimits { depth, ..ParseLimits::default() }) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Depth | ErrorKind::Nodes) => {
                return Some(MASKED.to_owned());
            }
            Err(_) => return None,
        }
        let mut w = Writer::new();
        self.value(&mut w, doc.root(), Form::Whole, depth);
        w.as_str().contains(MASKED).then(|| w.as_str().to_owned())
    }

    fn cut<'t>(&self, text: &'t str, form: Form) -> Cow<'t, str> {
        let masked = self.text(text);
        match form {
            Form::Whole => masked,
            _ => Cow::Owned(shortened(&masked, TEXT)),
        }
    }
}

/// The text, cut at its end if it has more bytes.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}… [cut: {} bytes]", text.get(..end).unwrap_or_default(), text.len())
}

/// Returns whether a name is the name of a credential. Without an allocation, because every name of
/// a frame is checked.
pub(crate) fn is_credential(name: &str) -> bool {
    let letters = |from: usize| {
        let rest = name.as_bytes().get(from..).unwrap_or_default();
        rest.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase)
    };
    // Starts at letters only, so that no separator is skipped more than a few times.
    let mut starts = name.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_alphanumeric());
    let begins = |(at, byte): (usize, u8)| {
        let first = byte.to_ascii_lowercase();
        WORDS.iter().filter(|word| word.as_bytes().first() == Some(&first)).any(|word| {
            let mut rest = letters(at);
            word.bytes().all(|byte| rest.next() == Some(byte))
        })
    };
    starts.any(begins) && !HARMLESS.iter().any(|harmless| letters(0).eq(harmless.bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn masked(frame: &str) -> String {
        Mask::new(parts("Bearer sk-12345678")).frame(frame.as_bytes(), 1 << 20).unwrap().0
    }

    #[test]
    fn json_in_texts_is_read_as_deep_as_one_frame_may_be() {
        let mask = Mask::new(Vec::new());
        for (layers, depth) in [(2, 50), (8, 100), (10, 120)] {
            let mut text = r#"{"token":"sk-1"}"#.to_owned();
            for _ in 0..layers {
                let mut w = Writer::new();
                text = format!("{}{}{}", "[".repeat(depth), w.string(&text).as_str(), "]".repeat(depth));
            }
            let (frame, _) = mask.frame(text.as_bytes(), usize::MAX).unwrap();
            assert!(frame.contains(MASKED) && !frame.contains("sk-1"), "{frame}");
            assert!(mask.is_found(Doc::parse(&text).unwrap().root(), DEPTH));
        }
    }

    #[test]
    fn nothing_is_shown_of_json_that_cannot_be_read() {
        let mask = Mask::new(parts("sk-12345678"));
        let deep = format!("{}{{\"token\":1}}{}", "[".repeat(200), "]".repeat(200));
        for frame in [r#"{"token":"secret"#, " {\"a\":\"\u{1}secret\"}", &deep] {
            let error = Doc::parse(frame).unwrap_err();
            let text = mask.invalid(frame.as_bytes(), &error);
            assert!(text.starts_with(&format!("[left out: {} bytes, ", frame.len())), "{text}");
        }
        let error = Doc::parse("x").unwrap_err();
        assert_eq!(mask.invalid(b"Listening with sk-12345678", &error), "Listening with [masked]");
    }

    #[test]
    fn members_with_the_names_of_credentials_are_masked() {
        for (given, expected) in [
            (r#"{"password":"x","Api-Key":{"a":1}}"#, r#"{"password":"[masked]","Api-Key":"[masked]"}"#),
            (r#"{"t":"{\"token\": \"x\"}"}"#, r#"{"t":"{\"token\":\"[masked]\"}"}"#),
            (r#"{"t":"[ 1 ]"}"#, r#"{"t":"[ 1 ]"}"#),
            (r#"[{"a":{"clientSecret":7}}]"#, r#"[{"a":{"clientSecret":"[masked]"}}]"#),
            (
                r#"{"Set-Cookie":null,"x_access_token":"t"}"#,
                r#"{"Set-Cookie":"[masked]","x_access_token":"[masked]"}"#,
            ),
            (
                r#"{"progressToken":1,"maxTokens":9,"key":"v"}"#,
                r#"{"progressToken":1,"maxTokens":9,"key":"v"}"#,
            ),
        ] {
            assert_eq!(masked(given), expected);
        }
    }

    #[test]
    fn known_values_are_masked_in_every_text_also_if_escaped() {
        assert_eq!(
            masked(r#"{"a":["x sk-12345678 y","sk-1234\u0035678"],"sk-12345678":1}"#),
            r#"{"a":["x [masked] y","[masked]"],"[masked]":1}"#
        );
        assert_eq!(masked(r#""Bearer sk-12345678""#), r#""[masked]""#);
        assert_eq!(parts("true"), Vec::<String>::new());
        // Lines of a key, and values inside JSON.
        let mask = Mask::new(parts("-----BEGIN\nMIIabcdefgh\nüber-geheim\"9"));
        for text in ["x MIIabcdefgh y", r#"\u00fcber-geheim\"9"#, r#"über-geheim\"9"#] {
            assert!(mask.text(text).contains(MASKED), "{text}: {}", mask.text(text));
        }
    }

    #[test]
    fn a_frame_without_credentials_is_written_byte_for_byte() {
        let mask = Mask::new(parts("sk-12345678"));
        for (given, is_masked) in [
            (r#"{ "a" : [1.50, "b\u0041"], "t": "{\"x\": 1}" }"#, false),
            (r#"{ "a" : [1.50, "sk-12345\u003678"] }"#, true),
            (r#"{ "sk-12345678" : 1 }"#, true),
            (r#"[ {"my_Pass-Word": "x"} ]"#, true),
            (r#"{ "t": "{\"token\": \"x\"}" }"#, true),
        ] {
            let mut w = Writer::new();
            mask.write(&mut w, Doc::parse(given).unwrap().root());
            let whole = mask.frame(given.as_bytes(), usize::MAX).unwrap().0;
            assert_eq!(w.as_str(), if is_masked { &*whole } else { given });
            assert_eq!(whole.contains(MASKED), is_masked, "{whole}");
        }
    }

    #[test]
    fn names_of_credentials_are_found_in_linear_time() {
        for name in ["token", "X-API-Key", "my__pass_word", "Sëcret secret", "accessToken2"] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["", "toke", "t", "progressToken", "max_tokens", "passive", "pass\u{e9}"] {
            assert!(!is_credential(name), "{name}");
        }
        // Each of these would take hours if every position were compared with the rest.
        assert!(!is_credential(&"-".repeat(4 << 20)));
        assert!(is_credential(&format!("tok{}en", "-".repeat(4 << 20))));
    }

    #[test]
    fn a_frame_is_one_line() {
        assert_eq!(masked("{\n \"a\" : [ 1,\r\n 2.50 ] }\n"), r#"{"a":[1,2.50]}"#);
    }

    #[test]
    fn a_long_frame_is_cut_but_stays_json() {
        let mask = Mask::new(Vec::new());
        let long = format!(
            r#"{{"id":7,"method":"m","params":{{"a":"{}","b":[{}1]}}}}"#,
            "é".repeat(500),
            "1,".repeat(99)
        );
        let (text, is_cut) = mask.frame(long.as_bytes(), 600).unwrap();
        assert!(is_cut && text.len() <= 600, "{text}");
        assert!(text.contains("… [cut: 1000 bytes]") && text.contains("[cut: 100 entries]"), "{text}");
        Doc::parse(&text).unwrap();
        let (text, is_cut) = mask.frame(long.as_bytes(), 300).unwrap();
        assert_eq!((&*text, is_cut), (r#"{"id":7,"method":"m"}"#, true));
        assert!(!mask.frame(long.as_bytes(), long.len()).unwrap().1);
    }
}
