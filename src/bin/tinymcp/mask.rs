//! Masking of credentials in frames, and shortening of long ones.
//!
//! Masked are the value of a member whose name contains one of [`WORDS`], and every text that
//! contains a value which the configuration gives to a server. A name is compared without its case
//! and separators. [`HARMLESS`] names of the protocol are not masked.

use tinymcp::json::{Doc, Kind, ParseError, Value, Writer};

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
const MASKED: &str = "[masked]";
/// Shortest value of a variable or header that is masked: a shorter one, such as `true`, is in many
/// texts.
const SHORTEST: usize = 8;
/// Bytes of a text that are kept if a frame is too long.
const TEXT: usize = 200;
/// Entries of an array that are kept if a frame is too long.
const ENTRIES: usize = 8;

/// The values that are masked in texts, the longest first.
pub(crate) struct Mask(Vec<String>);

/// The forms in which a value occurs: whole, the part behind its first blank (`Bearer TOKEN` is
/// known by its token, too), its lines, such as those of a key, and each of them inside JSON.
pub(crate) fn parts(value: &str) -> Vec<String> {
    let behind = value.split_once(' ').map(|(_, behind)| behind.trim());
    let whole = std::iter::once(value.trim()).chain(behind);
    let mut found: Vec<String> = Vec::new();
    for part in whole.chain(value.lines().map(str::trim)).filter(|part| part.len() >= SHORTEST) {
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
    pub(crate) fn text(&self, text: &str) -> String {
        let known = self.0.iter().filter(|value| text.contains(&***value)).collect::<Vec<_>>();
        known.into_iter().fold(text.to_owned(), |text, value| text.replace(&**value, MASKED))
    }

    /// A frame as JSON on one line, at most `most` bytes, and whether something was cut.
    ///
    /// # Errors
    /// The frame is not JSON.
    pub(crate) fn frame(&self, frame: &[u8], most: usize) -> Result<(String, bool), ParseError> {
        let doc = Doc::parse(frame)?;
        for form in [Form::Whole, Form::Short] {
            let mut w = Writer::new();
            self.value(&mut w, doc.root(), form);
            if w.len() <= most {
                return Ok((w.as_str().to_owned(), form != Form::Whole));
            }
        }
        let mut w = Writer::new();
        self.value(&mut w, doc.root(), Form::Outline);
        Ok((w.as_str().to_owned(), true))
    }

    /// Writes a value. Recurses as deep as the parser permits.
    fn value(&self, w: &mut Writer, value: Value<'_>, form: Form) {
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
                        false => self.value(w, member, form),
                    }
                }
                w.end_object();
            }
            Kind::Array => {
                w.begin_array();
                let kept = if form == Form::Whole { usize::MAX } else { ENTRIES };
                for item in value.items().take(kept) {
                    self.value(w, item, form);
                }
                if value.len() > kept {
                    w.string(&format!("[cut: {} entries]", value.len()));
                }
                w.end_array();
            }
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                let inner = self.json_text(text);
                w.string(&self.cut(inner.as_deref().unwrap_or(text), form));
            }
            _ => _ = w.value(value),
        }
    }

    /// Returns a text that is JSON with credentials, without them.
    fn json_text(&self, text: &str) -> Option<String> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let doc = Doc::parse(text).ok()?;
        let mut w = Writer::new();
        self.value(&mut w, doc.root(), Form::Whole);
        w.as_str().contains(MASKED).then(|| w.as_str().to_owned())
    }

    fn cut(&self, text: &str, form: Form) -> String {
        let masked = self.text(text);
        match form {
            Form::Whole => masked,
            _ => shortened(&masked, TEXT),
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

fn is_credential(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    WORDS.iter().any(|word| plain.contains(word)) && !HARMLESS.contains(&&*plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn masked(frame: &str) -> String {
        Mask::new(parts("Bearer sk-12345678")).frame(frame.as_bytes(), 1 << 20).unwrap().0
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
