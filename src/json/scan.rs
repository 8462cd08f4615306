//! Bytes to lexemes: where whitespace, strings and numbers end.
//!
//! It looks at bytes and says where a lexeme stops or what is wrong with it. It does not build
//! nodes and knows nothing of nesting.
//!
//! Invariants: every function takes a position within the text and returns one that is not
//! before it and not beyond the end.

use super::error::{ErrorKind, ParseError};

const fn fail<T>(kind: ErrorKind, at: usize) -> Result<T, ParseError>
where
    T: Copy,
{
    Err(ParseError::new(kind, at))
}

/// The first position from `i` on that is not whitespace.
#[inline]
pub(super) fn whitespace(text: &[u8], mut i: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(i) {
        i += 1;
    }
    i
}

/// Where a string stops: at its closing quote or at its first backslash. `i` is behind the opening quote.
#[inline]
pub(super) fn string(text: &[u8], mut i: usize) -> Result<usize, ParseError> {
    loop {
        match text.get(i) {
            Some(b'"' | b'\\') => return Ok(i),
            Some(0..=0x1f) => return fail(ErrorKind::ControlCharacter, i),
            Some(_) => i += 1,
            None => return fail(ErrorKind::UnexpectedEnd, i),
        }
    }
}

/// The end of the number that starts at `start` with a digit or a minus sign.
#[inline]
pub(super) fn number(text: &[u8], start: usize) -> Result<usize, ParseError> {
    let mut i = start;
    if text.get(i) == Some(&b'-') {
        i += 1;
    }
    match text.get(i) {
        Some(b'0') => i += 1,
        Some(b'1'..=b'9') => i = digits(text, i),
        other => return missing_digit(other, i),
    }
    if text.get(i) == Some(&b'.') {
        let from = i + 1;
        i = digits(text, from);
        if i == from {
            return missing_digit(text.get(i), i);
        }
    }
    if let Some(b'e' | b'E') = text.get(i) {
        i += 1;
        if let Some(b'+' | b'-') = text.get(i) {
            i += 1;
        }
        let from = i;
        i = digits(text, from);
        if i == from {
            return missing_digit(text.get(i), i);
        }
    }
    // `01`, `1.2.3`, `1x`: better said here than as a missing comma.
    match text.get(i) {
        Some(b'0'..=b'9' | b'.' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-') => fail(ErrorKind::Number, i),
        _ => Ok(i),
    }
}

#[inline]
fn digits(text: &[u8], mut i: usize) -> usize {
    while let Some(b'0'..=b'9') = text.get(i) {
        i += 1;
    }
    i
}

#[cold]
fn missing_digit(found: Option<&u8>, i: usize) -> Result<usize, ParseError> {
    match found {
        Some(_) => fail(ErrorKind::Number, i),
        None => fail(ErrorKind::UnexpectedEnd, i),
    }
}

/// The end of `word`, which the text must spell from `start` on.
#[inline]
pub(super) fn literal(text: &[u8], start: usize, word: &[u8]) -> Result<usize, ParseError> {
    let end = start + word.len();
    if text.get(start..end) == Some(word) {
        return Ok(end);
    }
    let rest = text.get(start..).unwrap_or_default();
    let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
    let kind = if same == rest.len() { ErrorKind::UnexpectedEnd } else { ErrorKind::UnexpectedByte };
    fail(kind, start + same)
}

/// The character an escape stands for and the position behind it. `i` is at the backslash.
pub(super) fn escape(text: &[u8], i: usize) -> Result<(char, usize), ParseError> {
    let simple = match text.get(i + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(text, i),
        Some(_) => return Err(ParseError::new(ErrorKind::Escape, i)),
        None => return Err(ParseError::new(ErrorKind::UnexpectedEnd, i + 1)),
    };
    Ok((simple, i + 2))
}

fn unicode_escape(text: &[u8], i: usize) -> Result<(char, usize), ParseError> {
    let lone = ParseError::new(ErrorKind::LoneSurrogate, i);
    let first = four_digits(text, i)?;
    if let Some(c) = char::from_u32(first) {
        return Ok((c, i + 6));
    }
    // A high half must be followed at once by an escape that is a low half.
    if first >= 0xdc00 || text.get(i + 6..i + 8) != Some(b"\\u") {
        return Err(lone);
    }
    let second = four_digits(text, i + 6)?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(lone);
    }
    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(code).map(|c| (c, i + 12)).ok_or(lone)
}

/// The number in the escape `\uXXXX` at `i`.
fn four_digits(text: &[u8], i: usize) -> Result<u32, ParseError> {
    let mut code = 0;
    for at in i + 2..i + 6 {
        let digit = match text.get(at) {
            Some(b) => char::from(*b).to_digit(16),
            None => return fail(ErrorKind::UnexpectedEnd, at),
        };
        match digit {
            Some(digit) => code = code << 4 | digit,
            None => return fail(ErrorKind::Escape, i),
        }
    }
    Ok(code)
}
