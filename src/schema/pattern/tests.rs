//! Tests of patterns: matches as tables, rejected patterns with their messages, and the cost of
//! hostile patterns.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod table;

use std::time::{Duration, Instant};

use super::{Pattern, is_pattern};
use table::Row;

fn compile(source: &str) -> Pattern {
    Pattern::compile(source).unwrap_or_else(|e| panic!("{source}: {e}"))
}

fn refused(source: &str) -> String {
    Pattern::compile(source).err().unwrap_or_else(|| panic!("{source} was taken")).to_string()
}

fn check(rows: &[Row]) {
    for (source, yes, no) in rows {
        let pattern = compile(source);
        assert!(is_pattern(source), "{source} is a pattern");
        for text in *yes {
            assert!(pattern.is_match(text), "{source} must match {text:?}");
        }
        for text in *no {
            assert!(!pattern.is_match(text), "{source} must not match {text:?}");
        }
    }
}

#[test]
fn patterns_match_as_in_ecma_262() {
    let tables = [
        table::PLAIN,
        table::ANCHORS,
        table::QUANTIFIERS,
        table::GROUPS,
        table::CLASSES,
        table::SETS,
        table::BOUNDARIES,
        table::ESCAPES,
        table::LOOKAHEADS,
        table::IN_USE,
    ];
    tables.iter().for_each(|rows| check(rows));
    assert!(tables.iter().map(|rows| rows.len()).sum::<usize>() >= 250);
}

#[cfg(feature = "unicode-pattern")]
#[test]
fn properties_match_the_unicode_tables() {
    check(table::PROPERTIES);
}

#[cfg(not(feature = "unicode-pattern"))]
#[test]
fn a_property_without_its_tables_names_the_feature() {
    for source in [r"\p{L}", r"^\P{Lu}$", r"[\p{Script=Greek}]"] {
        assert!(refused(source).contains("`unicode-pattern`"), "{source}");
        assert!(is_pattern(source));
    }
}

#[test]
fn invalid_patterns_are_rejected_with_their_position() {
    let rows: &[(&str, usize, &str)] = &[
        ("(", 0, "never closed"),
        ("a(b(c)", 1, "never closed"),
        (")", 0, "closes no group"),
        ("a)b", 1, "closes no group"),
        ("[a", 0, "never closed"),
        ("a[b\\]", 1, "never closed"),
        ("[a--b]", 1, "out of order"),
        ("[b-a]", 1, "out of order"),
        (r"[\u{1F64F}-\u{1F600}]", 1, "out of order"),
        ("*a", 0, "nothing to repeat"),
        ("+", 0, "nothing to repeat"),
        ("?", 0, "nothing to repeat"),
        ("{2}", 0, "nothing to repeat"),
        ("a|*", 2, "nothing to repeat"),
        ("(?:+)", 3, "nothing to repeat"),
        ("a**", 2, "nothing to repeat"),
        ("a++", 2, "nothing to repeat"),
        ("a{2}{3}", 4, "nothing to repeat"),
        ("a???", 3, "nothing to repeat"),
        ("^*", 1, "nothing to repeat"),
        ("a$+", 2, "nothing to repeat"),
        (r"\b?", 2, "nothing to repeat"),
        ("(?<=a)*b", 6, "nothing to repeat"),
        ("a{3,2}", 1, "out of order"),
        ("\\", 0, "ends the pattern"),
        (r"a\a", 1, "not an escape"),
        (r"\A", 0, "not an escape"),
        (r"a\z", 1, "not an escape"),
        (r"a\Z", 1, "not an escape"),
        (r"\e", 0, "not an escape"),
        (r"\h", 0, "not an escape"),
        (r"\Q", 0, "not an escape"),
        (r"[\B]", 1, "not an escape"),
        (r"[\1]", 1, "not an escape"),
        (r"\01", 0, "not an escape"),
        (r"\c1", 0, "needs a letter"),
        (r"\c", 0, "needs a letter"),
        (r"\x4", 0, "two hexadecimal"),
        (r"\xg0", 0, "two hexadecimal"),
        (r"\u12", 0, "four hexadecimal"),
        (r"\u{110000}", 0, "four hexadecimal"),
        (r"\u{}", 0, "four hexadecimal"),
        (r"\u{41", 0, "four hexadecimal"),
        (r"\u+041", 0, "four hexadecimal"),
        (r"\uD83D", 0, "surrogate"),
        (r"a\uDE00", 1, "surrogate"),
        (r"\uDE00\uD83D", 0, "surrogate"),
        (r"\p", 0, "\\p{"),
        (r"\pL", 0, "\\p{"),
        (r"\p{L", 0, "\\p{"),
        (r"\1", 0, "does not exist"),
        (r"(a)\2", 3, "does not exist"),
        (r"\k<n>", 0, "does not exist"),
        (r"(?<n>a)\k<m>", 7, "does not exist"),
        (r"\k", 0, "without <name>"),
        ("(?i)a", 0, "flags"),
        ("(?i:a)", 0, "flags"),
        ("(?P<n>a)", 0, "does not start a group"),
        ("(?>a)", 0, "does not start a group"),
        ("(?#a)", 0, "does not start a group"),
        ("(?", 0, "does not start a group"),
        ("(?<>a)", 0, "identifier"),
        ("(?<1>a)", 0, "identifier"),
        ("(?<a-b>a)", 0, "identifier"),
        ("(?<a", 0, "identifier"),
    ];
    for (source, at, words) in rows {
        let error = refused(source);
        assert!(error.starts_with(&format!("at byte {at}: ")) && error.contains(words), "{source}: {error}");
        assert!(!is_pattern(source), "{source} is no pattern");
    }
}

