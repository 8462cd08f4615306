//! Limits for schemas and validations.
//!
//! The compiler rejects a schema that exceeds one. A validation that exceeds one ends as a
//! violation of the keyword `limit`. A server uses those of its [`Limits`](super::Limits), with a
//! depth that fits the stacks of its workers.
//!
//! Invariant: whatever schema and value come, the memory and time of a check follow from these
//! numbers and from the sizes of schema and value.

use super::{MOST_BYTES, Setting, setting};

/// Caps on schemas and on validations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// Bytes of one schema's text. 4 MiB: as large as a message. `TINYMCP_SCHEMA_BYTES`.
    pub bytes: usize,
    /// Subschemas of one schema, those of referenced documents included. 100,000: about 50 bytes
    /// each when compiled. `TINYMCP_SCHEMA_NODES`.
    pub nodes: usize,
    /// Cells of tables for all patterns of one schema. 262,144: a hundred milliseconds and half a
    /// megabyte, and a thousand patterns of a usual size. `TINYMCP_SCHEMA_PATTERNS`.
    pub patterns: usize,
    /// Nesting of a schema's text. 128: as deep as a message.
    pub nesting: u32,
    /// Subschemas within subschemas at once while a value is checked. 256: twice the nesting of a
    /// message; each level takes less than [`SchemaLimits::LEVEL_BYTES`] of stack in a release
    /// build. `TINYMCP_SCHEMA_DEPTH`.
    pub depth: u32,
    /// Steps of one validation in addition to [`SchemaLimits::steps_per_byte`]. A step is an
    /// applied subschema, an element, a member, or about eight bytes of text. 1,000,000: some ten
    /// milliseconds. `TINYMCP_SCHEMA_STEPS`.
    pub steps: u64,
    /// Steps allowed for each byte of the value's text. 8.
    pub steps_per_byte: u64,
    /// Cached verdicts of one validation, for subschemas with several paths to them. 100,000: 32
    /// bytes each. `TINYMCP_SCHEMA_VERDICTS`.
    pub verdicts: usize,
}

impl SchemaLimits {
    /// Stack that one level of [`SchemaLimits::depth`] takes at most in a release build.
    pub const LEVEL_BYTES: usize = 512;

    /// The same limits, with a depth that takes at most half of a stack of this many bytes.
    #[must_use]
    pub fn fitting(mut self, stack_bytes: usize) -> SchemaLimits {
        let levels = stack_bytes / 2 / SchemaLimits::LEVEL_BYTES;
        self.depth = self.depth.min(u32::try_from(levels).unwrap_or(u32::MAX));
        self
    }
}

impl Default for SchemaLimits {
    fn default() -> SchemaLimits {
        SchemaLimits {
            bytes: 4 << 20,
            nodes: 100_000,
            patterns: 1 << 18,
            nesting: 128,
            depth: 256,
            steps: 1_000_000,
            steps_per_byte: 8,
            verdicts: 100_000,
        }
    }
}

/// The settings of this group.
pub(super) const SETTINGS: &[Setting] = &[
    setting("TINYMCP_SCHEMA_BYTES", 1024..=MOST_BYTES, |l, n| l.schema.bytes = n as usize),
    setting("TINYMCP_SCHEMA_NODES", 64..=(1 << 24), |l, n| l.schema.nodes = n as usize),
    setting("TINYMCP_SCHEMA_PATTERNS", 1024..=(1 << 30), |l, n| l.schema.patterns = n as usize),
    setting("TINYMCP_SCHEMA_DEPTH", 8..=(1 << 16), |l, n| l.schema.depth = n as u32),
    setting("TINYMCP_SCHEMA_STEPS", 1000..=(1 << 40), |l, n| l.schema.steps = n),
    setting("TINYMCP_SCHEMA_VERDICTS", 0..=(1 << 24), |l, n| l.schema.verdicts = n as usize),
];
