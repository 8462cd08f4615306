//! Table of the keywords of JSON Schema: names, value shapes, vocabularies and dialects.
//!
//! The compiler and the validator implement the keywords.
//!
//! Invariant: a keyword that is not in the table, or not in the current dialect, is an annotation.

use super::Dialect;

/// Shape of the value of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any value.
    Any,
    /// A string.
    Text,
    /// `true` or `false`.
    Bool,
    /// A non-negative integer in any notation.
    Count,
    /// A number.
    Number,
    /// A positive number.
    Positive,
    /// A type name, or an array of distinct ones.
    Types,
    /// An array of any values.
    Array,
    /// An array of distinct strings.
    Names,
    /// An object of arrays of distinct strings.
    NamesMap,
    /// A schema.
    Schema,
    /// An array with at least one schema.
    Schemas,
    /// An object of schemas.
    SchemaMap,
    /// A schema or, in draft-07, an array of schemas.
    Items,
    /// An object of schemas and arrays of distinct strings.
    Dependencies,
    /// An anchor name: a letter or `_`, then letters, digits, `-`, `_`, `.`.
    Anchor,
    /// An object of booleans.
    Vocabulary,
}

/// The vocabularies of draft 2020-12, as bits.
pub(super) mod vocabulary {
    pub(in crate::schema) const CORE: u8 = 1;
    pub(in crate::schema) const APPLICATOR: u8 = 2;
    pub(in crate::schema) const UNEVALUATED: u8 = 4;
    pub(in crate::schema) const VALIDATION: u8 = 8;
    pub(in crate::schema) const FORMAT: u8 = 16;
    pub(in crate::schema) const CONTENT: u8 = 32;
    pub(in crate::schema) const META: u8 = 64;
    pub(in crate::schema) const ALL: u8 = 127;
}
use vocabulary::{APPLICATOR, CONTENT, CORE, FORMAT, META, UNEVALUATED, VALIDATION};

/// The dialects of a keyword, as bits.
const D7: u8 = 1;
const D19: u8 = 2;
const D20: u8 = 4;
const NEW: u8 = D19 | D20;
const ALL: u8 = D7 | D19 | D20;

macro_rules! keywords {
    ($($name:ident $text:literal $shape:ident $vocabulary:ident $dialects:ident,)*) => {
        /// A keyword of any dialect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Keyword { $($name),* }

        /// Number of keywords.
        pub(super) const KEYWORDS: usize = [$($text),*].len();

        const TABLE: [(Shape, u8, u8); KEYWORDS] = [$((Shape::$shape, $vocabulary, $dialects)),*];

        /// Names of the keywords.
        pub(crate) const NAMES: [&str; KEYWORDS] = [$($text),*];

        impl Keyword {
            /// All keywords, by name.
            const SORTED: [Keyword; KEYWORDS] = by_name([$(Keyword::$name),*]);
        }
    };
}

keywords! {
    Id "$id" Text CORE ALL,
    SchemaUri "$schema" Text CORE ALL,
    Ref "$ref" Text CORE ALL,
    Anchor "$anchor" Anchor CORE NEW,
    DynamicRef "$dynamicRef" Text CORE D20,
    DynamicAnchor "$dynamicAnchor" Anchor CORE D20,
    RecursiveRef "$recursiveRef" Text CORE D19,
    RecursiveAnchor "$recursiveAnchor" Bool CORE D19,
    Vocabulary "$vocabulary" Vocabulary CORE NEW,
    Comment "$comment" Text CORE ALL,
    Defs "$defs" SchemaMap CORE ALL,
    Definitions "definitions" SchemaMap CORE ALL,
    PrefixItems "prefixItems" Schemas APPLICATOR D20,
    Items "items" Items APPLICATOR ALL,
    AdditionalItems "additionalItems" Schema APPLICATOR ALL,
    Contains "contains" Schema APPLICATOR ALL,
    Properties "properties" SchemaMap APPLICATOR ALL,
    PatternProperties "patternProperties" SchemaMap APPLICATOR ALL,
    AdditionalProperties "additionalProperties" Schema APPLICATOR ALL,
    PropertyNames "propertyNames" Schema APPLICATOR ALL,
    DependentSchemas "dependentSchemas" SchemaMap APPLICATOR NEW,
    Dependencies "dependencies" Dependencies APPLICATOR ALL,
    If "if" Schema APPLICATOR ALL,
    Then "then" Schema APPLICATOR ALL,
    Else "else" Schema APPLICATOR ALL,
    AllOf "allOf" Schemas APPLICATOR ALL,
    AnyOf "anyOf" Schemas APPLICATOR ALL,
    OneOf "oneOf" Schemas APPLICATOR ALL,
    Not "not" Schema APPLICATOR ALL,
    UnevaluatedItems "unevaluatedItems" Schema UNEVALUATED NEW,
    UnevaluatedProperties "unevaluatedProperties" Schema UNEVALUATED NEW,
    Type "type" Types VALIDATION ALL,
    Const "const" Any VALIDATION ALL,
    Enum "enum" Array VALIDATION ALL,
    MultipleOf "multipleOf" Positive VALIDATION ALL,
    Maximum "maximum" Number VALIDATION ALL,
    ExclusiveMaximum "exclusiveMaximum" Number VALIDATION ALL,
    Minimum "minimum" Number VALIDATION ALL,
    ExclusiveMinimum "exclusiveMinimum" Number VALIDATION ALL,
    MaxLength "maxLength" Count VALIDATION ALL,
    MinLength "minLength" Count VALIDATION ALL,
    Pattern "pattern" Text VALIDATION ALL,
    MaxItems "maxItems" Count VALIDATION ALL,
    MinItems "minItems" Count VALIDATION ALL,
    UniqueItems "uniqueItems" Bool VALIDATION ALL,
    MaxContains "maxContains" Count VALIDATION NEW,
    MinContains "minContains" Count VALIDATION NEW,
    MaxProperties "maxProperties" Count VALIDATION ALL,
    MinProperties "minProperties" Count VALIDATION ALL,
    Required "required" Names VALIDATION ALL,
    DependentRequired "dependentRequired" NamesMap VALIDATION NEW,
    Format "format" Text FORMAT ALL,
    ContentEncoding "contentEncoding" Text CONTENT ALL,
    ContentMediaType "contentMediaType" Text CONTENT ALL,
    ContentSchema "contentSchema" Schema CONTENT NEW,
    Title "title" Text META ALL,
    Description "description" Text META ALL,
    Deprecated "deprecated" Bool META NEW,
    ReadOnly "readOnly" Bool META ALL,
    WriteOnly "writeOnly" Bool META ALL,
    Examples "examples" Array META ALL,
}

