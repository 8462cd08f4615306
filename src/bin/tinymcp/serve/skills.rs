//! Member `skills`: a folder of skills, offered by [`Server::skills`].
//!
//! The library reads the folder again with each request for the list or for one skill, so a reload
//! has nothing to do. The extension is declared when the server starts, so the member itself takes
//! effect at the next start only.

use std::path::{Path, PathBuf};

use tinymcp::Server;
use tinymcp::skills::SkillFolder;

use super::place::Place;
use super::read::Problem;
use crate::Result;

/// Member `skills`: a folder of skills.
#[derive(Clone, Debug)]
pub(crate) struct Skills {
    /// Absolute.
    path: PathBuf,
    place: Place,
}

impl Skills {
    pub(crate) fn new(path: PathBuf, place: Place) -> Option<Skills> {
        Some(Skills { path, place })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

/// Offers the skills. Those that break a rule are left out and reported on standard error.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn offer(server: &mut Server, skills: &Skills) -> Result<()> {
    let offered = server.skills(SkillFolder::new(&skills.path));
    offered.map(drop).map_err(|error| format!("{}: {error}", skills.place))
}

/// Returns a warning for each skill that is left out, or for a folder without skills.
pub(crate) fn check(skills: &Skills) -> Vec<Problem> {
    let folder = skills.path.display();
    let messages = match SkillFolder::new(&skills.path).check() {
        Ok((found, faults)) if found.is_empty() && faults.is_empty() => {
            vec![format!("{folder}: no skill; a skill is a folder in it with a SKILL.md")]
        }
        Ok((_, faults)) => faults.iter().map(|fault| format!("{folder}: {fault}")).collect(),
        Err(error) => vec![error.to_string()],
    };
    messages.into_iter().map(|message| Problem { place: skills.place.clone(), message }).collect()
}
