//! Tests of reading, with every kind of violation.

use std::collections::BTreeMap;

use tinymcp::json::ToJson;
use tinymcp::record::{FromJson, Record};
use tinymcp::{choice, record};

use super::{Level, Nothing, Place, Switch, parse, read};

fn lab() -> Place {
    Place { room: "lab".to_owned(), height: 2.0 }
}

#[test]
fn absent_members_get_their_defaults_whatever_the_order() {
    let least = Switch {
        pin: 17,
        level: Level::High,
        hold: None,
        note: String::new(),
        tags: Vec::new(),
        at: lab(),
        before: None,
        dry_run: false,
    };
    for text in [
        r#"{"pin":17,"at":{"room":"lab","height":2}}"#,
        r#"{"at":{"height":2.0,"room":"lab"},"pin":1.7e1}"#,
        r#"{"\u0070in":17.0,"level":null,"hold":null,"note":null,"tags":null,"before":null,"dryRun":null,"at":{"room":"lab","height":2}}"#,
        // The last of two members with one name counts, as for `Value::get`.
        r#"{"pin":99,"dryRun":true,"at":{"room":"lab","height":2},"dryRun":null,"pin":17}"#,
    ] {
        assert_eq!(read::<Switch>(text).as_ref(), Ok(&least), "{text}");
    }
    let all = Switch {
        pin: 0,
        level: Level::Low,
        hold: Some(60_000),
        note: "äöüßÄÖÜ!".to_owned(),
        tags: vec!["a".to_owned(), "ñññ".to_owned()],
        at: lab(),
        before: Some(lab()),
        dry_run: true,
    };
    let text = r#"{"pin":0,"level":"low","hold":60000,"note":"äöüßÄÖÜ!","tags":["a","ñññ"],
        "at":{"room":"lab","height":2},"before":{"room":"lab","height":2},"dryRun":true}"#;
    assert_eq!(read::<Switch>(text), Ok(all));
    assert_eq!(read::<Nothing>("{}"), Ok(Nothing {}));
}

