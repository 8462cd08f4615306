//! Stubs of observation and middleware, for a build without the feature `observe`.

#![allow(dead_code)] // Other features use it.

use std::sync::Arc;

use crate::era::Encoded;
use crate::json::Value;
use crate::model::catalog::Tool;
use crate::transport::ReplySink;

use crate::server::Server;
use crate::server::call::Output;
use crate::server::context::Context;
use crate::server::dispatch::{Dispatcher, Effect, Incoming, InlineTools};
use crate::server::tool_error::ToolError;

/// The sink of an observed call.
#[derive(Default)]
pub(crate) struct Observed(());

impl Observed {
    #[inline]
    pub(crate) fn sink_or<'s>(&'s self, plain: &'s Arc<dyn ReplySink>) -> &'s Arc<dyn ReplySink> {
        plain
    }
}

#[inline]
pub(crate) fn started(_: &dyn ReplySink) {}

#[inline]
pub(crate) fn tool_failed(_: &dyn ReplySink) {}

#[inline]
pub(crate) fn timed_out(_: &dyn ReplySink) {}

#[inline]
pub(crate) fn cancelled(_: &dyn ReplySink) {}

#[inline]
pub(crate) fn response_sent(_: &dyn ReplySink, _: Encoded, _bytes: usize) {}

/// Runs the handler of a tool.
#[inline]
pub(crate) fn around(
    ctx: &mut Context<'_>,
    _: &Tool,
    _: Value<'_>,
    handler: &mut impl FnMut(&mut Context<'_>) -> Result<Output, ToolError>,
) -> Result<Output, ToolError> {
    handler(ctx)
}

impl Dispatcher<dyn InlineTools> {
    /// Dispatches a request.
    #[inline]
    pub(in crate::server) fn request(&mut self, incoming: Incoming<'_>) -> Effect {
        self.plain_request(incoming)
    }
}

/// Implemented by no type: the compiler names the feature instead of a method with a similar name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `observe` of tinymcp",
    label = "run `cargo add tinymcp --features observe`"
)]
pub trait ObserveFeature {}

// A bound of `F` would be checked after the closure, whose types are not known.
#[doc(hidden)]
impl Server {
    pub fn observe<'a, F>(&mut self, _observe: F) -> &mut Server
    where
        &'a Server: ObserveFeature,
    {
        self
    }

    pub fn around_tools<'a, F>(&mut self, _around: F) -> &mut Server
    where
        &'a Server: ObserveFeature,
    {
        self
    }
}
