//! Extensions in a build without the feature `extensions`: the program declares none, and no
//! notification has a handler.

use crate::era::extension::ClientMembers;
use crate::error::Error;
use crate::json::Value;

/// Declared extensions and registered handlers: always empty.
#[derive(Default)]
pub(super) struct Extensions;

impl Extensions {
    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn members(&self) -> ClientMembers {
        ClientMembers
    }

    pub(super) fn receive(&self, _method: &str, _params: Option<Value<'_>>) -> Option<Received> {
        None
    }

    pub(super) fn deliver(&self, received: &Received) {
        match *received {}
    }
}

/// A notification that waits for its handlers.
pub(super) enum Received {}

impl Received {
    pub(super) fn size(&self) -> usize {
        match *self {}
    }
}
