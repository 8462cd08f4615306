//! Values of each kind of type, and the messages of mismatches.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tinymcp::json::{Doc, ParseLimits};

use super::{agrees, read};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Switch {
    pin: u8,
    #[serde(default)]
    level: Level,
    hold: Option<u32>,
    #[serde(rename = "read/only~", default)]
    tags: Vec<String>,
}

#[derive(Deserialize, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Level {
    #[default]
    Low,
    High,
}

#[test]
fn mismatches_name_path_expected_and_found() {
    for (text, expected) in [
        (r#"{"pin":300}"#, "/pin: expected an integer from 0 to 255, got 300 (maximum)"),
        (r#"{"pin":-1}"#, "/pin: expected an integer from 0 to 255, got -1 (minimum)"),
        (r#"{"pin":1.5}"#, "/pin: expected an integer from 0 to 255, got 1.5 (type)"),
        (r#"{"pin":"4"}"#, "/pin: expected an integer from 0 to 255, got the string \"4\" (type)"),
        (r#"{"pin":null}"#, "/pin: expected an integer from 0 to 255, got null (type)"),
        (r#"{}"#, "missing `pin` (required)"),
        (
            r#"{"pin":1,"holt":2}"#,
            "unknown member `holt`, did you mean `hold`? Allowed are `pin`, `level`, `hold`, `read/only~` \
             (additionalProperties)",
        ),
        (
            r#"{"pin":1,"level":"High"}"#,
            "/level: expected one of \"low\", \"high\", got the string \"High\", did you mean \"high\"? (enum)",
        ),
        (
            r#"{"pin":1,"level":7}"#,
            "/level: expected one of \"low\", \"high\", alone or as the only member of an object, got 7 (type)",
        ),
        (r#"{"pin":1,"read/only~":["a",2]}"#, "/read~1only~0/1: expected a string, got 2 (type)"),
        (
            r#"{"pin":1,"read/only~":{}}"#,
            "/read~1only~0: expected an array, got an object of 0 members (type)",
        ),
        (
            r#"[1,"low"]"#,
            "expected an object with the members `pin`, `level`, `hold`, `read/only~`, got an array of 2 items \
             (type)",
        ),
        (r#"{"pin":1,"hold":true}"#, "/hold: expected an integer from 0 to 4294967295, got true (type)"),
    ] {
        assert_eq!(read::<Switch>(text), expected, "{text}");
    }
    agrees::<Switch>(r#"{"hold":null,"pin":255,"level":"high","read/only~":["\u00e9\n"]}"#);
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Unit;

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Meters(f64);

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Pair(u8, String);

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Everything {
    unit: (),
    unit_struct: Unit,
    newtype: Meters,
    pair: Pair,
    tuple: (i8, bool),
    array: [u16; 3],
    letter: char,
    set: BTreeSet<i64>,
    by_number: BTreeMap<u16, String>,
    by_flag: BTreeMap<bool, u8>,
    by_letter: BTreeMap<char, u8>,
    by_level: BTreeMap<Level, u8>,
    by_sign: BTreeMap<i128, u8>,
    address: std::net::IpAddr,
    nested: Option<Option<Box<u8>>>,
    duration: std::time::Duration,
}

const EVERYTHING: &str = r#"{"unit":null,"unit_struct":null,"newtype":1.5,"pair":[7,"x"],"tuple":[-1,true],
    "array":[1,2,3],"letter":"ß","set":[3,1],"by_number":{"65535":"a"},"by_flag":{"true":1},
    "by_letter":{"é":2},"by_level":{"high":3},"by_sign":{"-170141183460469231731687303715884105728":4},
    "address":"::1","nested":5,"duration":{"secs":1,"nanos":2},"unknown":[{"deep":[[]]}]}"#;

#[test]
fn each_kind_of_type_is_read_as_serde_json_reads_it() {
    agrees::<Everything>(EVERYTHING);
}

#[test]
fn mismatches_in_each_kind_of_type_are_named() {
    for (from, to, expected) in [
        (r#""unit":null"#, r#""unit":0"#, "/unit: expected null, got 0 (type)"),
        (
            r#""unit_struct":null"#,
            r#""unit_struct":{}"#,
            "/unit_struct: expected null, got an object of 0 members (type)",
        ),
        ("1.5", "\"1.5\"", "/newtype: expected a number, got the string \"1.5\" (type)"),
        (r#"[7,"x"]"#, "[7]", "/pair: expected an array of 2 items, got an array of 1 item (type)"),
        (r#"[7,"x"]"#, r#"[7,"x",1]"#, "/pair: expected an array of 2 items, got an array of 3 items (type)"),
        ("[-1,true]", "[-129,true]", "/tuple/0: expected an integer from -128 to 127, got -129 (minimum)"),
        ("[1,2,3]", "[1,2,65536]", "/array/2: expected an integer from 0 to 65535, got 65536 (maximum)"),
        ("\"ß\"", "\"ab\"", "/letter: expected a string of 1 character, got the string \"ab\" (type)"),
        (
            r#"{"65535":"#,
            r#"{"65536":"#,
            "/by_number: expected a member name that is an integer of 16 bits without sign, got the string \"65536\" \
             (propertyNames)",
        ),
        (
            r#"{"true":"#,
            r#"{"yes":"#,
            "/by_flag: expected a member name that is true or false, got the string \"yes\" (propertyNames)",
        ),
        (
            r#"{"high":3}"#,
            r#"{"higher":3}"#,
            "/by_level: expected one of \"low\", \"high\", got the string \"higher\", did you mean \"high\"? (enum)",
        ),
        ("\"::1\"", "\"nowhere\"", "/address: invalid IP address syntax (type)"),
        (
            r#""nanos":2"#,
            r#""nanos":-2"#,
            "/duration/nanos: expected an integer from 0 to 4294967295, got -2 (minimum)",
        ),
    ] {
        let text = EVERYTHING.replace(from, to);
        assert_ne!(text, EVERYTHING);
        assert_eq!(read::<Everything>(&text), expected, "{to}");
    }
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
enum External {
    Stop,
    Wait(u32),
    Move(i8, i8),
    Blink { times: u8, pause: Option<u16> },
}

#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code)]
enum Internal {
    Stop,
    Wait { seconds: u8 },
    Blink(Blink),
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Blink {
    times: u8,
}

#[derive(Deserialize, Debug)]
#[serde(tag = "kind", content = "data")]
#[allow(dead_code)]
enum Adjacent {
    Stop,
    Wait(u32),
    Move(i8, i8),
    Blink { times: u8 },
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
#[allow(dead_code)]
enum Untagged {
    Number(i64),
    Fraction(f64),
    Text(String),
    Blink { times: u8 },
    Many(Vec<Untagged>),
    Nothing,
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Flat {
    name: String,
    #[serde(flatten)]
    blink: Blink,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[test]
fn enums_in_all_representations_and_flattened_members_are_read() {
    for text in [
        r#""Stop""#,
        r#"{"Stop":null}"#,
        r#"{"Wait":5}"#,
        r#"{"Move":[1,-1]}"#,
        r#"{"Blink":{"times":2}}"#,
        r#"{"Blink":{"pause":3,"times":2}}"#,
    ] {
        agrees::<External>(text);
    }
    for text in [
        r#"{"kind":"stop"}"#,
        r#"{"seconds":3,"kind":"wait"}"#,
        r#"{"kind":"blink","times":4}"#,
        r#"{"times":4,"kind":"blink"}"#,
    ] {
        agrees::<Internal>(text);
    }
    for text in [
        r#"{"kind":"Stop"}"#,
        r#"{"data":7,"kind":"Wait"}"#,
        r#"{"kind":"Move","data":[1,2]}"#,
        r#"{"data":{"times":4},"kind":"Blink"}"#,
    ] {
        agrees::<Adjacent>(text);
    }
    for text in ["7", "-7", "\"x\"", r#"{"times":1}"#, r#"[1,[2,null],"a"]"#, "null", "9223372036854775807"] {
        agrees::<Untagged>(text);
    }
    // serde_json rejects it if `arbitrary_precision` is on.
    assert_eq!(read::<Untagged>("7.5"), "Fraction(7.5)");
    agrees::<Flat>(r#"{"name":"n","times":1,"other":[1,{"a":null}],"x":-2}"#);
}

#[test]
fn mismatches_in_enums_are_named() {
    for (text, expected) in [
        (
            r#""Halt""#,
            "expected one of \"Stop\", \"Wait\", \"Move\", \"Blink\", got the string \"Halt\" (enum)",
        ),
        (r#"{"Wait":-5}"#, "/Wait: expected an integer from 0 to 4294967295, got -5 (minimum)"),
        (r#"{"Move":[1,"a"]}"#, "/Move/1: expected an integer from -128 to 127, got the string \"a\" (type)"),
        (r#"{"Move":[1]}"#, "/Move: expected an array of 2 items, got an array of 1 item (type)"),
        (r#"{"Blink":{}}"#, "/Blink: missing `times` (required)"),
        (r#"{"Stop":1}"#, "/Stop: expected null, got 1 (type)"),
        (r#""Wait""#, "expected an object with the member `Wait`, got the string \"Wait\" (type)"),
        (
            r#"{"Wait":1,"Stop":null}"#,
            "expected one of \"Stop\", \"Wait\", \"Move\", \"Blink\", alone or as the only member of an object, \
             got an object of 2 members (type)",
        ),
    ] {
        assert_eq!(read::<External>(text), expected, "{text}");
    }
    for (text, expected) in [
        (r#"{"seconds":3}"#, "missing `kind` (required)"),
        (
            r#"{"kind":"wait","seconds":"x"}"#,
            "expected an integer of at least 0, got the string \"x\" (type)",
        ),
        (
            r#"{"kind":"wayt","seconds":1}"#,
            "/kind: expected one of \"stop\", \"wait\", \"blink\", got the string \"wayt\", did you mean \"wait\"? \
             (enum)",
        ),
    ] {
        assert_eq!(read::<Internal>(text), expected, "{text}");
    }
    assert_eq!(read::<Untagged>("true"), "data did not match any variant of untagged enum Untagged (type)");
}

#[derive(Deserialize, Debug, PartialEq)]
struct Borrowed<'a> {
    plain: &'a str,
    escaped: &'a str,
    bytes: &'a [u8],
    #[serde(borrow)]
    cow: Cow<'a, str>,
}

#[test]
fn strings_borrow_from_the_document_also_with_escapes() {
    let doc = Doc::parse(r#"{"plain":"a","escaped":"\u00e9\n","bytes":"xyz","cow":"c\t"}"#).unwrap();
    let read: Borrowed<'_> = tinymcp::serde::from_value(doc.root()).unwrap();
    assert_eq!(read, Borrowed { plain: "a", escaped: "é\n", bytes: b"xyz", cow: Cow::Borrowed("c\t") });
    assert!(matches!(read.cow, Cow::Borrowed(_)));
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Tree {
    children: Vec<Tree>,
}

#[derive(Deserialize, Debug)]
#[allow(dead_code)]
struct Endless(Option<Box<Endless>>);

/// An array in arrays.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn nesting_is_limited_whatever_the_document_allows() {
    // A tree of 64 nodes has 127 levels: an object each, and an array between two.
    let tree = |nodes: usize| {
        format!("{}{{\"children\":[]}}{}", "{\"children\":[".repeat(nodes - 1), "]}".repeat(nodes - 1))
    };
    assert!(read::<Tree>(&tree(64)).starts_with("Tree"));
    let mut doc = Doc::default();
    for nodes in [66, 1000, 100_000] {
        doc.parse_again(tree(nodes).as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
        let violation = tinymcp::serde::from_value::<Tree>(doc.root()).err().unwrap();
        assert_eq!(
            (violation.keyword, violation.message.as_str()),
            ("limit", "nested deeper than 128 levels")
        );
        assert!(violation.path.starts_with("/children/0/children/0/"), "{}", violation.path);
    }
    // The type recurses without a level of the document.
    doc.parse_again(b"1", &ParseLimits::UNBOUNDED).unwrap();
    assert_eq!(tinymcp::serde::from_value::<Endless>(doc.root()).err().unwrap().keyword, "limit");
    // Unknown members are skipped without recursion.
    #[derive(Deserialize, Debug)]
    struct Empty {}
    doc.parse_again(format!("{{\"x\":{}}}", nested(100_000)).as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
    assert!(tinymcp::serde::from_value::<Empty>(doc.root()).is_ok());
    // Buffered by serde.
    doc.parse_again(nested(100_000).as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
    assert_eq!(tinymcp::serde::from_value::<Untagged>(doc.root()).err().unwrap().keyword, "limit");
}

#[test]
fn the_deepest_tree_fits_the_stack_of_a_worker() {
    let stack = tinymcp::Limits::default().worker_stack;
    let thread = std::thread::Builder::new().stack_size(stack);
    let read = thread.spawn(move || {
        let tree = format!("{}[]{}", "{\"children\":[".repeat(63), "]}".repeat(63)).replace("[[]]", "[]");
        (read::<Untagged>(&nested(128)), read::<Tree>(&tree))
    });
    let (array, tree) = read.unwrap().join().unwrap();
    assert!(array.starts_with("Many") && tree.starts_with("Tree"), "{array}\n{tree}");
}
