//! Encoding shared by both eras. A member that a revision lacks is left out or down-converted
//! (requirements, section AE).

mod catalog;
mod client_request;
mod content;
mod frame;
#[cfg(feature = "hub")]
mod proxied;

pub(super) use catalog::{implementation, prompt, resource, template, tool};
#[cfg(feature = "client")]
pub(super) use client_request::ask_reply;
pub(crate) use client_request::question;
#[cfg(feature = "client")]
pub(super) use frame::client_capabilities;
pub(super) use frame::{begin_notification, begin_result, end, object, offer, reply_members, signal_members};

use crate::json::Json;

/// The members of an object's text, without its braces.
fn members(object: &Json) -> &str {
    let text = object.as_str().trim();
    text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default().trim()
}
