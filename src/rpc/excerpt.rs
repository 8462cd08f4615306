//! Kind and id of a message that cannot be parsed as a whole, read from its beginning and its end.
//!
//! For messages beyond a limit of bytes, nesting or values: an oversized response ends the call
//! that waits for it, and an oversized request gets an error with its id. The scan is linear, does
//! not recurse and does not allocate.
//!
//! # Invariants
//! - Only members of the outermost object are read, never members of nested values or the contents
//!   of strings.
//! - The end is only used for the id, and only if the id is the last member or the last one before
//!   `"jsonrpc"`. Further inside, it cannot be distinguished from a nested member.

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It has a `method`: a request or a notification.
    Call,
    /// It has a `result` or an `error`.
    Response,
    /// The beginning has none of these members.
    Unknown,
}

/// Known members of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt<'t> {
    /// Its kind.
    pub shape: Shape,
    /// Its id as JSON text: an integer, or a string without escapes.
    pub id: Option<&'t str>,
}

impl<'t> Excerpt<'t> {
    /// Reads the first and the last bytes of a message.
    pub(crate) fn read(head: &'t [u8], tail: &'t [u8]) -> Excerpt<'t> {
        let mut found = Excerpt { shape: Shape::Unknown, id: None };
        scan(head, &mut found);
        if found.id.is_none() && found.shape != Shape::Unknown {
            found.id = last_id(tail);
        }
        found
    }
}

/// Reads members until one is cut off.
fn scan<'t>(head: &'t [u8], found: &mut Excerpt<'t>) -> Option<()> {
    let mut rest = head.trim_ascii_start().strip_prefix(b"{")?;
    loop {
        let name;
        (name, rest) = string(rest.trim_ascii_start())?;
        rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        match name {
            b"method" => found.shape = Shape::Call,
            // A message with `method` is a call, whatever other members it has.
            b"result" | b"error" if found.shape == Shape::Unknown => found.shape = Shape::Response,
            _ => {}
        }
        let after = skip(rest)?;
        if name == b"id" {
            let value = rest.get(..rest.len() - after.len())?;
            found.id = id(value.trim_ascii_end());
        }
        rest = after.trim_ascii_start().strip_prefix(b",")?;
    }
}

/// Splits a string's content, as it is written, from what follows its closing quote.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = text.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        match body.get(at)? {
            b'"' => return Some((body.get(..at)?, body.get(at + 1..)?)),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the text after a value; `None` if the value is cut off.
fn skip(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    let mut depth = 0_usize;
    loop {
        match rest.first()? {
            b'"' => rest = string(rest)?.1,
            b'{' | b'[' => {
                depth += 1;
                rest = rest.get(1..)?;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                rest = rest.get(1..)?;
            }
            // Skips separators and scalars inside an array or object.
            _ if depth > 0 => {
                let next = rest.iter().position(|b| matches!(b, b'"' | b'{' | b'[' | b'}' | b']'));
                rest = rest.get(next?..)?;
                continue;
            }
            _ => {
                let end = rest.iter().position(|b| matches!(b, b',' | b'}' | b']'))?;
                return rest.get(end..);
            }
        }
        if depth == 0 {
            return Some(rest);
        }
    }
}

/// Returns the id at the end of the outermost object.
fn last_id(tail: &[u8]) -> Option<&str> {
    let mut rest = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    if let Some(before) = rest.strip_suffix(b"\"2.0\"") {
        let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        rest = before.strip_suffix(b"\"jsonrpc\"")?.trim_ascii_end().strip_suffix(b",")?.trim_ascii_end();
    }
    let start = match rest.split_last()? {
        (b'"', body) => body.iter().rposition(|b| *b == b'"')?,
        _ => rest.iter().rposition(|b| !b.is_ascii_digit() && *b != b'-')? + 1,
    };
    let (before, value) = rest.split_at(start);
    let name = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let member = name.strip_suffix(b"\"id\"")?.trim_ascii_end();
    member.ends_with(b",").then(|| id(value)).flatten()
}

