//! Enterprise-managed authorization: the identity provider of a company decides about access, and
//! users do not sign in at each server.
//!
//! Source: MCP extension io.modelcontextprotocol/enterprise-managed-authorization; RFC 8693 (token
//! exchange); draft-ietf-oauth-identity-assertion-authz-grant (ID-JAG).
//!
//! # Invariants
//! - The identity token is sent only to the identity provider that the program sets.

use std::fmt;
use std::sync::Arc;

use super::flow::{Attempt, Flow, Granted};
use super::metadata::AuthServer;
use super::registration::OAuthClient;
use super::token::TokenClient;
use super::url::Form;
use super::{jwt_bearer, misbehaved};
use crate::error::Error;
use crate::json::Value;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Identity provider of a company, see [`SignIn`](super::SignIn).
///
/// ```
/// use tinymcp::oauth::{IdentityProvider, MemoryStore, OAuth, OAuthClient, SignIn};
///
/// let here = OAuthClient::new("agent").secret("…");
/// let provider = IdentityProvider::new("https://login.example.com", here, || {
///     Ok(std::fs::read_to_string("/run/agent/id-token")?)
/// });
/// let there = OAuthClient::new("agent-17").secret("…").issuer("https://auth.example.com");
/// let oauth = OAuth::new(MemoryStore::new())
///     .client(there)
///     .on_sign_in(SignIn::identity_provider(provider));
/// ```
#[derive(Clone)]
#[must_use]
pub struct IdentityProvider {
    issuer: String,
    client: OAuthClient,
    id_token: Arc<dyn Fn() -> Result<String, Error> + Send + Sync>,
}

impl IdentityProvider {
    /// Creates an identity provider from its issuer, where its metadata is found. `client` is the
    /// registration of this program there. `id_token` returns the identity token of the user's
    /// sign-in at the identity provider (OpenID Connect).
    pub fn new(
        issuer: impl Into<String>,
        client: OAuthClient,
        id_token: impl Fn() -> Result<String, Error> + Send + Sync + 'static,
    ) -> IdentityProvider {
        IdentityProvider { issuer: issuer.into(), client, id_token: Arc::new(id_token) }
    }

    /// Exchanges the identity token for an assertion to the authorization server.
    fn assertion(&self, attempt: &Attempt<'_>) -> Result<String, Error> {
        // The program sets the provider, so its address is not restricted.
        let web = attempt.web.unrestricted();
        let provider = AuthServer::discover(&web, &self.issuer)?;
        let client = self.client.registration();
        let signer = self.client.signer.as_deref();
        let id_token = (self.id_token)()?;
        let mut form = Form::default();
        form.add("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        form.add("requested_token_type", ID_JAG).add("audience", &attempt.server.issuer);
        form.add("subject_token", id_token.trim());
        form.add("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
        attempt.add_target(&mut form);
        let exchange = TokenClient { web: &web, server: &provider, client: &client, signer, prover: None };
        let what = "the token exchange at the identity provider";
        let doc = exchange.post(&provider.token, form, what)?;
        let text = |name: &str| doc.root().get(name).and_then(Value::as_str);
        if text("issued_token_type") != Some(ID_JAG) {
            return Err(misbehaved("the identity provider issued a token of another type than requested"));
        }
        let assertion = text("access_token").filter(|token| !token.is_empty());
        let missing = || misbehaved("the response of the identity provider has no `access_token`");
        assertion.map(str::to_owned).ok_or_else(missing)
    }
}

impl Flow for IdentityProvider {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error> {
        let assertion = self.assertion(attempt)?;
        jwt_bearer::obtain(attempt, &assertion)
    }

    fn asks_user(&self) -> bool {
        false
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("IdentityProvider");
        shown.field("issuer", &self.issuer).field("client", &self.client).finish_non_exhaustive()
    }
}
