//! The metaschemas of the dialects, for schemas that refer to them.
//!
//! The texts are generated on demand from the keyword table: assertions and structure, without
//! titles and comments. The compiler does not use them; `resources.rs` checks schemas with the same
//! table.
//!
//! Invariant: each text is valid JSON and a valid schema; a test checks it.

use super::keyword::{Keyword, Rules, Shape, vocabulary};
use super::{Dialect, keyword};

/// Prefix of the URIs of draft 2020-12, and the URI of draft-07.
const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/";
const DRAFT_07: &str = "http://json-schema.org/draft-07/schema";

/// The documents of draft 2020-12, with their vocabularies.
const DOCUMENTS: [(&str, u8); 9] = [
    ("schema", 0),
    ("meta/core", vocabulary::CORE),
    ("meta/applicator", vocabulary::APPLICATOR),
    ("meta/unevaluated", vocabulary::UNEVALUATED),
    ("meta/validation", vocabulary::VALIDATION),
    ("meta/meta-data", vocabulary::META),
    ("meta/format-annotation", vocabulary::FORMAT),
    ("meta/content", vocabulary::CONTENT),
    // Keywords of the document `schema` alone.
    ("meta/format-assertion", vocabulary::FORMAT),
];
const TAKEN_TOGETHER: usize = 8;

/// Target of the references of all documents.
const DEFINITIONS: &str = r##""schemaArray":{"type":"array","minItems":1,"items":@},"nonNegativeInteger":{"type":"integer","minimum":0},"nonNegativeIntegerDefault0":%nonNegativeInteger"},"simpleTypes":{"enum":["array","boolean","integer","null","number","object","string"]},"stringArray":{"type":"array","items":&,"uniqueItems":true},"anchorString":{"type":"string","pattern":"^[A-Za-z_][-A-Za-z0-9._]*$"},"uriString":&,"uriReferenceString":&}}"##;

/// Keywords of earlier drafts whose names draft 2020-12 reserves.
const FORMER: &str = r##"definitions":<@},"dependencies":<{"anyOf":[@,{"$ref":"meta/validation#/$defs/stringArray"}]}},"$recursiveAnchor":{"$ref":"meta/core#/$defs/anchorString"},"$recursiveRef":{"$ref":"meta/core#/$defs/uriReferenceString"}"##;

