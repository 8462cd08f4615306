//! Requests and answers of peers that mean well.

use super::*;

#[test]
fn many_requests_share_a_connection() {
    let server = serve(limits(), echo());
    let mut peer = server.connect();
    for n in 0..3 {
        peer.post(&n.to_string());
        let answer = peer.answer();
        assert_eq!((answer.status, answer.text()), (200, format!("POST /mcp {n}").as_str()));
        assert!(answer.head.contains("content-type: text/plain\r\n"), "{}", answer.head);
        assert!(!answer.head.contains("connection:"), "{}", answer.head);
    }
}
