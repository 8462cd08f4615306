//! Masking of credentials in frames and lines, and shortening of long ones.
//!
//! Masked are the value of a member whose name contains one of [`WORDS`], such a value in a text
//! (`mask/text.rs`), and every text that contains a value which the configuration gives to a
//! server. A name is compared without its case and separators. [`HARMLESS`] names of the protocol
//! are not masked.
//!
//! # Invariants
//! - No function recurses: a peer chooses the nesting of a frame, and of the JSON in its texts.
//! - JSON that cannot be read, because it is malformed or beyond a limit, is replaced by its
//!   length.

mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::vec::IntoIter;

use tinymcp::json::{Doc, ErrorKind, Kind, NodeId, ParseError, Value, Writer};

use crate::walk::{Step, Walk};
use text::Style;

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
/// Documents inside each other: a frame, the JSON in its texts, the JSON in the texts of that. Each
/// layer doubles the escapes, so that a frame of 4 MiB has no more than about 20.
const LAYERS: usize = 32;

/// Texts with credentials, masked, by the values that have them.
type Texts = BTreeMap<NodeId, String>;

/// A document whose texts are being masked.
struct Layer {
    /// The text of the outer document.
    id: NodeId,
    doc: Doc,
    /// Texts that begin as JSON and are not yet masked.
    waiting: IntoIter<(NodeId, String)>,
    masked: Texts,
}

impl Layer {
    fn new(id: NodeId, value: Value<'_>, doc: Doc) -> Layer {
        let mut waiting = Vec::new();
        let mut walk = Walk::new(value);
        while let Some(step) = walk.next() {
            match step {
                Step::Key(name) if is_credential(name) => walk.skip_value(),
                Step::Scalar(value) => {
                    let text = value.as_str().filter(|text| begins_as_json(text));
                    waiting.extend(text.map(|text| (value.id(), text.to_owned())));
                }
                _ => {}
            }
        }
        Layer { id, doc, waiting: waiting.into_iter(), masked: Texts::new() }
    }

    fn of(id: NodeId, doc: Doc) -> Layer {
        let layer = Layer::new(id, doc.root(), Doc::default());
        Layer { doc, ..layer }
    }
}

