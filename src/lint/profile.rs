//! Limits of hosts for tool schemas, as data.
//!
//! One row for each host and mode, from the host's documentation and from bug reports of November
//! 2026. The rows drive the rules in `host_rules.rs` and the copies in `simplify/`.
//!
//! Invariant: a keyword is not both in `refused` and `ignored`.

/// Support for references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// Supported, with other keywords beside them.
    Keep,
    /// Supported without other keywords beside them.
    Alone,
    /// Supported unless they are recursive.
    Finite,
    /// Not supported.
    Inline,
}

/// A host, or one mode of a host.
///
/// ```
/// use tinymcp::lint::{PROFILES, Profile};
///
/// for host in PROFILES {
///     println!("{}: {}", host.id, host.summary);
/// }
/// assert!(Profile::find("vscode").is_some());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The id, such as `openai-strict`.
    pub id: &'static str,
    /// The name of the host.
    pub summary: &'static str,
    /// Keywords that make the host refuse the tool, and often the whole request; separated by
    /// spaces.
    pub(super) refused: &'static str,
    /// Keywords that the host deletes before the model reads the schema; separated by spaces.
    pub(super) ignored: &'static str,
    /// Refuses combinators at the root (`oneOf`, `anyOf`, `allOf`, `not`, `if`).
    pub(super) plain_root: bool,
    /// Refuses an object without `properties`.
    pub(super) needs_properties: bool,
    /// Refuses an array without `items`.
    pub(super) needs_items: bool,
    /// Refuses a schema without a type.
    pub(super) needs_type: bool,
    /// Objects must be closed.
    pub(super) closed: bool,
    /// All properties must be required; optional ones become nullable.
    pub(super) all_required: bool,
    /// `type` must be one string.
    pub(super) single_type: bool,
    /// An `enum` may only list strings.
    pub(super) string_enum: bool,
    /// `true` and `false` are accepted as schemas.
    pub(super) boolean_schemas: bool,
    pub(super) references: References,
    /// Allowed property names. `None`: any.
    pub(super) names: Option<Names>,
    /// Largest number of bytes of a tool name.
    pub(super) tool_name: usize,
    /// Number of characters after which a description is truncated.
    pub(super) description: usize,
    /// Largest number of properties in one schema.
    pub(super) properties: usize,
    /// Largest nesting of objects.
    pub(super) depth: usize,
    /// Largest number of optional properties of one tool.
    pub(super) optional: usize,
    /// Largest number of tools.
    pub(super) tools: usize,
    /// Refuses a tool whose output schema names draft-07 or older.
    pub(super) modern_output: bool,
}

/// Allowed property names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// 1 to 64 of letters, digits, `_`, `.`, `-`.
    Token,
    /// A letter or `_`, then letters, digits, `_`; at most 64.
    Identifier,
}

impl Names {
    pub(super) fn allow(self, name: &str) -> bool {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let charset = match self {
            Names::Token => name.bytes().all(|b| word(b) || matches!(b, b'.' | b'-')),
            Names::Identifier => name.bytes().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()),
        };
        charset && (1..=64).contains(&name.len())
    }
}

/// A host without limits; the rows below state the differences.
const UNLIMITED: Profile = Profile {
    id: "",
    summary: "",
    refused: "",
    ignored: "",
    plain_root: false,
    needs_properties: false,
    needs_items: false,
    needs_type: false,
    closed: false,
    all_required: false,
    single_type: false,
    string_enum: false,
    boolean_schemas: true,
    references: References::Keep,
    names: None,
    tool_name: 64,
    description: usize::MAX,
    properties: usize::MAX,
    depth: usize::MAX,
    optional: usize::MAX,
    tools: usize::MAX,
    modern_output: false,
};

