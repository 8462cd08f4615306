//! One server over HTTP, for `tinymcp record`: a function gets each frame of its clients.

use std::sync::Arc;

use tinymcp::Frame;

pub(crate) use super::aliases::AliasSettings;
pub(crate) use super::options::{Options, ToUrl};
use crate::Result;

/// Returns the values that the server gets as variables or headers. They may be credentials.
pub(crate) fn secrets(options: &Options) -> Vec<String> {
    super::single_server(options).1.secrets()
}

/// Serves until a signal arrives. The function gets a frame before it is passed on.
///
/// # Errors
/// An option is not valid, the address is not available, or the server cannot be used.
pub(crate) fn serve(options: Options, observe: impl Fn(&Frame<'_>) + Send + Sync + 'static) -> Result<()> {
    let options = Arc::new(options);
    let (hub, mut server) = super::export(&options, None).map_err(|error| error.to_string())?;
    server.on_frame(observe);
    super::serve(&options, &hub, server, None)
}
