//! Writing of typed values, compared with serde_json.

use std::collections::BTreeMap;

use serde::Serialize;
use tinymcp::json::Writer;
use tinymcp::serde::{to_json, to_writer};

/// Checks that a value is written as serde_json writes it.
#[track_caller]
fn agrees<T: Serialize>(value: &T) {
    assert_eq!(to_json(value).unwrap().as_str(), serde_json::to_string(value).unwrap());
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Meters(f32);

#[derive(Serialize)]
struct Pair(u8, &'static str);

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    High,
}

#[derive(Serialize)]
struct Everything {
    unit: (),
    unit_struct: Unit,
    newtype: Meters,
    pair: Pair,
    tuple: (i8, bool),
    letter: char,
    wide: (i128, u128, i64, u64),
    none: Option<u8>,
    some: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<u8>,
    bytes: serde_bytes_like::Bytes,
    shown: std::net::Ipv4Addr,
    signed: BTreeMap<i8, u8>,
    flags: BTreeMap<bool, u8>,
    letters: BTreeMap<char, u8>,
    levels: BTreeMap<Level, u8>,
    floats: [f64; 3],
}

/// A type that writes bytes, as the crate serde_bytes does.
mod serde_bytes_like {
    pub(super) struct Bytes(pub(super) &'static [u8]);

    impl serde::Serialize for Bytes {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }
}

#[test]
fn each_kind_of_type_is_written_as_serde_json_writes_it() {
    agrees(&Everything {
        unit: (),
        unit_struct: Unit,
        newtype: Meters(0.1),
        pair: Pair(7, "\"\n\u{1}é"),
        tuple: (-1, true),
        letter: 'ß',
        wide: (i128::MIN, u128::MAX, i64::MIN, u64::MAX),
        none: None,
        some: Some(1),
        absent: None,
        bytes: serde_bytes_like::Bytes(b"ab"),
        shown: std::net::Ipv4Addr::LOCALHOST,
        signed: BTreeMap::from([(-1, 1)]),
        flags: BTreeMap::from([(true, 1)]),
        letters: BTreeMap::from([('"', 1)]),
        levels: BTreeMap::from([(Level::High, 1)]),
        floats: [f64::NAN, f64::INFINITY, 0.5],
    });
}

#[derive(Serialize)]
enum External {
    Stop,
    Wait(u32),
    Move(i8, i8),
    Blink { times: u8 },
}

#[derive(Serialize)]
#[serde(tag = "kind")]
enum Internal {
    Stop,
    Wait { seconds: u8 },
}

#[derive(Serialize)]
#[serde(tag = "kind", content = "data")]
enum Adjacent {
    Stop,
    Move(i8, i8),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Many(Vec<Untagged>),
}

#[derive(Serialize)]
struct Flat {
    name: &'static str,
    #[serde(flatten)]
    rest: BTreeMap<&'static str, u8>,
}

#[test]
fn enums_in_all_representations_and_flattened_members_are_written() {
    agrees(&[External::Stop, External::Wait(5), External::Move(1, -1), External::Blink { times: 2 }]);
    agrees(&[Internal::Stop, Internal::Wait { seconds: 3 }]);
    agrees(&[Adjacent::Stop, Adjacent::Move(1, 2)]);
    agrees(&Untagged::Many(vec![Untagged::Number(-1), Untagged::Many(vec![])]));
    agrees(&Flat { name: "n", rest: BTreeMap::from([("a", 1)]) });
}

#[test]
fn an_error_leaves_the_writer_as_it_was() {
    let mut w = Writer::new();
    w.begin_array().u64(1);
    let keys = BTreeMap::from([((1, 2), 3)]);
    let violation = to_writer(&mut w, &BTreeMap::from([("a", keys)])).unwrap_err();
    assert_eq!(
        violation.to_string(),
        "a map key must be a string, a number, a boolean, a character or a unit variant (propertyNames)"
    );
    w.u64(2).end_array();
    assert_eq!(w.as_str(), "[1,2]");
}

#[derive(Serialize)]
struct Chain(Option<Box<Chain>>);

#[test]
fn nesting_is_limited() {
    let chain = (0..200).fold(Chain(None), |chain, _| Chain(Some(Box::new(chain))));
    assert_eq!(to_json(&chain).unwrap_err().message, "nested deeper than 128 levels");
}
