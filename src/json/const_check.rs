//! Syntax check of [`Json::constant`](super::Json::constant), which runs at compile time.
//!
//! Implements the grammar of the parser in `const fn`; speed does not matter.
//!
//! Invariant: no recursion; open containers are bits of one word, so nesting ends at 128.

/// The tokens that may follow.
#[derive(Clone, Copy)]
enum Expected {
    /// A value.
    Value,
    /// A value or `]`.
    Element,
    /// A name.
    Name,
    /// A name or `}`.
    Member,
    /// A comma or the end of the container.
    Comma,
}

pub(super) const fn is_json(text: &str) -> bool {
    let text = text.as_bytes();
    // The lowest bit is the innermost container: 1 for an object.
    let mut open = 0u128;
    let mut depth = 0;
    let mut expected = Expected::Value;
    let mut i = 0;
    loop {
        i = whitespace(text, i);
        let b = at(text, i);
        match expected {
            Expected::Comma if depth == 0 => return i == text.len(),
            Expected::Comma => {
                let object = open & 1 == 1;
                if b == b',' {
                    expected = if object { Expected::Name } else { Expected::Value };
                } else if b == (if object { b'}' } else { b']' }) {
                    open >>= 1;
                    depth -= 1;
                } else {
                    return false;
                }
                i += 1;
            }
            Expected::Name | Expected::Member if b == b'"' => {
                i = whitespace(text, string(text, i));
                if at(text, i) != b':' {
                    return false;
                }
                i += 1;
                expected = Expected::Value;
            }
            Expected::Member if b == b'}' => {
                i += 1;
                open >>= 1;
                depth -= 1;
                expected = Expected::Comma;
            }
            Expected::Name | Expected::Member => return false,
            Expected::Element if b == b']' => {
                i += 1;
                open >>= 1;
                depth -= 1;
                expected = Expected::Comma;
            }
            Expected::Value | Expected::Element if b == b'{' || b == b'[' => {
                if depth == 128 {
                    return false;
                }
                i += 1;
                depth += 1;
                open = open << 1 | (b == b'{') as u128;
                expected = if b == b'{' { Expected::Member } else { Expected::Element };
            }
            Expected::Value | Expected::Element => {
                i = match b {
                    b'"' => string(text, i),
                    b't' => word(text, i, b"true"),
                    b'f' => word(text, i, b"false"),
                    b'n' => word(text, i, b"null"),
                    _ => number(text, i),
                };
                expected = Expected::Comma;
            }
        }
        // The end of a malformed token lies beyond the text.
        if i > text.len() {
            return false;
        }
    }
}

/// End of a malformed token.
const WRONG: usize = usize::MAX;

/// The byte at `i`; zero after the end, which the grammar rejects everywhere.
const fn at(text: &[u8], i: usize) -> u8 {
    if i < text.len() { text[i] } else { 0 }
}

const fn whitespace(text: &[u8], mut i: usize) -> usize {
    while matches!(at(text, i), b' ' | b'\t' | b'\n' | b'\r') {
        i += 1;
    }
    i
}

const fn word(text: &[u8], i: usize, word: &[u8]) -> usize {
    let mut n = 0;
    while n < word.len() {
        if at(text, i + n) != word[n] {
            return WRONG;
        }
        n += 1;
    }
    i + n
}

const fn number(text: &[u8], mut i: usize) -> usize {
    if at(text, i) == b'-' {
        i += 1;
    }
    if at(text, i) == b'0' {
        i += 1;
    } else {
        i = digits(text, i);
    }
    if i != WRONG && at(text, i) == b'.' {
        i = digits(text, i + 1);
    }
    if i != WRONG && matches!(at(text, i), b'e' | b'E') {
        i += 1;
        if matches!(at(text, i), b'+' | b'-') {
            i += 1;
        }
        i = digits(text, i);
    }
    i
}

/// The position after one or more digits.
const fn digits(text: &[u8], mut i: usize) -> usize {
    let start = i;
    while at(text, i).is_ascii_digit() {
        i += 1;
    }
    if i == start { WRONG } else { i }
}

/// The position after the string that starts at `i`.
const fn string(text: &[u8], mut i: usize) -> usize {
    i += 1;
    while i < text.len() {
        match text[i] {
            b'"' => return i + 1,
            b'\\' => match at(text, i + 1) {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => i += 2,
                b'u' => match unit(text, i) {
                    Some(0xd800..=0xdbff) => match unit(text, i + 6) {
                        Some(0xdc00..=0xdfff) => i += 12,
                        _ => return WRONG,
                    },
                    None | Some(0xdc00..=0xdfff) => return WRONG,
                    Some(_) => i += 6,
                },
                _ => return WRONG,
            },
            0..=0x1f => return WRONG,
            _ => i += 1,
        }
    }
    WRONG
}

/// The UTF-16 unit of the escape `\uXXXX` at `i`.
const fn unit(text: &[u8], i: usize) -> Option<u32> {
    if at(text, i) != b'\\' || at(text, i + 1) != b'u' {
        return None;
    }
    let mut code = 0;
    let mut n = 2;
    while n < 6 {
        let digit = match at(text, i + n) {
            b @ b'0'..=b'9' => b - b'0',
            b @ b'a'..=b'f' => b - b'a' + 10,
            b @ b'A'..=b'F' => b - b'A' + 10,
            _ => return None,
        };
        code = code << 4 | digit as u32;
        n += 1;
    }
    Some(code)
}
