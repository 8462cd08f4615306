//! The HTTP client in a build without the feature `oauth`: it adds no credentials of its own.
//!
//! Every type has size zero, so the compiler removes all of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ureq::Body;
use ureq::http::{HeaderMap, Request, Response};

use super::deadline::{Exchange, StopReason};
use super::endpoint::Target;
use crate::error::challenge::{Challenge, Unauthorized};
use crate::limits::Limits;

/// Source of credentials of an endpoint; this build has none.
#[derive(Clone)]
pub(super) struct CredentialSource;

impl CredentialSource {
    pub(super) fn none() -> CredentialSource {
        CredentialSource
    }

    pub(super) fn unless_fixed(self, _: &HeaderMap) -> CredentialSource {
        self
    }

    pub(super) fn of_endpoint(&self, _: &Target, _: &Limits, _: &ServerDistance) -> Credentials {
        Credentials
    }
}

/// Credentials of the messages to one endpoint; this build has none.
pub(super) struct Credentials;

impl Credentials {
    pub(super) fn authorize(&self, _: &mut Request<()>) -> Result<(), Unauthorized> {
        Ok(())
    }

    pub(super) fn renew(&self, _: &Response<Body>, _: &mut Attempts) -> Result<bool, Unauthorized> {
        Ok(false)
    }

    pub(super) fn mask(&self, _: &mut String) {}
}

/// Attempts to send one message; this build makes only one.
pub(super) struct Attempts;

impl Attempts {
    pub(super) fn new(_: bool) -> Attempts {
        Attempts
    }

    pub(super) fn set_used(&mut self, _: &HeaderMap) {}
}

/// Returns `None`: this build does not read challenges.
pub(super) fn challenge_in(_: &HeaderMap) -> Option<Challenge> {
    None
}

/// Distance of the server from this machine. Not used, because this build connects to no URLs that
/// the server sends.
pub(super) struct ServerDistance;

impl ServerDistance {
    pub(super) fn unknown() -> ServerDistance {
        ServerDistance
    }

    pub(super) fn learned(&self) -> DistanceRule {
        DistanceRule::Unused
    }
}

/// Use of the server's distance by the connections of one agent; this build does not use it.
#[derive(Clone)]
pub(super) enum DistanceRule {
    Unused,
}

impl DistanceRule {
    pub(super) fn allows(&self, _: IpAddr) -> bool {
        true
    }

    pub(super) fn allows_through_proxy(&self, _: &str) -> bool {
        true
    }

    pub(super) fn connected(&self, _: IpAddr) {}
}

/// Outer and inner exchange of an exchange; this build has none.
pub(super) struct Nesting;

impl Nesting {
    pub(super) fn none() -> Nesting {
        Nesting
    }

    pub(super) fn slice(&self, own: Duration) -> Result<Duration, StopReason> {
        Ok(own)
    }

    pub(super) fn take_inner(&mut self) -> Option<Arc<Exchange>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_have_size_zero() {
        let sizes = [
            size_of::<CredentialSource>(),
            size_of::<Credentials>(),
            size_of::<Attempts>(),
            size_of::<Option<Challenge>>(),
            size_of::<ServerDistance>(),
            size_of::<DistanceRule>(),
            size_of::<Nesting>(),
        ];
        assert_eq!(sizes, [0; 7]);
        assert_eq!(size_of::<Result<(), Unauthorized>>(), 0);
    }
}
