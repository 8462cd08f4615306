//! Long strings and long texts, which are read, checked and copied in blocks. The result does not
//! depend on the block boundaries.

use tinymcp::json::{Doc, ErrorKind, ParseLimits};

const LIMITS: ParseLimits = ParseLimits::UNBOUNDED;
/// Characters of one to four bytes.
const FILL: [&str; 4] = ["x", "é", "日", "😀"];
/// Longer than the largest block within a string, and than the length from which blocks are large.
const LONG: usize = 1600;
/// Size of the pieces in which a text is checked and copied.
const PIECE: usize = 8 << 10;

/// Parses a string and compares it with serde_json's result.
fn agrees(doc: &mut Doc, text: &str) {
    doc.parse_again(text.as_bytes(), &LIMITS).unwrap_or_else(|e| panic!("{text}: {e}"));
    let expected: String = serde_json::from_str(text).unwrap();
    assert_eq!(doc.root().as_str(), Some(expected.as_str()), "{text}");
    assert_eq!(doc.root().raw(), text);
}

#[test]
fn escapes_are_read_at_every_position_in_a_long_string() {
    let mut doc = Doc::default();
    for fill in FILL {
        for escape in [r"\n", r#"\""#, r"\\", r"\u65e5", r"\ud83d\ude00"] {
            for before in 0..LONG / fill.len() {
                let before = fill.repeat(before);
                // Followed by nothing, by a short text, and by another one at the same distance.
                agrees(&mut doc, &format!("\"{before}{escape}\""));
                agrees(&mut doc, &format!("\"{before}{escape}{fill}{escape}#]\""));
                agrees(&mut doc, &format!("\"{escape}{before}{escape}{before}\""));
            }
        }
    }
}

#[test]
fn the_first_error_is_found_at_every_position_in_a_long_string() {
    let mut doc = Doc::default();
    let is_refused = |doc: &mut Doc, text: &str, kind, offset| {
        let error = doc.parse_again(text.as_bytes(), &LIMITS).expect_err(text);
        assert_eq!((error.kind(), error.offset()), (kind, offset), "{text}");
        assert_eq!(doc.text(), "null");
    };
    for fill in FILL {
        for start in ["", r"\t"] {
            for before in 0..LONG / fill.len() {
                let text = format!("\"{start}{}", fill.repeat(before));
                for rest in ["", "x", "\"", "and more of it, so that no block is the last one of the text\""]
                {
                    for wrong in ["\u{0}", "\n", "\u{1f}"] {
                        let text = format!("{text}{wrong}{rest}");
                        is_refused(&mut doc, &text, ErrorKind::ControlCharacter, text.len() - rest.len() - 1);
                    }
                    let text = format!("{text}\\x{rest}");
                    is_refused(&mut doc, &text, ErrorKind::Escape, text.len() - rest.len() - 2);
                }
                is_refused(&mut doc, &text, ErrorKind::UnexpectedEnd, text.len());
            }
        }
    }
}

#[test]
fn characters_across_the_border_of_two_pieces_are_whole() {
    let mut doc = Doc::default();
    for fill in FILL {
        for lead in 0..4 {
            for pieces in [1, 2, 3] {
                let count = (pieces * PIECE + 16) / fill.len();
                let text = format!("\"{}{}\"", "x".repeat(lead), fill.repeat(count));
                agrees(&mut doc, &text);
            }
        }
    }
}

#[test]
fn invalid_utf8_is_found_at_the_border_of_two_pieces() {
    let bad: [&[u8]; 12] = [
        b"\x80",
        b"\xff",
        b"\xc3",
        b"\xe6\x97",
        b"\xf0\x9f\x98",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\x80\x80\x80\x80\x80",
        b"\xe6\x97\xa5\x80",
        b"\xf0\x9f\x98\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf0\x8f\x80\x80",
    ];
    let mut doc = Doc::default();
    for bad in bad {
        for fill in FILL {
            for pieces in [1, 2] {
                for at in pieces * PIECE - 8..pieces * PIECE + 4 {
                    for rest in [&b"x\""[..], b"\xe6\x97\xa5\"", b"\"", b""] {
                        let mut text = b"\"".to_vec();
                        text.extend_from_slice(fill.repeat(100).as_bytes());
                        text.resize(at, b'x');
                        text.extend_from_slice(bad);
                        text.extend_from_slice(rest);
                        let expected = std::str::from_utf8(&text).unwrap_err().valid_up_to();
                        let error = doc.parse_again(&text, &LIMITS).unwrap_err();
                        assert_eq!(
                            (error.kind(), error.offset()),
                            (ErrorKind::Utf8, expected),
                            "{bad:x?} at {at}"
                        );
                        assert_eq!(doc.text(), "null");
                        doc.shrink_to(0);
                        assert_eq!(doc.memory(), 0, "a rejected text uses no memory");
                        assert_eq!(doc.parse_taking(&mut text, &LIMITS), Err(error));
                    }
                }
            }
        }
    }
}