/// Returns whether a text begins as an object, an array or a string.
fn begins_as_json(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').starts_with(['{', '[', '"'])
}

/// Returns whether a text that begins as JSON and is not valid contains no name of a credential,
/// such as `[1] a note`.
fn is_prose(text: &str, error: &ParseError) -> bool {
    let is_beyond_limits = matches!(error.kind(), ErrorKind::Depth | ErrorKind::Nodes | ErrorKind::Bytes);
    !is_beyond_limits && !is_credential(text) && !text::hides_names(text)
}

/// Text in place of JSON that cannot be read.
fn left_out(text: &str) -> String {
    format!("[masked: {} bytes]", text.len())
}

/// Returns whether the outline of a frame has this member.
fn is_outlined(name: &str, walk: &Walk<'_>) -> bool {
    matches!(name, "jsonrpc" | "id" | "method") && walk.is_before_scalar()
}

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
    /// Only `jsonrpc`, `id` and `method`, if they are not containers.
    Outline,
}

impl Mask {
    pub(crate) fn new(mut values: Vec<String>) -> Mask {
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Mask(values)
    }

    /// Returns the text without known values and without the values of credentials that it names.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.known(text) {
            Cow::Borrowed(text) => text::masked(text, Style::Data),
            Cow::Owned(text) => Cow::Owned(text::masked(&text, Style::Data).into_owned()),
        }
    }

    fn known<'t>(&self, text: &'t str) -> Cow<'t, str> {
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
        let texts = self.json_texts(frame);
        match self.is_found(frame, &texts) {
            true => self.value(w, frame, Form::Whole, &texts),
            false => _ = w.value(frame),
        }
    }

    /// Masks a line that may be JSON, a message for people, or both.
    #[cfg_attr(not(all(unix, feature = "cli")), allow(dead_code))] // For `record`.
    pub(crate) fn line(&self, line: &[u8]) -> String {
        match Doc::parse(line) {
            Ok(doc) => {
                let mut w = Writer::new();
                self.write(&mut w, doc.root());
                w.as_str().to_owned()
            }
            Err(error) => self.invalid(line, &error),
        }
    }

    /// Text in place of a frame that cannot be parsed.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))] // For `record` and `--verbose`.
    pub(crate) fn invalid(&self, frame: &[u8], error: &ParseError) -> String {
        let text = self.message(frame, error);
        text.unwrap_or_else(|| format!("[left out: {} bytes, {error}]", frame.len()))
    }

    /// The text of a line that is not JSON. `None` if it may be broken JSON with credentials,
    /// because the names of its members cannot be recognized.
    pub(crate) fn message(&self, line: &[u8], error: &ParseError) -> Option<String> {
        let text = String::from_utf8_lossy(line);
        let is_object = text.trim_start().starts_with('{');
        let is_json = is_object || begins_as_json(&text) && !is_prose(&text, error);
        let known = self.known(&text);
        (!is_json && !text::hides_names(&text)).then(|| text::masked(&known, Style::Message).into_owned())
    }

    /// Masks the JSON in the texts of a value. Returns the texts with credentials.
    fn json_texts(&self, value: Value<'_>) -> Texts {
        let mut layers = vec![Layer::new(NodeId::ROOT, value, Doc::default())];
        loop {
            let depth = layers.len();
            let Some(layer) = layers.last_mut() else { return Texts::new() };
            if let Some((id, text)) = layer.waiting.next() {
                match Doc::parse(&text) {
                    Ok(doc) if depth < LAYERS => layers.push(Layer::of(id, doc)),
                    Err(error) if is_prose(&text, &error) => {}
                    _ => _ = layer.masked.insert(id, left_out(&text)),
                }
                continue;
            }
            let Some(Layer { id, doc, masked, .. }) = layers.pop() else { return Texts::new() };
            let Some(outer) = layers.last_mut() else { return masked };
            if self.is_found(doc.root(), &masked) {
                let mut w = Writer::new();
                self.value(&mut w, doc.root(), Form::Whole, &masked);
                outer.masked.insert(id, w.as_str().to_owned());
            }
        }
    }

    /// Returns whether a value contains a credential; `texts` are those of [`Mask::json_texts`].
    fn is_found(&self, value: Value<'_>, texts: &Texts) -> bool {
        let is_masked = |text: &str| matches!(self.text(text), Cow::Owned(_));
        !texts.is_empty()
            || Walk::new(value).any(|step| match step {
                Step::Key(name) => is_credential(name) || is_masked(name),
                Step::Scalar(value) => value.as_str().is_some_and(is_masked),
                _ => false,
            })
    }

    /// Writes a frame as JSON on one line, in at most about `most` bytes, and returns whether it
    /// was cut.
    ///
    /// # Errors
    /// The frame is not JSON.
    pub(crate) fn frame(&self, frame: &[u8], most: usize) -> Result<(String, bool), ParseError> {
        let doc = Doc::parse(frame)?;
        let texts = self.json_texts(doc.root());
        for form in [Form::Whole, Form::Short] {
            let mut w = Writer::new();
            self.value(&mut w, doc.root(), form, &texts);
            if w.len() <= most {
                return Ok((w.as_str().to_owned(), form != Form::Whole));
            }
        }
        let mut w = Writer::new();
        self.value(&mut w, doc.root(), Form::Outline, &texts);
        Ok((w.as_str().to_owned(), true))
    }

    /// Writes a value with these texts in place of its own.
    fn value(&self, w: &mut Writer, value: Value<'_>, form: Form, texts: &Texts) {
        let kept = match form {
            Form::Whole => usize::MAX,
            Form::Short => ENTRIES,
            Form::Outline => 0,
        };
        let mut walk = Walk::new(value).entries(kept);
        while let Some(step) = walk.next() {
            match step {
                Step::Key(name) if form == Form::Outline && !is_outlined(name, &walk) => walk.skip_value(),
                Step::Key(name) => {
                    w.key(&self.cut(name, form));
                    if is_credential(name) {
                        w.string(MASKED);
                        walk.skip_value();
                    }
                }
                Step::End(array) if array.kind() == Kind::Array && array.len() > kept => {
                    w.string(&format!("[cut: {} entries]", array.len())).end_array();
                }
                Step::Scalar(value) => self.scalar(w, value, form, texts.get(&value.id())),
                bracket => bracket.write(w),
            }
        }
    }

    fn scalar(&self, w: &mut Writer, value: Value<'_>, form: Form, text: Option<&String>) {
        match value.as_str() {
            Some(own) => _ = w.string(&self.cut(text.map_or(own, String::as_str), form)),
            // A number may have any length.
            None if form != Form::Whole && value.raw().len() > TEXT => {
                w.string(&shortened(value.raw(), TEXT));
            }
            None => _ = w.value(value),
        }
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
            assert!(frame.contains("[masked") && !frame.contains("sk-1"), "{frame}");
            let mut w = Writer::new();
            mask.write(&mut w, Doc::parse(&text).unwrap().root());
            assert_eq!(w.as_str(), frame);
        }
    }

    #[test]
    fn json_in_texts_takes_no_stack() {
        let deep = || {
            let mut text = r#"{"token":"sk-1"}"#.to_owned();
            for _ in 0..11 {
                let mut w = Writer::new();
                text = format!("{}{}{}", "[".repeat(127), w.string(&text).as_str(), "]".repeat(127));
            }
            let (frame, _) = Mask::new(Vec::new()).frame(text.as_bytes(), usize::MAX).unwrap();
            assert!(frame.contains(MASKED) && !frame.contains("sk-1"));
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(deep).unwrap().join().unwrap();
    }

    #[test]
    fn json_in_texts_that_cannot_be_read_is_replaced_by_its_length() {
        let deep = format!("{}{{\"token\":1}}{}", "[".repeat(200), "]".repeat(200));
        for text in [
            r#"{"token":"sk-1","a":"\ud800"}"#,
            r#"{"t\u006fken":"sk-1","a":"\ud800"}"#,
            "{\"token\":1",
            &deep,
        ] {
            let mut w = Writer::new();
            w.begin_object().key("t").string(text).end_object();
            let (frame, _) = Mask::new(Vec::new()).frame(w.as_bytes(), usize::MAX).unwrap();
            assert_eq!(frame, format!(r#"{{"t":"[masked: {} bytes]"}}"#, text.len()));
        }
        assert_eq!(masked(r#"{"t":"[1] a note"}"#), r#"{"t":"[1] a note"}"#);
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
