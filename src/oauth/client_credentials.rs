//! Client credentials: a program obtains tokens for itself.
//!
//! Source: RFC 6749, section 4.4; MCP extension io.modelcontextprotocol/oauth-client-credentials.

use super::flow::{Attempt, Flow, Granted};
use super::url::Form;
use crate::error::{Error, ErrorKind};

pub(super) struct ClientCredentials;

impl Flow for ClientCredentials {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error> {
        let client = attempt.settings.client.as_ref();
        let Some(client) = client.filter(|client| client.secret.is_some() || client.signer.is_some()) else {
            let why =
                "client credentials require a registered client with a secret or a key: see `OAuth::client`";
            return Err(Error::new(ErrorKind::Invalid, why));
        };
        let client = client.registration();
        let mut form = Form::default();
        form.add("grant_type", "client_credentials");
        attempt.add_target(&mut form);
        let tokens = attempt.tokens(&client, form)?;
        Ok(Granted { client, tokens })
    }

    fn asks_user(&self) -> bool {
        false
    }
}
