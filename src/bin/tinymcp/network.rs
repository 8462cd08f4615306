//! Proxies and certificates of connections to URLs.
//!
//! The options are `--cacert`, `--cert` and `--key`, the variables `HTTPS_PROXY`, `HTTP_PROXY`,
//! `ALL_PROXY`, `NO_PROXY` and `SSL_CERT_FILE`.

#[cfg(feature = "tls")]
mod certificates;
#[cfg(not(feature = "tls"))]
#[path = "network/no_certificates.rs"]
mod certificates;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use tinymcp::Endpoint;

use self::certificates::Certificates;
use crate::Result;

/// Settings of connections to URLs.
#[derive(Clone, Default)]
pub(crate) struct Network {
    /// The options, to pass to the process of this program that `record` starts.
    #[cfg_attr(not(all(unix, feature = "cli")), allow(dead_code))]
    pub(crate) arguments: Vec<OsString>,
    certificates: Certificates,
}

impl Network {
    /// Reads the file of one of the options.
    pub(crate) fn set(&mut self, option: &str, file: &Path) -> Result<()> {
        self.certificates.set(option, file)?;
        self.arguments.extend([format!("--{option}").into(), file.into()]);
        Ok(())
    }

    /// Adds the certificates of `SSL_CERT_FILE`, unless `--cacert` is given.
    pub(crate) fn with_variables(self) -> Result<Network> {
        Ok(Network { certificates: self.certificates.with_variables()?, ..self })
    }

    /// Sets the proxy and the certificates of an endpoint.
    pub(crate) fn apply(&self, endpoint: Endpoint) -> Endpoint {
        self.certificates.apply(endpoint.proxy_from_env())
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}
