//! Stubs of the limits on calls, for a build without the feature `rate-limits`.

#![allow(dead_code)] // Other features use it.

use crate::model::Fault;
use crate::transport::ReplySink;

use crate::server::Server;
use crate::server::call::Target;
use crate::server::dispatch::{Dispatcher, InlineTools};

/// A running call that counts in a limit.
pub(crate) enum CallPermit {}

/// Time after which a rejected call may be repeated.
pub(crate) enum RetryAfter {}

impl RetryAfter {
    pub(crate) fn seconds(&self) -> u32 {
        match *self {}
    }
}

impl Dispatcher<dyn InlineTools> {
    /// Checks a call against the limits of its caller.
    #[inline]
    pub(in crate::server) fn permit(
        &mut self,
        _target: &Target,
        _method: &str,
        _sink: &dyn ReplySink,
    ) -> Result<Option<CallPermit>, Fault> {
        Ok(None)
    }
}

/// Implemented by no type: the compiler names the feature instead of a method with a similar name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `rate-limits` of tinymcp",
    label = "run `cargo add tinymcp --features rate-limits`"
)]
pub trait RateLimitsFeature {}

#[doc(hidden)]
impl Server {
    pub fn limit_calls<L: RateLimitsFeature>(&mut self, _limit: L) -> &mut Server {
        self
    }

    pub fn limit_tool<L: RateLimitsFeature>(&mut self, _tool: &str, _limit: L) -> &mut Server {
        self
    }
}
