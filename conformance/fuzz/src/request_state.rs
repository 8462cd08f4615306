//! Sealed request states: only the same caller can open a sealed state, and only for the same
//! request.

use tinymcp::fuzzing::{open, seal};
use tinymcp::json::Doc;

use crate::input::Input;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (at, flip) = (usize::from(input.byte()), input.byte());
    let (Some(principal), Some(params), Some(answers)) = (input.line(), input.line(), input.rest()) else { return };
    let Ok(params) = Doc::parse(params) else { return };
    // The bytes themselves are not a state that was sealed here.
    assert_eq!(open(principal, &params, answers), None);
    let Ok(answers) = Doc::parse(answers) else { return };
    let answers: Vec<(String, String)> =
        answers.root().members().map(|(key, value)| (key.to_owned(), value.raw().to_owned())).collect();
    let state = seal(principal, &params, &answers);
    assert_eq!(open(principal, &params, &state).as_ref(), Some(&answers), "{state}");
    assert_eq!(open(&format!("{principal}x"), &params, &state), None, "another principal");
    let mut changed = state.clone().into_bytes();
    let at = at % changed.len();
    changed[at] ^= flip & 0x7f;
    if let Ok(changed) = String::from_utf8(changed) {
        assert_eq!(open(principal, &params, &changed).is_some(), changed == state, "{changed}");
    }
}
