//! Numbers at the ends of their types.

use serde::Deserialize;
use tinymcp::json::Doc;

use super::{agrees, read};

#[test]
fn integers_are_exact_up_to_the_ends_of_their_types() {
    agrees::<i64>("-9223372036854775808");
    agrees::<i64>("9223372036854775807");
    agrees::<u64>("18446744073709551615");
    agrees::<i128>("-170141183460469231731687303715884105728");
    agrees::<i128>("170141183460469231731687303715884105727");
    agrees::<u128>("340282366920938463463374607431768211455");
    agrees::<(u8, i8, u16, i16, u32, i32)>("[255,-128,65535,-32768,4294967295,-2147483648]");
    for (message, expected) in [
        (read::<i64>("9223372036854775808"), "got 9223372036854775808 (maximum)"),
        (read::<i64>("-9223372036854775809"), "got -9223372036854775809 (minimum)"),
        (read::<u64>("18446744073709551616"), "got 18446744073709551616 (maximum)"),
        (read::<u64>("-1"), "got -1 (minimum)"),
        (read::<u128>("-1"), "got -1 (minimum)"),
        (read::<i128>("1.5"), "got 1.5 (type)"),
    ] {
        assert!(message.starts_with("expected an integer") && message.ends_with(expected), "{message}");
    }
}

#[test]
fn integers_may_have_any_notation() {
    // JSON Schema calls these integers, so a published schema accepts them.
    assert_eq!(read::<(u8, i64, u128)>("[1.0,1e2,-0]"), "(1, 100, 0)");
}

#[test]
fn floats_are_rounded_correctly() {
    for text in ["0.1", "-0.0", "5e-324", "1.7976931348623157e308", "3", "123456789012345678901234567890"] {
        agrees::<f64>(text);
    }
    agrees::<f32>("0.1");
    assert_eq!(
        read::<f64>("1e400"),
        "expected a number from -1.7976931348623157e308 to 1.7976931348623157e308, got 1e400 (maximum)"
    );
}

#[test]
fn values_of_any_kind_keep_integers_apart_from_floats() {
    #[derive(Deserialize, Debug)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Any {
        Signed(i64),
        Unsigned(u64),
        Float(f64),
    }
    assert_eq!(read::<Any>("-1"), "Signed(-1)");
    assert_eq!(read::<Any>("18446744073709551615"), "Unsigned(18446744073709551615)");
    assert_eq!(read::<Any>("1.0"), "Float(1.0)");
}

#[test]
#[cfg(feature = "serde_json")]
fn numbers_beyond_64_bits_keep_their_text() {
    #[derive(Deserialize, serde::Serialize)]
    struct Reading {
        count: serde_json::Number,
        any: serde_json::Value,
    }
    // The tests turn on `arbitrary_precision`.
    let text = r#"{"count":123456789012345678901234567890,"any":[1e400,-98765432109876543210]}"#;
    let doc = Doc::parse(text).unwrap();
    let reading: Reading = tinymcp::serde::from_value(doc.root()).unwrap();
    assert_eq!(reading.count.to_string(), "123456789012345678901234567890");
    assert_eq!(tinymcp::serde::to_json(&reading).unwrap().as_str(), text.replace("1e400", "1e+400"));
}