const fn by_name(mut list: [Keyword; KEYWORDS]) -> [Keyword; KEYWORDS] {
    let mut sorted = 1;
    while sorted < KEYWORDS {
        let mut at = sorted;
        while at > 0 && is_before(list[at].name(), list[at - 1].name()) {
            let next = list[at];
            list[at] = list[at - 1];
            list[at - 1] = next;
            at -= 1;
        }
        sorted += 1;
    }
    list
}

/// The order of `str`, as a constant function.
const fn is_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i < b.len() && (i == a.len() || a[i] < b[i])
}

impl Keyword {
    pub(crate) const fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The keyword with this name in any dialect. A binary search, because a chain of comparisons
    /// would be two kilobytes of code.
    #[inline(never)]
    pub(crate) fn named(name: &str) -> Option<Keyword> {
        let at = Keyword::SORTED.binary_search_by(|keyword| keyword.name().cmp(name)).ok()?;
        Keyword::SORTED.get(at).copied()
    }

    /// The keyword with this name, if it is part of the dialect and the vocabularies.
    pub(super) fn find(name: &str, rules: Rules) -> Option<Keyword> {
        let keyword = Keyword::named(name)?;
        let (_, vocabulary, dialects) = keyword.row();
        (vocabulary & rules.vocabularies != 0 && dialects & rules.bit() != 0).then_some(keyword)
    }

    pub(crate) fn shape(self) -> Shape {
        self.row().0
    }

    fn row(self) -> (Shape, u8, u8) {
        // OK because the table has a row for every variant.
        TABLE.get(self as usize).copied().unwrap_or((Shape::Any, 0, 0))
    }
}

/// The dialect and the vocabularies of a schema resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) dialect: Dialect,
    pub(super) vocabularies: u8,
    /// True if the metaschema turns format assertion on.
    pub(super) format_assertion: bool,
}

impl Rules {
    pub(super) fn of(dialect: Dialect) -> Rules {
        Rules { dialect, vocabularies: vocabulary::ALL, format_assertion: false }
    }

    fn bit(self) -> u8 {
        match self.dialect {
            Dialect::Draft07 => D7,
            Dialect::Draft201909 => D19,
            Dialect::Draft202012 => D20,
        }
    }

    /// Returns `true` if keywords beside `$ref` are ignored.
    pub(super) fn ref_stands_alone(self) -> bool {
        self.dialect == Dialect::Draft07
    }

    /// The dialect of a `$schema` URI, without other documents.
    pub(super) fn named(uri: &str) -> Option<Rules> {
        let uri = uri.strip_suffix('#').unwrap_or(uri);
        let place = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        let place = place.strip_prefix("json-schema.org/")?;
        Some(Rules::of(match place {
            "draft-07/schema" => Dialect::Draft07,
            "draft/2019-09/schema" => Dialect::Draft201909,
            "draft/2020-12/schema" => Dialect::Draft202012,
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_by_its_name() {
        for name in NAMES {
            let found = [Dialect::Draft07, Dialect::Draft201909, Dialect::Draft202012]
                .into_iter()
                .filter(|d| Keyword::find(name, Rules::of(*d)).is_some())
                .count();
            assert!(found > 0, "{name}");
        }
        assert_eq!(Keyword::find("prefixItems", Rules::of(Dialect::Draft07)), None);
        assert_eq!(Keyword::find("propertees", Rules::of(Dialect::Draft202012)), None);
    }
}
