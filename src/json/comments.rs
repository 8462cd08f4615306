//! JSON with comments and trailing commas, as in the configuration files of editors.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

/// Replaces `// …` and `/* … */` outside of strings, and the comma after the last element or
/// member, by spaces.
///
/// Line ends stay, so every other byte keeps its offset, line and column, and [`Doc::parse`] of the
/// result reports positions in the original text.
///
/// The result of an invalid text is invalid, too: a comma without a value before it stays, as in
/// `[,]` and `[1,,]`, and so does a `/*` without an end. The bytes of a comment may be any,
/// including bytes that are not UTF-8.
///
/// [`Doc::parse`]: super::Doc::parse
///
/// ```
/// use tinymcp::json::{Doc, without_comments};
/// let text = br#"{
///     // GPIO numbers
///     "pins": [17, 27,], /* https://pinout.xyz */
/// }"#;
/// let doc = Doc::parse(without_comments(text))?;
/// assert_eq!(doc.root().pointer("/pins/1").and_then(|v| v.as_i64()), Some(27));
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
pub fn without_comments(text: &[u8]) -> Cow<'_, [u8]> {
    let mut clean = Cow::Borrowed(text);
    // Last byte that is not blank, and its position if it is a comma after a value.
    let (mut last, mut comma) = (b'[', None);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'/' if matches!(text.get(at), Some(b'/' | b'*')) => {
                // The parser rejects a comment without an end.
                let Some(end) = comment_end(text, start) else { break };
                blank(&mut clean, start..end);
                at = end;
                continue;
            }
            b'"' => at = string_end(text, start),
            b']' | b'}' => {
                if let Some(comma) = comma {
                    blank(&mut clean, comma..comma + 1);
                }
            }
            _ => {}
        }
        comma = (byte == b',' && !matches!(last, b'[' | b'{' | b',' | b':')).then_some(start);
        last = byte;
    }
    clean
}

/// Position after the string that starts here; the end of the text if it has no end.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Position after the comment that starts here, without its line end. `None` if it has no end.
fn comment_end(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start + 2..)?;
    let length = match text.get(start + 1)? {
        b'/' => memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
        _ => rest.windows(2).position(|pair| pair == b"*/")? + 2,
    };
    Some(start + 2 + length)
}

fn blank(text: &mut Cow<'_, [u8]>, range: Range<usize>) {
    for byte in text.to_mut().get_mut(range).into_iter().flatten() {
        if !matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}
