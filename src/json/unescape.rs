//! Strings with escapes to what they stand for.
//!
//! It appends the decoded form of one string at a time to the document's second buffer. It does
//! not see strings without escapes, which are read in place.
//!
//! Invariant: what is appended is the whole of the string; with an error, some of it, which goes
//! when the document is emptied.

use super::error::{ErrorKind, ParseError};
use super::scan::{self, byte};

/// Decodes the string whose opening quote is at `start` and which has something else than a
/// plain character or a closing quote at `i`. Returns where its closing quote is.
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

/// What is copied at once.
const PIECE: usize = 64;

/// Appends the bytes from `run` to `end`. The usual run is a line or less: it goes in pieces of one
/// size, which are a few instructions and no call, and what was too much is cut off again.
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

/// What the byte behind a backslash stands for, where that is one ASCII character; else 0.
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

/// The character an escape stands for and the position behind it. `i` is at the backslash.
#[inline(always)]
fn escape(text: &[u8], i: usize) -> Result<(char, usize), ParseError> {
    let escaped = byte(text, i + 1);
    match SHORT[escaped as usize] {
        0 if escaped == b'u' => unicode_escape(text, i),
        0 => Err(no_escape(text, i)),
        // OK to mask: the table holds ASCII; this tells the compiler.
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
    // A high half must be followed at once by an escape that is a low half.
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

/// The number in the escape `\uXXXX` at `i`.
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
