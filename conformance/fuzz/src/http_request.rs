//! Requests of an HTTP connection: the result does not depend on splits of the bytes.

use tinymcp::fuzzing::http_requests;

pub fn run(bytes: &[u8]) {
    // All splits of a long input would take quadratic time.
    if bytes.len() > 2048 {
        return;
    }
    let whole = http_requests(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(http_requests(&single), whole, "byte by byte");
    for split in 0..bytes.len() {
        let (first, second) = bytes.split_at(split);
        assert_eq!(http_requests(&[first, second]), whole, "split at {split}");
    }
}
