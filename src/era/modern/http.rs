//! HTTP rules of the modern era: header fields that mirror the body, and the status of every error.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (request headers, server validation),
//! basic/index (error codes).

use crate::json::{Json, Value};
use crate::model::Fault;
use crate::rpc::{Request, code};

use super::super::http::{Fields, HttpEra, SessionRules};
use super::super::version::{self, V2026_07_28};
use super::super::{Encoded, Params};
use super::header::{self, METHOD, MISMATCH, MirroredArgument, NAME, VERSION};
use super::server::{self, MISSING_CAPABILITY, ModernServer, UNSUPPORTED_VERSION};

impl HttpEra for ModernServer {
    /// Checks in the order that the conformance suite expects (requirement H26-28): version field,
    /// `_meta`, both equal, version known, method, name.
    fn check(&self, fields: &dyn Fields, request: &Request<'_>, params: &Params<'_>) -> Result<(), Fault> {
        let Some(version) = fields.field(VERSION) else {
            let supported = version::name(V2026_07_28);
            return Err(mismatch_with(
                format!("{VERSION} header is missing (supported: {supported})"),
                Some(server::supported(None)),
            ));
        };
        let (named, _) = server::declared(params)?;
        if version != named.as_bytes() {
            return Err(mismatch(format!("{VERSION} header does not match the body's _meta")));
        }
        if version::parse(named) != Some(V2026_07_28) {
            return Err(Fault::UnsupportedVersion(named.to_owned()));
        }
        match fields.field(METHOD) {
            None => return Err(mismatch(format!("{METHOD} header is missing"))),
            Some(method) if method != request.method.as_bytes() => {
                return Err(mismatch(format!("{METHOD} header does not match the body's method")));
            }
            Some(_) => {}
        }
        let Some(member) = header::name_member(request.method) else { return Ok(()) };
        let name = if member == "name" { params.name } else { params.get(member) };
        match (fields.field(NAME), name.and_then(Value::as_str)) {
            (None, _) => Err(mismatch(format!("{NAME} header is missing"))),
            // The body is invalid; the check of the parameters reports it.
            (Some(_), None) => Ok(()),
            (Some(field), Some(name)) => match header::decode(field) {
                Some(text) if text == name => Ok(()),
                _ => Err(mismatch(format!("{NAME} header does not match the body"))),
            },
        }
    }

    fn streams(&self, method: &str) -> bool {
        method == "subscriptions/listen"
    }

    /// Errors that a client can correct have status 400, an unknown method 404, everything else 200
    /// (requirements H26-20, H26-21).
    fn status(&self, encoded: Encoded) -> u16 {
        match encoded.error {
            Some(code::METHOD_NOT_FOUND) => 404,
            Some(
                code::PARSE
                | code::INVALID_REQUEST
                | code::INVALID_PARAMS
                | MISMATCH
                | MISSING_CAPABILITY
                | UNSUPPORTED_VERSION,
            ) => 400,
            _ => 200,
        }
    }

    fn check_arguments(
        &self,
        fields: &dyn Fields,
        mirrors: &[MirroredArgument],
        arguments: Option<Value<'_>>,
    ) -> Result<(), Fault> {
        for mirror in mirrors {
            mirror
                .check(fields.field(&mirror.header), arguments)
                .map_err(|why| mismatch(format!("{} header {why}", mirror.header)))?;
        }
        Ok(())
    }

    fn sessions(&self) -> Option<&'static SessionRules> {
        None
    }
}

fn mismatch(message: String) -> Fault {
    mismatch_with(message, None)
}

fn mismatch_with(message: String, data: Option<Json>) -> Fault {
    Fault::Custom { code: MISMATCH, message, data }
}
