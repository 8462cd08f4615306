//! Response that is read as a whole, such as keys or metadata, within bounds of size and time.

use std::io::Read;
use std::sync::Arc;

use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use super::connector;
use super::deadline::Exchange;
use crate::error::{Error, ErrorKind};

/// Response with its body.
#[cfg_attr(not(feature = "oauth"), allow(dead_code))] // Only sign-in reads all fields.
pub(crate) struct Document {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Sends a request, and reads a body of at most `most` bytes.
///
/// # Errors
/// No response arrives in time, or its body is too long.
pub(super) fn send(
    agent: &Agent,
    request: Request<Vec<u8>>,
    exchange: &Arc<Exchange>,
    most: usize,
) -> Result<Document, Error> {
    let _entered = exchange.enter();
    let response = match request.body().is_empty() {
        true => agent.run(request.map(|_| ())),
        false => agent.run(request),
    };
    let response = response.map_err(|error| connector::failure(exchange, error).to_error())?;
    let (head, mut body) = response.into_parts();
    let mut text = Vec::new();
    let read = body.as_reader().take(most as u64 + 1).read_to_end(&mut text);
    let why = match read {
        Ok(_) if text.len() <= most => {
            return Ok(Document { status: head.status.as_u16(), headers: head.headers, body: text });
        }
        Ok(_) => format!("it is longer than {most} bytes"),
        Err(_) => "the connection broke, or the document did not arrive in time".to_owned(),
    };
    Err(Error::new(ErrorKind::PeerMisbehaved, why))
}
