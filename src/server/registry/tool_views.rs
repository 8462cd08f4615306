//! Views of a tool's description: as registered, or simplified for hosts that reject valid schemas.
//!
//! With the feature `lint`, a profile is chosen by the client's name. Calls are always checked
//! against the registered schema. Without the feature there is one view, at no cost.

/// Form in which a tool is described: as registered, or simplified for a profile.
#[cfg(feature = "lint")]
pub(crate) type Form = Option<&'static crate::lint::Profile>;
/// The only form.
#[cfg(not(feature = "lint"))]
#[derive(Clone, Copy)]
pub(crate) struct Form;

/// The form of the registered description.
#[cfg(feature = "lint")]
pub(crate) const PLAIN: Form = None;
/// The form of the registered description.
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

    /// Profile of each client.
    #[derive(Clone, Default)]
    pub(crate) struct Profiles {
        all: Option<&'static Profile>,
        clients: Vec<(String, &'static Profile)>,
    }

    impl Profiles {
        /// Sets the profile of clients with this name, or the default profile.
        pub(crate) fn set(&mut self, client: Option<&str>, profile: &'static Profile) {
            match client {
                None => self.all = Some(profile),
                Some(name) => {
                    self.clients.retain(|(known, _)| known != name);
                    self.clients.push((name.to_owned(), profile));
                }
            }
        }

        /// Returns the profile of a client. `name` is called only if a client has its own profile.
        pub(crate) fn of(&self, name: impl FnOnce() -> Option<String>) -> super::Form {
            let own = match self.clients.is_empty() {
                true => None,
                false => name().and_then(|name| self.clients.iter().find(|(known, _)| *known == name)),
            };
            own.map(|(_, profile)| *profile).or(self.all)
        }
    }

    /// Returns the rendered descriptions of a tool for a profile.
    pub(crate) fn cells<'c>(
        cells: &'c OnceLock<Box<[Renderings]>>,
        profile: &'static Profile,
    ) -> Option<&'c Renderings> {
        let cells = cells.get_or_init(|| PROFILES.iter().map(|_| Renderings::default()).collect());
        cells.get(PROFILES.iter().position(|known| known.id == profile.id)?)
    }

    /// Returns a copy of the tool with a simplified input schema. A schema that would grow too long
    /// stays unchanged.
    pub(crate) fn simplified(tool: &Tool, profile: &'static Profile) -> Tool {
        let mut copy = tool.clone();
        let Some(schema) = &tool.input_schema else { return copy };
        // Text that the schema need not repeat.
        let mut context = Writer::new();
        context.begin_object().key("name").string(&tool.name);
        for (key, text) in [("title", &tool.title), ("description", &tool.description)] {
            if let Some(text) = text {
                context.key(key).string(text);
            }
        }
        context.end_object();
        let (schema, context) = (schema.to_doc(), context.into_json().to_doc());
        if let Ok(simple) = simplify_schema(schema.root(), Some(context.root()), profile) {
            copy.input_schema = crate::json::Json::parse(simple.text).ok().or(copy.input_schema);
        }
        copy
    }
}
