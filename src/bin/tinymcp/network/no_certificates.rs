//! Files of certificates in a build without the feature `tls`: errors.

use std::path::Path;

use tinymcp::Endpoint;

use crate::Result;

/// Placeholder for the contents of certificate files, which this build cannot use.
#[derive(Clone, Default)]
pub(super) struct Certificates;

impl Certificates {
    pub(super) fn set(&mut self, option: &str, _: &Path) -> Result<()> {
        Err(format!("--{option} requires the feature `tls`, which this build lacks"))
    }

    pub(super) fn with_variables(self) -> Result<Certificates> {
        Ok(self)
    }

    pub(super) fn apply(&self, endpoint: Endpoint) -> Endpoint {
        endpoint
    }
}
