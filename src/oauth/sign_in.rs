//! Ways to sign in, and the authorization code flow with PKCE: the user signs in with a browser.
//!
//! Source: MCP 2026-07-28 basic/authorization; OAuth 2.1; RFC 7636 (PKCE); RFC 9207 (`iss`); RFC
//! 8252 (native applications).
//!
//! # Invariants
//! - A response is used only with the issuer, `state` and PKCE verifier of its request.
//! - `error` of a response is read only after `state` and `iss` were checked.

use std::fmt;
use std::sync::Arc;

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac_sha256::Hash;

use super::client_credentials::ClientCredentials;
use super::device::{DeviceCode, DeviceFlow};
use super::flow::{Attempt, Flow, Granted};
use super::identity_provider::IdentityProvider;
use super::jwt_bearer::JwtBearer;
use super::loopback::LoopbackListener;
use super::token::refusal;
use super::url::{self, Form};
use super::{misbehaved, random};
use crate::error::{Error, ErrorKind};
use crate::transport::http_client::sign_in::asking_user;

/// Way to sign in, for a user or for the program itself.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::oauth::SignIn;
///
/// let browser = SignIn::loopback(|url| {
///     Command::new("xdg-open").arg(url).spawn()?;
///     Ok(())
/// });
/// ```
#[derive(Clone)]
pub struct SignIn(pub(super) Arc<dyn Flow>);

impl SignIn {
    /// Signs in with a browser on this machine. The function opens the URL and returns. A listener
    /// on 127.0.0.1 with a random port receives the redirect.
    ///
    /// The URL begins with `https://`, or with `http://` on this machine. Pass it to a program as
    /// an argument, never through a shell.
    pub fn loopback(open: impl Fn(&str) -> Result<(), Error> + Send + Sync + 'static) -> SignIn {
        SignIn::loopback_port(0, open)
    }

    /// Like [`SignIn::loopback`] with a fixed port, for a client that is registered with a port.
    /// The redirect URI is `http://127.0.0.1:PORT/callback`.
    pub fn loopback_port(
        port: u16,
        open: impl Fn(&str) -> Result<(), Error> + Send + Sync + 'static,
    ) -> SignIn {
        SignIn(Arc::new(CodeFlow(Loopback { port, open })))
    }

    /// Signs in with a browser whose redirect the program obtains itself. The function shows the
    /// URL and returns the address that the browser was redirected to, for example one that the
    /// user pasted. No server needs to listen at `redirect_uri`.
    pub fn redirect(
        redirect_uri: impl Into<String>,
        visit: impl Fn(&str) -> Result<String, Error> + Send + Sync + 'static,
    ) -> SignIn {
        SignIn(Arc::new(CodeFlow(Paste { redirect_uri: redirect_uri.into(), visit })))
    }

    /// Signs in the program itself, without a user: client credentials.
    /// [`OAuth::client`](super::OAuth::client) sets its id and its secret or key.
    ///
    /// Set [`OAuthClient::issuer`](super::OAuthClient::issuer) with a secret. Otherwise the server
    /// chooses the authorization server that receives the secret.
    ///
    /// ```
    /// use tinymcp::oauth::{MemoryStore, OAuth, OAuthClient, SignIn};
    ///
    /// let client = OAuthClient::new("sensor-17").secret("…").issuer("https://auth.example.com");
    /// let oauth = OAuth::new(MemoryStore::new()).client(client);
    /// let oauth = oauth.on_sign_in(SignIn::client_credentials());
    /// ```
    pub fn client_credentials() -> SignIn {
        SignIn(Arc::new(ClientCredentials))
    }

    /// Signs in with an assertion, a JSON Web Token from the platform that runs the program
    /// (workload identity, RFC 7523). The function receives the issuer of the authorization server
    /// and returns the assertion, for example from a file that the platform renews.
    ///
    /// The audience of the assertion must be the issuer or its token endpoint. Otherwise a server
    /// could obtain an assertion for another server. The audience is not checked if
    /// [`OAuthClient::issuer`](super::OAuthClient::issuer) is set.
    pub fn jwt_bearer(assertion: impl Fn(&str) -> Result<String, Error> + Send + Sync + 'static) -> SignIn {
        SignIn(Arc::new(JwtBearer(assertion)))
    }

