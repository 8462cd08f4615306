//! Sign-in in the HTTP client: credentials of requests, and rules for the requests of a sign-in.
//!
//! The rest of the HTTP client uses this module with or without the feature `oauth`. Without it,
//! `without.rs` has the same items, of size zero.

mod authorizer;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ureq::Body;
use ureq::http::{HeaderMap, HeaderValue, Request, Response, header};

pub(crate) use self::authorizer::{
    Authorizer, EndpointResponse, SendAttempts, WebClient, asking_user, challenge, in_time, pause,
};
use super::deadline::{Exchange, StopReason, Until};
pub(crate) use super::document::Document;
use super::endpoint::{Endpoint, Target};
use super::proxy::is_this_machine;
use super::public_addr::is_public;
use crate::error::challenge::{Challenge, Unauthorized};
use crate::limits::Limits;
use crate::sync::lock;
use crate::transport::client::MessageHandler;

/// Source of credentials of an endpoint, if it has one.
#[derive(Clone)]
pub(super) struct CredentialSource(Option<Arc<dyn Authorizer>>);

impl CredentialSource {
    pub(super) fn none() -> CredentialSource {
        CredentialSource(None)
    }

    /// Removes the source if the program sets an `Authorization` header.
    pub(super) fn unless_fixed(self, headers: &HeaderMap) -> CredentialSource {
        CredentialSource(self.0.filter(|_| !headers.contains_key(header::AUTHORIZATION)))
    }

    /// Returns the credentials of this source for the messages to an endpoint.
    pub(super) fn of_endpoint(
        &self,
        target: &Target,
        limits: &Limits,
        distance: &ServerDistance,
    ) -> Credentials {
        Credentials(self.0.clone().map(|authorizer| (authorizer, WebClient::new(target, limits, distance))))
    }
}

impl Endpoint {
    /// Sets the source of credentials.
    pub(crate) fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Endpoint {
        self.credentials = CredentialSource(Some(authorizer));
        self
    }
}

/// Credentials of the messages to one endpoint.
pub(super) struct Credentials(Option<(Arc<dyn Authorizer>, WebClient)>);

impl Credentials {
    /// Adds credentials to a request.
    ///
    /// # Errors
    /// Credentials exist but cannot be used.
    pub(super) fn authorize(&self, request: &mut Request<()>) -> Result<(), Unauthorized> {
        let Some((authorizer, web)) = &self.0 else { return Ok(()) };
        Ok(authorizer.authorize(web, request)?)
    }

    /// Obtains other credentials if a response requires them. Returns whether to send the message
    /// again.
    ///
    /// # Errors
    /// The server requires credentials, and none can be obtained.
    pub(super) fn renew(
        &self,
        response: &Response<Body>,
        attempts: &mut Attempts,
    ) -> Result<bool, Unauthorized> {
        let Some((authorizer, web)) = &self.0 else { return Ok(false) };
        let Attempts { tries, used } = attempts;
        let (status, headers) = (response.status().as_u16(), response.headers());
        Ok(authorizer.responded(web, &EndpointResponse { status, headers, used: used.as_ref() }, tries)?)
    }

    /// Removes credentials from a text of the server.
    pub(super) fn mask(&self, text: &mut String) {
        if let Some((authorizer, _)) = &self.0 {
            authorizer.mask(text);
        }
    }
}

/// Attempts to send one message.
pub(super) struct Attempts {
    tries: SendAttempts,
    /// `Authorization` of the last attempt.
    used: Option<HeaderValue>,
}

impl Attempts {
    /// Starts with no attempt. `asks_user` is set if the user may be asked, because a thread waits
    /// for the response.
    pub(super) fn new(asks_user: bool) -> Attempts {
        Attempts { tries: SendAttempts::new(asks_user), used: None }
    }

    /// Stores the credentials of an attempt, which is made with these headers.
    pub(super) fn set_used(&mut self, headers: &HeaderMap) {
        self.used = headers.get(header::AUTHORIZATION).cloned();
    }
}

/// Returns the challenge of a response, if it has one.
pub(super) fn challenge_in(headers: &HeaderMap) -> Option<Challenge> {
    Challenge::parse(headers.get_all(header::WWW_AUTHENTICATE).iter().map(HeaderValue::as_bytes))
}

/// Distance of an address from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Distance {
    /// This machine.
    Loopback,
    /// A link-local address. Most clouds have their metadata services there.
    Link,
    /// A private network.
    Private,
    /// The public internet.
    Public,
}

