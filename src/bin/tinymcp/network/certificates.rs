//! Certificates and keys of connections to URLs: files that options and a variable name.

use std::fmt;
use std::io::Read;
use std::path::Path;

use tinymcp::Endpoint;

use crate::Result;

/// Largest file of certificates, in bytes. A file of all public authorities has 0.2 MB.
const MAX_BYTES: u64 = 4 << 20;

/// Contents of the files that the options name.
#[derive(Clone, Default)]
pub(super) struct Certificates {
    roots: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the file of one of the options.
    pub(super) fn set(&mut self, option: &str, file: &Path) -> Result<()> {
        let text = Some(read(&format!("--{option}"), file)?);
        match option {
            "cacert" => self.roots = text,
            "cert" => self.certificate = text,
            _ => self.key = text,
        }
        Ok(())
    }

    /// Adds the certificates of `SSL_CERT_FILE`, unless `--cacert` is given.
    pub(super) fn with_variables(mut self) -> Result<Certificates> {
        let variable = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty());
        if let (None, Some(file)) = (&self.roots, variable) {
            self.roots = Some(read("SSL_CERT_FILE", Path::new(&file))?);
        }
        if self.key.is_some() && self.certificate.is_none() {
            return Err("--key requires --cert".to_owned());
        }
        Ok(self)
    }

    /// Sets the certificates of an endpoint.
    pub(super) fn apply(&self, endpoint: Endpoint) -> Endpoint {
        let endpoint = match &self.roots {
            Some(pem) => endpoint.root_certificates(pem.as_slice()),
            None => endpoint,
        };
        match &self.certificate {
            // One file may hold both, as for curl.
            Some(pem) => {
                endpoint.client_certificate(pem.as_slice(), self.key.as_ref().unwrap_or(pem).as_slice())
            }
            None => endpoint,
        }
    }
}

fn read(place: &str, file: &Path) -> Result<Vec<u8>> {
    let refusal = |why: &dyn fmt::Display| format!("{place}: {}: {why}", file.display());
    let opened = std::fs::File::open(file).map_err(|error| refusal(&error))?;
    let mut text = Vec::new();
    opened.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| refusal(&error))?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(refusal(&"longer than 4 MiB")),
        false => Ok(text),
    }
}