/// Returns the text if it is a valid id: an integer, or a string without escapes.
fn id(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let plain = |b: &u8| *b >= b' ' && *b != b'"' && *b != b'\\';
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) => inner.as_bytes().iter().all(plain).then_some(text),
        // JSON allows neither a plus sign nor leading zeros.
        None => {
            let canonical = |n: &dyn ToString| n.to_string() == text;
            let integer = text.parse::<u64>().is_ok_and(|n| canonical(&n))
                || text.parse::<i64>().is_ok_and(|n| canonical(&n));
            integer.then_some(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, tail: &str) -> (Shape, Option<String>) {
        let excerpt = Excerpt::read(head.as_bytes(), tail.as_bytes());
        (excerpt.shape, excerpt.id.map(str::to_owned))
    }

    #[test]
    fn only_members_of_the_outermost_object_are_read() {
        let five = || Some("5".to_owned());
        for (head, tail, expected) in [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"a":"xxx"#, "", (Shape::Response, five())),
            (r#"{"jsonrpc":"2.0","id":5,"error":{"#, "", (Shape::Response, five())),
            (r#"{"id" : 5 , "method":"m","params":{"a"#, "", (Shape::Call, five())),
            (r#"{"id":"a-b","method":"m","par"#, "", (Shape::Call, Some("\"a-b\"".to_owned()))),
            (r#"{"id":-5,"result":{"#, "", (Shape::Response, Some("-5".to_owned()))),
            (r#"{"result":{"id":7,"x":["#, r#"xx"}]},"jsonrpc":"2.0","id":5}"#, (Shape::Response, five())),
            (r#"{"result":{"id":7,"x":["#, r#"xx"}]},"id":5,"jsonrpc":"2.0"}"#, (Shape::Response, five())),
            (r#"{"result":{"x":"#, r#" , "id" : "q" } "#, (Shape::Response, Some("\"q\"".to_owned()))),
            (r#"{"method":"m","params":{"#, r#"},"id":5}"#, (Shape::Call, five())),
            // A member of a nested object, of a string, and one that is cut off.
            (r#"{"result":{"x":"#, r#","id":5}}"#, (Shape::Response, None)),
            (r#"{"result":{"x":"#, r#"\",\"id\":5}"}}"#, (Shape::Response, None)),
            (r#"{"a":"\"id\":7,","b":{"id":8},"id":5,"result":[["#, "", (Shape::Response, five())),
            (r#"{"result":{},"id":5"#, "", (Shape::Response, None)),
            (r#"{"id":5"#, "5}", (Shape::Unknown, None)),
            (r#"{"error_count":5,"x":"#, r#","id":5}"#, (Shape::Unknown, None)),
            ("text", r#","id":5}"#, (Shape::Unknown, None)),
            ("[{\"id\":5,\"result\":", r#","id":5}]"#, (Shape::Unknown, None)),
            ("", "", (Shape::Unknown, None)),
        ] {
            assert_eq!(read(head, tail), expected, "{head} … {tail}");
        }
    }

    #[test]
    fn an_id_is_an_integer_or_a_plain_string() {
        for bad in ["1.5", "1e3", "01", "+5", "null", "true", "[1]", "{}", "18446744073709551616", "\"a\\n\""]
        {
            let head = format!("{{\"id\":{bad},\"result\":{{");
            assert_eq!(read(&head, ""), (Shape::Response, None), "{bad}");
        }
    }

    #[test]
    fn a_message_cut_anywhere_yields_its_id_or_none() {
        let text =
            r#"{"a":[{"b":"\\\"}"},{}],"id":12,"result":{"x":[1,{"y":null}]},"jsonrpc":"2.0"}"#.as_bytes();
        for cut in 0..=text.len() {
            let (head, tail) = text.split_at(cut);
            let found = Excerpt::read(head, tail);
            assert!(matches!(found.id, None | Some("12")), "{cut}: {found:?}");
            assert_eq!(Excerpt::read(head, text).shape, found.shape);
        }
    }
}
