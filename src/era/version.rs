//! Table of the five revisions and their features.
//!
//! Source: the changelogs of MCP 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28, and the schemas
//! of all five. All other code identifies a revision by its slot number.

use crate::model::Revision;

/// The newest revision with a handshake.
pub(crate) const V2025_11_25: Revision = Revision(3);
/// The first revision without a handshake.
pub(crate) const V2026_07_28: Revision = Revision(4);

const NAMES: [&str; Revision::COUNT] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Returns the revision's date.
pub(crate) fn name(revision: Revision) -> &'static str {
    NAMES[revision.slot()]
}

/// Returns the revision with this date. Dates are compared for equality only: an unknown date is
/// never assumed to be newer.
pub(crate) fn parse(date: &str) -> Option<Revision> {
    let slot = NAMES.iter().position(|n| *n == date)?;
    u8::try_from(slot).ok().map(Revision)
}

/// Returns the dates of the revisions with a handshake, the newest first.
#[cfg(feature = "http-server")]
pub(crate) fn legacy() -> impl Iterator<Item = &'static str> {
    NAMES[..V2026_07_28.slot()].iter().rev().copied()
}

/// Message features of one revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    /// Batches of messages are accepted.
    pub batch: bool,
    /// Tools carry annotations; progress carries a message; `completions` is a capability.
    pub annotations: bool,
    /// Content may be audio.
    pub audio: bool,
    /// Content may be a resource link.
    pub links: bool,
    /// Tools, resources, templates and prompts have `title` and `_meta`; annotations have
    /// `lastModified`.
    pub titles: bool,
    /// Tools have `outputSchema` and results have `structuredContent`, if these are objects.
    pub structured: bool,
    /// Structured values and their schemas may be anything.
    pub any_structured: bool,
    /// Tools, resources, templates and prompts have icons; implementations have `description` and
    /// `websiteUrl`.
    pub icons: bool,
    /// Forms have defaults for every field, titled and multiple choice, and modes.
    pub rich_forms: bool,
    /// Form elicitation exists.
    pub elicitation: bool,
    /// Sampling messages may hold several blocks, and offer tools.
    pub sampling_tools: bool,
    /// Tools state whether they run as tasks.
    #[cfg(feature = "tasks")]
    pub task_support: bool,
    /// An error for an unreadable request has `"id":null`. In other revisions it has no id.
    pub null_error_id: bool,
}

const OLDEST: Features = Features {
    batch: false,
    annotations: false,
    audio: false,
    links: false,
    titles: false,
    structured: false,
    any_structured: false,
    icons: false,
    rich_forms: false,
    elicitation: false,
    sampling_tools: false,
    #[cfg(feature = "tasks")]
    task_support: false,
    null_error_id: true,
};
const MARCH: Features = Features { batch: true, annotations: true, audio: true, ..OLDEST };
const JUNE: Features =
    Features { batch: false, links: true, titles: true, structured: true, elicitation: true, ..MARCH };
const NOVEMBER: Features = Features {
    icons: true,
    rich_forms: true,
    sampling_tools: true,
    #[cfg(feature = "tasks")]
    task_support: true,
    null_error_id: false,
    ..JUNE
};
const JULY: Features = Features {
    any_structured: true,
    #[cfg(feature = "tasks")]
    task_support: false,
    ..NOVEMBER
};

const FEATURES: [Features; Revision::COUNT] = [OLDEST, MARCH, JUNE, NOVEMBER, JULY];

/// Returns the message features of this revision.
pub(crate) fn features(revision: Revision) -> &'static Features {
    &FEATURES[revision.slot()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_slots_agree() {
        for slot in 0..Revision::COUNT {
            let revision = Revision(slot as u8);
            assert_eq!(revision.slot(), slot);
            assert_eq!(parse(name(revision)), Some(revision));
        }
        assert_eq!(name(V2025_11_25), "2025-11-25");
        assert_eq!(name(V2026_07_28), "2026-07-28");
        assert_eq!(parse("2027-01-01"), None);
        assert_eq!(parse(""), None);
    }
}
