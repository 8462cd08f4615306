//! Client for single documents, such as keys, within bounds of size and time. Does not follow
//! redirects.
//!
//! The configuration sets the host, never a peer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::{HeaderValue, Method, Request, header};

use super::deadline::Exchange;
use super::document::{self, Document};
use super::endpoint::{Endpoint, Target};
#[cfg(feature = "token-introspection")]
use super::proxy;
use super::sign_in::DistanceRule;
use crate::error::Error;
use crate::limits::Limits;

/// Size limit of a document in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Client of one URL.
pub(crate) struct DocumentClient {
    agent: Agent,
    target: Target,
}

impl DocumentClient {
    /// Checks the endpoint. Does not connect.
    ///
    /// # Errors
    /// The endpoint is invalid, or its URL is neither `https` nor on this machine.
    #[cfg(feature = "token-introspection")]
    pub(crate) fn new(endpoint: Endpoint) -> Result<DocumentClient, Error> {
        let client = DocumentClient::of_any_host(endpoint)?;
        let target = &client.target;
        if target.uri.scheme_str() != Some("https") && !proxy::is_this_machine(proxy::bare_host(&target.uri))
        {
            let why = "invalid server URL: https is required, except for a server on this machine";
            return Err(Error::new(crate::error::ErrorKind::Invalid, why));
        }
        Ok(client)
    }

    /// Like `new`, but allows `http` for any host: for requests that contain no secret.
    ///
    /// # Errors
    /// The endpoint is invalid.
    pub(crate) fn of_any_host(endpoint: Endpoint) -> Result<DocumentClient, Error> {
        let target = endpoint.checked()?;
        let limits = Limits::from_env()?;
        let agent = super::agent(&target, &limits, target.reach.clone(), DistanceRule::Unused);
        Ok(DocumentClient { agent, target })
    }

    /// Sends a GET, or a POST with `body`: its media type and its text.
    ///
    /// # Errors
    /// No response arrives in time, or its body is too long.
    pub(crate) fn fetch(
        &self,
        body: Option<(&'static str, &str)>,
        authorization: Option<&HeaderValue>,
        time: Duration,
    ) -> Result<Document, Error> {
        let mut request = Request::new(body.map_or("", |(_, text)| text).as_bytes().to_vec());
        *request.uri_mut() = self.target.uri.clone();
        *request.headers_mut() = self.target.headers()?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        }
        if let Some((media_type, _)) = body {
            *request.method_mut() = Method::POST;
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        let exchange = Arc::new(Exchange::until(None, Instant::now() + time));
        document::send(&self.agent, request, &exchange, MAX_BYTES)
    }
}