/// The metaschema with this URI.
#[cold]
#[inline(never)]
pub(super) fn text(uri: &str) -> Option<String> {
    let (dialect, described) = if uri == DRAFT_07 {
        (Dialect::Draft07, vocabulary::ALL)
    } else {
        let name = uri.strip_prefix(DRAFT_2020_12)?;
        (Dialect::Draft202012, DOCUMENTS.iter().find(|(known, _)| *known == name)?.1)
    };
    let old = dialect == Dialect::Draft07;
    let mut out = Text { text: String::with_capacity(4096), old };
    out.add(r#"{"$schema":""#);
    out.add(if old {
        "http://json-schema.org/draft-07/schema#"
    } else {
        "https://json-schema.org/draft/2020-12/schema"
    });
    out.add(r#"","$id":""#);
    out.add(uri);
    out.add(if old { r##"#",""## } else { r#"","$dynamicAnchor":"meta",""# });
    if described == 0 {
        let mut before = r#"allOf":[{"$ref":""#;
        for (name, _) in DOCUMENTS.iter().take(TAKEN_TOGETHER).skip(1) {
            out.add(before);
            out.add(name);
            before = r#""},{"$ref":""#;
        }
        out.add(r#""}],""#);
    }
    out.add(r#"type":["object","boolean"],"properties":{""#);
    let mut before = "";
    let rules = Rules { vocabularies: described, ..Rules::of(dialect) };
    for name in keyword::NAMES {
        let Some(keyword) = Keyword::find(name, rules).filter(|keyword| !is_foreign(*keyword, old)) else {
            continue;
        };
        out.add(before);
        out.add(name);
        out.add(r#"":"#);
        match keyword {
            Keyword::Id if !old => out.add(r#"{"type":"string","pattern":"^[^#]*#?$"}"#),
            _ => out.shaped(shape_of(keyword.shape(), old)),
        }
        before = r#",""#;
    }
    if described == 0 {
        out.shaped(FORMER);
    }
    out.add(if old { r#"},"definitions":{"# } else { r#"},"$defs":{"# });
    out.shaped(DEFINITIONS);
    Some(out.text)
}

/// Returns `true` if a keyword belongs to a dialect although its metaschema does not list it.
fn is_foreign(keyword: Keyword, old: bool) -> bool {
    match keyword {
        Keyword::Defs => old,
        Keyword::Definitions | Keyword::Dependencies | Keyword::AdditionalItems => !old,
        _ => false,
    }
}

/// The schema of a keyword's value, with placeholders.
fn shape_of(shape: Shape, old: bool) -> &'static str {
    match shape {
        Shape::Any => "true",
        Shape::Text => "&",
        Shape::Bool => "=",
        Shape::Count => r#"%nonNegativeInteger"}"#,
        Shape::Number => r#"{"type":"number"}"#,
        Shape::Positive => r#"{"type":"number","exclusiveMinimum":0}"#,
        Shape::Types => {
            r#"{"anyOf":[%simpleTypes"},{"type":"array","items":%simpleTypes"},"minItems":1,"uniqueItems":true}]}"#
        }
        Shape::Array => r#"{"type":"array"}"#,
        Shape::Names => r#"%stringArray"}"#,
        Shape::NamesMap => r#"<%stringArray"}}"#,
        Shape::Items if old => r#"{"anyOf":[@,%schemaArray"}]}"#,
        Shape::Schema | Shape::Items => "@",
        Shape::Schemas => r#"%schemaArray"}"#,
        Shape::SchemaMap => "<@}",
        Shape::Dependencies => r#"<{"anyOf":[@,%stringArray"}]}}"#,
        Shape::Anchor => r#"%anchorString"}"#,
        Shape::Vocabulary => r#"{"type":"object","propertyNames":%uriString"},"additionalProperties":=}"#,
    }
}

/// A metaschema under construction.
struct Text {
    text: String,
    old: bool,
}

impl Text {
    fn add(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Appends a text and expands its placeholders. The placeholders do not occur in the texts
    /// themselves.
    #[cold]
    fn shaped(&mut self, marked: &str) {
        for piece in marked.split_inclusive(['@', '%', '<', '=', '&']) {
            let (plain, mark) = piece.split_at(piece.len().saturating_sub(1));
            self.add(plain);
            self.add(match (mark, self.old) {
                ("@", true) => r##"{"$ref":"#"}"##,
                ("@", false) => r##"{"$dynamicRef":"#meta"}"##,
                ("%", true) => r##"{"$ref":"#/definitions/"##,
                ("%", false) => r##"{"$ref":"#/$defs/"##,
                ("<", _) => r#"{"type":"object","additionalProperties":"#,
                ("=", _) => r#"{"type":"boolean"}"#,
                ("&", _) => r#"{"type":"string"}"#,
                _ => mark,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::Doc;
    use crate::schema::{Options, Schema};

    fn of(uri: &str) -> Doc {
        Doc::parse(text(uri).unwrap()).unwrap()
    }

    fn names(uri: &str) -> Vec<String> {
        let doc = of(uri);
        let mut names: Vec<_> =
            doc.root().get("properties").unwrap().members().map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn each_is_json_with_its_own_id() {
        for (name, _) in DOCUMENTS {
            let uri = format!("{DRAFT_2020_12}{name}");
            let doc = of(&uri);
            assert_eq!(doc.root().get("$id").unwrap().as_str(), Some(uri.as_str()));
            assert_eq!(doc.root().get("$dynamicAnchor").unwrap().as_str(), Some("meta"));
        }
        let doc = of(DRAFT_07);
        assert_eq!(doc.root().get("$id").unwrap().as_str(), Some("http://json-schema.org/draft-07/schema#"));
        assert_eq!(text("https://json-schema.org/draft/2020-12/meta/other"), None);
        assert_eq!(text("http://json-schema.org/draft-06/schema"), None);
    }

    #[test]
    fn each_describes_the_keywords_of_its_vocabulary() {
        let meta = |name: &str| names(&format!("{DRAFT_2020_12}meta/{name}"));
        assert_eq!(meta("unevaluated"), ["unevaluatedItems", "unevaluatedProperties"]);
        assert_eq!(meta("content"), ["contentEncoding", "contentMediaType", "contentSchema"]);
        assert_eq!(meta("format-annotation"), ["format"]);
        assert_eq!(
            meta("core"),
            [
                "$anchor",
                "$comment",
                "$defs",
                "$dynamicAnchor",
                "$dynamicRef",
                "$id",
                "$ref",
                "$schema",
                "$vocabulary"
            ]
        );
        assert_eq!(meta("applicator").len(), 15);
        assert_eq!(meta("validation").len(), 20);
        let old = names(DRAFT_07);
        assert!(old.iter().any(|name| name == "definitions") && !old.iter().any(|name| name == "$defs"));
        let new = names(&format!("{DRAFT_2020_12}schema"));
        assert_eq!(new, ["$recursiveAnchor", "$recursiveRef", "definitions", "dependencies"]);
    }

    #[test]
    #[cfg(feature = "pattern")]
    fn they_accept_what_the_compiler_accepts() {
        let new = Options::new().parse(&format!(r#"{{"$ref":"{DRAFT_2020_12}schema"}}"#)).unwrap();
        let old = Options::new().parse(&format!(r#"{{"$ref":"{DRAFT_07}#"}}"#)).unwrap();
        for (schema, in_new, in_old) in [
            ("true", true, true),
            ("5", false, false),
            (r#"{"type":"object","properties":{"a":{"minLength":2.0}}}"#, true, true),
            (r#"{"properties":{"a":{"minLength":-1}}}"#, false, false),
            (r#"{"items":[{}]}"#, false, true),
            (r#"{"items":[{"type":"nothing"}]}"#, false, false),
            (r#"{"type":["string","string"]}"#, false, false),
            (r#"{"$defs":5}"#, false, true),
            (r#"{"definitions":5}"#, false, false),
            (r#"{"dependencies":{"a":["b",1]}}"#, false, false),
            (r#"{"multipleOf":0}"#, false, false),
            (r##"{"$id":"a#b"}"##, false, true),
            (r#"{"$anchor":"1"}"#, false, true),
            (r#"{"$vocabulary":{"a:b":1}}"#, false, true),
            (r#"{"allOf":[]}"#, false, false),
            (r#"{"required":["a","a"]}"#, false, false),
            (r#"{"not":{"uniqueItems":1}}"#, false, false),
        ] {
            let doc = Doc::parse(schema).unwrap();
            assert_eq!((new.is_valid(doc.root()), old.is_valid(doc.root())), (in_new, in_old), "{schema}");
        }
        for uri in [format!("{DRAFT_2020_12}schema"), DRAFT_07.to_owned()] {
            assert!(Schema::compile(of(&uri).root()).is_ok(), "{uri}");
        }
    }
}
