//! Clients that are registered at an authorization server, as `tinymcp login` stores them.
//!
//! They are in the file `clients.json` beside the tokens, by the URL of the server. It contains the
//! names of the files with a secret or a key, so these files can be replaced at any time.

use std::path::{self, Path, PathBuf};

use tinymcp::json::{Doc, Value, Writer};
use tinymcp::oauth::{FileStore, OAuth, OAuthClient, SignIn, TokenStore};

use crate::Result;
use crate::credentials::secret;

/// Client that is registered at an authorization server.
#[derive(Clone, Default)]
pub(crate) struct RegisteredClient {
    pub(crate) id: String,
    /// The authorization server.
    pub(crate) issuer: Option<String>,
    /// File with the secret.
    pub(crate) secret: Option<PathBuf>,
    /// File with the private key.
    pub(crate) key: Option<PathBuf>,
    /// Obtains tokens by client credentials, without a user.
    pub(crate) signs_in: bool,
}

impl RegisteredClient {
    /// Reads the client for a server.
    ///
    /// # Errors
    /// The file cannot be read, or its entry is not a client.
    pub(crate) fn load(tokens: &FileStore, url: &str) -> Result<Option<RegisteredClient>> {
        let store = file(tokens);
        let bad = || format!("{}: invalid entry for {url}; sign in again", store.path().display());
        let Some(text) = store.load(name(url)).map_err(|error| error.to_string())? else { return Ok(None) };
        let doc = Doc::parse(text.as_bytes()).map_err(|_| bad())?;
        let text = |name: &str| doc.root().get(name).and_then(Value::as_str);
        Ok(Some(RegisteredClient {
            id: text("client_id").ok_or_else(bad)?.to_owned(),
            issuer: text("issuer").map(str::to_owned),
            secret: text("secret_file").map(PathBuf::from),
            key: text("key_file").map(PathBuf::from),
            signs_in: doc.root().get("client_credentials").and_then(Value::as_bool).ok_or_else(bad)?,
        }))
    }

    /// Stores the client for a server, or removes an earlier one.
    ///
    /// # Errors
    /// The file cannot be written, or the name of a file is not UTF-8.
    pub(crate) fn save(client: Option<&RegisteredClient>, tokens: &FileStore, url: &str) -> Result<()> {
        let (store, name) = (file(tokens), name(url));
        let failed = |error: tinymcp::Error| error.to_string();
        let Some(client) = client else {
            return match store.load(name).map_err(failed)? {
                Some(_) => store.save(name, None).map_err(failed),
                None => Ok(()),
            };
        };
        let mut w = Writer::new();
        w.begin_object().key("client_id").string(&client.id);
        if let Some(issuer) = &client.issuer {
            w.key("issuer").string(issuer);
        }
        for (name, file) in [("secret_file", &client.secret), ("key_file", &client.key)] {
            if let Some(file) = file {
                let absolute = path::absolute(file).map_err(|error| error.to_string())?;
                let text = absolute.to_str().ok_or("the name of the file is not UTF-8")?;
                w.key(name).string(text);
            }
        }
        w.key("client_credentials").bool(client.signs_in).end_object();
        store.save(name, Some(w.as_str())).map_err(failed)
    }

    /// Returns whether the client is needed after the sign-in: the tokens alone do not contain it.
    pub(crate) fn is_needed_later(&self) -> bool {
        self.signs_in || self.key.is_some()
    }

    /// Checks that the files can be read again later.
    ///
    /// # Errors
    /// A file is a pipe or another special file.
    pub(crate) fn check_files(&self) -> Result<()> {
        let special = |file: &&PathBuf| file.metadata().is_ok_and(|about| !about.is_file());
        match self.secret.iter().chain(&self.key).find(special) {
            Some(file) => {
                Err(format!("{}: not a regular file; it is read again for each new token", file.display()))
            }
            None => Ok(()),
        }
    }

    /// Adds the client to a sign-in.
    ///
    /// # Errors
    /// The file of its secret or key cannot be used.
    pub(crate) fn apply(&self, oauth: OAuth) -> Result<OAuth> {
        let mut client = OAuthClient::new(&self.id);
        if let Some(issuer) = &self.issuer {
            client = client.issuer(issuer);
        }
        if let Some(file) = &self.secret {
            client = client.secret(secret("--client-secret-file", file)?);
        }
        if let Some(file) = &self.key {
            client = with_key(client, file)?;
        }
        let oauth = oauth.client(client);
        Ok(if self.signs_in { oauth.on_sign_in(SignIn::client_credentials()) } else { oauth })
    }
}

#[cfg(feature = "oauth-jwt")]
fn with_key(client: OAuthClient, file: &Path) -> Result<OAuthClient> {
    use crate::credentials::content;
    let key = tinymcp::oauth::SigningKey::from_pem(&content("--client-key", file)?);
    key.map(|key| client.key(key)).map_err(|error| format!("--client-key: {}: {error}", file.display()))
}

#[cfg(not(feature = "oauth-jwt"))]
fn with_key(_: OAuthClient, _: &Path) -> Result<OAuthClient> {
    Err("--client-key requires the feature `oauth-jwt`, which this build lacks".to_owned())
}

/// The file of clients next to the file of tokens. Both have the same form.
fn file(tokens: &FileStore) -> FileStore {
    FileStore::at(tokens.path().with_file_name("clients.json"))
}

/// Name of a server in the file.
fn name(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/')
}
