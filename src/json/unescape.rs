//! Decoder for strings with escapes.
//!
//! Appends the decoded form of one string to the document's second buffer. Strings without escapes
//! are read in place.
//!
//! Invariant: it appends the whole string or, after an error, a part of it, which is dropped with
//! the document.

use super::scan::{self, byte};
use super::{ErrorKind, ParseError};

/// Decodes the string with its opening quote at `start` and its first special byte at `i`. Returns
/// the position of the closing quote.
#[inline(never)]
pub(super) fn string(text: &str, start: usize, mut i: usize, into: &mut String) -> Result<usize, ParseError> {
    let bytes = text.as_bytes();
    let mut run = start + 1;
    while byte(bytes, i) == b'\\' {
        append(text, run, i, into);
        let (c, next) = escape(bytes, i)?;
        into.push(c);
        run = next;
        i = scan::plain_long(bytes, run);
    }
    append(text, run, i, into);
    if byte(bytes, i) == b'"' { Ok(i) } else { Err(scan::missing(bytes, i, ErrorKind::ControlCharacter)) }
}

/// Number of bytes copied at once.
const PIECE: usize = 64;

/// Appends the bytes from `run` to `end`. Copies in blocks of fixed size, which is a few
/// instructions without a call, and truncates the excess. Most runs are a line or less.
#[inline(always)]
fn append(text: &str, run: usize, end: usize, into: &mut String) {
    let len = into.len() + (end - run);
    let mut at = run;
    while at < end {
        match text.get(at..at + PIECE) {
            Some(piece) if end - at <= 4 * PIECE => into.push_str(piece),
            _ => {
                into.push_str(text.get(at..end).unwrap_or_default());
                return;
            }
        }
        at += PIECE;
    }
    into.truncate(len);
}

/// The ASCII character of a one-letter escape, or 0.
const SHORT: [u8; 256] = {
    let mut short = [0; 256];
    short[b'"' as usize] = b'"';
    short[b'\\' as usize] = b'\\';
    short[b'/' as usize] = b'/';
    short[b'b' as usize] = 0x08;
    short[b'f' as usize] = 0x0c;
    short[b'n' as usize] = b'\n';
    short[b'r' as usize] = b'\r';
    short[b't' as usize] = b'\t';
    short
};

/// The character of an escape and the position after it. `i` is at the backslash.
#[inline(always)]
fn escape(text: &[u8], i: usize) -> Result<(char, usize), ParseError> {
    let escaped = byte(text, i + 1);
    match SHORT[escaped as usize] {
        0 if escaped == b'u' => unicode_escape(text, i),
        0 => Err(no_escape(text, i)),
        // OK to mask: the table contains ASCII only, which the compiler does not know.
        short => Ok((char::from(short & 0x7f), i + 2)),
    }
}

#[cold]
fn no_escape(text: &[u8], i: usize) -> ParseError {
    if i + 1 < text.len() {
        ParseError::new(ErrorKind::Escape, i)
    } else {
        ParseError::new(ErrorKind::UnexpectedEnd, i + 1)
    }
}

fn unicode_escape(text: &[u8], i: usize) -> Result<(char, usize), ParseError> {
    let lone = ParseError::new(ErrorKind::LoneSurrogate, i);
    let unit = four_digits(text, i)?;
    if let Some(c) = char::from_u32(unit) {
        return Ok((c, i + 6));
    }
    // An escape for a low surrogate must follow a high one.
    if unit >= 0xdc00 || text.get(i + 6..i + 8) != Some(b"\\u") {
        return Err(lone);
    }
    let low = four_digits(text, i + 6)?;
    if !(0xdc00..0xe000).contains(&low) {
        return Err(lone);
    }
    let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    char::from_u32(code).map(|c| (c, i + 12)).ok_or(lone)
}

/// The number of the escape `\uXXXX` at `i`.
fn four_digits(text: &[u8], i: usize) -> Result<u32, ParseError> {
    let mut code = 0;
    for at in i + 2..i + 6 {
        let Some(b) = text.get(at) else {
            return Err(ParseError::new(ErrorKind::UnexpectedEnd, at));
        };
        match char::from(*b).to_digit(16) {
            Some(digit) => code = code << 4 | digit,
            None => return Err(ParseError::new(ErrorKind::Escape, i)),
        }
    }
    Ok(code)
}
