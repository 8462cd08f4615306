//! JWT bearer grant: exchanges an assertion, a JSON Web Token of another issuer, for tokens.
//!
//! Source: RFC 7523, sections 2.1 and 3; MCP SEP-1933 (workload identity).
//!
//! # Invariants
//! - An assertion is sent only to the authorization server that its audience names or that the
//!   program set. Otherwise a server could obtain an assertion for another server.

use base64ct::{Base64UrlUnpadded, Encoding};

use super::flow::{Attempt, Flow, Granted};
use super::metadata::{AuthServer, parse_object};
use super::url::Form;
use crate::error::{Error, ErrorKind};
use crate::json::Value;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Flow that obtains tokens for assertions that a function returns.
pub(super) struct JwtBearer<F>(pub F);

impl<F: Fn(&str) -> Result<String, Error> + Send + Sync> Flow for JwtBearer<F> {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error> {
        let assertion = (self.0)(&attempt.server.issuer)?;
        let assertion = assertion.trim();
        // A client that is bound to this authorization server was checked at discovery.
        let bound = attempt.settings.client.as_ref().is_some_and(|client| client.issuer.is_some());
        if !bound {
            check_audience(assertion, attempt.server)?;
        }
        obtain(attempt, assertion)
    }

    fn asks_user(&self) -> bool {
        false
    }
}

/// Requests tokens for an assertion.
pub(super) fn obtain(attempt: &Attempt<'_>, assertion: &str) -> Result<Granted, Error> {
    let client = attempt.registration(GRANT_TYPE, None)?;
    let mut form = Form::default();
    form.add("grant_type", GRANT_TYPE).add("assertion", assertion);
    attempt.add_target(&mut form);
    let tokens = attempt.tokens(&client, form)?;
    Ok(Granted { client, tokens })
}

/// Checks that an assertion is for this authorization server.
fn check_audience(assertion: &str, server: &AuthServer) -> Result<(), Error> {
    let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, format!("invalid assertion: {why}")));
    let mut parts = assertion.split('.');
    let (_, claims) = (parts.next(), parts.next());
    let claims = claims.filter(|_| parts.next().is_some() && parts.next().is_none());
    let claims = claims.and_then(|claims| Base64UrlUnpadded::decode_vec(claims).ok());
    let Some(claims) = claims.and_then(|claims| parse_object(&claims)) else {
        return invalid("it must be a JSON Web Token".into());
    };
    let token_endpoint = server.token.to_string();
    let bare = |name: &str| name.strip_suffix('/').unwrap_or(name).to_owned();
    let names = |audience: Value<'_>| {
        let audience = audience.as_str();
        audience.is_some_and(|name| name == token_endpoint || bare(name) == bare(&server.issuer))
    };
    let named = claims.root().get("aud").is_some_and(|audience| match audience.as_str() {
        Some(_) => names(audience),
        None => audience.kind() == crate::json::Kind::Array && audience.items().any(names),
    });
    match named {
        true => Ok(()),
        false => invalid(format!(
            "its audience (`aud`) must be the authorization server {}, or set that server with \
             `OAuthClient::issuer`",
            server.issuer
        )),
    }
}
