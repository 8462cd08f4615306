//! Simplified input schemas for hosts that refuse more than they should: who is shown which.
//!
//! A tool is described to a client in one form: as it was registered, or, with the feature `lint`,
//! as the profile of a host wants it. It decides by the name that the client gives itself. Calls
//! are checked against the schema that was registered, whatever was shown.
//!
//! Invariant: without the feature there is one form, and this costs nothing.

/// The form in which a tool is described.
#[cfg(feature = "lint")]
pub(crate) type Form = Option<&'static crate::lint::Profile>;
/// The only form there is.
#[cfg(not(feature = "lint"))]
#[derive(Clone, Copy)]
pub(crate) struct Form;

/// As registered.
#[cfg(feature = "lint")]
pub(crate) const PLAIN: Form = None;
/// As registered.
#[cfg(not(feature = "lint"))]
pub(crate) const PLAIN: Form = Form;

#[cfg(feature = "lint")]
pub(crate) use simplify::{Profiles, cells, simplified};

#[cfg(feature = "lint")]
mod simplify {
    use std::sync::OnceLock;

    use super::super::Renderings;
    use crate::json::Writer;
    use crate::lint::{PROFILES, Profile, simplify_schema};
    use crate::model::catalog::Tool;

    /// Which clients are shown which profile.
    #[derive(Clone, Default)]
    pub(crate) struct Profiles {
        all: Option<&'static Profile>,
        clients: Vec<(String, &'static Profile)>,
    }

    impl Profiles {
        /// Chooses the profile for clients of this name, or for all that have none of their own.
        pub(crate) fn set(&mut self, client: Option<&str>, profile: &'static Profile) {
            match client {
                None => self.all = Some(profile),
                Some(name) => {
                    self.clients.retain(|(known, _)| known != name);
                    self.clients.push((name.to_owned(), profile));
                }
            }
        }

        /// The profile of a client, whose name is asked for only where names matter.
        pub(crate) fn of(&self, name: impl FnOnce() -> Option<String>) -> super::Form {
            let own = match self.clients.is_empty() {
                true => None,
                false => name().and_then(|name| self.clients.iter().find(|(known, _)| *known == name)),
            };
            own.map(|(_, profile)| *profile).or(self.all)
        }
    }

    /// The places of a tool's descriptions in the forms of a profile.
    pub(crate) fn cells<'c>(
        cells: &'c OnceLock<Box<[Renderings]>>,
        profile: &'static Profile,
    ) -> Option<&'c Renderings> {
        let cells = cells.get_or_init(|| PROFILES.iter().map(|_| Renderings::default()).collect());
        cells.get(PROFILES.iter().position(|known| known.id == profile.id)?)
    }

    /// The tool with its input schema as a host takes it. One that would grow too long stays.
    pub(crate) fn simplified(tool: &Tool, profile: &'static Profile) -> Tool {
        let mut copy = tool.clone();
        let Some(schema) = &tool.input_schema else { return copy };
        // What the schema need not say again.
        let mut words = Writer::new();
        words.begin_object().key("name").string(&tool.name);
        for (key, text) in [("title", &tool.title), ("description", &tool.description)] {
            if let Some(text) = text {
                words.key(key).string(text);
            }
        }
        words.end_object();
        let (schema, words) = (schema.to_doc(), words.into_json().to_doc());
        if let Ok(simple) = simplify_schema(schema.root(), Some(words.root()), profile) {
            copy.input_schema = crate::json::Json::parse(simple.text).ok().or(copy.input_schema);
        }
        copy
    }
}
