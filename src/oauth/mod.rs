//! Sign-in at servers that require it: OAuth 2.1 as the Model Context Protocol uses it.
//!
//! ```no_run
//! use std::process::Command;
//! use tinymcp::oauth::{FileStore, OAuth, SignIn};
//! use tinymcp::{Client, Endpoint};
//!
//! let browser = SignIn::loopback(|url| {
//!     Command::new("xdg-open").arg(url).spawn()?;
//!     Ok(())
//! });
//! let oauth = OAuth::new(FileStore::user()?).on_sign_in(browser);
//! let client = Client::connect(Endpoint::new("http://127.0.0.1:8080/mcp").oauth(oauth))?;
//! # Ok::<(), tinymcp::Error>(())
//! ```
//!
//! The server rejects a request without a token with a challenge. The client then finds the
//! authorization server, registers if necessary, lets the user sign in, stores the tokens and sends
//! the request again. Later requests use the stored token and renew it before it expires. If the
//! server requires more scopes for a call (403 `insufficient_scope`), the user signs in again for
//! all scopes.
//!
//! - Without [`OAuth::on_sign_in`] only stored tokens are used. A request that requires a sign-in
//!   then fails with [`ErrorKind::Refused`], code 401 and
//!   [`Error::challenge`](crate::Error::challenge).
//! - [`OAuth::sign_in`] signs in ahead of time, [`OAuth::sign_out`] revokes and removes the tokens.
//! - [`SignIn`] lists the ways to sign in, for a user or for the program itself.
//! - Errors: `Refused` if the authorization server rejects a request, with its error code as
//!   [`Error::data`](crate::Error::data); `PeerMisbehaved` if it violates the protocol; `Timeout`.
//!
//! # Rules
//! - Tokens are sent only to the origin of the endpoint, in the header `Authorization`. No error,
//!   log, `Debug` output or recorded frame contains a token.
//! - Each URL of the server or the authorization server is `https`, or `http` on this machine.
//!   Redirects are not followed. The address of such a URL must not be nearer to this machine than
//!   the server's address: a public server cannot direct requests to a private network.
//! - A document is limited to 128 KiB and 20 s.
//! - A request obtains at most three tokens after rejections. A token that was just granted is not
//!   replaced.
//! - One thread of one process renews the tokens of a server. Other threads and processes wait for
//!   it and use the result.
//! - The time that the user takes does not count against the deadline of a call.
//!   [`OAuth::sign_in_timeout`] limits it. A call that is cancelled ends its sign-in.
//!
//! Source: MCP 2025-03-26 to 2026-07-28 basic/authorization.

mod client_credentials;
mod device;
#[cfg(unix)]
mod file_store;
mod flow;
mod grant;
mod identity_provider;
#[cfg(feature = "oauth-jwt")]
mod jwt;
mod jwt_bearer;
mod loopback;
mod metadata;
mod registration;
mod session;
mod sign_in;
mod store;
mod token;
mod url;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};

pub use self::device::DeviceCode;
#[cfg(unix)]
pub use self::file_store::FileStore;
use self::flow::Flow;
pub use self::grant::Grant;
pub use self::identity_provider::IdentityProvider;
#[cfg(feature = "oauth-jwt")]
pub use self::jwt::SigningKey;
pub use self::registration::OAuthClient;
use self::session::Session;
pub use self::sign_in::SignIn;
pub use self::store::{MemoryStore, TokenStore};
use crate::error::{Error, ErrorKind};
use crate::transport::http_client::Endpoint;
use crate::transport::http_client::sign_in::challenge;

/// Sign-in at the authorization server of an endpoint, see the [module](self).
///
/// ```no_run
/// use tinymcp::oauth::{OAuth, OAuthClient, MemoryStore};
/// use tinymcp::{Client, Endpoint};
///
/// // A service without a user: a client that an administrator has registered.
/// let client = OAuthClient::new("build-bot").issuer("https://login.example.com");
/// let oauth = OAuth::new(MemoryStore::new()).client(client).scope("files:read");
/// let client = Client::connect(Endpoint::new("https://mcp.example.com/mcp").oauth(oauth))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct OAuth(Settings);