    /// Signs in with the identity provider of a company, which decides about access to servers
    /// (enterprise-managed authorization). The user has signed in there and is not asked again.
    pub fn identity_provider(provider: IdentityProvider) -> SignIn {
        SignIn(Arc::new(provider))
    }

    /// Signs in with a browser on any machine (device authorization, RFC 8628). The function shows
    /// an address and a code, and returns. The authorization server must support the device flow.
    pub fn device(show: impl Fn(&DeviceCode) -> Result<(), Error> + Send + Sync + 'static) -> SignIn {
        SignIn(Arc::new(DeviceFlow { show }))
    }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignIn")
    }
}

/// Way to open a URL for the user and to receive the redirect.
trait Redirects: Send + Sync {
    /// Prepares one redirect.
    fn prepare(&self) -> Result<Box<dyn Redirect + '_>, Error>;
}

/// One redirect.
trait Redirect {
    fn uri(&self) -> &str;

    /// Opens the URL. Returns the address that the browser was redirected to.
    fn visit(&mut self, url: &str, state: &str) -> Result<String, Error>;
}

struct Loopback<F> {
    port: u16,
    open: F,
}

impl<F: Fn(&str) -> Result<(), Error> + Send + Sync> Redirects for Loopback<F> {
    fn prepare(&self) -> Result<Box<dyn Redirect + '_>, Error> {
        Ok(Box::new((LoopbackListener::bind(self.port)?, &self.open)))
    }
}

impl<F: Fn(&str) -> Result<(), Error>> Redirect for (LoopbackListener, &F) {
    fn uri(&self) -> &str {
        self.0.redirect_uri()
    }

    fn visit(&mut self, url: &str, state: &str) -> Result<String, Error> {
        (self.1)(url)?;
        self.0.wait(state)
    }
}

struct Paste<F> {
    redirect_uri: String,
    visit: F,
}

impl<F: Fn(&str) -> Result<String, Error> + Send + Sync> Redirects for Paste<F> {
    fn prepare(&self) -> Result<Box<dyn Redirect + '_>, Error> {
        // Redirect URIs are local or https (basic/authorization, security considerations).
        match url::parse(&self.redirect_uri, "") {
            Ok(_) => Ok(Box::new(self)),
            Err(_) => {
                let why =
                    "invalid redirect URI: it must begin with https://, or with http:// on this machine";
                Err(Error::new(ErrorKind::Invalid, why))
            }
        }
    }
}

impl<F: Fn(&str) -> Result<String, Error>> Redirect for &Paste<F> {
    fn uri(&self) -> &str {
        &self.redirect_uri
    }

    fn visit(&mut self, url: &str, _: &str) -> Result<String, Error> {
        (self.visit)(url)
    }
}

struct CodeFlow<R>(R);

impl<R: Redirects> Flow for CodeFlow<R> {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error> {
        let server = attempt.server;
        let authorization = server.authorization.as_ref().ok_or_else(|| {
            misbehaved("the authorization server's metadata has no `authorization_endpoint`")
        })?;
        if !server.pkce {
            return Err(misbehaved(
                "the authorization server does not declare PKCE with S256 (`code_challenge_methods_supported`)",
            ));
        }
        let mut redirect = self.0.prepare()?;
        let uri = redirect.uri().to_owned();
        let client = attempt.registration("authorization_code", Some(&uri))?;
        let (verifier, state) = (random()?, random()?);
        let mut form = Form::default();
        form.add("response_type", "code").add("client_id", &client.id).add("redirect_uri", &uri);
        let challenge = Hash::hash(verifier.as_bytes());
        form.add("code_challenge", &Base64UrlUnpadded::encode_string(&challenge));
        form.add("code_challenge_method", "S256").add("state", &state);
        if let Some(prover) = attempt.prover() {
            form.add("dpop_jkt", &prover.thumbprint());
        }
        attempt.add_target(&mut form);
        let address = authorization.to_string();
        let joint = if authorization.query().is_some() { '&' } else { '?' };
        let address = format!("{address}{joint}{}", form.as_str());
        let redirected = asking_user(attempt.settings.sign_in_timeout, || redirect.visit(&address, &state))?;
        let response = Response { redirected: &redirected, uri: &uri, state: &state };
        let code = response.code(&server.issuer, server.sends_issuer)?;
        let mut form = Form::default();
        form.add("grant_type", "authorization_code").add("code", &code);
        form.add("redirect_uri", &uri).add("code_verifier", &verifier);
        form.add("resource", attempt.resource);
        let tokens = attempt.tokens(&client, form)?;
        Ok(Granted { client, tokens })
    }

