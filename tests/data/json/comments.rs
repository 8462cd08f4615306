//! JSON with comments and trailing commas: a table, and random texts with two oracles, serde_json
//! for the values and a reader by the grammar for validity.
//!
//! Each random text is generated from its number, which a failure prints. `TEST_FUZZ=1000000` sets
//! the number of texts.

use std::borrow::Cow;

use tinymcp::json::{Doc, ErrorKind, without_comments};

/// Texts and their results. In the results, `_` is a space that was something else.
const TABLE: [(&str, &str); 36] = [
    ("", ""),
    ("7", "7"),
    ("// a\n7", "____\n7"),
    ("// a\r\n7", "____\r\n7"),
    ("7 // a", "7 ____"),
    ("7//", "7__"),
    ("/**/7/***/", "____7_____"),
    ("/* a\r\n * b\n */7", "____\r\n____\n___7"),
    ("/*/7*/8", "______8"),
    ("/* // */7", "________7"),
    ("// /*\n7 /* */", "_____\n7 _____"),
    ("/* \" */ 7", "_______ 7"),
    (r#""a//b""#, r#""a//b""#),
    (r#""/*" 7 "*/""#, r#""/*" 7 "*/""#),
    (r#""\"//" // ""#, r#""\"//" ____"#),
    (r#""\\"// ""#, r#""\\"____"#),
    (r#"["a,]"]"#, r#"["a,]"]"#),
    ("[1,]", "[1_]"),
    ("[1 , ]", "[1 _ ]"),
    ("[[],]", "[[]_]"),
    ("{\"a\":1,}", "{\"a\":1_}"),
    ("[1,// a\n]", "[1_____\n]"),
    ("[1/**/,/**/]", "[1_________]"),
    ("[1,2,{\"a\":[\"b\",],},]", "[1,2,{\"a\":[\"b\"_]_}_]"),
    // Invalid before and after.
    ("[,]", "[,]"),
    ("{,}", "{,}"),
    ("[1,,]", "[1,,]"),
    ("[1,/**/,]", "[1,____,]"),
    ("{\"a\":,}", "{\"a\":,}"),
    (",", ","),
    ("1,", "1,"),
    ("/", "/"),
    ("[1,/*]", "[1,/*]"),
    ("/*/ // a\n/**", "/*/ // a\n/**"),
    ("tr/**/ue", "tr____ue"),
    ("\"a // \n", "\"a // \n"),
];

fn cleaned(text: &str) -> String {
    String::from_utf8(without_comments(text.as_bytes()).into_owned()).unwrap()
}

#[test]
fn comments_and_trailing_commas_become_spaces() {
    for (text, result) in TABLE {
        assert_eq!(cleaned(text), result.replace('_', " "), "{text}");
        assert_eq!(Doc::parse(cleaned(text)).is_ok(), reference(text), "{text}");
    }
    assert!(matches!(without_comments(b"[1, \"//\"]"), Cow::Borrowed(_)));
    // Any bytes may be in a comment, and nothing else is changed.
    assert_eq!(&*without_comments(b"//\xFF\0\n\xFF"), b"    \n\xFF");
}

#[test]
fn errors_have_the_position_of_the_original_text() {
    for (text, kind, offset) in [
        ("// a\n[1, /* b */ x]", ErrorKind::UnexpectedByte, 17),
        ("[1, 2 /* no end ]", ErrorKind::ExpectedComma, 6),
        ("[1, /* no end ]", ErrorKind::UnexpectedByte, 4),
        ("{\"a\": 1, /* é */ ,}", ErrorKind::ExpectedName, 18),
        ("[1] // a\n 2", ErrorKind::Trailing, 10),
    ] {
        let error = Doc::parse(without_comments(text.as_bytes())).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (kind, offset), "{text}");
    }
}

#[test]
fn many_unfinished_comments_take_linear_time() {
    for text in ["/*", "//", "/", "\"", "[1,", "/**/"] {
        let text = text.repeat(1 << 20);
        assert_eq!(without_comments(text.as_bytes()).len(), text.len());
    }
}

#[test]
fn random_texts_are_read_as_by_the_references() {
    let count = std::env::var("TEST_FUZZ").map_or(20_000, |n| n.parse().unwrap());
    for seed in 0..count {
        let mut r = Random(seed);
        let (mut plain, mut commented) = (String::new(), String::new());
        document(&mut r, &mut plain, &mut commented, 4);
        let clean = cleaned(&commented);
        let expected: serde_json::Value = serde_json::from_str(&plain).unwrap();
        let found: serde_json::Value =
            serde_json::from_str(&clean).unwrap_or_else(|e| panic!("{seed}: {e}: {commented}"));
        assert_eq!(found, expected, "{seed}: {commented}");
        assert_eq!(clean.len(), commented.len(), "{seed}: {commented}");
        let changed = |(old, new): (u8, u8)| old != new && (new != b' ' || matches!(old, b'\n' | b'\r'));
        assert!(!commented.bytes().zip(clean.bytes()).any(changed), "{seed}: {commented}");
        let mut mutated = commented.into_bytes();
        for _ in 0..1 + r.below(3) {
            mutate(&mut r, &mut mutated);
        }
        let mutated = String::from_utf8(mutated).unwrap();
        let clean = cleaned(&mutated);
        assert_eq!(Doc::parse(&clean).is_ok(), reference(&mutated), "{seed}: {mutated}\n{clean}");
        assert_eq!(cleaned(&clean), clean, "{seed}: {mutated}");
    }
}

/// SplitMix64 random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Writes the same random value with and without comments and trailing commas.
fn document(r: &mut Random, plain: &mut String, commented: &mut String, depth: u32) {
    let both = |text: &str, plain: &mut String, commented: &mut String| {
        plain.push_str(text);
        commented.push_str(text);
    };
    blanks(r, commented);
    let kind = if depth == 0 { 9 } else { r.below(10) };
    if kind < 6 {
        let (object, count) = (kind < 3, r.below(4));
        both(if object { "{" } else { "[" }, plain, commented);
        for n in 0..count {
            if n > 0 {
                both(",", plain, commented);
            }
            if object {
                blanks(r, commented);
                both(&format!("\"{n}{}\"", r.pick(STRINGS)), plain, commented);
                blanks(r, commented);
                both(":", plain, commented);
            }
            document(r, plain, commented, depth - 1);
        }
        if count > 0 && r.below(3) == 0 {
            commented.push(',');
        }
        blanks(r, commented);
        both(if object { "}" } else { "]" }, plain, commented);
    } else {
        let text =
            r.pick(&["1", "-2.5e3", "true", "null", "\"\"", "\"//\"", "\"/*\"", "\"*/,]\"", "\"\\\"//\""]);
        both(text, plain, commented);
    }
    blanks(r, commented);
}

const STRINGS: &[&str] = &["", "//", "/*", "*/", "\\\"", "\\\\", ",]", "é"];

fn blanks(r: &mut Random, text: &mut String) {
    for _ in 0..r.below(3) {
        text.push_str(r.pick(&[
            " ",
            "\n",
            "\r\n",
            "\t",
            "// a\n",
            "//\r",
            "// \"[,]/*\n",
            "/**/",
            "/* \" \n */",
        ]));
        text.push_str(r.pick(&["", "/*/ é*/", "/***/", " ", "/*//*/"]));
    }
}

/// Inserts, removes or replaces a character.
fn mutate(r: &mut Random, text: &mut Vec<u8>) {
    if text.is_empty() {
        text.push(b'/');
    }
    let places: Vec<usize> = (0..text.len()).filter(|at| text[*at] & 0xC0 != 0x80).collect();
    let at = places[r.below(places.len())];
    let end = places.iter().copied().find(|place| *place > at).unwrap_or(text.len());
    let new =
        r.pick(&["", ",", "/", "*", "//", "/*", "*/", "\"", "\\", "[", "]", "{", "}", ":", "\n", "1", ",]"]);
    let end = if r.below(2) == 0 { at } else { end };
    text.splice(at..end, new.bytes());
}

/// Whether a text is JSON with comments and trailing commas, by the grammar.
fn reference(text: &str) -> bool {
    let mut rest = text;
    value(&mut rest) && rest.is_empty()
}

fn skip(rest: &mut &str) -> bool {
    loop {
        *rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        if let Some(comment) = rest.strip_prefix("//") {
            *rest = comment.trim_start_matches(|c| c != '\n' && c != '\r');
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let Some((_, behind)) = comment.split_once("*/") else { return false };
            *rest = behind;
        } else {
            return true;
        }
    }
}

fn take(rest: &mut &str, token: &str) -> bool {
    let behind = rest.strip_prefix(token);
    *rest = behind.unwrap_or(rest);
    behind.is_some()
}

fn value(rest: &mut &str) -> bool {
    if !skip(rest) {
        return false;
    }
    let good = if take(rest, "[") {
        list(rest, "]", value)
    } else if take(rest, "{") {
        list(rest, "}", |rest| {
            rest.starts_with('"') && scalar(rest) && skip(rest) && take(rest, ":") && value(rest)
        })
    } else {
        scalar(rest)
    };
    good && skip(rest)
}

fn list(rest: &mut &str, close: &str, item: fn(&mut &str) -> bool) -> bool {
    loop {
        if !skip(rest) {
            return false;
        }
        if take(rest, close) {
            return true;
        }
        if !item(rest) || !skip(rest) {
            return false;
        }
        if !take(rest, ",") {
            return take(rest, close);
        }
    }
}

/// A string, number or word, checked by serde_json.
fn scalar(rest: &mut &str) -> bool {
    let end = if rest.starts_with('"') {
        let mut escaped = false;
        rest.char_indices().skip(1).find_map(|(at, c)| match c {
            _ if escaped => {
                escaped = false;
                None
            }
            '\\' => {
                escaped = true;
                None
            }
            '"' => Some(at + 1),
            _ => None,
        })
    } else {
        rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).or(Some(rest.len()))
    };
    let Some((token, behind)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
    *rest = behind;
    serde_json::from_str::<serde_json::Value>(token).is_ok()
}