/// All known hosts.
pub const PROFILES: &[Profile] = &[
    Profile {
        id: "openai",
        summary: "OpenAI API, functions without strict",
        plain_root: true,
        needs_properties: true,
        needs_items: true,
        ..UNLIMITED
    },
    Profile {
        id: "openai-strict",
        summary: "OpenAI API, functions with strict",
        refused: "allOf oneOf not if then else dependentRequired dependentSchemas dependencies \
            patternProperties propertyNames unevaluatedProperties unevaluatedItems contains \
            minContains maxContains minProperties maxProperties prefixItems uniqueItems default",
        plain_root: true,
        needs_properties: true,
        needs_items: true,
        needs_type: true,
        closed: true,
        all_required: true,
        boolean_schemas: false,
        references: References::Alone,
        properties: 5000,
        depth: 10,
        ..UNLIMITED
    },
    Profile {
        id: "claude",
        summary: "Anthropic API and Claude Code",
        plain_root: true,
        names: Some(Names::Token),
        modern_output: true,
        ..UNLIMITED
    },
    Profile {
        id: "claude-strict",
        summary: "Anthropic API, tools with strict",
        refused: "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength \
            maxItems patternProperties",
        plain_root: true,
        closed: true,
        references: References::Finite,
        names: Some(Names::Token),
        optional: 24,
        tools: 20,
        modern_output: true,
        ..UNLIMITED
    },
    Profile {
        id: "gemini",
        summary: "Gemini API, function declarations",
        refused: "allOf oneOf not if then else dependentRequired dependentSchemas dependencies \
            patternProperties propertyNames additionalProperties unevaluatedProperties \
            unevaluatedItems contains minContains maxContains prefixItems additionalItems const \
            exclusiveMinimum exclusiveMaximum multipleOf uniqueItems default title $schema $id \
            $anchor $comment examples deprecated readOnly writeOnly",
        needs_items: true,
        needs_type: true,
        single_type: true,
        string_enum: true,
        boolean_schemas: false,
        references: References::Inline,
        names: Some(Names::Identifier),
        ..UNLIMITED
    },
    Profile {
        id: "vscode",
        summary: "Visual Studio Code with Copilot",
        ignored: "minLength maxLength pattern default format minimum maximum exclusiveMinimum \
            exclusiveMaximum multipleOf patternProperties unevaluatedProperties unevaluatedItems \
            propertyNames minProperties maxProperties contains minContains maxContains minItems \
            maxItems uniqueItems",
        plain_root: true,
        needs_items: true,
        description: 1024,
        ..UNLIMITED
    },
    Profile {
        id: "cursor",
        summary: "Cursor",
        names: Some(Names::Token),
        tool_name: 60,
        tools: 40,
        ..UNLIMITED
    },
    Profile {
        id: "minimal",
        summary: "accepted by every host above",
        refused: "allOf oneOf not if then else dependentRequired dependentSchemas dependencies \
            patternProperties propertyNames unevaluatedProperties unevaluatedItems contains \
            minContains maxContains prefixItems additionalItems const exclusiveMinimum \
            exclusiveMaximum multipleOf uniqueItems default title $schema $id $anchor $comment \
            examples deprecated readOnly writeOnly minimum maximum minLength maxLength minItems \
            maxItems minProperties maxProperties pattern format",
        plain_root: true,
        needs_properties: true,
        needs_items: true,
        needs_type: true,
        single_type: true,
        string_enum: true,
        boolean_schemas: false,
        references: References::Inline,
        names: Some(Names::Identifier),
        tool_name: 60,
        description: 1024,
        properties: 5000,
        depth: 10,
        tools: 20,
        modern_output: true,
        ..UNLIMITED
    },
];

impl Profile {
    /// Finds a profile by its id.
    pub fn find(id: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|p| p.id == id)
    }

    pub(super) fn refuses(&self, keyword: &str) -> bool {
        self.refused.split_ascii_whitespace().any(|refused| refused == keyword)
    }

    pub(super) fn ignores(&self, keyword: &str) -> bool {
        self.ignored.split_ascii_whitespace().any(|ignored| ignored == keyword)
    }
}
