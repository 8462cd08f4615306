//! HTTP rules of the legacy era: header fields of sessions and resumption, and its statuses.
//!
//! Source: MCP 2025-11-25 basic/transports (session management, resumability).

use crate::json::Value;
use crate::model::Fault;
use crate::rpc::{Request, code};

use super::super::encode;
use super::super::http::{Fields, HttpEra, SessionRules, is_legacy};
use super::super::modern::header::{MirroredArgument, VERSION};
use super::super::version::{self, V2025_11_25};
use super::super::{Encoded, Params};
use super::server::LegacyServer;
use super::{LAST_EVENT, SESSION};

/// Maximum length of a version that an error quotes; valid ones have ten bytes.
const MAX_VERSION_LENGTH: usize = 64;

static SESSIONS: SessionRules = SessionRules {
    id: SESSION,
    last_event: LAST_EVENT,
    opens: "initialize",
    check,
    resumes: |revision| revision == V2025_11_25,
    missing: || {
        Fault::InvalidRequest(format!("{SESSION} is missing: open a session with initialize first").into())
    },
    lost: || Fault::InvalidRequest("Unknown session: open a new one with initialize".into()),
};

impl HttpEra for LegacyServer {
    /// Checks nothing: a request only needs the id of its session.
    fn check(&self, _: &dyn Fields, _: &Request<'_>, _: &Params<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check_arguments(
        &self,
        _: &dyn Fields,
        _: &[MirroredArgument],
        _: Option<Value<'_>>,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Event streams use GET.
    fn streams(&self, _: &str) -> bool {
        false
    }

    /// Errors have status 200, except those for bytes that are not a message.
    fn status(&self, encoded: Encoded) -> u16 {
        match encoded.error {
            Some(code::PARSE | code::INVALID_REQUEST) => 400,
            _ => 200,
        }
    }

    fn sessions(&self) -> Option<&'static SessionRules> {
        Some(&SESSIONS)
    }
}

/// Accepts any version that has sessions, also one that was not negotiated, because the session
/// stores its own. Other versions MUST get status 400 (2025-11-25 basic/transports, protocol
/// version header), with the error that basic/lifecycle gives as its example.
fn check(fields: &dyn Fields) -> Result<(), Fault> {
    let Some(version) = fields.field(VERSION).filter(|version| !is_legacy(version)) else { return Ok(()) };
    let requested = std::str::from_utf8(version)
        .ok()
        .filter(|v| v.len() <= MAX_VERSION_LENGTH && v.bytes().all(|b| b.is_ascii_graphic()));
    Err(Fault::Custom {
        code: code::INVALID_PARAMS,
        message: format!("Unsupported protocol version: {VERSION} must be the version of the session"),
        data: Some(encode::object(|w| {
            w.key("supported").begin_array();
            for name in version::legacy() {
                w.string(name);
            }
            w.end_array();
            if let Some(requested) = requested {
                w.key("requested").string(requested);
            }
        })),
    })
}
