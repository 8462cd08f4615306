//! Use, renewal and replacement of the tokens of one endpoint.
//!
//! # Invariants
//! - One thread at a time renews or replaces the token. Other threads wait for its result or error.
//! - That thread also locks the token store, then reads the store again: another process may have
//!   renewed the token.
//! - No mutex is held while a request is made, the user is asked or the store is used.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderValue, Request, header};

use super::flow::{Attempt, Flow, Granted};
use super::grant::Grant;
use super::metadata::{self, AuthServer, Resource, challenged_scopes};
use super::registration::Registration;
use super::token::{TokenClient, Tokens, is_error, sensitive};
use super::url::{self, Form};
use super::{Settings, misbehaved, now};
use crate::error::challenge::Challenge;
use crate::error::{Error, ErrorKind};
use crate::sync::{lock, wait_for};
use crate::transport::http_client::sign_in::{
    Authorizer, EndpointResponse, SendAttempts, WebClient, in_time, pause,
};

/// Maximum number of tokens that one request obtains after rejections.
const TOKENS: u32 = 3;
/// Scheme of a token that is bound to a key.
const DPOP: &str = "DPoP";
/// Maximum number of times that one request is sent again with a new nonce.
const NONCES: u32 = 2;
/// Interval between two attempts to lock the store, and between two checks of the deadline.
const POLL: Duration = Duration::from_millis(50);