#[derive(Clone)]
struct Settings {
    store: Arc<dyn TokenStore>,
    client_name: String,
    client: Option<OAuthClient>,
    client_id_document: Option<String>,
    scope: Option<Vec<String>>,
    flow: Option<Arc<dyn Flow>>,
    sign_in_timeout: Duration,
    prover: Option<Arc<dyn Prover>>,
}

/// Proof of the possession of a key, DPoP (RFC 9449).
trait Prover: Send + Sync {
    /// Returns the name of the algorithm, as in metadata.
    fn algorithm(&self) -> &'static str;

    /// Returns the thumbprint of the public key.
    fn thumbprint(&self) -> String;

    /// Signs a proof for one request.
    fn proof(
        &self,
        method: &str,
        url: &str,
        token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<String, Error>;
}

impl OAuth {
    /// Creates the settings of a sign-in that stores tokens in this store.
    pub fn new(store: impl TokenStore + 'static) -> OAuth {
        OAuth(Settings {
            store: Arc::new(store),
            client_name: "tinymcp".into(),
            client: None,
            client_id_document: None,
            scope: None,
            flow: None,
            sign_in_timeout: Duration::from_secs(600),
            prover: None,
        })
    }

    /// Sets the name that the authorization server shows to the user.
    pub fn client_name(mut self, name: impl Into<String>) -> OAuth {
        self.0.client_name = name.into();
        self
    }

    /// Sets a client that is already registered. Without one, the client uses its metadata document
    /// ([`OAuth::client_id_document`]) if the authorization server supports that, and otherwise
    /// registers itself.
    pub fn client(mut self, client: OAuthClient) -> OAuth {
        self.0.client = Some(client);
        self
    }

    /// Sets the URL of a client-id metadata document: an `https` URL with a path, at which a
    /// document describes this client.
    pub fn client_id_document(mut self, url: impl Into<String>) -> OAuth {
        self.0.client_id_document = Some(url.into());
        self
    }

    /// Sets the scopes of the first sign-in, separated by spaces. The default are the scopes of the
    /// server's challenge, otherwise the scopes of its metadata.
    pub fn scope(mut self, scopes: &str) -> OAuth {
        self.0.scope = Some(scopes.split_ascii_whitespace().map(str::to_owned).collect());
        self
    }

    /// Sets the way to sign in.
    pub fn on_sign_in(mut self, sign_in: SignIn) -> OAuth {
        self.0.flow = Some(sign_in.0);
        self
    }

    /// Sets the time that the user has to sign in. The default is 10 minutes. During a call,
    /// [`Limits::client_input_timeout`](crate::Limits::client_input_timeout) limits it as well.
    pub fn sign_in_timeout(mut self, timeout: Duration) -> OAuth {
        self.0.sign_in_timeout = timeout;
        self
    }

    /// Signs in now, even if tokens are stored, and stores the new tokens.
    ///
    /// # Errors
    /// The sign-in failed, or no way to sign in was set.
    pub fn sign_in(&self, endpoint: impl Into<Endpoint>) -> Result<Grant, Error> {
        let endpoint = endpoint.into();
        let session = Session::new(self.0.clone(), endpoint.url());
        let (web, challenge) = challenge(endpoint)?;
        session.sign_in(&web, challenge.as_ref())
    }

    /// Revokes the tokens for a server if the authorization server supports that, and removes them
    /// from the store. Returns whether there were any.
    ///
    /// # Errors
    /// The tokens could not be removed. A failed revocation is not an error: the tokens expire.
    pub fn sign_out(&self, endpoint: impl Into<Endpoint>) -> Result<bool, Error> {
        let endpoint = endpoint.into();
        let session = Session::new(self.0.clone(), endpoint.url());
        session.sign_out(|| challenge(endpoint))
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("client", &self.0.client).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Signs in when the endpoint requires it, and sends the token with every request. Has no
    /// effect if the endpoint has a fixed `Authorization` header, such as that of
    /// [`Endpoint::bearer_token`].
    #[must_use]
    pub fn oauth(self, oauth: OAuth) -> Endpoint {
        let session = Session::new(oauth.0, self.url());
        self.authorizer(Arc::new(session))
    }
}

/// Returns the error for a server or an authorization server that violates the protocol.
fn misbehaved(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::PeerMisbehaved, why.into())
}

/// Returns 256 random bits in base64url.
fn random() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, format!("no random numbers: {error}")))?;
    Ok(Base64UrlUnpadded::encode_string(&bytes))
}

/// Returns the Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
