//! Event streams: the events do not depend on splits and equal those of a reference implementation
//! of the standard.

use tinymcp::fuzzing::events;

pub fn run(bytes: &[u8]) {
    let limit = 2 * bytes.len() + 1;
    let whole = events(&[bytes], limit);
    assert_eq!(whole, reference(bytes), "against the reference");
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(events(&single, limit), whole, "byte by byte");
    let tight = events(&[bytes], 8);
    assert!(tight.0.iter().flatten().all(|(_, data)| data.len() <= 8), "an event beyond the limit");
    assert_eq!(tight.0.len(), whole.0.len(), "an event beyond the limit is reported as one");
    for split in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
        let (first, second) = bytes.split_at(split);
        assert_eq!(events(&[first, second], limit), whole, "split at {split}");
        assert_eq!(events(&[first, second], 8), tight, "split at {split}, tight");
    }
}

type Events = (Vec<Option<(Vec<u8>, Vec<u8>)>>, Vec<u8>, Option<u64>);

/// HTML standard, 9.2.6, over the whole stream at once. Two differences are the library's: an incomplete last event does
/// not set the last id, and one without data does.
fn reference(bytes: &[u8]) -> Events {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let (mut found, mut last_id, mut retry) = (Vec::new(), Vec::new(), None);
    let (mut kind, mut data, mut id) = (Vec::new(), Vec::new(), None);
    for line in lines(bytes) {
        if line.is_empty() {
            last_id = id.take().unwrap_or(last_id);
            data.pop();
            if !data.is_empty() {
                found.push(Some((std::mem::take(&mut kind), std::mem::take(&mut data))));
            }
            kind.clear();
            continue;
        }
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            // Longer than 4096 bytes: ignored.
            b"event" if value.len() <= 4096 => kind = value.to_vec(),
            b"id" if value.len() <= 4096 && !value.contains(&0) => id = Some(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = String::from_utf8_lossy(value);
                retry = Some(digits.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    (found, last_id, retry)
}

/// Lines with a line end: CR, LF, or both.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        if bytes[at] == b'\r' || bytes[at] == b'\n' {
            lines.push(&bytes[start..at]);
            at += usize::from(bytes[at..].starts_with(b"\r\n"));
            start = at + 1;
        }
        at += 1;
    }
    lines
}
