//! Exact schema texts.

use std::collections::BTreeMap;

use tinymcp::json::Json;
use tinymcp::record;

use super::{Level, Nothing, Place, Switch, Unit};

/// The schema of a type, as the only field of a record.
macro_rules! schema_of {
    ($($field:tt)*) => {{
        record! { struct One { $($field)* } }
        record::schema::<One>().as_str().to_owned()
    }};
}

#[test]
fn schemas_are_these_texts() {
    for (schema, expected) in [
        (record::schema::<Nothing>(), r#"{"type":"object","additionalProperties":false}"#),
        (
            record::schema::<Level>(),
            r#"{"type":"string","description":"Output level\n- low: Ground\n- high: Supply voltage","enum":["low","high"]}"#,
        ),
        (record::schema::<Unit>(), r#"{"type":"string","enum":["Celsius","Kelvin"]}"#),
        (
            record::schema::<Place>(),
            concat!(
                r#"{"type":"object","description":"Where a sensor is mounted.","properties":{"#,
                r#""room":{"type":"string","minLength":1},"#,
                r#""height":{"type":"number","description":"Metres above the floor","minimum":-1.5,"maximum":12.0}"#,
                r#"},"required":["room","height"],"additionalProperties":false}"#
            ),
        ),
        (
            record::schema::<Switch>(),
            concat!(
                r#"{"type":"object","description":"Switches a pin.\n\n- slow\n- safe","properties":{"#,
                r#""pin":{"type":"integer","description":"Pin number in BCM counting","minimum":0,"maximum":27},"#,
                r#""level":{"type":"string","description":"Level to set\n- low: Ground\n- high: Supply voltage","enum":["low","high"],"default":"high"},"#,
                r#""hold":{"type":"integer","description":"Milliseconds to hold","minimum":1,"maximum":60000},"#,
                r#""note":{"type":"string","maxLength":8,"default":""},"#,
                r#""tags":{"type":"array","items":{"type":"string","minLength":1,"maxLength":3},"maxItems":2,"default":[]},"#,
                r#""at":{"type":"object","description":"Where a sensor is mounted.","properties":{"#,
                r#""room":{"type":"string","minLength":1},"#,
                r#""height":{"type":"number","description":"Metres above the floor","minimum":-1.5,"maximum":12.0}"#,
                r#"},"required":["room","height"],"additionalProperties":false},"#,
                r#""before":{"type":"object","description":"Where it was before","properties":{"#,
                r#""room":{"type":"string","minLength":1},"#,
                r#""height":{"type":"number","description":"Metres above the floor","minimum":-1.5,"maximum":12.0}"#,
                r#"},"required":["room","height"],"additionalProperties":false},"#,
                r#""dryRun":{"type":"boolean","default":false}"#,
                r#"},"required":["pin","at"],"additionalProperties":false}"#
            ),
        ),
    ] {
        assert_eq!(schema.as_str(), expected);
    }
}

#[test]
fn schemas_of_single_fields_are_these_texts() {
    let wrap = |field: &str, required: &str| {
        format!(r#"{{"type":"object","properties":{{"x":{field}}}{required},"additionalProperties":false}}"#)
    };
    for (schema, field) in [
        (schema_of!(x: bool), r#"{"type":"boolean"}"#),
        (schema_of!(x: i8), r#"{"type":"integer","minimum":-128,"maximum":127}"#),
        (schema_of!(x: u8), r#"{"type":"integer","minimum":0,"maximum":255}"#),
        (schema_of!(x: u16), r#"{"type":"integer","minimum":0,"maximum":65535}"#),
        (schema_of!(x: i32), r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#),
        (schema_of!(x: u32), r#"{"type":"integer","minimum":0,"maximum":4294967295}"#),
        (schema_of!(x: i64), r#"{"type":"integer"}"#),
        (schema_of!(x: u64), r#"{"type":"integer","minimum":0}"#),
        (schema_of!(x: i64 [-5..]), r#"{"type":"integer","minimum":-5}"#),
        (schema_of!(x: i64 [..=-5]), r#"{"type":"integer","maximum":-5}"#),
        (
            schema_of!(x: u64 [..=u64::MAX]),
            r#"{"type":"integer","minimum":0,"maximum":18446744073709551615}"#,
        ),
        (schema_of!(x: u8 [3..]), r#"{"type":"integer","minimum":3,"maximum":255}"#),
        (schema_of!(x: f32), r#"{"type":"number"}"#),
        (schema_of!(x: f32 [..=0.1]), r#"{"type":"number","maximum":0.1}"#),
        (schema_of!(x: f64 [0.0..]), r#"{"type":"number","minimum":0.0}"#),
        (schema_of!(x: String), r#"{"type":"string"}"#),
        (schema_of!(x: String [len 2..=2]), r#"{"type":"string","minLength":2,"maxLength":2}"#),
        (schema_of!(x: Json), "{}"),
        (schema_of!(x: Vec<Json>), r#"{"type":"array","items":{}}"#),
        (
            schema_of!(x: Vec<Vec<bool>> [items 1..=8]),
            r#"{"type":"array","items":{"type":"array","items":{"type":"boolean"}},"minItems":1,"maxItems":8}"#,
        ),
        (
            schema_of!(x: BTreeMap<String, u64> [items 1..=8, ..=5]),
            r#"{"type":"object","additionalProperties":{"type":"integer","minimum":0,"maximum":5},"minProperties":1,"maxProperties":8}"#,
        ),
        (
            schema_of!(x: Vec<Option<bool>>),
            r#"{"type":"array","items":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}"#,
        ),
        (
            schema_of!(
                /// Field
                x: Vec<Nothing>
            ),
            r#"{"type":"array","description":"Field","items":{"type":"object","additionalProperties":false}}"#,
        ),
    ] {
        assert_eq!(schema, wrap(field, r#","required":["x"]"#));
    }
    for (schema, field) in [
        (schema_of!(x: Option<bool>), r#"{"type":"boolean"}"#),
        (schema_of!(x: Option<Json>), "{}"),
        (schema_of!(x: u64 = 7), r#"{"type":"integer","minimum":0,"default":7}"#),
        (schema_of!(x: f64 = 0.5), r#"{"type":"number","default":0.5}"#),
        (
            schema_of!(x: Vec<u8> [items ..=4] = [1, 2]),
            r#"{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"maxItems":4,"default":[1,2]}"#,
        ),
        (
            schema_of!(x: Vec<u64> = Vec::new()),
            r#"{"type":"array","items":{"type":"integer","minimum":0},"default":[]}"#,
        ),
        (
            schema_of!(x: Place = Place { room: "lab".into(), height: 1.0 }),
            &format!(
                "{},\"default\":{{\"room\":\"lab\",\"height\":1.0}}}}",
                record::schema::<Place>().as_str().strip_suffix('}').unwrap()
            ),
        ),
        (schema_of!(#[doc = "By hand"] x: Json = Json::NULL), r#"{"description":"By hand","default":null}"#),
    ] {
        assert_eq!(schema, wrap(field, r#","required":[]"#));
    }
}

#[test]
fn default_out_of_bounds_is_a_flaw_and_its_tool_is_rejected() {
    record! { struct Wrong { #[allow(dead_code)] pin: u8 [..=27] = 28 } }
    record! { struct Around { #[allow(dead_code)] inner: Vec<Wrong> } }
    let message =
        "the default of `pin` violates its own bounds: expected an integer from 0 to 27, got 28 (maximum)";
    assert_eq!(record::definition_error::<Wrong>().as_deref(), Some(message));
    assert_eq!(record::definition_error::<Around>().as_deref(), Some(message));
    assert_eq!(record::definition_error::<Switch>(), None);
    let mut server = tinymcp::Server::new("test", "1");
    let refused = server.tool(tinymcp::Tool::new("wrong"), |_, _: Wrong| Ok(())).err().unwrap();
    assert_eq!(refused.kind(), tinymcp::ErrorKind::Invalid);
    assert!(refused.to_string().contains(message), "{refused}");
}

#[test]
fn record_without_required_members_has_an_empty_list() {
    record! { struct Free { #[allow(dead_code)] note: Option<bool> } }
    let expected = concat!(
        r#"{"type":"object","properties":{"note":{"type":"boolean"}},"#,
        r#""required":[],"additionalProperties":false}"#
    );
    assert_eq!(record::schema::<Free>().as_str(), expected);
}