/// Tokens of one endpoint.
pub(super) struct Session {
    settings: Settings,
    /// Name of the endpoint in the store.
    server: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` until the store has been read.
    grant: Option<Option<Arc<Grant>>>,
    /// A thread is renewing or replacing the token.
    busy: bool,
    /// Number of finished renewals and replacements, and the error of the last one.
    renewals: u64,
    error: Option<Arc<Error>>,
    /// The last nonce of the server.
    nonce: Option<String>,
}

/// Reason for another token.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    /// The token has expired.
    Expired,
    /// The server rejects the token, or no token is stored.
    Rejected,
    /// The request needs more scopes.
    Scope,
}

impl Session {
    pub(super) fn new(settings: Settings, url: &str) -> Session {
        let server = url.parse().map_or_else(|_| String::new(), |uri| url::canonical(&uri));
        Session { settings, server, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns the grant with usable tokens. The first call reads it from the store.
    fn grant(&self) -> Result<Option<Arc<Grant>>, Error> {
        if let Some(grant) = &lock(&self.state).grant {
            return Ok(grant.clone());
        }
        let read = self.read()?.filter(|grant| self.has_key_of(grant));
        Ok(lock(&self.state).grant.get_or_insert(read).clone())
    }

    fn read(&self) -> Result<Option<Arc<Grant>>, Error> {
        Ok(Grant::load(&*self.settings.store, &self.server)?.map(Arc::new))
    }

    /// Returns whether the tokens of a grant are usable: bound to no key, or to the key of this
    /// client. Tokens that are bound to another key are not used, not even as bearer tokens.
    fn has_key_of(&self, grant: &Grant) -> bool {
        let own = || self.settings.prover.as_ref().map(|prover| prover.thumbprint());
        grant.key.as_ref().is_none_or(|key| own().as_ref() == Some(key))
    }

    /// Returns the flow if it requires no user.
    fn own_flow(&self) -> Option<&Arc<dyn Flow>> {
        self.settings.flow.as_ref().filter(|flow| !flow.asks_user())
    }

    fn save(&self, grant: Grant) -> Result<(), Error> {
        let text = grant.write();
        // Set before `store.save`, so that the tokens can be used even if they cannot be stored.
        lock(&self.state).grant = Some(Some(Arc::new(grant)));
        self.settings.store.save(&self.server, Some(text.as_str()))
    }

    /// Waits until no other thread renews the token. `None` if another thread has renewed it.
    ///
    /// # Errors
    /// The other thread failed, or the deadline of the request passed.
    fn start_renewal(&self, used: Option<&str>) -> Result<Option<Renewal<'_>>, Error> {
        let mut state = lock(&self.state);
        let renewals = state.renewals;
        loop {
            let token = state.grant.iter().flatten().next().map(|grant| grant.access_token.as_str());
            if token.is_some() && token != used {
                return Ok(None);
            }
            match &state.error {
                Some(error) if state.renewals != renewals => return Err(error.copy()),
                _ => {}
            }
            if !state.busy {
                state.busy = true;
                return Ok(Some(Renewal { session: self, error: None }));
            }
            state = wait_for(&self.changed, state, POLL);
            drop(state);
            in_time()?;
            state = lock(&self.state);
        }
    }

    /// Obtains another token. Returns whether a token is available.
    fn renew(
        &self,
        web: &WebClient,
        used: Option<&str>,
        reason: Reason,
        challenge: Option<&Challenge>,
        tries: &mut SendAttempts,
    ) -> Result<bool, Error> {
        let Some(mut renewal) = self.start_renewal(used)? else { return Ok(true) };
        let done = self.replace(web, used, reason, challenge, tries);
        renewal.error = done.as_ref().err().map(|error| Arc::new(error.copy()));
        done
    }

    fn replace(
        &self,
        web: &WebClient,
        used: Option<&str>,
        reason: Reason,
        challenge: Option<&Challenge>,
        tries: &mut SendAttempts,
    ) -> Result<bool, Error> {
        if self.settings.flow.is_none() && self.read()?.is_none() {
            return Ok(false);
        }
        let locked = self.lock_store()?;
        let known = self.read()?;
        let usable = known.clone().filter(|known| self.has_key_of(known));
        if usable.as_ref().is_some_and(|usable| Some(usable.access_token.as_str()) != used) {
            lock(&self.state).grant = Some(usable);
            return Ok(true);
        }
        let renewable = usable.filter(|usable| usable.is_renewable() && reason != Reason::Scope);
        let by_user = reason != Reason::Expired && tries.asks_user;
        let flow = self.settings.flow.as_ref().filter(|flow| by_user || !flow.asks_user());
        if renewable.is_none() && flow.is_none() {
            return Ok(false);
        }
        let (resource, server) = self.discover(web, challenge, known.as_deref())?;
        if let Some(grant) = renewable.filter(|grant| grant.issuer == server.issuer) {
            match self.refresh(web, &server, &grant) {
                Ok(()) => return Ok(true),
                // The refresh token is used up, expired or revoked: the user must sign in.
                Err(error) if error.kind() == ErrorKind::Refused && !is_overload(&error) => {
                    if flow.is_none() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // The user may take long: unlock the store for other processes.
        drop(locked);
        if flow.is_none() {
            return Ok(false);
        }
        let known = known.as_deref().filter(|known| known.issuer == server.issuer);
        let scopes = self.scopes(known, challenge, &resource, &server, reason);
        self.obtain(web, &resource, &server, known, scopes)?;
        tries.granted = true;
        Ok(true)
    }

    /// Obtains tokens without an earlier grant, and stores them.
    fn obtain(
        &self,
        web: &WebClient,
        resource: &Resource,
        server: &AuthServer,
        known: Option<&Grant>,
        scopes: Option<Vec<String>>,
    ) -> Result<(), Error> {
        let Some(flow) = &self.settings.flow else {
            let why = "sign-in is needed, and no way to sign in was set: see `OAuth::on_sign_in`";
            return Err(Error::new(ErrorKind::Refused, why).with_code(401, None));
        };
        let scope = scopes.map(|scopes| scopes.join(" "));
        let mut attempt = Attempt {
            settings: &self.settings,
            web,
            server,
            resource: &resource.resource,
            scope: scope.as_deref(),
            known: known.map(|known| &known.client),
        };
        let Granted { client, tokens } = match flow.obtain(&attempt) {
            // The server no longer has the client that was registered for an earlier grant.
            Err(error)
                if is_error(&error, "invalid_client") && attempt.known.is_some_and(|k| k.registered) =>
            {
                attempt.known = None;
                flow.obtain(&attempt)?
            }
            done => done?,
        };
        self.save(self.new_grant(resource, server, client, tokens, scope))
    }

    /// Renews the token with the refresh token.
    fn refresh(&self, web: &WebClient, server: &AuthServer, grant: &Grant) -> Result<(), Error> {
        let refresh_token = grant.refresh_token.as_deref().unwrap_or_default();
        let attempt = Attempt {
            settings: &self.settings,
            web,
            server,
            resource: &grant.resource,
            scope: None,
            known: None,
        };
        let mut form = Form::default();
        form.add("grant_type", "refresh_token").add("refresh_token", refresh_token);
        form.add("resource", &grant.resource);
        let tokens = attempt.tokens(&grant.client, form)?;
        self.save(Grant {
            access_token: tokens.access_token,
            key: self.key_of(tokens.dpop),
            // Without a new refresh token, the old one stays valid.
            refresh_token: tokens.refresh_token.or_else(|| grant.refresh_token.clone()),
            issued_at: now(),
            expires_at: tokens.expires_at,
            scope: tokens.scope.or_else(|| grant.scope.clone()),
            ..grant.clone()
        })
    }

    /// Finds the authorization server.
    fn discover(
        &self,
        web: &WebClient,
        challenge: Option<&Challenge>,
        known: Option<&Grant>,
    ) -> Result<(Resource, AuthServer), Error> {
        let named = challenge.and_then(Challenge::resource_metadata);
        let named = named.or_else(|| known?.metadata.as_deref());
        let (resource, server) = match metadata::resource(web, named)? {
            Some(resource) => {
                let issuer = self.issuer(&resource, known)?;
                let server = AuthServer::discover(web, &issuer)?;
                (resource, server)
            }
            None => (Resource::without_metadata(&web.server), AuthServer::at_origin(web)?),
        };
        let bound = self.settings.client.as_ref().and_then(|client| client.issuer.as_deref());
        match bound {
            Some(bound) if bound != server.issuer => Err(self.elsewhere(bound)),
            _ => Ok((resource, server)),
        }
    }

    /// Chooses the issuer: of the client, of the known grant, or the first one in the metadata.
    fn issuer(&self, resource: &Resource, known: Option<&Grant>) -> Result<String, Error> {
        let lists = |issuer: &str| resource.servers.iter().any(|server| server == issuer);
        let client = self.settings.client.as_ref();
        let bound = client.and_then(|client| client.issuer.as_deref());
        let known = known.filter(|known| client.is_none_or(|client| client.id == known.client.id));
        match (bound, known.map(|known| known.issuer.as_str())) {
            (Some(bound), _) if lists(bound) => Ok(bound.to_owned()),
            (Some(bound), _) => Err(self.elsewhere(bound)),
            (None, Some(known)) if lists(known) => Ok(known.to_owned()),
            // A client without an issuer is bound to the issuer of its first grant.
            (None, Some(known)) if client.is_some() => Err(self.elsewhere(known)),
            _ => {
                let first = resource.servers.first().cloned();
                first.ok_or_else(|| misbehaved("the resource metadata names no authorization server"))
            }
        }
    }

    fn elsewhere(&self, issuer: &str) -> Error {
        let why = format!(
            "the server uses another authorization server than {issuer}, where the client is registered"
        );
        Error::new(ErrorKind::Invalid, why)
    }

    /// Chooses the scopes to request.
    fn scopes(
        &self,
        known: Option<&Grant>,
        challenge: Option<&Challenge>,
        resource: &Resource,
        server: &AuthServer,
        reason: Reason,
    ) -> Option<Vec<String>> {
        let challenged = challenged_scopes(challenge);
        let earlier = known.and_then(|known| known.requested.as_deref());
        let chosen = match reason {
            Reason::Scope => challenged,
            // A new grant keeps the earlier scopes: the metadata lists all scopes that exist.
            _ if earlier.is_some() => self.settings.scope.clone().or(challenged),
            _ => self.settings.scope.clone().or(challenged).or_else(|| resource.scopes.clone()),
        };
        let mut scopes: Vec<String> = Vec::new();
        let earlier = earlier.unwrap_or_default().split_ascii_whitespace().map(str::to_owned);
        for scope in earlier.chain(chosen.into_iter().flatten()) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let offline = "offline_access";
        let asks_user = self.settings.flow.as_ref().is_some_and(|flow| flow.asks_user());
        let offers = asks_user && server.scopes.iter().any(|scope| scope == offline);
        if offers && !scopes.is_empty() && !scopes.iter().any(|scope| scope == offline) {
            scopes.push(offline.to_owned());
        }
        (!scopes.is_empty()).then_some(scopes)
    }

    /// Waits for the lock of the token store for this server.
    fn lock_store(&self) -> Result<Box<dyn Send>, Error> {
        loop {
            if let Some(locked) = self.settings.store.try_lock(&self.server)? {
                return Ok(locked);
            }
            pause(POLL)?;
        }
    }

    /// Signs in regardless of stored tokens.
    pub(super) fn sign_in(&self, web: &WebClient, challenge: Option<&Challenge>) -> Result<Grant, Error> {
        let known = self.read()?;
        let (resource, server) = self.discover(web, challenge, known.as_deref())?;
        let known = known.as_deref().filter(|known| known.issuer == server.issuer);
        let scopes = self.scopes(None, challenge, &resource, &server, Reason::Rejected);
        self.obtain(web, &resource, &server, known, scopes)?;
        let grant = self.grant()?.ok_or_else(|| misbehaved("no tokens were granted"))?;
        Ok((*grant).clone())
    }

    /// Revokes the tokens and removes them.
    pub(super) fn sign_out(
        &self,
        connect: impl FnOnce() -> Result<(WebClient, Option<Challenge>), Error>,
    ) -> Result<bool, Error> {
        let known = match self.read() {
            Ok(None) => return Ok(false),
            Ok(known) => known,
            // An entry that is not a grant is removed as well.
            Err(error) if error.kind() == ErrorKind::Invalid => None,
            Err(error) => return Err(error),
        };
        if let Some(known) = known {
            // OK to fail: the tokens expire.
            let _ = connect().and_then(|(web, challenge)| self.revoke(&web, challenge.as_ref(), &known));
        }
        self.settings.store.save(&self.server, None)?;
        lock(&self.state).grant = Some(None);
        Ok(true)
    }

    /// Revokes the tokens of a grant (RFC 7009).
    fn revoke(&self, web: &WebClient, challenge: Option<&Challenge>, grant: &Grant) -> Result<(), Error> {
        let (_, server) = self.discover(web, challenge, Some(grant))?;
        let Some(at) = server.revocation.as_ref().filter(|_| grant.issuer == server.issuer) else {
            return Ok(());
        };
        let signer = self.settings.client.as_ref().and_then(|client| client.signer.as_deref());
        let client = TokenClient { web, server: &server, client: &grant.client, signer, prover: None };
        let mut form = Form::default();
        form.add("token", grant.refresh_token.as_deref().unwrap_or(&grant.access_token));
        // The response has no content that matters.
        client.post(at, form, "the revocation").map(drop)
    }

    /// Handles a response that rejects the request. Returns whether to send the request again.
    fn refused(
        &self,
        web: &WebClient,
        response: &EndpointResponse<'_>,
        tries: &mut SendAttempts,
    ) -> Result<bool, Error> {
        let values = response.headers.get_all(header::WWW_AUTHENTICATE);
        let used = response.used.and_then(|value| value.to_str().ok()?.split_once(' '));
        let (scheme, used) = used.unzip();
        let challenge = Challenge::parse_for(scheme, values.iter().map(HeaderValue::as_bytes));
        let error = challenge.as_ref().and_then(Challenge::error);
        if scheme == Some(DPOP) && response.status == 401 {
            match error {
                Some("use_dpop_nonce") => {
                    tries.nonces += 1;
                    return Ok(tries.nonces <= NONCES && response.headers.contains_key("dpop-nonce"));
                }
                // The token is not the reason, so another one would be rejected as well.
                Some("invalid_dpop_proof") => return Ok(false),
                _ => {}
            }
        }
        let reason = match response.status {
            // The server rejects a token that was just granted, so it would reject another one too.
            401 if tries.granted => return Ok(false),
            401 => Reason::Rejected,
            403 if error == Some("insufficient_scope") && self.lacks(challenge.as_ref())? => Reason::Scope,
            _ => return Ok(false),
        };
        if tries.tokens == TOKENS {
            return Ok(false);
        }
        tries.tokens += 1;
        self.renew(web, used, reason, challenge.as_ref(), tries)
    }

    /// Returns whether the grant lacks a scope of the challenge.
    fn lacks(&self, challenge: Option<&Challenge>) -> Result<bool, Error> {
        let grant = self.grant()?;
        let granted = grant.as_ref().and_then(|grant| grant.scope.as_deref().or(grant.requested.as_deref()));
        let has =
            |scope: &String| granted.is_some_and(|all| all.split_ascii_whitespace().any(|s| s == scope));
        Ok(challenged_scopes(challenge).is_some_and(|scopes| !scopes.iter().all(has)))
    }
}

impl Authorizer for Session {
    fn authorize(&self, web: &WebClient, request: &mut Request<()>) -> Result<(), Error> {
        let Some(mut grant) = self.grant()? else { return Ok(()) };
        if grant.has_expired() && (grant.is_renewable() || self.own_flow().is_some()) {
            let mut tries = SendAttempts::new(false);
            self.renew(web, Some(&grant.access_token), Reason::Expired, None, &mut tries)?;
            grant = self.grant()?.unwrap_or(grant);
        }
        let scheme = match (&self.settings.prover, &grant.key) {
            (Some(prover), Some(_)) => {
                let nonce = lock(&self.state).nonce.clone();
                let (method, at) = (request.method().as_str(), url::without_query(request.uri()));
                let proof = prover.proof(method, &at, Some(&grant.access_token), nonce.as_deref())?;
                request.headers_mut().insert("dpop", sensitive(&proof)?);
                DPOP
            }
            _ => "Bearer",
        };
        let value = sensitive(&format!("{scheme} {}", grant.access_token))?;
        request.headers_mut().insert(header::AUTHORIZATION, value);
        Ok(())
    }

    fn responded(
        &self,
        web: &WebClient,
        response: &EndpointResponse<'_>,
        tries: &mut SendAttempts,
    ) -> Result<bool, Error> {
        self.keep_nonce(response.headers);
        match response.status {
            401 | 403 => self.refused(web, response, tries),
            _ => Ok(false),
        }
    }

    fn mask(&self, text: &mut String) {
        let state = lock(&self.state);
        if let Some(grant) = state.grant.iter().flatten().next() {
            for secret in [Some(&grant.access_token), grant.refresh_token.as_ref()].into_iter().flatten() {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), "[token]");
                }
            }
        }
    }
}

impl Session {
    fn keep_nonce(&self, headers: &HeaderMap) {
        let nonce = headers.get("dpop-nonce").filter(|_| self.settings.prover.is_some());
        if let Some(nonce) = nonce.and_then(|nonce| nonce.to_str().ok()) {
            lock(&self.state).nonce = Some(nonce.to_owned());
        }
    }

    /// Returns the thumbprint of the key, if a new token is bound to it.
    fn key_of(&self, is_bound: bool) -> Option<String> {
        let prover = self.settings.prover.as_ref().filter(|_| is_bound);
        prover.map(|prover| prover.thumbprint())
    }

    fn new_grant(
        &self,
        resource: &Resource,
        server: &AuthServer,
        client: Registration,
        tokens: Tokens,
        requested: Option<String>,
    ) -> Grant {
        Grant {
            issuer: server.issuer.clone(),
            resource: resource.resource.clone(),
            metadata: resource.named.clone(),
            client,
            access_token: tokens.access_token,
            key: self.key_of(tokens.dpop),
            refresh_token: tokens.refresh_token,
            issued_at: now(),
            expires_at: tokens.expires_at,
            scope: tokens.scope.or_else(|| requested.clone()),
            requested,
        }
    }
}

/// Guard of the only thread that renews or replaces the token.
struct Renewal<'s> {
    session: &'s Session,
    error: Option<Arc<Error>>,
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.session.state);
        state.busy = false;
        state.renewals += 1;
        state.error = self.error.take();
        drop(state);
        self.session.changed.notify_all();
    }
}

/// Returns whether the authorization server rejected a request for a temporary reason.
fn is_overload(error: &Error) -> bool {
    error.code().is_some_and(|code| code == 429 || code >= 500)
        || ["temporarily_unavailable", "server_error"].iter().any(|code| is_error(error, code))
}
