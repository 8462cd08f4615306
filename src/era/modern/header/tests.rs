//! Tests of mirrored headers, with tables.

#![allow(clippy::unwrap_used)]

use super::header_params::{MAX_MIRRORED, mirrors, params};
use super::{decode, encode, name_member};
use crate::json::Doc;

#[test]
fn values_are_restored_from_plain_and_encoded_headers() {
    let table = [
        ("", ""),
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        // A tab anywhere is a control character.
        ("a\tb", "=?base64?YQli?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("\0", "=?base64?AA==?="),
        // A value that looks encoded must be encoded.
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?", "=?base64?"),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("SGVsbG8=", "SGVsbG8="),
    ];
    for (value, header) in table {
        assert_eq!(encode(value), header, "{value:?}");
        assert_eq!(decode(header.as_bytes()).as_deref(), Some(value), "{header:?}");
        assert_eq!(decode(format!(" \t{header}\t ").as_bytes()).as_deref(), Some(value), "{header:?}");
    }
}

#[test]
fn malformed_values_are_rejected_and_similar_ones_are_literal() {
    for bad in [
        &b"=?base64?SGVsbG8?="[..],
        b"=?base64?SGVsbG8==?=",
        b"=?base64?SGVs bG8=?=",
        b"=?base64?SGVs!!!bG8=?=",
        b"=?base64?SGVsbG9=?=",
        b"=?base64?_-8=?=",
        b"=?base64?/w==?=",
        b"caf\xC3\xA9",
        b"\xFF",
        b"a\x01b",
        b"a\nb",
    ] {
        assert_eq!(decode(bad), None, "{}", String::from_utf8_lossy(bad));
    }
    for literal in
        ["=?base64?=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?Base64?SGVsbG8=?=", "x=?base64?SGVsbG8=?="]
    {
        assert_eq!(decode(literal.as_bytes()).as_deref(), Some(literal));
    }
    assert_eq!(decode(b"=?base64??=").as_deref(), Some(""));
}

#[test]
fn methods_with_a_target_have_a_name_member() {
    let table = [
        ("tools/call", Some("name")),
        ("prompts/get", Some("name")),
        ("resources/read", Some("uri")),
        ("tasks/cancel", Some("taskId")),
        ("tools/list", None),
        ("TOOLS/CALL", None),
    ];
    for (method, member) in table {
        assert_eq!(name_member(method), member, "{method}");
    }
}

/// Returns the headers that an input schema declares, with their paths; or the error.
fn found(schema: &str) -> Result<Vec<String>, String> {
    let doc = Doc::parse(schema).unwrap();
    let mirrors = mirrors(doc.root()).map_err(|bad| bad.reason.to_owned())?;
    Ok(mirrors.iter().map(|m| format!("{}={}", m.header, m.path.join("/"))).collect())
}

#[test]
fn valid_annotations_are_found_in_order() {
    let table: &[(&str, &[&str])] = &[
        (r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, &[]),
        (
            r#"{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "n":{"type":"integer","x-mcp-header":"N-1"},
                "b":{"type":"boolean","x-mcp-header":"b.!#$%&'*+^_`|~"}}}"#,
            &["Mcp-Param-Region=region", "Mcp-Param-N-1=n", "Mcp-Param-b.!#$%&'*+^_`|~=b"],
        ),
        (
            r#"{"properties":{"where":{"type":"object","properties":{
                "zone":{"type":"string","x-mcp-header":"Zone"}}}}}"#,
            &["Mcp-Param-Zone=where/zone"],
        ),
        // Names of properties and data may look like keywords.
        (r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#, &[]),
        (
            r#"{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}"#,
            &["Mcp-Param-P=properties"],
        ),
        (r#"{"properties":{"a":{"enum":[{"x-mcp-header":"A"}],"default":{"x-mcp-header":"A"}}}}"#, &[]),
        (r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#, &[]),
        (r#"{"properties":{"a":{"type":"string","x-mcp-head\u0065r":"A"}}}"#, &["Mcp-Param-A=a"]),
        (r#"true"#, &[]),
    ];
    for (schema, headers) in table {
        assert_eq!(found(schema), Ok(headers.iter().map(|h| (*h).to_owned()).collect()), "{schema}");
    }
}

#[test]
fn bad_annotations_make_the_tool_invalid() {
    let string = r#"{"type":"string","x-mcp-header":"A"}"#;
    let property = |schema: &str| format!(r#"{{"properties":{{"p":{schema}}}}}"#);
    let token = "must be a token of RFC 9110, as part of a header name";
    let kinds = "only strings, integers and booleans may have it";
    let place = "only properties reached through `properties` may have it";
    let mut table = vec![
        (property(r#"{"type":"string","x-mcp-header":""}"#), token),
        (property(r#"{"type":"string","x-mcp-header":"My Region"}"#), token),
        (property(r#"{"type":"string","x-mcp-header":"Region:"}"#), token),
        (property(r#"{"type":"string","x-mcp-header":"Région"}"#), token),
        (property(r#"{"type":"string","x-mcp-header":"A\r\nX: y"}"#), token),
        (property(r#"{"type":"string","x-mcp-header":7}"#), "not a string"),
        (property(r#"{"type":"string","x-mcp-header":null}"#), "not a string"),
        (property(r#"{"type":"number","x-mcp-header":"A"}"#), kinds),
        (property(r#"{"type":"object","x-mcp-header":"A"}"#), kinds),
        (property(r#"{"type":"array","x-mcp-header":"A"}"#), kinds),
        (property(r#"{"type":"null","x-mcp-header":"A"}"#), kinds),
        (property(r#"{"type":["string","null"],"x-mcp-header":"A"}"#), kinds),
        (property(r#"{"x-mcp-header":"A"}"#), kinds),
        (r#"{"type":"string","x-mcp-header":"A"}"#.into(), "the root of the input schema must not have it"),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"Re"},
                "b":{"type":"object","properties":{"c":{"type":"string","x-mcp-header":"rE"}}}}}"#
                .into(),
            "used twice",
        ),
    ];
    for keyword in ["items", "additionalProperties", "not", "if", "then", "else", "contains", "x-own"] {
        table.push((format!(r#"{{"{keyword}":{string}}}"#), place));
        table.push((property(&format!(r#"{{"{keyword}":{string}}}"#)), place));
        table.push((format!(r#"{{"{keyword}":{{"properties":{{"a":{string}}}}}}}"#), place));
    }
    for keyword in ["oneOf", "anyOf", "allOf", "prefixItems", "items"] {
        table.push((format!(r#"{{"{keyword}":[true,{string}]}}"#), place));
        table.push((property(&format!(r#"{{"{keyword}":[{{"properties":{{"a":{string}}}}}]}}"#)), place));
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
        table.push((format!(r#"{{"{keyword}":{{"enum":{string}}}}}"#), place));
    }
    for (schema, reason) in table {
        assert_eq!(found(&schema), Err(reason.to_owned()), "{schema}");
    }
}

#[test]
fn a_schema_of_any_size_is_walked_without_recursion() {
    let deep = format!("{}{{}}{}", r#"{"properties":{"p":"#.repeat(60), "}}".repeat(60));
    assert_eq!(found(&deep.replace("{}", r#"{"type":"string","x-mcp-header":"A"}"#)).unwrap().len(), 1);
    let one = |i: usize| format!(r#""p{i}":{{"type":"string","x-mcp-header":"H{i}"}}"#);
    let many =
        |n: usize| format!(r#"{{"properties":{{{}}}}}"#, (0..n).map(one).collect::<Vec<_>>().join(","));
    assert_eq!(found(&many(MAX_MIRRORED)).unwrap().len(), MAX_MIRRORED);
    assert_eq!(found(&many(MAX_MIRRORED + 1)), Err("the tool has more than 64 annotations".to_owned()));
}

#[test]
fn arguments_become_headers_and_are_checked_against_them() {
    let schema = r#"{"properties":{
        "s":{"type":"string","x-mcp-header":"V"},
        "o":{"properties":{"s":{"type":"string","x-mcp-header":"O"}}}}}"#;
    let doc = Doc::parse(schema).unwrap();
    let mirrors = mirrors(doc.root()).unwrap();
    // Argument, the header a client sends, headers that agree, headers that do not.
    type Row = (&'static str, Option<&'static str>, &'static [&'static str], &'static [&'static str]);
    let table: &[Row] = &[
        (
            r#""a""#,
            Some("a"),
            &["a", " a\t", "=?base64?YQ==?="],
            &["A", "", "=?base64?YQ=?=", "=?BASE64?YQ==?="],
        ),
        (r#""""#, Some(""), &["", "  ", "=?base64??="], &["a"]),
        (r#""42""#, Some("42"), &["42"], &["42.0"]),
        ("42", Some("42"), &["42", "42.0", "4.2e1", "042"], &["43", "+42", "", "0x2a", "forty-two", "inf"]),
        ("42.0", Some("42"), &["42", "42.0"], &["42.5"]),
        ("-7", Some("-7"), &["-7"], &["7", "--7", "-"]),
        ("-0", Some("0"), &["0", "-0"], &["1"]),
        ("1.5", Some("1.5"), &["1.5"], &["1", "NaN"]),
        ("9007199254740993", Some("9007199254740993"), &["9007199254740993"], &["9007199254740992"]),
        ("1e400", Some("1e400"), &[], &["1e400", "inf", "5"]),
        ("true", Some("true"), &["true"], &["True", "1", "false"]),
        ("false", Some("false"), &["false"], &[""]),
        ("null", None, &[], &["null", ""]),
        (r#"["a"]"#, None, &[], &["a"]),
    ];
    for (value, sent, good, bad) in table {
        let doc = Doc::parse(format!(r#"{{"s":{value},"o":{{"s":{value}}}}}"#)).unwrap();
        let arguments = Some(doc.root());
        for mirror in &mirrors {
            assert_eq!(mirror.text(arguments).as_deref(), *sent, "{value}");
            assert_eq!(mirror.check(None, arguments).is_ok(), sent.is_none(), "{value} without header");
            for header in *good {
                assert_eq!(mirror.check(Some(header.as_bytes()), arguments), Ok(()), "{value} {header:?}");
            }
            for header in *bad {
                assert!(mirror.check(Some(header.as_bytes()), arguments).is_err(), "{value} {header:?}");
            }
        }
    }
    for arguments in [None, Some("{}"), Some(r#"{"o":1}"#), Some(r#"{"o":null}"#)] {
        let doc = arguments.map(|a| Doc::parse(a).unwrap());
        let arguments = doc.as_ref().map(Doc::root);
        for mirror in &mirrors {
            assert_eq!(mirror.text(arguments), None);
            assert_eq!(mirror.check(None, arguments), Ok(()));
            assert!(mirror.check(Some(b"x"), arguments).is_err());
        }
    }
}

#[test]
fn a_call_carries_its_headers_encoded() {
    let schema = Doc::parse(
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"}}}"#,
    );
    let schema = schema.unwrap();
    let arguments = Doc::parse(r#"{"b":7,"a":" é"}"#).unwrap();
    let mut out = Vec::new();
    params(&mirrors(schema.root()).unwrap(), Some(arguments.root()), &mut out);
    let want = [("Mcp-Param-A", "=?base64?IMOp?="), ("Mcp-Param-B", "7")];
    assert_eq!(out, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
}
