//! Conversions between JSON and `serde_json::Value`.

use serde_json::{Value, json};
use tinymcp::json::{Json, ToJson};

#[test]
fn trees_are_converted_both_ways() {
    let text = r#"{"a":[1,-2,0.5,true,null,"\u0001é\""],"b":{},"c":[],"d":[{"e":[[18446744073709551615]]}]}"#;
    let tree: Value = serde_json::from_str(text).unwrap();
    let json = Json::parse(text).unwrap();
    assert_eq!(Value::try_from(&json).unwrap(), tree);
    assert_eq!(Value::try_from(json.to_doc().root()).unwrap(), tree);
    assert_eq!(Json::from(&tree).as_str(), text);
    assert_eq!(Json::from(json!([])).as_str(), "[]");
    assert_eq!(tinymcp::json!({"tree": tree, "n": 1}).as_str(), format!("{{\"tree\":{text},\"n\":1}}"));
}

#[test]
fn a_tree_of_any_depth_is_written_without_recursion() {
    let mut tree = json!(1);
    for _ in 0..10_000 {
        tree = Value::Array(vec![tree]);
    }
    let json = tree.to_json();
    assert_eq!(json.as_str().len(), 20_001);
    assert_eq!(Value::try_from(&json).unwrap_err().message, "nested deeper than 128 levels");
    // serde_json frees a tree by recursion.
    while let Value::Array(mut items) = tree {
        tree = items.pop().unwrap_or_default();
    }
}
