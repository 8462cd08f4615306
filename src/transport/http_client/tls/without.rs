//! The HTTP client in a build without the feature `tls`: connections are not encrypted.

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;
use ureq::unversioned::transport::Connector;

use crate::error::Error;

/// Certificates and keys of an endpoint; this build has none.
#[derive(Clone)]
pub(super) struct TlsSettings;

impl TlsSettings {
    pub(super) fn none() -> TlsSettings {
        TlsSettings
    }

    pub(super) fn checked(&self) -> Result<TlsConfig, Error> {
        Ok(TlsConfig)
    }
}

/// Checked settings; this build has none.
pub(super) struct TlsConfig;

pub(super) fn configure(config: ConfigBuilder<AgentScope>, _: &TlsConfig) -> ConfigBuilder<AgentScope> {
    config
}

pub(super) fn over<C: Connector>(chain: C) -> C {
    chain
}