#[test]
fn unsupported_patterns_are_rejected_with_an_alternative() {
    let rows = [
        (r"(a)\1", 3, "a backreference"),
        (r"\1(a)", 0, "a backreference"),
        (r"(?<n>a)\k<n>", 7, "a backreference"),
        ("(?<=a)b", 0, "a lookbehind"),
        ("^a+(?<!a)$", 3, "a lookbehind"),
        ("(?!^)a", 0, "negative lookahead"),
        (r"a(?!\bb)", 1, "negative lookahead"),
        ("(?:a|(?!.*^b)c)", 5, "negative lookahead"),
    ];
    for (source, at, words) in rows {
        let error = refused(source);
        assert!(error.starts_with(&format!("at byte {at}: ")) && error.contains(words), "{source}: {error}");
        assert!(error.contains("; "), "{source}: {error} says what to do instead");
    }
    for source in [r"(a)\1", r"(?<n>a)\k<n>", "(?<=a)b", "(?<!a)b"] {
        assert!(is_pattern(source), "{source} is a pattern all the same");
    }
    // A syntax error after an unsupported construct is reported first.
    assert!(!is_pattern("(?<=a)b)"));
}

#[test]
fn large_patterns_are_rejected_with_the_limit() {
    let nested = "(".repeat(100_000) + &")".repeat(100_000);
    let deep = "(?:".repeat(21) + "a" + &")".repeat(21);
    let rows = [
        ("(x{1000}){1000}", "16000 states"),
        ("^(((a{0,50}){0,50}){0,50}){0,50}$", "16000 states"),
        ("(((){1000}){1000}){1000}", "16000 states"),
        ("x{1000001}", "1000000 times"),
        ("x{99999999999999999999}", "1000000 times"),
        ("x{2,99999999999999999999}", "1000000 times"),
        (nested.as_str(), "longer than 16384 bytes"),
        (deep.as_str(), "deeper than 20"),
        ("(?!.*a.{12}b)x", "negative lookahead"),
        ("(.?){3000}z", "too large to be run"),
    ];
    for (source, words) in rows {
        let error = refused(source);
        assert!(error.contains(words), "{}: {error}", source.get(..40).unwrap_or(source));
    }
    assert!(refused(&"^(?=a)".replace("(?=a)", &"(?=a)".repeat(33))).contains("32 lookaheads"));
    assert!(refused(&("x".to_owned() + &"(?!a{600}[])".repeat(1000))).contains("16000 states"));
    assert!(compile("^(?:(?!ab).){1,300}c").is_match("xac"));
    assert!(refused(&"a".repeat(1 << 20)).contains("longer than 16384 bytes"));
    let kinds: String = (0..200).filter_map(|i| char::from_u32(0x4E00 + i)).collect();
    assert!(refused(&kinds).contains("180 kinds"));
    assert!(compile(&format!("^[{kinds}]$")).is_match("一"));
}