    fn asks_user(&self) -> bool {
        true
    }
}

/// An authorization response, and the expected values of its request.
struct Response<'a> {
    redirected: &'a str,
    uri: &'a str,
    state: &'a str,
}

impl Response<'_> {
    /// Returns the authorization code.
    fn code(&self, issuer: &str, sends_issuer: bool) -> Result<String, Error> {
        let bad = |why: &str| misbehaved(format!("invalid authorization response: {why}"));
        let address = self.redirected.trim();
        let address = address.split('#').next().unwrap_or_default();
        let (at, query) = address.split_once('?').unwrap_or((address, ""));
        if at != self.uri {
            return Err(bad(&format!("its address must be the redirect URI {}", self.uri)));
        }
        let Some(query) = url::query(query) else {
            return Err(bad("a parameter is malformed or occurs twice"));
        };
        let parameter = |name: &str| query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        if parameter("state") != Some(self.state) {
            return Err(bad("`state` differs from the one in the request"));
        }
        match parameter("iss") {
            Some(iss) if iss == issuer => {}
            Some(_) => return Err(bad("`iss` is another authorization server")),
            None if sends_issuer => return Err(bad("`iss` is missing, although the server always sends it")),
            None => {}
        }
        if let Some(error) = parameter("error") {
            return Err(refusal(error, parameter("error_description"), "the sign-in", &[]));
        }
        let code = parameter("code").filter(|code| !code.is_empty());
        code.map(str::to_owned).ok_or_else(|| bad("`code` is missing"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn responses_are_checked_before_they_are_used() {
        let code = |redirected: &str, sends_issuer| {
            let response = Response { redirected, uri: "http://127.0.0.1:1/callback", state: "S" };
            response.code("https://as", sends_issuer).map_err(|error| error.to_string())
        };
        let at = |query: &str| format!("http://127.0.0.1:1/callback?{query}");
        // The table of RFC 9207, section 2.4, for both kinds of servers.
        assert_eq!(code(&at("code=C&state=S&iss=https%3A%2F%2Fas"), true).unwrap(), "C");
        assert_eq!(code(&at("code=C&state=S&iss=https%3A%2F%2Fas"), false).unwrap(), "C");
        assert_eq!(code(&at("code=C&state=S"), false).unwrap(), "C");
        assert!(code(&at("code=C&state=S"), true).unwrap_err().contains("`iss` is missing"));
        for iss in
            ["https%3A%2F%2Fas%2F", "https%3A%2F%2FAS", "https%3A%2F%2Fas%3A443", "", "https%3A%2F%2Fevil"]
        {
            for sends in [true, false] {
                let error = code(&at(&format!("error=access_denied&state=S&iss={iss}")), sends).unwrap_err();
                assert!(error.contains("another authorization server"), "{iss}: {error}");
            }
        }
        for (redirected, why) in [
            (at("code=C"), "`state`"),
            (at("code=C&state=T"), "`state`"),
            (at("error=x&state=T"), "`state`"),
            (at("code=C&code=D&state=S"), "twice"),
            (at("code=C&state=S&st%61te=S"), "twice"),
            (at("state=S"), "`code` is missing"),
            (at("code=&state=S"), "`code` is missing"),
            (at("error=access_denied&error_description=no%0Away&state=S"), "access_denied: noway"),
            ("http://127.0.0.1:1/callback/../x?code=C&state=S".into(), "redirect URI"),
            ("http://127.0.0.1:2/callback?code=C&state=S".into(), "redirect URI"),
            ("https://evil/callback?code=C&state=S".into(), "redirect URI"),
            ("code=C&state=S".into(), "redirect URI"),
            (String::new(), "redirect URI"),
        ] {
            let error = code(&redirected, false).unwrap_err();
            assert!(error.contains(why), "{redirected}: {error}");
        }
        assert_eq!(code(&format!(" {} \n", at("code=C&state=S#x")), false).unwrap(), "C");
    }
}
