//! Challenges in a build without the feature `oauth`: no error has one.

use super::Error;

/// Challenge of a server that refused a request: never parsed.
#[derive(Clone, Debug)]
pub(crate) enum Challenge {}

/// Failure to obtain credentials: they are never obtained.
#[derive(Clone, Debug)]
pub(crate) enum Unauthorized {}

impl Unauthorized {
    pub(crate) fn to_error(&self) -> Error {
        match *self {}
    }
}

impl Error {
    pub(crate) fn with_challenge(self, _: Option<Challenge>) -> Error {
        self
    }
}
