//! Interface between the HTTP client and sign-in.
//!
//! An [`Authorizer`] adds credentials to each request and handles responses that reject them. It
//! sends its own requests through [`WebClient`], on the thread of the exchange and until its
//! deadline.
//!
//! # Invariants
//! - An authorizer belongs to one endpoint: its credentials are sent to that origin only.
//! - Documents are bounded in size and time. Redirects are not followed.
//! - The client connects to a URL of the server only if its address is not nearer to this machine
//!   than the address of the server. A public server cannot direct requests to a private network,
//!   and a server of a private network cannot direct requests to this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::{HeaderMap, HeaderValue, Request, Uri, header};

use super::{Challenge, DistanceRule, ServerDistance, challenge_in};
use crate::era::client;
use crate::era::modern::header::VERSION;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::transport::http_client::agent;
use crate::transport::http_client::connector::{self, Reach};
use crate::transport::http_client::deadline::{Exchange, current};
use crate::transport::http_client::document::{self, Document};
use crate::transport::http_client::endpoint::{Endpoint, Target};
use crate::transport::sse::MEDIA_TYPE;

/// Size limit of one document in bytes.
const DOCUMENT: usize = 128 << 10;
/// Timeout of one document.
const DOCUMENT_TIME: Duration = Duration::from_secs(20);

/// Adds credentials to requests.
pub(crate) trait Authorizer: Send + Sync {
    /// Adds credentials to a request to the endpoint.
    ///
    /// # Errors
    /// Credentials exist but cannot be used.
    fn authorize(&self, web: &WebClient, request: &mut Request<()>) -> Result<(), Error>;

    /// Handles a response. Returns whether the request must be sent again.
    ///
    /// # Errors
    /// The server requires credentials, and none can be obtained.
    fn responded(
        &self,
        web: &WebClient,
        response: &EndpointResponse<'_>,
        tries: &mut SendAttempts,
    ) -> Result<bool, Error>;

    /// Removes credentials from a text that the server sent.
    fn mask(&self, text: &mut String);
}

/// Response to a request of the endpoint.
pub(crate) struct EndpointResponse<'a> {
    pub status: u16,
    pub headers: &'a HeaderMap,
    /// `Authorization` of the request.
    pub used: Option<&'a HeaderValue>,
}

/// Attempts to send one message.
pub(crate) struct SendAttempts {
    /// The user may be asked, because a thread waits for the response.
    pub asks_user: bool,
    /// Number of tokens that were obtained for the message.
    pub tokens: u32,
    /// The last token was obtained from the user or by a grant, not by a refresh.
    pub granted: bool,
    /// Number of nonces that servers sent.
    pub nonces: u32,
}

impl SendAttempts {
    pub(crate) fn new(asks_user: bool) -> SendAttempts {
        SendAttempts { asks_user, tokens: 0, granted: false, nonces: 0 }
    }
}

/// Client for the requests of a sign-in, to URLs that the server sends.
pub(crate) struct WebClient {
    agent: Agent,
    /// Connects to all addresses that the endpoint may connect to.
    unrestricted: Agent,
    /// Connects to the server and stores its distance. A program may renew a token, and fetch
    /// metadata for that, before its first message.
    to_server: Agent,
    /// URL of the server.
    pub server: Uri,
}

impl WebClient {
    pub(super) fn new(target: &Target, limits: &Limits, distance: &ServerDistance) -> WebClient {
        // Only the server is at the Unix socket.
        let reach = match &target.reach {
            Reach::Socket(_) => Reach::Everywhere,
            other => other.clone(),
        };
        WebClient {
            agent: agent(target, limits, reach.clone(), distance.minimum()),
            unrestricted: agent(target, limits, reach, DistanceRule::Unused),
            to_server: agent(target, limits, target.reach.clone(), distance.learned()),
            server: target.uri.clone(),
        }
    }

    /// Returns a client for URLs that the program sets, not the server.
    pub(crate) fn unrestricted(&self) -> WebClient {
        let agent = self.unrestricted.clone();
        let to_server = self.to_server.clone();
        WebClient { unrestricted: agent.clone(), agent, to_server, server: self.server.clone() }
    }

    /// Reads metadata. Sends the newest revision of the client (2025-03-26 basic/authorization,
    /// server metadata discovery).
    ///
    /// # Errors
    /// No response arrives in time, or its body is too long.
    pub(crate) fn metadata(&self, at: &Uri) -> Result<Document, Error> {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = at.clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        request
            .headers_mut()
            .insert(VERSION, HeaderValue::from_static(client::revision_name(client::MODERN)));
        self.send(request)
    }

