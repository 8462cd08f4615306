//! Extensions in a build without the feature `extensions`. The types have no values, so the
//! compiler removes the code that would use one.

use crate::era::Params;
use crate::era::extension::ServerMembers;
use crate::error::Error;
use crate::json::Value;
use crate::model::Session;
use crate::rpc;

use super::Server;
use super::call::Output;
use super::context::Context;
use super::tool_error::ToolError;

/// Registered extensions.
pub(crate) enum Extensions {}

impl Extensions {
    pub(crate) fn members(&self) -> ServerMembers {
        match *self {}
    }

    pub(crate) fn method(&self, _method: &str) -> Option<Method> {
        match *self {}
    }

    pub(crate) fn notified(&self, _sent: &rpc::Notification<'_>, _principal: Option<&str>) {
        match *self {}
    }

    pub(crate) fn open_session(&self, _session: &mut Session, _params: &Params<'_>) {
        match *self {}
    }
}

/// Method of an extension.
#[derive(Clone)]
pub(crate) enum Method {}

impl Method {
    pub(crate) fn run(
        &self,
        _ctx: &mut Context<'_>,
        _params: Option<Value<'_>>,
    ) -> Result<Output, ToolError> {
        match *self {}
    }
}

/// Implemented by no type: the compiler names the feature instead of a method with a similar name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `extensions` of tinymcp",
    label = "run `cargo add tinymcp --features extensions`"
)]
pub trait ExtensionsFeature {}

#[doc(hidden)]
impl Server {
    pub fn extension<S: ExtensionsFeature>(&mut self, _id: &str, _settings: S) -> Result<&mut Server, Error> {
        Ok(self)
    }

    pub fn method<F: ExtensionsFeature>(&mut self, _name: &str, _handler: F) -> Result<&mut Server, Error> {
        Ok(self)
    }

    pub fn app<P: ExtensionsFeature>(&mut self, _page: P) -> Result<&mut Server, Error> {
        Ok(self)
    }
}
