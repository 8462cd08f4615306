//! Patterns of schemas: every text is compiled or rejected, and matches equal those of fancy-regex
//! for constructs of both dialects.

use tinymcp::json::{Doc, ToJson};
use tinymcp::schema::Schema;

use crate::input::Input;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    if input.byte() % 2 == 0 {
        let (Some(pattern), Some(text)) = (input.line(), input.rest()) else { return };
        if let Ok(schema) = compile(pattern) {
            schema.is_valid(quoted(text).root());
        }
        return;
    }
    let (mut ours, mut theirs) = (String::new(), String::new());
    alternatives(&mut input, 3, &mut ours, &mut theirs);
    let schema = compile(&ours).unwrap_or_else(|e| panic!("{ours}: {e}"));
    let Ok(oracle) = fancy_regex::Regex::new(&theirs) else { return };
    for _ in 0..4 {
        let text: String = (0..input.below(9)).map(|_| input.pick(&CHARS)).collect();
        // fancy-regex gives up if backtracking takes too long.
        let Ok(expected) = oracle.is_match(&text) else { continue };
        assert_eq!(schema.is_valid(quoted(&text).root()), expected, "{ours:?} on {text:?}");
    }
}

fn compile(pattern: &str) -> Result<Schema, String> {
    let schema = format!("{{\"pattern\":{}}}", pattern.to_json().as_str());
    Schema::parse(&schema).map_err(|e| e.to_string())
}

fn quoted(text: &str) -> Doc {
    Doc::parse(text.to_json().as_str()).expect("a string")
}

const CHARS: [char; 12] = ['a', 'b', 'c', 'A', '0', '9', '_', ' ', '\n', 'é', '😀', '-'];

fn alternatives(input: &mut Input<'_>, depth: usize, ours: &mut String, theirs: &mut String) {
    for n in 0..1 + input.below(2) {
        if n > 0 {
            both("|", ours, theirs);
        }
        for _ in 0..input.below(4) {
            term(input, depth, ours, theirs);
        }
    }
}

fn both(text: &str, ours: &mut String, theirs: &mut String) {
    ours.push_str(text);
    theirs.push_str(text);
}

fn term(input: &mut Input<'_>, depth: usize, ours: &mut String, theirs: &mut String) {
    match input.below(if depth == 0 { 9 } else { 12 }) {
        0 => {
            both("^", ours, theirs);
            return;
        }
        1 => {
            // ECMA-262 without the flag m: only the end of the input.
            ours.push('$');
            theirs.push_str("\\z");
            return;
        }
        2 => {
            ours.push('.');
            theirs.push_str("[^\\n\\r\\x{2028}\\x{2029}]");
        }
        3 => {
            let (ecma, rust) =
                input.pick(&[("\\d", "[0-9]"), ("\\D", "[^0-9]"), ("\\w", "[0-9A-Za-z_]"), ("\\W", "[^0-9A-Za-z_]")]);
            ours.push_str(ecma);
            theirs.push_str(rust);
        }
        4 => class(input, ours, theirs),
        5..=8 => {
            let c = input.pick(&CHARS);
            both(&c.to_string(), ours, theirs);
        }
        kind => {
            both(if kind == 9 { "(" } else { "(?:" }, ours, theirs);
            alternatives(input, depth - 1, ours, theirs);
            both(")", ours, theirs);
        }
    }
    both(input.pick(&["", "", "", "*", "+", "?", "*?", "{2}", "{1,2}", "{0,}"]), ours, theirs);
}

fn class(input: &mut Input<'_>, ours: &mut String, theirs: &mut String) {
    both(input.pick(&["[", "[^"]), ours, theirs);
    for _ in 0..1 + input.below(3) {
        both(input.pick(&["a", "b-c", "A-Z", "0-9", "_", "é", " ", "😀", "\\n"]), ours, theirs);
    }
    both("]", ours, theirs);
}