    /// Sends a request and reads the body of the response.
    ///
    /// # Errors
    /// No response arrives in time, or its body is too long.
    pub(crate) fn send(&self, request: Request<Vec<u8>>) -> Result<Document, Error> {
        let origin = |uri: &Uri| (uri.scheme().cloned(), uri.authority().cloned());
        let is_to_server = origin(request.uri()) == origin(&self.server);
        let agent = if is_to_server { &self.to_server } else { &self.agent };
        document::send(agent, request, &inner(DOCUMENT_TIME), DOCUMENT)
    }
}

/// Sends a request without credentials to the endpoint. Returns the challenge of the response.
///
/// # Errors
/// The endpoint is invalid, or its server does not respond.
pub(crate) fn challenge(endpoint: Endpoint) -> Result<(WebClient, Option<Challenge>), Error> {
    let target = endpoint.checked()?;
    let limits = Limits::from_env()?;
    let distance = ServerDistance::unknown();
    let agent = agent(&target, &limits, target.reach.clone(), distance.learned());
    let mut request = Request::new(());
    *request.uri_mut() = target.uri.clone();
    *request.headers_mut() = target.headers()?;
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
    let exchange = inner(DOCUMENT_TIME);
    let _entered = exchange.enter();
    let response = agent.run(request).map_err(|error| connector::failure(&exchange, error).to_error())?;
    let challenge = challenge_in(response.headers()).filter(|_| response.status() == 401);
    Ok((WebClient::new(&target, &limits, &distance), challenge))
}

/// Creates an exchange with this timeout inside the current exchange of the thread.
fn inner(time: Duration) -> Arc<Exchange> {
    let deadline = Instant::now() + time;
    match current() {
        Some(outer) => outer.within(deadline),
        None => Arc::new(Exchange::until(None, deadline)),
    }
}

/// Checks the deadline.
///
/// # Errors
/// The request of this thread timed out or was cancelled.
pub(crate) fn in_time() -> Result<(), Error> {
    match current().map(|exchange| exchange.slice()) {
        Some(Err(_)) => Err(timed_out()),
        _ => Ok(()),
    }
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Timeout, "the time for the sign-in is over")
}

/// Waits for this time.
///
/// # Errors
/// The request of this thread timed out or was cancelled.
pub(crate) fn pause(time: Duration) -> Result<(), Error> {
    match current() {
        Some(exchange) => exchange.pause(time, &mut || true).map_err(|_| timed_out()),
        None => Err(timed_out()),
    }
}

/// Runs a function that asks the user, with this timeout. The time does not count against the
/// deadline of the request.
pub(crate) fn asking_user<T>(time: Duration, ask: impl FnOnce() -> T) -> T {
    let _paused = current().and_then(|exchange| exchange.ask_user());
    let exchange = inner(time);
    let _entered = exchange.enter();
    ask()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read, Write};
    use std::net::{IpAddr, Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_server_cannot_direct_requests_to_nearer_addresses() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = format!("http://{}/token", listener.local_addr().unwrap());
        let target = Endpoint::new("http://203.0.113.1/mcp").checked().unwrap();
        let distance = ServerDistance::unknown();
        let web = WebClient::new(&target, &Limits::default(), &distance);
        let send = |web: &WebClient| web.send(Request::get(&at).body(Vec::new()).unwrap());
        for server in ["8.8.8.8", "10.0.0.1", "169.254.0.1"] {
            distance.set(server.parse::<IpAddr>().unwrap());
            assert!(send(&web).is_err(), "{server}");
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "no connection was made");
        // A request to the server itself is allowed, and sets its distance.
        let own = Endpoint::new(&at).checked().unwrap();
        let distance_of_own = ServerDistance::unknown();
        let own = WebClient::new(&own, &Limits::default(), &distance_of_own);
        // A server on this machine and the program itself may direct requests to it.
        listener.set_nonblocking(false).unwrap();
        let responder = std::thread::spawn(move || {
            for _ in 0..4 {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
            }
        });
        assert_eq!(send(&web.unrestricted()).unwrap().status, 204);
        distance.set(Ipv4Addr::LOCALHOST.into());
        assert_eq!(send(&web).unwrap().status, 204);
        let elsewhere = at.replace("127.0.0.1", "localhost");
        for url in [&at, &elsewhere] {
            assert_eq!(own.send(Request::get(url).body(Vec::new()).unwrap()).unwrap().status, 204, "{url}");
        }
        responder.join().unwrap();
    }
}
