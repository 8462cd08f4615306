//! Scanner: finds the ends of whitespace, strings and numbers.
//!
//! Reads bytes, eight at a time where that is faster, and returns the end of a token or an error.
//!
//! Invariants: every function receives a position in the text and returns one that is not before it
//! and not after the end. After the end, the text reads as zeros, which no rule accepts, so one
//! comparison checks both the end and the byte.

use super::{ErrorKind, ParseError};

/// The byte at `i`, or 0 after the end.
#[inline(always)]
pub(super) fn byte(text: &[u8], i: usize) -> u8 {
    match text.get(i) {
        Some(b) => *b,
        None => 0,
    }
}

/// Eight bytes from `i` on, the first one lowest. `None` if the text ends before.
#[inline(always)]
pub(super) fn word(text: &[u8], i: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(i..i.wrapping_add(8))?.first_chunk()?))
}

/// A word of eight equal bytes.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Index of the lowest nonzero byte.
#[inline(always)]
pub(super) fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Marks quotes, backslashes and control characters. Only the lowest mark is exact, because a
/// borrow can mark a byte above it.
#[inline(always)]
fn special(w: u64) -> u64 {
    // With bit 1 flipped, 0x22 and everything below 0x20 become everything below 0x21.
    let quote_or_control = (w ^ each(0x02)).wrapping_sub(each(0x21));
    let backslash = (w ^ each(b'\\')).wrapping_sub(each(0x01));
    (quote_or_control | backslash) & !w & each(0x80)
}

/// Marks all bytes except the digits 0 to 9, exactly.
#[inline(always)]
fn not_digit(w: u64) -> u64 {
    let value = w ^ each(b'0');
    (((value & each(0x7f)) + each(0x76)) | value) & each(0x80)
}

/// The first position from `i` on that is not whitespace, and its byte.
#[inline(always)]
pub(super) fn solid(text: &[u8], i: usize) -> (usize, u8) {
    let b = byte(text, i);
    if b > b' ' { (i, b) } else { indented(text, i) }
}

/// For likely whitespace: a line end, then many spaces.
#[inline]
fn indented(text: &[u8], mut i: usize) -> (usize, u8) {
    loop {
        match byte(text, i) {
            b' ' => {
                i += 1;
                while let Some(w) = word(text, i) {
                    let other = w ^ each(b' ');
                    if other != 0 {
                        i += first(other);
                        break;
                    }
                    i += 8;
                }
            }
            b'\n' | b'\r' | b'\t' => i += 1,
            b => return (i, b),
        }
    }
}

/// The first position from `i` on with a quote, a backslash or a control character.
#[inline(always)]
pub(super) fn plain(text: &[u8], start: usize) -> usize {
    let mut i = start;
    while let Some(w) = word(text, i) {
        let marks = special(w);
        if marks != 0 {
            return i + first(marks);
        }
        i += 8;
        if i - start == 16 {
            return plain_long(text, i);
        }
    }
    plain_tail(text, i)
}

/// For longer strings, in blocks of four words, which the compiler vectorises.
#[inline(never)]
pub(super) fn plain_long(text: &[u8], mut i: usize) -> usize {
    let very_long = i + VERY_LONG;
    while let Some(block) = text.get(i..).and_then(|rest| rest.first_chunk::<32>()) {
        let mut marks = [0; 4];
        for (marks, bytes) in marks.iter_mut().zip(block.chunks_exact(8)) {
            let mut w = [0; 8];
            w.copy_from_slice(bytes);
            *marks = special(u64::from_le_bytes(w));
        }
        if marks != [0; 4] {
            for (n, marks) in marks.into_iter().enumerate() {
                if marks != 0 {
                    return i + 8 * n + first(marks);
                }
            }
        }
        i += 32;
        if i == very_long && VECTORS {
            i = plain_very_long(text, i);
        }
    }
    while let Some(w) = word(text, i) {
        let marks = special(w);
        if marks != 0 {
            return i + first(marks);
        }
        i += 8;
    }
    plain_tail(text, i)
}

/// Length of plain text after which a string is likely to continue so, such as base64 of an image.
const VERY_LONG: usize = 512;

/// Size of the blocks that are read twice from the first-level cache.
const BLOCK: usize = 1024;

/// True if the compiler vectorises byte comparisons.
const VECTORS: bool = cfg!(any(target_feature = "sse2", target_feature = "neon"));

/// A position from `i` on with only plain bytes before it. Finds control characters per block only.
#[inline(never)]
fn plain_very_long(text: &[u8], mut i: usize) -> usize {
    while let Some(block) = text.get(i..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        if block.iter().fold(0xff, |least: u8, b| least.min(*b)) < 0x20 {
            break;
        }
        match memchr::memchr2(b'"', b'\\', block) {
            Some(plain) => return i + plain,
            None => i += BLOCK,
        }
    }
    i
}

/// The last few bytes of the text, one by one.
#[cold]
fn plain_tail(text: &[u8], mut i: usize) -> usize {
    while !matches!(byte(text, i), 0..=0x1f | b'"' | b'\\') {
        i += 1;
    }
    i
}

/// The end of the number that starts at `start` with a digit or a minus sign, and whether it has
/// neither fraction nor exponent.
#[inline(always)]
pub(super) fn number(text: &[u8], start: usize) -> Result<(usize, bool), ParseError> {
    let mut i = start;
    if byte(text, i) == b'-' {
        i += 1;
    }
    match byte(text, i) {
        b'0' => i += 1,
        b'1'..=b'9' => i = digits(text, i + 1),
        _ => return Err(missing(text, i, ErrorKind::Number)),
    }
    let whole = i;
    if byte(text, i) == b'.' {
        if !byte(text, i + 1).is_ascii_digit() {
            return Err(missing(text, i + 1, ErrorKind::Number));
        }
        i = digits(text, i + 2);
    }
    if byte(text, i) | 0x20 == b'e' {
        i += 1;
        if matches!(byte(text, i), b'+' | b'-') {
            i += 1;
        }
        if !byte(text, i).is_ascii_digit() {
            return Err(missing(text, i, ErrorKind::Number));
        }
        i = digits(text, i + 1);
    }
    Ok((i, i == whole))
}

#[inline(always)]
fn digits(text: &[u8], mut i: usize) -> usize {
    while let Some(w) = word(text, i) {
        let marks = not_digit(w);
        if marks != 0 {
            return i + first(marks);
        }
        i += 8;
    }
    while byte(text, i).is_ascii_digit() {
        i += 1;
    }
    i
}

/// The end of `word`, which must be at `start`.
#[inline(always)]
pub(super) fn literal(text: &[u8], start: usize, word: &[u8]) -> Result<usize, ParseError> {
    let end = start + word.len();
    if text.get(start..end) == Some(word) {
        return Ok(end);
    }
    Err(wrong_literal(text, start, word))
}

#[cold]
fn wrong_literal(text: &[u8], start: usize, word: &[u8]) -> ParseError {
    let rest = text.get(start..).unwrap_or_default();
    let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
    let kind = if same == rest.len() { ErrorKind::UnexpectedEnd } else { ErrorKind::UnexpectedByte };
    ParseError::new(kind, start + same)
}

/// The error at `i`: the end of the text, or the given kind.
#[cold]
pub(super) fn missing(text: &[u8], i: usize, kind: ErrorKind) -> ParseError {
    ParseError::new(if i < text.len() { kind } else { ErrorKind::UnexpectedEnd }, i)
}
