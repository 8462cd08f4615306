//! Headers that mirror a request: every text is preserved, and a server accepts the headers of a
//! client.

use tinymcp::fuzzing::{header_round_trip, header_value, mirrored};

use crate::input::Input;

pub fn run(bytes: &[u8]) {
    if let Some(text) = header_value(bytes) {
        assert_eq!(header_round_trip(&text).as_deref(), Some(&*text));
    }
    let mut input = Input(bytes);
    let (Some(schema), Some(arguments)) = (input.line(), input.rest()) else { return };
    assert_eq!(header_round_trip(arguments).as_deref(), Some(arguments));
    let Some((sent, rejected)) = mirrored(schema, arguments) else { return };
    for (name, value) in &sent {
        assert!(name.bytes().all(|b| b.is_ascii_graphic() && b != b':'), "{name:?} is not a header's name");
        assert!(value.bytes().all(|b| (0x20..0x7f).contains(&b)), "{value:?} is not a header's value");
    }
    // A number beyond the range of integers in headers is not an integer, so the server may reject
    // it.
    assert!(rejected.is_none() || arguments.bytes().any(|b| b"eE.".contains(&b)), "{rejected:?} of {sent:?}");
}