#[test]
fn groups_may_nest_as_deep_as_stated_on_a_small_stack() {
    for open in ["(", "(?:a|", "(?=", "(?!", "(?:b(?=a)|"] {
        // The deepest tree: each group is repeated inside a choice inside a sequence.
        let groups = if open == "(?:b(?=a)|" { 19 } else { 20 };
        for close in [")", ")*", "?c)+"] {
            let source = open.repeat(groups) + "a" + &close.repeat(groups);
            let run = move || drop(Pattern::compile(&source));
            // Three quarters of the smallest worker stack; builds without optimisation take more.
            let size = if cfg!(debug_assertions) { 512 << 10 } else { 48 << 10 };
            std::thread::Builder::new().stack_size(size).spawn(run).unwrap().join().unwrap();
        }
    }
}

#[test]
fn hostile_patterns_take_linear_time() {
    let text = "a".repeat(200_000) + "!";
    let blanks = format!("x{}x", " ".repeat(200_000));
    let rows = [
        ("(a+)+$", text.as_str(), false),
        ("^(a+)+$", &text, false),
        ("^(a|a)*$", &text, false),
        ("^(a*)*b", &text, false),
        (r"\s+$", &blanks, false),
        ("^((?=a)a+)+$", &text, false),
        ("(.*a){12}", &text, true),
        ("(?:a?){100}a{100}$", &text, false),
        ("^(?=(a+)+$)", &text, false),
        ("^(?!(a+)+$)", &text, true),
    ];
    let started = Instant::now();
    for (source, text, verdict) in rows {
        assert_eq!(compile(source).is_match(text), verdict, "{source}");
    }
    // A hundred times the usual time, and nothing for exponential time.
    assert!(started.elapsed() < Duration::from_secs(2) * if cfg!(debug_assertions) { 20 } else { 1 });
}

#[test]
fn patterns_without_a_table_run_lazily() {
    // The deterministic automaton has a state for each set of positions among the last 20
    // characters.
    let pattern = compile("(a|b)*a(a|b){20}c");
    let tail = "b".repeat(20);
    assert!(pattern.is_match(&format!("xba{tail}cx")));
    assert!(!pattern.is_match(&format!("xbb{tail}cx")));
    assert!(!pattern.is_match(""));
    let both = compile("^(?=.*é)(?!.*😀)(a|[^a])*a(a|[^a]){20}$");
    assert!(both.is_match(&format!("éa{tail}")));
    assert!(!both.is_match(&format!("éa😀{}", &tail[1..])));
    assert!(pattern.steps(1000) > 10 * 1000, "and asks for a budget");
    assert!(compile("^a+$").steps(1000) < 200);
}

#[test]
fn a_table_of_more_than_a_byte_of_states_counts_right() {
    let pattern = compile("^(?:.){300,600}$|^.{700,1000}$");
    for (length, fits) in [(299, false), (300, true), (600, true), (601, false), (1000, true), (1001, false)]
    {
        assert_eq!(pattern.is_match(&"é".repeat(length)), fits, "{length}");
    }
}

#[test]
fn counts_need_no_automaton() {
    let rows = [
        ("^.{2,3}$", [false, false, true, true, false]),
        ("^.{2,3}", [false, false, true, true, true]),
        ("^.{2,}$", [false, false, true, true, true]),
        ("^.{0}$", [true, false, false, false, false]),
        ("^.{0}", [true, true, true, true, true]),
        ("^.$", [false, true, false, false, false]),
        ("^.", [false, true, true, true, true]),
        ("^.*$", [true, true, true, true, true]),
        ("^(?=.{1,2}$)a*$", [false, true, true, false, false]),
        ("^(?!.{1,2}$)a*$", [true, false, false, true, true]),
        ("^[]*$", [true, false, false, false, false]),
    ];
    for (source, verdicts) in rows {
        for (length, verdict) in verdicts.into_iter().enumerate() {
            assert_eq!(compile(source).is_match(&"a".repeat(length)), verdict, "{source} on {length}");
        }
    }
    let pattern = compile(r"^[\s\S]{1,10000}$");
    assert!(pattern.is_match(&"é".repeat(10_000)) && !pattern.is_match(&"é".repeat(10_001)));
}

#[test]
fn patterns_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compile("a"));
}
