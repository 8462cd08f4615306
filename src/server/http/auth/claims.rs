//! Claims of a token, from its payload or from an introspection.
//!
//! Source: RFC 7519, section 4.1; RFC 7662, section 2.2; RFC 9068, section 4; RFC 8707.
//!
//! # Invariants
//! - A token for another audience is rejected, and so is one that names no audience.
//! - A token that is bound to a key (`cnf`) is rejected: as a bearer token it would be accepted
//!   without the proof that its issuer requires.

use std::time::{Duration, SystemTime};

use crate::json::Value;

use super::{Principal, TokenRefusal};

/// Requirements for the claims of a token.
#[derive(Clone, Debug)]
pub(super) struct Requirements {
    /// Value of `iss`. Without one, `iss` is not checked.
    pub issuer: Option<String>,
    /// A value of `aud`: the URL of this server.
    pub audience: String,
    /// Accepted difference between the clocks of issuer and server.
    pub leeway: Duration,
    /// `exp` is required.
    pub needs_expiry: bool,
}

/// Largest accepted difference between two clocks that can be set.
pub(super) const MAX_LEEWAY: Duration = Duration::from_secs(300);
/// Default for the accepted difference between two clocks.
pub(super) const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);

impl Requirements {
    /// Returns the principal of a token with these claims.
    ///
    /// # Errors
    /// A claim is missing or malformed, or it does not meet the requirements.
    pub(super) fn check(&self, claims: Value<'_>, now: SystemTime) -> Result<Principal, TokenRefusal> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let is_issuer = self.issuer.as_deref().is_none_or(|issuer| text("iss") == Some(issuer));
        let has_audience = claims.get("aud").is_some_and(|aud| contains_text(aud, &self.audience));
        if !is_issuer || !has_audience || claims.get("cnf").is_some() {
            return Err(TokenRefusal::Invalid);
        }
        let expiry = time(claims, "exp")?;
        let is_late = |expiry: SystemTime| now >= expiry + self.leeway;
        let is_early = |begin: SystemTime| now + self.leeway < begin;
        if expiry.is_some_and(is_late)
            || (expiry.is_none() && self.needs_expiry)
            || time(claims, "nbf")?.is_some_and(is_early)
            || time(claims, "iat")?.is_some_and(is_early)
        {
            return Err(TokenRefusal::Invalid);
        }
        // The prefix distinguishes a client from a user of the same name.
        let owner = text("sub").filter(|sub| !sub.is_empty()).map(str::to_owned);
        let owner = owner.or_else(|| Some(format!("client {}", text("client_id")?)));
        let mut principal = Principal::new(owner.ok_or(TokenRefusal::Invalid)?);
        // Some issuers use `scp`. Its value may be a list.
        for scopes in ["scope", "scp"].iter().filter_map(|name| claims.get(name)) {
            principal = match scopes.as_str() {
                Some(scopes) => principal.scopes(scopes),
                None => scopes.items().filter_map(Value::as_str).fold(principal, Principal::scopes),
            };
        }
        Ok(match expiry {
            Some(expiry) => principal.expires_at(expiry + self.leeway),
            None => principal,
        })
    }
}

/// Returns whether a claim, a string or a list of strings, contains this text.
fn contains_text(claim: Value<'_>, text: &str) -> bool {
    match claim.as_str() {
        Some(one) => one == text,
        None => claim.items().any(|item| item.as_str() == Some(text)),
    }
}

/// Reads the time of a claim, in seconds since 1970.
fn time(claims: Value<'_>, name: &str) -> Result<Option<SystemTime>, TokenRefusal> {
    let Some(claim) = claims.get(name) else { return Ok(None) };
    let seconds = claim.as_f64().filter(|seconds| (0.0..1e11).contains(seconds));
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(seconds));
    time.map(Some).ok_or(TokenRefusal::Invalid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::Doc;

    #[test]
    fn claims_must_meet_the_requirements() {
        let requirements = Requirements {
            issuer: Some("https://as".into()),
            audience: "https://me/mcp".into(),
            leeway: DEFAULT_LEEWAY,
            needs_expiry: true,
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let check = |claims: &str| {
            let doc = Doc::parse(claims).unwrap();
            let principal = requirements.check(doc.root(), now)?;
            Ok((principal.name.to_string(), principal.scopes.join(",")))
        };
        let with = |more: &str| {
            check(&format!("{{\"iss\":\"https://as\",\"aud\":\"https://me/mcp\",\"exp\":1000001{more}}}"))
        };
        assert_eq!(with(",\"sub\":\"alice\",\"scope\":\"a b\""), Ok(("alice".into(), "a,b".into())));
        assert_eq!(with(",\"client_id\":\"x\",\"scp\":[\"a\",\"b\"]"), Ok(("client x".into(), "a,b".into())));
        assert_eq!(with(",\"sub\":\"a\",\"nbf\":1000030,\"iat\":1000030"), Ok(("a".into(), String::new())));
        for bad in [
            "",
            ",\"sub\":\"\"",
            ",\"sub\":1",
            ",\"sub\":\"a\",\"nbf\":1000031",
            ",\"sub\":\"a\",\"iat\":1000031",
            ",\"sub\":\"a\",\"nbf\":\"0\"",
            ",\"sub\":\"a\",\"nbf\":-1",
            ",\"sub\":\"a\",\"cnf\":{\"jkt\":\"x\"}",
        ] {
            assert_eq!(with(bad), Err(TokenRefusal::Invalid), "{bad}");
        }
        let expiring = |exp: &str| {
            check(&format!(
                "{{\"iss\":\"https://as\",\"aud\":[\"x\",\"https://me/mcp\"],\"sub\":\"a\"{exp}}}"
            ))
        };
        for (exp, valid) in [
            (",\"exp\":999971", true),
            (",\"exp\":999970", false),
            (",\"exp\":999971.5", true),
            (",\"exp\":\"1000001\"", false),
            (",\"exp\":1e300", false),
            (",\"exp\":null", false),
            ("", false),
        ] {
            assert_eq!(expiring(exp).is_ok(), valid, "{exp}");
        }
        for other in [
            "{\"iss\":\"https://as/\",\"aud\":\"https://me/mcp\",\"exp\":1000001,\"sub\":\"a\"}",
            "{\"aud\":\"https://me/mcp\",\"exp\":1000001,\"sub\":\"a\"}",
            "{\"iss\":\"https://as\",\"aud\":\"https://me\",\"exp\":1000001,\"sub\":\"a\"}",
            "{\"iss\":\"https://as\",\"aud\":[],\"exp\":1000001,\"sub\":\"a\"}",
            "{\"iss\":\"https://as\",\"exp\":1000001,\"sub\":\"a\"}",
            "[]",
            "1",
        ] {
            assert_eq!(check(other), Err(TokenRefusal::Invalid), "{other}");
        }
    }
}
