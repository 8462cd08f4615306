//! Device authorization: the user signs in with a browser on any machine.
//!
//! Source: RFC 8628.

use std::fmt;
use std::time::{Duration, Instant};

use super::flow::{Attempt, Flow, Granted};
use super::misbehaved;
use super::registration::Registration;
use super::token::{DEVICE_CODE, is_error};
use super::url::{self, Form};
use crate::error::{Error, ErrorKind};
use crate::json::Value;
use crate::transport::http_client::sign_in::{asking_user, pause};

/// Default interval between two requests, and its increase after each `slow_down`.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum interval of a server in seconds. Longer ones are reduced to it.
const MAX_INTERVAL: u64 = 60;

/// Address and code for the user, see [`SignIn::device`](super::SignIn::device).
///
/// ```
/// use tinymcp::oauth::SignIn;
///
/// let by_phone = SignIn::device(|code| {
///     println!("Open {} and enter {}", code.verification_uri, code.user_code);
///     Ok(())
/// });
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceCode {
    /// Code that the user enters.
    pub user_code: String,
    /// Address that the user opens: `https`, or `http` on this machine.
    pub verification_uri: String,
    /// The same address, with the code in it.
    pub verification_uri_complete: Option<String>,
    /// Time until the code expires, at most the timeout of the sign-in.
    pub expires_in: Duration,
}

impl fmt::Debug for DeviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceCode").field("verification_uri", &self.verification_uri).finish_non_exhaustive()
    }
}

pub(super) struct DeviceFlow<F> {
    pub show: F,
}

impl<F: Fn(&DeviceCode) -> Result<(), Error> + Send + Sync> Flow for DeviceFlow<F> {
    fn obtain(&self, attempt: &Attempt<'_>) -> Result<Granted, Error> {
        let Some(at) = &attempt.server.device else {
            let why = "the authorization server does not support sign-in by device code";
            return Err(Error::new(ErrorKind::PeerIncompatible, why));
        };
        let client = attempt.registration(DEVICE_CODE, None)?;
        let mut form = Form::default();
        attempt.add_target(&mut form);
        let doc = attempt.client(&client).post(at, form, "the request for a device code")?;
        let text = |name: &str| doc.root().get(name).and_then(Value::as_str);
        let seconds = |name: &str| doc.root().get(name).and_then(Value::as_u64);
        let missing =
            |what: &str| misbehaved(format!("the device code of the authorization server has no {what}"));
        let address =
            |name: &str| text(name).map(|at| url::parse(at, name).map(|_| at.to_owned())).transpose();
        let device_code = text("device_code").ok_or_else(|| missing("`device_code`"))?;
        let user_code =
            text("user_code").filter(|c| c.len() <= 64 && c.bytes().all(|b| b.is_ascii_graphic()));
        let timeout = attempt.settings.sign_in_timeout;
        let shown = DeviceCode {
            user_code: user_code.ok_or_else(|| missing("valid `user_code`"))?.to_owned(),
            verification_uri: address("verification_uri")?.ok_or_else(|| missing("`verification_uri`"))?,
            verification_uri_complete: address("verification_uri_complete")?,
            expires_in: seconds("expires_in").map_or(timeout, Duration::from_secs).min(timeout),
        };
        let interval =
            seconds("interval").map_or(INTERVAL, |s| Duration::from_secs(s.clamp(1, MAX_INTERVAL)));
        asking_user(shown.expires_in, || {
            (self.show)(&shown)?;
            self.poll(attempt, client, device_code, interval, shown.expires_in)
        })
    }

    fn asks_user(&self) -> bool {
        true
    }
}

impl<F> DeviceFlow<F> {
    /// Requests tokens until the user has signed in.
    fn poll(
        &self,
        attempt: &Attempt<'_>,
        client: Registration,
        device_code: &str,
        mut interval: Duration,
        time: Duration,
    ) -> Result<Granted, Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            pause(interval)?;
            let mut form = Form::default();
            form.add("grant_type", DEVICE_CODE)
                .add("device_code", device_code)
                .add("resource", attempt.resource);
            match attempt.tokens(&client, form) {
                Ok(tokens) => return Ok(Granted { client, tokens }),
                Err(error) if is_error(&error, "authorization_pending") => {}
                Err(error) if is_error(&error, "slow_down") => interval += INTERVAL,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Timeout, "the device code expired before the user signed in"))
    }
}
