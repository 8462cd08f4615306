//! Member names: long and short ones, escaped ones, and names that resemble the text around them.

use tinymcp::json::Writer;
use tinymcp::schema::Schema;

use super::doc;

/// Names with common prefixes, suffixes and lengths, and some with escapes.
const NAMES: [&str; 24] = [
    "",
    "a",
    "b",
    "ab",
    "a\"",
    "a\\",
    "a\\n",
    "a\n",
    "a\":\"",
    "a\":1",
    "abcdef",
    "abcdefg",
    "abcdefgh",
    "abcdefg\"",
    "abcdefghi",
    "abcdXfghi",
    "abcd\\nfgh",
    "abcd\nfgh",
    "abcdefghijklmnop",
    "abcdefghXjklmnop",
    "abcdefghijklmnopq",
    "abcdefghijklXnopq",
    "äöü",
    "äö",
];

/// An object with one member. Its name is written with as few or as many escapes as possible.
fn object(name: &str, member: &str, escaped: bool) -> String {
    let mut w = Writer::new();
    w.begin_object();
    w.key(name).raw(member).end_object();
    let plain = String::from_utf8(w.into_bytes()).unwrap();
    if !escaped {
        return plain;
    }
    let units: String = name.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("{{\"{units}\":{member}}}")
}

#[test]
fn members_are_found_by_the_whole_name_however_it_is_written() {
    for declared in NAMES {
        let quoted = object(declared, "{\"type\":\"integer\"}", false);
        let required = quoted.rsplit_once(":{").unwrap().0.trim_start_matches('{');
        let text =
            format!("{{\"properties\":{quoted},\"required\":[{required}],\"additionalProperties\":false}}");
        let schema = Schema::parse(&text).unwrap();
        for name in NAMES {
            for escaped in [false, true] {
                // After a short value the text ends; after a long one there is text to look ahead.
                for member in ["7", "70000000"] {
                    let value = object(name, member, escaped);
                    assert_eq!(schema.is_valid(doc(&value).root()), name == declared, "{text} {value}");
                }
            }
        }
    }
}

#[test]
fn members_are_found_in_any_order_and_with_some_left_out() {
    for count in [3, 12, 13, 40] {
        let name = |i: usize| format!("member_{i}");
        let declared: Vec<_> = (0..count).map(|i| format!("\"{}\":{{\"const\":{i}}}", name(i))).collect();
        let text = format!("{{\"properties\":{{{}}},\"additionalProperties\":false}}", declared.join(","));
        let schema = Schema::parse(&text).unwrap();
        for step in 1..count {
            let mut members = Vec::new();
            for i in (0..count).map(|i| (i * step) % count) {
                if !members.contains(&i) {
                    members.push(i);
                }
            }
            for wrong in [None, members.last().copied()] {
                let spelled = members.iter().map(|i| {
                    let value = i + usize::from(wrong == Some(*i));
                    format!("\"{}\":{value}", name(*i))
                });
                let value = format!("{{{}}}", spelled.collect::<Vec<_>>().join(","));
                assert_eq!(schema.is_valid(doc(&value).root()), wrong.is_none(), "{text} {value}");
            }
        }
    }
}
