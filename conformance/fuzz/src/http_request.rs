//! Requests of an HTTP connection: the result does not depend on splits of the bytes.

use tinymcp::fuzzing::http_requests;

pub fn run(bytes: &[u8]) {
    // All splits of a long input would take quadratic time.
    if bytes.len() > 2048 {
        return;
    }
    let whole = http_requests(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_same(http_requests(&single), &whole, "byte by byte");
    for split in 0..bytes.len() {
        let (first, second) = bytes.split_at(split);
        assert_same(http_requests(&[first, second]), &whole, &format!("split at {split}"));
    }
}

/// Compares two results. After a rejected request whose body has not arrived, the connection ends;
/// if the body is there, it goes on. So the result with the unread body may be the shorter one.
fn assert_same(mut found: Vec<String>, whole: &[String], how: &str) {
    let mut expected = whole.to_vec();
    cut_at_unread_body(&found, &mut expected);
    cut_at_unread_body(&expected, &mut found);
    assert_eq!(found, expected, "{how}");
}

/// Replaces the part of `longer` after the rejection by the end of `shorter`.
fn cut_at_unread_body(shorter: &[String], longer: &mut Vec<String>) {
    const UNREAD: &str = "unread body";
    if shorter.last().is_some_and(|last| last == UNREAD) && longer.len() + 1 >= shorter.len() {
        longer.truncate(shorter.len() - 1);
        longer.push(UNREAD.to_owned());
    }
}