impl Distance {
    fn of(address: IpAddr) -> Distance {
        let address = address.to_canonical();
        let link = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        match () {
            () if address.is_loopback() || address.is_unspecified() => Distance::Loopback,
            () if link => Distance::Link,
            () if is_public(address) => Distance::Public,
            () => Distance::Private,
        }
    }
}

/// Distance of the address of the last connection to the server.
#[derive(Clone)]
pub(super) struct ServerDistance(Arc<AtomicU8>);

impl ServerDistance {
    /// Creates the distance of a server without a connection, which counts as public.
    pub(super) fn unknown() -> ServerDistance {
        ServerDistance(Arc::new(AtomicU8::new(Distance::Public as u8)))
    }

    fn set(&self, address: IpAddr) {
        self.0.store(Distance::of(address) as u8, Ordering::Relaxed);
    }

    /// Returns the rule for connections to the server: each one sets the distance.
    pub(super) fn learned(&self) -> DistanceRule {
        DistanceRule::Learn(self.clone())
    }

    /// Returns the rule for connections to URLs that the server sends.
    fn minimum(&self) -> DistanceRule {
        DistanceRule::Minimum(self.clone())
    }
}

/// Use of the server's distance by the connections of one agent.
#[derive(Clone)]
pub(super) enum DistanceRule {
    /// The connections are not checked.
    Unused,
    /// The connections are to the server, and set its distance.
    Learn(ServerDistance),
    /// Connections are allowed only to addresses that are not nearer to this machine than the
    /// server.
    Minimum(ServerDistance),
}

impl DistanceRule {
    /// Returns whether this address may be connected to.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        match self {
            DistanceRule::Minimum(server) => Distance::of(address) as u8 >= server.0.load(Ordering::Relaxed),
            DistanceRule::Unused | DistanceRule::Learn(_) => true,
        }
    }

    /// Returns whether a proxy may be used for this host. The proxy resolves names, and its rules
    /// apply to them.
    pub(super) fn allows_through_proxy(&self, host: &str) -> bool {
        match (self, host.parse()) {
            (DistanceRule::Minimum(_), Ok(address)) => self.allows(address),
            (DistanceRule::Minimum(_), Err(_)) => !is_this_machine(host),
            (DistanceRule::Unused | DistanceRule::Learn(_), _) => true,
        }
    }

    /// Reports a connection to this address, not to a proxy.
    pub(super) fn connected(&self, address: IpAddr) {
        if let DistanceRule::Learn(server) = self {
            server.set(address);
        }
    }
}

/// Outer and inner exchange of an exchange. The exchange of a request is the outer one while its
/// thread performs the exchanges of a sign-in.
pub(super) struct Nesting {
    outer: Option<Arc<Exchange>>,
    inner: Option<Weak<Exchange>>,
}

impl Nesting {
    pub(super) fn none() -> Nesting {
        Nesting { outer: None, inner: None }
    }

    /// Returns the duration of the next wait, which the outer exchange may shorten.
    ///
    /// # Errors
    /// The outer exchange has ended.
    pub(super) fn slice(&self, own: Duration) -> Result<Duration, StopReason> {
        match &self.outer {
            Some(outer) => Ok(own.min(outer.slice()?)),
            None => Ok(own),
        }
    }

    /// Removes the inner exchange and returns it.
    pub(super) fn take_inner(&mut self) -> Option<Arc<Exchange>> {
        self.inner.take().and_then(|inner| inner.upgrade())
    }
}

impl Exchange {
    /// Creates an exchange inside this one. It ends at `deadline`, or when this one ends.
    fn within(self: &Arc<Exchange>, deadline: Instant) -> Arc<Exchange> {
        let inner = Exchange::until(None, deadline);
        lock(&inner.state).nesting.outer = Some(Arc::clone(self));
        let inner = Arc::new(inner);
        let mut state = lock(&self.state);
        state.nesting.inner = Some(Arc::downgrade(&inner));
        let stop = state.stop;
        drop(state);
        if let Some(stop) = stop {
            inner.stop(stop);
        }
        inner
    }

    /// Stops the clock of the request's deadline while the user is asked. Returns `None` if the
    /// exchange has no request.
    fn ask_user(&self) -> Option<AskingUser> {
        match &lock(&self.state).until {
            Until::Request(sink, _) => {
                sink.ask_user(true);
                Some(AskingUser(Arc::clone(sink)))
            }
            Until::At(_) | Until::Stopped => None,
        }
    }
}

/// Guard that resumes the clock of a request's deadline when dropped.
struct AskingUser(Arc<dyn MessageHandler>);

impl Drop for AskingUser {
    fn drop(&mut self) {
        self.0.ask_user(false);
    }
}
