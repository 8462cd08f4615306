//! Trait of the sign-in flows, and their shared code.

use super::metadata::AuthServer;
use super::registration::{Purpose, Registration, registration};
use super::token::{TokenClient, Tokens};
use super::url::Form;
use super::{Prover, Settings};
use crate::error::Error;
use crate::transport::http_client::sign_in::WebClient;

/// Way to obtain tokens without an earlier grant.
pub(super) trait Flow: Send + Sync {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error>;

    /// Returns whether the flow requires the user, and therefore a thread that may wait.
    fn asks_user(&self) -> bool;
}

/// Tokens and the client that they were issued to.
pub(super) struct Granted {
    pub client: Registration,
    pub tokens: Tokens,
}

/// One attempt to obtain tokens.
pub(super) struct Attempt<'a> {
    pub settings: &'a Settings,
    pub web: &'a WebClient,
    pub server: &'a AuthServer,
    /// Identifier of the server that the tokens are for.
    pub resource: &'a str,
    /// Scopes, separated by spaces.
    pub scope: Option<&'a str>,
    /// The registration of an earlier grant of the same issuer.
    pub known: Option<&'a Registration>,
}

impl Attempt<'_> {
    pub(super) fn registration(
        &self,
        grant_type: &str,
        redirect_uri: Option<&str>,
    ) -> Result<Registration, Error> {
        let purpose = Purpose { grant_type, redirect_uri };
        registration(self.settings, self.web, self.server, self.known, purpose)
    }

    pub(super) fn client<'a>(&'a self, client: &'a Registration) -> TokenClient<'a> {
        TokenClient {
            web: self.web,
            server: self.server,
            client,
            signer: self.settings.client.as_ref().and_then(|client| client.signer.as_deref()),
            prover: self.prover(),
        }
    }

    /// Returns the key to bind tokens to, if the server supports its algorithm.
    pub(super) fn prover(&self) -> Option<&dyn Prover> {
        let prover = self.settings.prover.as_deref()?;
        self.server.dpop.iter().any(|algorithm| algorithm == prover.algorithm()).then_some(prover)
    }

    pub(super) fn tokens(&self, client: &Registration, form: Form) -> Result<Tokens, Error> {
        self.client(client).tokens(form)
    }

    /// Adds the resource and the scopes of the tokens.
    pub(super) fn add_target(&self, form: &mut Form) {
        form.add("resource", self.resource);
        if let Some(scope) = self.scope {
            form.add("scope", scope);
        }
    }
}
