//! Member `skills` in a program without the feature `skills`: the reader of files rejects it. No
//! value of the type exists, so the compiler removes everything that has to do with the member.

use std::path::{Path, PathBuf};

use tinymcp::Server;

use super::place::Place;
use super::read::Problem;
use crate::Result;

/// Member `skills`, which no definition has.
#[derive(Clone, Debug)]
pub(crate) enum Skills {}

impl Skills {
    pub(crate) fn new(_: PathBuf, _: Place) -> Option<Skills> {
        None
    }

    pub(crate) fn path(&self) -> &Path {
        match *self {}
    }

    pub(crate) fn place(&self) -> &Place {
        match *self {}
    }
}

/// Offers nothing.
pub(crate) fn offer(_: &mut Server, skills: &Skills) -> Result<()> {
    match *skills {}
}

/// Returns no warnings.
pub(crate) fn check(skills: &Skills) -> Vec<Problem> {
    match *skills {}
}
