//! Methods of a build without the feature `http-server`: the compiler names the feature instead of
//! a method with a similar name.

use crate::error::Error;

use super::Server;

/// Implemented by no type.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this method needs the feature `http-server` of tinymcp",
    label = "run `cargo add tinymcp --features http-server`"
)]
pub trait HttpServerFeature {}

#[doc(hidden)]
impl Server {
    pub fn serve_http<A: HttpServerFeature>(self, _address: A) -> Result<(), Error> {
        Ok(())
    }

    // A bound without any parameter would have to hold here already.
    pub fn http<'a>(self) -> Server
    where
        &'a Server: HttpServerFeature,
    {
        self
    }
}
