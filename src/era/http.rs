//! HTTP rules of both eras: detects the era of a POST.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (backward compatibility) and
//! basic/versioning; MCP 2025-11-25 basic/transports. Rules of a single era are in its folder,
//! behind [`HttpEra`]. Nothing here reads a socket.

use crate::json::Value;
use crate::model::{Fault, Revision};
use crate::rpc::Request;

use super::modern::header::{MirroredArgument, VERSION};
use super::version::{self, V2026_07_28};
use super::{Encoded, Eras, Params};

/// The header fields of a request.
pub(crate) trait Fields {
    /// Returns the value of the field with this name, without regard to case and without the
    /// whitespace around it. A field that occurs twice has a value that no check accepts.
    fn field(&self, name: &str) -> Option<&[u8]>;
}

/// HTTP rules of one era.
pub(crate) trait HttpEra: Sync {
    /// Checks the fields of a posted request against its body.
    ///
    /// # Errors
    /// A field is missing or differs.
    fn check(&self, fields: &dyn Fields, request: &Request<'_>, params: &Params<'_>) -> Result<(), Fault>;

    /// Checks the fields that repeat arguments of a call.
    ///
    /// # Errors
    /// A field is missing or differs.
    fn check_arguments(
        &self,
        fields: &dyn Fields,
        mirrors: &[MirroredArgument],
        arguments: Option<Value<'_>>,
    ) -> Result<(), Fault>;

    /// Returns `true` for methods whose response is always an event stream.
    fn streams(&self, method: &str) -> bool;

    /// Returns the status of a response whose head has not been sent yet.
    fn status(&self, encoded: Encoded) -> u16;

    /// Session rules, in an era that has sessions.
    fn sessions(&self) -> Option<&'static SessionRules>;
}

/// Header fields and errors of sessions.
pub(crate) struct SessionRules {
    /// The field that carries a session's id, in both directions.
    pub id: &'static str,
    /// The field that names the last event a client has seen.
    pub last_event: &'static str,
    /// The method of the request that opens a session.
    pub opens: &'static str,
    /// Checks the fields of any request in a session.
    pub check: fn(&dyn Fields) -> Result<(), Fault>,
    /// True if clients of this revision accept an event with only an id and a retry time. Older
    /// clients read every event as a message.
    pub resumes: fn(Revision) -> bool,
    /// Error for a message without a session id, with status 400.
    pub missing: fn() -> Fault,
    /// Error for a message of an unknown session, with status 404.
    pub lost: fn() -> Fault,
}

/// Kind of a posted message, by its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostKind {
    /// A message without a session: the modern era.
    Stateless,
    /// A request that opens a session.
    Initialize,
    /// A message of an open session.
    InSession,
}

impl Eras {
    /// Determines the kind of a posted message. `method` is that of a request or notification
    /// (requirement NEG-05: `_meta` first, then the version field, then the method).
    pub(crate) fn of_post(&self, fields: &dyn Fields, params: &Params<'_>, method: Option<&str>) -> PostKind {
        let Some(rules) = self.legacy.and_then(|era| era.http().sessions()) else {
            return PostKind::Stateless;
        };
        let opens = method.is_some_and(|method| method == rules.opens);
        // An unknown version does not decide: the session rejects the field later, and the opening
        // request need not have it (requirement H11-37).
        let is_modern = |version: &[u8]| {
            version == version::name(V2026_07_28).as_bytes()
                || !opens && !is_legacy(version) && fields.field(rules.id).is_none()
        };
        let names_modern = || params.names_version() || fields.field(VERSION).is_some_and(is_modern);
        match opens {
            _ if self.modern.is_some() && names_modern() => PostKind::Stateless,
            true => PostKind::Initialize,
            false => PostKind::InSession,
        }
    }
}

/// Returns `true` if this version has sessions.
pub(super) fn is_legacy(version: &[u8]) -> bool {
    version::legacy().any(|name| name.as_bytes() == version)
}