/// A switch with one member added or replaced.
fn with(name: &str, value: &str) -> String {
    let mut members = BTreeMap::from([("pin", "1"), ("at", r#"{"room":"lab","height":2}"#)]);
    members.insert(name, value);
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", name.to_json())).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn violations_have_path_keyword_and_accepted_values() {
    let allowed = "Allowed are `pin`, `at`; optional `level`, `hold`, `note`, `tags`, `before`, `dryRun`";
    let long = format!("{:?}", "x".repeat(100));
    let quoted = format!("the string \"{}…", "x".repeat(39));
    for (text, path, keyword, message) in [
        (with("pin", "99"), "/pin", "maximum", "expected an integer from 0 to 27, got 99"),
        (with("pin", "-1"), "/pin", "minimum", "expected an integer from 0 to 27, got -1"),
        (with("pin", "1e99"), "/pin", "maximum", "expected an integer from 0 to 27, got 1e99"),
        (with("pin", "1.5"), "/pin", "type", "expected an integer from 0 to 27, got 1.5"),
        (with("pin", "\"1\""), "/pin", "type", "expected an integer from 0 to 27, got the string \"1\""),
        (with("pin", "null"), "/pin", "type", "expected an integer from 0 to 27, got null"),
        (with("pin", "[1]"), "/pin", "type", "expected an integer from 0 to 27, got an array of 1 item"),
        (
            with("level", "\"hihg\""),
            "/level",
            "enum",
            "expected one of \"low\", \"high\", got the string \"hihg\"",
        ),
        (
            with("level", "\"HIGH\""),
            "/level",
            "enum",
            "expected one of \"low\", \"high\", got the string \"HIGH\", did you mean \"high\"?",
        ),
        (with("level", "1"), "/level", "type", "expected one of \"low\", \"high\", got 1"),
        (with("level", &long), "/level", "enum", &format!("expected one of \"low\", \"high\", got {quoted}")),
        (with("hold", "0"), "/hold", "minimum", "expected an integer from 1 to 60000, got 0"),
        (with("hold", "true"), "/hold", "type", "expected an integer from 1 to 60000, got true"),
        (
            with("note", "\"123456789\""),
            "/note",
            "maxLength",
            "expected a string of at most 8 characters, got one of 9",
        ),
        (
            with("note", "{}"),
            "/note",
            "type",
            "expected a string of at most 8 characters, got an object of 0 members",
        ),
        (
            with("tags", r#"["a","b","c"]"#),
            "/tags",
            "maxItems",
            "expected an array of at most 2 items, got one of 3",
        ),
        (
            with("tags", r#"["a",""]"#),
            "/tags/1",
            "minLength",
            "expected a string of 1 to 3 characters, got one of 0",
        ),
        (
            with("tags", "\"a\""),
            "/tags",
            "type",
            "expected an array of at most 2 items, got the string \"a\"",
        ),
        (with("dryRun", "0"), "/dryRun", "type", "expected true or false, got 0"),
        (
            with("at", r#"{"height":1,"room":""}"#),
            "/at/room",
            "minLength",
            "expected a string of at least 1 character, got one of 0",
        ),
        (
            with("at", r#"{"room":"a","height":-1.6}"#),
            "/at/height",
            "minimum",
            "expected a number from -1.5 to 12.0, got -1.6",
        ),
        (
            with("at", r#"{"room":"a","height":1e400}"#),
            "/at/height",
            "maximum",
            "expected a number from -1.5 to 12.0, got 1e400",
        ),
        (with("at", r#"{"room":"a"}"#), "/at", "required", "missing `height`"),
        (with("at", "{}"), "/at", "required", "missing `room`, `height`. Allowed are `room`, `height`"),
        (
            with("before", r#"{"room":1,"height":1}"#),
            "/before/room",
            "type",
            "expected a string of at least 1 character, got 1",
        ),
        (with("at", "7"), "/at", "type", "expected an object with the members `room`, `height`, got 7"),
        (
            with("dry_run", "true"),
            "",
            "additionalProperties",
            &format!("unknown member `dry_run`, did you mean `dryRun`? {allowed}"),
        ),
        (with("zzzz", "1"), "", "additionalProperties", &format!("unknown member `zzzz`. {allowed}")),
        (with("", "1"), "", "additionalProperties", &format!("unknown member ``. {allowed}")),
        (
            with(&"y".repeat(99), "1"),
            "",
            "additionalProperties",
            &format!("unknown member `{}…`. {allowed}", "y".repeat(40)),
        ),
        (
            // Missing members are reported before invalid ones.
            r#"{"pin":"x"}"#.to_owned(),
            "",
            "required",
            "missing `at`",
        ),
        (r#"{"hold":5}"#.to_owned(), "", "required", "missing `pin`, `at`"),
        (
            "[]".to_owned(),
            "",
            "type",
            "expected an object with the members `pin`, `at`; optional `level`, `hold`, `note`, \
             `tags`, `before`, `dryRun`, got an array of 0 items",
        ),
    ] {
        let violation = *record::decode::<Switch>(parse(&text).root()).expect_err(&text);
        assert_eq!((violation.path.as_str(), violation.keyword), (path, keyword), "{text}");
        assert_eq!(violation.message, message, "{text}");
        if keyword != "required" && keyword != "additionalProperties" {
            assert!(parse(&text).root().pointer(path).is_some(), "{text}");
        }
    }
}

#[test]
fn violations_of_other_types_name_their_keyword_and_range() {
    fn refusal<T: FromJson>(text: &str) -> String {
        read::<T>(text).err().unwrap_or_else(|| panic!("{text} is read"))
    }
    record! { struct Map { m: BTreeMap<String, u16> [items 1..=1] } }
    record! { struct Lists { l: Vec<Vec<u8>> [items ..=2, ..=9] = [] } }
    for (said, expected) in [
        (refusal::<u64>("-1"), "expected an integer from 0 to 18446744073709551615, got -1 (minimum)"),
        (refusal::<u64>("1.5"), "expected an integer, 0 or more, got 1.5 (type)"),
        (refusal::<i64>("\"\""), "expected an integer, got the string \"\" (type)"),
        (
            refusal::<i64>("9223372036854775808"),
            "expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808 (maximum)",
        ),
        (refusal::<i8>("-129"), "expected an integer from -128 to 127, got -129 (minimum)"),
        (refusal::<f64>("null"), "expected a number, got null (type)"),
        (
            refusal::<f64>("-1e400"),
            "expected a number from -1.7976931348623157e308 to 1.7976931348623157e308, got -1e400 (minimum)",
        ),
        (
            refusal::<f32>("1e39"),
            "expected a number from -3.4028234663852886e38 to 3.4028234663852886e38, got 1e39 (maximum)",
        ),
        (refusal::<bool>("\"true\""), "expected true or false, got the string \"true\" (type)"),
        (refusal::<Vec<bool>>("[true,1]"), "/1: expected true or false, got 1 (type)"),
        (refusal::<Nothing>("null"), "expected an object without members, got null (type)"),
        (
            refusal::<Nothing>(r#"{"a":1}"#),
            "unknown member `a`. No members are allowed (additionalProperties)",
        ),
        (
            refusal::<BTreeMap<String, bool>>(r#"{"a/b~c":1}"#),
            "/a~1b~0c: expected true or false, got 1 (type)",
        ),
        (refusal::<Map>(r#"{"m":{}}"#), "/m: expected an object of 1 member, got one of 0 (minProperties)"),
        (
            refusal::<Map>(r#"{"m":{"a":1,"b":2}}"#),
            "/m: expected an object of 1 member, got one of 2 (maxProperties)",
        ),
        (refusal::<Map>(r#"{"m":[]}"#), "/m: expected an object of 1 member, got an array of 0 items (type)"),
        (
            refusal::<Lists>(r#"{"l":[[1,2,3,4],[10]]}"#),
            "/l/1/0: expected an integer from 0 to 9, got 10 (maximum)",
        ),
        (
            refusal::<Lists>(r#"{"l":[[],[],[]]}"#),
            "/l: expected an array of at most 2 items, got one of 3 (maxItems)",
        ),
    ] {
        assert_eq!(said, expected);
    }
    assert_eq!(read::<u64>("18446744073709551615"), Ok(u64::MAX));
    assert_eq!(read::<i64>("-9223372036854775808.0"), Ok(i64::MIN));
    assert_eq!(read::<f32>("3.4028234663852886e38"), Ok(f32::MAX));
    assert_eq!(read::<Vec<Option<u8>>>("[1,null]"), Ok(vec![Some(1), None]));
    assert_eq!(read::<Option<Nothing>>("null"), Ok(None));
}

#[test]
fn long_lists_of_names_are_truncated() {
    choice! {
        #[derive(Debug)]
        enum Many {
            A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9,
            C0, C1, C2, C3, C4, C5,
        }
    }
    record! {
        #[derive(Debug)]
        struct Wide {
            a0: u8, a1: u8, a2: u8, a3: u8, a4: u8, a5: u8, a6: u8, a7: u8, a8: u8, a9: u8,
            b0: u8, b1: u8, b2: u8, b3: u8, b4: u8, b5: u8, b6: u8, b7: u8, b8: u8, b9: u8,
            c0: u8 = 1, c1: u8, c2: u8, c3: u8, c4: u8, c5: u8,
        }
    }
    let said = read::<Many>("\"zz\"").unwrap_err();
    assert!(said.contains("\"C3\" and 2 more, got"), "{said}");
    let said = read::<Wide>("[]").unwrap_err();
    assert!(said.contains("`c4` and 2 more, got"), "{said}");
    assert_eq!(<Wide as Record>::FIELDS.len(), 26);
}

#[test]
fn default_is_evaluated_where_field_names_do_not_shadow() {
    fn level() -> u8 {
        7
    }
    record! {
        struct Shadow {
            members: u8,
            level: u8 = level(),
            w: u8 = level(),
            value: String = "v",
            rule: Vec<u8> = vec![level()],
        }
    }
    let shadow: Shadow = record::decode(parse(r#"{"members":1}"#).root()).unwrap();
    assert_eq!((shadow.members, shadow.level, shadow.w), (1, 7, 7));
    assert_eq!((shadow.value.as_str(), shadow.rule), ("v", vec![7]));
}
