//! Event stream writer.

use memchr::memchr2;

/// Appends one event. `data` may contain line ends; a reader receives each as `\n`. An event with
/// empty data only sets the id. An id with a line end or NUL is omitted.
pub(crate) fn event(out: &mut Vec<u8>, id: Option<&str>, data: &[u8]) {
    if let Some(id) = id.filter(|id| !id.contains(['\r', '\n', '\0'])) {
        field(out, b"id: ", id.as_bytes());
    }
    lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Appends the reconnection time (`retry`) in milliseconds. It may be written between any two
/// events.
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
