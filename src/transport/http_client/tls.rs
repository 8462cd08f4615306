//! TLS settings of an endpoint: trusted roots, and the certificate of the client.
//!
//! Source: RFC 7468 (PEM). The protocol is rustls with ring.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use ureq::config::ConfigBuilder;
pub(super) use ureq::tls::TlsConfig;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, parse_pem};
use ureq::typestate::AgentScope;
use ureq::unversioned::transport::{Connector, RustlsConnector};

use super::endpoint::Endpoint;
use crate::error::{Error, ErrorKind};

/// Certificates and keys of an endpoint, in PEM.
#[derive(Clone)]
pub(super) struct TlsSettings {
    roots: Option<Vec<u8>>,
    /// Chain and key.
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsSettings {
    pub(super) fn none() -> TlsSettings {
        TlsSettings { roots: None, client: None }
    }

    /// Reads the PEM texts.
    ///
    /// # Errors
    /// A text is not PEM, or the key does not belong to the certificate.
    pub(super) fn checked(&self) -> Result<TlsConfig, Error> {
        let mut config = TlsConfig::builder();
        if let Some(pem) = &self.roots {
            let roots = certificates(pem, "root certificates")?;
            config = config.root_certs(RootCerts::new_with_certs(&roots));
        }
        if let Some((chain, key)) = &self.client {
            config = config.client_cert(Some(client_certificate(chain, key)?));
        }
        Ok(config.build())
    }
}

impl Endpoint {
    /// Sets the trusted root certificates, in PEM, for devices and companies with their own
    /// certification authority. By default the root certificates of Mozilla are trusted.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Endpoint {
        self.tls.roots = Some(pem.into());
        self
    }

    /// Sets the certificate that the client presents to a server that requests one, and its key,
    /// both in PEM. Certificates of intermediate authorities follow the first one. An `https` proxy
    /// can request it as well.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Endpoint {
        self.tls.client = Some((chain.into(), key.into()));
        self
    }
}

/// Applies the settings to the configuration of an agent.
pub(super) fn configure(config: ConfigBuilder<AgentScope>, tls: &TlsConfig) -> ConfigBuilder<AgentScope> {
    config.tls_config(tls.clone())
}

/// Adds TLS to a chain of connectors, for URLs with `https`.
pub(super) fn over<C: Connector>(chain: C) -> impl Connector {
    chain.chain(RustlsConnector::default())
}

fn invalid(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("invalid {what}: {why}"))
}

/// Returns the certificates of a PEM text.
fn certificates(pem: &[u8], what: &str) -> Result<Vec<Certificate<'static>>, Error> {
    let bad = || invalid(what, "expected PEM");
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|_| bad())? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(bad()) } else { Ok(found) }
}

fn client_certificate(chain: &[u8], pem: &[u8]) -> Result<ClientCert, Error> {
    let bad_key = || invalid("client key", "expected PEM that is not encrypted");
    let chain = certificates(chain, "client certificate")?;
    let key = PrivateKey::from_pem(pem).map_err(|_| bad_key())?;
    // ureq panics if certificate and key do not match, so they are checked here.
    let ders = chain.iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| bad_key())?;
    CertifiedKey::from_der(ders, der, &rustls::crypto::ring::default_provider()).map_err(|_| {
        invalid("client certificate", "its key belongs to another certificate or is of an unknown kind")
    })?;
    Ok(ClientCert::new_with_certs(&chain, key))
}
