//! Event stream writer.

use memchr::memchr2;

/// Appends one event. `data` may hold line ends; a reader gets each of them back as `\n`. Empty
/// data makes an event that only announces its id. An id that could not be read back (it holds a
/// line end or NUL) is left out.
pub(crate) fn event(out: &mut Vec<u8>, id: Option<&str>, data: &[u8]) {
    if let Some(id) = id.filter(|id| !id.contains(['\r', '\n', '\0'])) {
        field(out, b"id: ", id.as_bytes());
    }
    lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Appends the time after which a reader may come back, in milliseconds. Belongs to no event, so
/// it may stand anywhere between two.
pub(crate) fn retry(out: &mut Vec<u8>, milliseconds: u64) {
    field(out, b"retry: ", milliseconds.to_string().as_bytes());
    out.push(b'\n');
}

fn lines(out: &mut Vec<u8>, name: &[u8], mut text: &[u8]) {
    out.reserve(name.len() + text.len() + 2);
    while let Some(end) = memchr2(b'\n', b'\r', text) {
        let (line, rest) = text.split_at(end);
        field(out, name, line);
        let both = rest.starts_with(b"\r\n");
        text = rest.get(1 + usize::from(both)..).unwrap_or_default();
    }
    field(out, name, text);
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}
