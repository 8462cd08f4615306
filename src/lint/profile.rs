//! What hosts refuse, delete or limit in tool schemas, as data.
//!
//! One table row per host and mode, from their documentation and from reports of what broke. The
//! rows drive the HOST rules (`host.rs`) and the simplified forms (`simplify.rs`); nothing here
//! decides anything. Hosts change: what stands here was collected in November 2026.
//!
//! Invariant: a keyword is at most in one of `refused` and `ignored`.

/// What is done with references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// They work, with keywords beside them.
    Keep,
    /// They work if nothing stands beside them.
    Alone,
    /// They work if they do not lead back to themselves.
    Finite,
    /// They do not work.
    Inline,
}

/// A host, or one mode of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Profile {
    /// Such as `openai-strict`.
    pub id: &'static str,
    /// Which host that is.
    pub summary: &'static str,
    /// Keywords that make the host refuse the tool, and often the whole request; spaces between them.
    pub(super) refused: &'static str,
    /// Keywords the host deletes before the model sees them.
    pub(super) ignored: &'static str,
    /// `oneOf`, `anyOf`, `allOf` and the like at the root make it refuse.
    pub(super) plain_root: bool,
    /// An object without `properties` makes it refuse.
    pub(super) needs_properties: bool,
    /// An array without `items` makes it refuse.
    pub(super) needs_items: bool,
    /// A schema that says no type makes it refuse.
    pub(super) needs_type: bool,
    /// Objects must be closed.
    pub(super) closed: bool,
    /// Every property must be required; what is optional becomes nullable.
    pub(super) all_required: bool,
    /// `type` must be one string.
    pub(super) single_type: bool,
    /// Only strings may stand in an enum.
    pub(super) string_enum: bool,
    /// `true` and `false` may stand for schemas.
    pub(super) boolean_schemas: bool,
    pub(super) references: References,
    /// Property names: which characters, how many. `None`: any.
    pub(super) names: Option<Names>,
    /// Bytes of a tool's name.
    pub(super) tool_name: usize,
    /// Characters of a description; the rest is cut.
    pub(super) description: usize,
    /// Properties in one schema.
    pub(super) properties: usize,
    /// Objects within objects.
    pub(super) depth: usize,
    /// Optional properties in one tool.
    pub(super) optional: usize,
    /// Tools at once.
    pub(super) tools: usize,
    /// An output schema that names draft-07 makes the tool unusable.
    pub(super) modern_output: bool,
}

/// Which names properties may have.
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

/// A host that takes everything; the rows below say how they differ.
const EASY: Profile = Profile {
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

/// Every host that is known.
pub const PROFILES: &[Profile] = &[
    Profile {
        id: "openai",
        summary: "OpenAI API, functions without strict",
        plain_root: true,
        needs_properties: true,
        needs_items: true,
        ..EASY
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
        ..EASY
    },
    Profile {
        id: "claude",
        summary: "Anthropic API and Claude Code",
        plain_root: true,
        names: Some(Names::Token),
        modern_output: true,
        ..EASY
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
        ..EASY
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
        ..EASY
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
        ..EASY
    },
    Profile { id: "cursor", summary: "Cursor", names: Some(Names::Token), tool_name: 60, tools: 40, ..EASY },
    Profile {
        id: "minimal",
        summary: "what every host above takes",
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
        ..EASY
    },
];

impl Profile {
    /// The profile of this id.
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
