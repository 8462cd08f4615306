//! Visibility of entries in a build without the feature `visibility`: a caller sees every entry.

use std::marker::PhantomData;

use crate::server::Server;
use crate::server::call::CallResult;
use crate::server::registry::Describe;
use crate::server::serve::state::Core;
use crate::transport::ReplySink;

/// The entries that a caller sees: every entry.
#[derive(Clone, Copy)]
pub(crate) struct View<'v>(PhantomData<&'v ()>);

impl View<'_> {
    /// Every entry.
    pub(crate) const ALL: View<'static> = View(PhantomData);

    /// Returns the entries that the sender of a request sees.
    #[inline]
    pub(crate) fn of(_: &Core, _: &dyn ReplySink) -> View<'static> {
        View(PhantomData)
    }

    /// Returns whether entries may be hidden.
    #[inline]
    pub(crate) fn is_partial(&self) -> bool {
        false
    }

    /// Returns whether the caller sees an entry.
    #[inline]
    pub(crate) fn shows(&self, _: &impl Describe) -> bool {
        true
    }

    /// Returns whether the caller sees a resource that only another server lists.
    #[inline]
    pub(crate) fn shows_uri(&self, _: &str) -> bool {
        true
    }
}

pub(in crate::server) fn make_caches_private(_: &mut Server) {}

pub(in crate::server) fn make_result_private(_: &Core, _: &mut CallResult) {}

/// Implemented by no type: the compiler names the feature instead of a method with a similar name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `visibility` of tinymcp",
    label = "run `cargo add tinymcp --features visibility`"
)]
pub trait VisibilityFeature {}

// A bound of `F` would be checked after the closure, whose types are not known.
#[doc(hidden)]
impl Server {
    pub fn visible<'a, F>(&mut self, _visible: F) -> &mut Server
    where
        &'a Server: VisibilityFeature,
    {
        self
    }
}
