//! The metaschemas of the dialects, for schemas that refer to them.
//!
//! Their assertions and their structure, without titles and comments. Schemas are not checked
//! with them when they are compiled; the survey does that by hand. What they repeat is written as
//! one mark, because they would be a tenth of the validator otherwise.
//!
//! Invariant: each text is JSON and a schema (tested).

/// The text of the metaschema with this URI.
pub(super) fn text(uri: &str) -> Option<String> {
    let name = uri.strip_prefix(DRAFT_2020_12).unwrap_or(uri);
    let (_, short) =
        TEXTS.iter().find(|(known, _)| *known == name && (name != uri) != known.contains(':'))?;
    let mut text = String::with_capacity(4096);
    for c in short.chars() {
        match MARKS.iter().find(|(mark, _)| *mark == c) {
            Some((_, meaning)) => text.push_str(meaning),
            None => text.push(c),
        }
    }
    Some(text)
}

/// What the URIs of draft 2020-12 begin with; their names in the list below are the rest.
const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/";

/// What the marks in the texts stand for. No text holds one of them as itself.
const MARKS: &[(char, &str)] = &[
    (
        '~',
        r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://json-schema.org/draft/2020-12/"##,
    ),
    ('!', r##"","$dynamicAnchor":"meta","type":["object","boolean"],"properties":{"##),
    ('@', r##"{"$dynamicRef":"#meta"}"##),
    ('%', r##"{"$ref":"#/$defs/"##),
    (';', r##"{"$ref":"#/definitions/"##),
    ('(', r##"{"$ref":"#"}"##),
    ('<', r##"{"type":"object","additionalProperties":"##),
    ('>', r##"{"type":"array","items":"##),
    ('=', r##"{"type":"boolean"}"##),
    ('&', r##"{"type":"string"}"##),
    ('+', r##"{"type":"number""##),
    ('`', r##"nonNegativeInteger"##),
    (')', r##"{"enum":["array","boolean","integer","null","number","object","string"]}"##),
    ('\'', r##""uniqueItems":true}"##),
    ('|', r##"Properties""##),
];

const TEXTS: &[(&str, &str)] = &[
    (
        "schema",
        r##"~schema","$dynamicAnchor":"meta","allOf":[{"$ref":"meta/core"},{"$ref":"meta/applicator"},{"$ref":"meta/unevaluated"},{"$ref":"meta/validation"},{"$ref":"meta/meta-data"},{"$ref":"meta/format-annotation"},{"$ref":"meta/content"}],"type":["object","boolean"],"properties":{"definitions":<@},"dependencies":<{"anyOf":[@,{"$ref":"meta/validation#/$defs/stringArray"}]}},"$recursiveAnchor":{"$ref":"meta/core#/$defs/anchorString"},"$recursiveRef":{"$ref":"meta/core#/$defs/uriReferenceString"}}}"##,
    ),
    (
        "meta/applicator",
        r##"~meta/applicator!"prefixItems":%schemaArray"},"items":@,"contains":@,"additional|:@,"properties":<@},"pattern|:<@,"propertyNames":{}},"dependentSchemas":<@},"propertyNames":@,"if":@,"then":@,"else":@,"allOf":%schemaArray"},"anyOf":%schemaArray"},"oneOf":%schemaArray"},"not":@},"$defs":{"schemaArray":{"type":"array","minItems":1,"items":@}}}"##,
    ),
    ("meta/content", r##"~meta/content!"contentEncoding":&,"contentMediaType":&,"contentSchema":@}}"##),
    (
        "meta/core",
        r##"~meta/core!"$id":%uriReferenceString","pattern":"^[^#]*#?$"},"$schema":%uriString"},"$ref":%uriReferenceString"},"$anchor":%anchorString"},"$dynamicRef":%uriReferenceString"},"$dynamicAnchor":%anchorString"},"$vocabulary":{"type":"object","propertyNames":%uriString"},"additional|:=},"$comment":&,"$defs":<@}},"$defs":{"anchorString":{"type":"string","pattern":"^[A-Za-z_][-A-Za-z0-9._]*$"},"uriString":&,"uriReferenceString":&}}"##,
    ),
    ("meta/format-annotation", r##"~meta/format-annotation!"format":&}}"##),
    ("meta/format-assertion", r##"~meta/format-assertion!"format":&}}"##),
    (
        "meta/meta-data",
        r##"~meta/meta-data!"title":&,"description":&,"default":true,"deprecated":=,"readOnly":=,"writeOnly":=,"examples":>true}}}"##,
    ),
    ("meta/unevaluated", r##"~meta/unevaluated!"unevaluatedItems":@,"unevaluated|:@}}"##),
    (
        "meta/validation",
        r##"~meta/validation!"type":{"anyOf":[%simpleTypes"},>%simpleTypes"},"minItems":1,']},"const":true,"enum":>true},"multipleOf":+,"exclusiveMinimum":0},"maximum":+},"exclusiveMaximum":+},"minimum":+},"exclusiveMinimum":+},"maxLength":%`"},"minLength":%`Default0"},"pattern":&,"maxItems":%`"},"minItems":%`Default0"},"uniqueItems":=,"maxContains":%`"},"minContains":%`"},"max|:%`"},"min|:%`Default0"},"required":%stringArray"},"dependentRequired":<%stringArray"}}},"$defs":{"`":{"type":"integer","minimum":0},"`Default0":%`"},"simpleTypes":),"stringArray":>&,'}}"##,
    ),
    (
        "http://json-schema.org/draft-07/schema",
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","$id":"http://json-schema.org/draft-07/schema#","definitions":{"schemaArray":{"type":"array","minItems":1,"items":(},"`":{"type":"integer","minimum":0},"`Default0":{"allOf":[;`"},{}]},"simpleTypes":),"stringArray":>&,'},"type":["object","boolean"],"properties":{"$id":&,"$schema":&,"$ref":&,"$comment":&,"title":&,"description":&,"default":true,"readOnly":=,"examples":>true},"multipleOf":+,"exclusiveMinimum":0},"maximum":+},"exclusiveMaximum":+},"minimum":+},"exclusiveMinimum":+},"maxLength":;`"},"minLength":;`Default0"},"pattern":&,"additionalItems":(,"items":{"anyOf":[(,;schemaArray"}]},"maxItems":;`"},"minItems":;`Default0"},"uniqueItems":=,"contains":(,"max|:;`"},"min|:;`Default0"},"required":;stringArray"},"additional|:(,"definitions":<(},"properties":<(},"pattern|:<(,"propertyNames":{}},"dependencies":<{"anyOf":[(,;stringArray"}]}},"propertyNames":(,"const":true,"enum":>true},"type":{"anyOf":[;simpleTypes"},>;simpleTypes"},"minItems":1,']},"format":&,"contentMediaType":&,"contentEncoding":&,"if":(,"then":(,"else":(,"allOf":;schemaArray"},"anyOf":;schemaArray"},"oneOf":;schemaArray"},"not":(}}"##,
    ),
];
