//! Trace context of a request: `traceparent`, `tracestate` and `baggage` of its `_meta`.
//!
//! Sources: MCP 2026-07-28 basic/index (`_meta`, reserved names), W3C Trace Context, W3C Baggage.
//! Invalid values are dropped (requirement META-15), and `tracestate` without `traceparent` as
//! well.

use crate::json::{Kind, Value, Writer};
use crate::model::trace::TraceParent;

/// Returns the members to forward, as text without braces, byte for byte.
pub(super) fn members(meta: Value<'_>) -> String {
    let text = |name: &str| meta.get(name).filter(|v| v.kind() == Kind::String && is_field(v.as_str()));
    let parent = text("traceparent").filter(|v| v.as_str().and_then(TraceParent::parse).is_some());
    let state = text("tracestate").filter(|_| parent.is_some());
    let mut w = Writer::new();
    for (name, value) in [("traceparent", parent), ("tracestate", state), ("baggage", text("baggage"))] {
        if let Some(value) = value {
            w.key(name).value(value);
        }
    }
    // OK to default: only UTF-8 was written.
    String::from_utf8(w.into_bytes()).unwrap_or_default()
}

/// Returns whether the text is a valid value of an HTTP field.
fn is_field(text: Option<&str>) -> bool {
    text.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::json::Doc;

    fn passed(meta: &str) -> String {
        members(Doc::parse(meta).unwrap().root())
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_the_three_members_are_forwarded_byte_for_byte() {
        let members = format!(r#""traceparent":"{PARENT}","tracestate":"a=1,b\u0040c=2","baggage":"k=v""#);
        assert_eq!(passed(&format!(r#"{{"x":1,{members},"progressToken":3}}"#)), members);
        assert_eq!(passed(r#"{"x":1}"#), "");
        assert_eq!(passed(r#"{"baggage":"k=v"}"#), r#""baggage":"k=v""#);
    }

    #[test]
    fn invalid_values_are_dropped() {
        let all_zero = PARENT.replace("b7ad6b7169203331", "0000000000000000");
        let forms = [
            "",
            "00",
            &PARENT.to_uppercase(),
            &all_zero,
            &PARENT[..54],
            &format!("{PARENT}-00"),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replacen('0', "g", 1),
            &PARENT.replace('-', "_"),
        ];
        for form in forms {
            let meta = format!(r#"{{"traceparent":"{form}","tracestate":"a=1","baggage":"k=v"}}"#);
            assert_eq!(passed(&meta), r#""baggage":"k=v""#, "{form}");
        }
        // A later version may add fields.
        let later = format!("{}-more", PARENT.replacen("00", "cc", 1));
        assert!(passed(&format!(r#"{{"traceparent":"{later}"}}"#)).contains(&later));
        assert_eq!(passed(r#"{"traceparent":7,"baggage":"line\nend","tracestate":"a=1"}"#), "");
    }
}
