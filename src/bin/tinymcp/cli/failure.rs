//! Failures of commands that use a server, each with its exit status.
//!
//! | status | meaning |
//! |---|---|
//! | 1 | the server returned an error, a tool failed, or a question was not answered |
//! | 2 | wrong usage or unusable input |
//! | 3 | the server requires sign-in |
//! | 4 | the server was not reached, refused the request or violated the protocol |
//! | 5 | a timeout expired, or the user interrupted the program |
//! | 6 | the call waits for an answer in the file of `--park` |

use tinymcp::{Challenge, Error, ErrorKind, stderr};

#[cfg(unix)]
use super::signals;
use crate::escape::one_line;

/// HTTP status of a request without valid credentials.
const UNAUTHORIZED: i32 = 401;
/// Error of a challenge if the credentials are valid and do not permit the request.
const SCOPE: &str = "insufficient_scope";

/// Status for an error of the server or a tool.
pub(crate) const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// Status for a server that requires a sign-in.
pub(crate) const SIGN_IN: u8 = 3;
/// Status for a server that was not reached.
pub(crate) const UNREACHABLE: u8 = 4;
/// Status for a timeout or an interruption.
pub(crate) const TIMED_OUT: u8 = 5;

/// Status for a call that waits for an answer in a file.
pub(crate) const PARKED: u8 = 6;

/// A message for standard error, and the exit status.
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) message: String,
    /// Data of the server's error.
    pub(crate) data: Option<String>,
}

/// Result of a part of a command that uses a server.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::new(USAGE, message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        message.to_owned().into()
    }
}

impl Failure {
    pub(crate) fn new(status: u8, message: String) -> Failure {
        Failure { status, message, data: None }
    }

    /// Returns whether no further request makes sense: the connection ended, or the user
    /// interrupted.
    pub(crate) fn ends_all(&self) -> bool {
        #[cfg(unix)]
        if signals::is_received() {
            return true;
        }
        self.status == UNREACHABLE
    }

    /// Prints the message on one line, so that a server cannot imitate another message.
    pub(crate) fn print(&self) {
        stderr::write(format!("tinymcp: {}\n", one_line(&self.message)));
        if let Some(data) = &self.data {
            stderr::write(format!("  {}\n", one_line(data)));
        }
    }

    /// Failure to connect to the server with this label.
    pub(crate) fn of_connection(label: &str, error: &Error) -> Failure {
        Failure::of_start(label, &operand(label), error)
    }

    /// Failure to connect to the server with this label, which a command names by `server`.
    pub(crate) fn of_start(label: &str, server: &str, error: &Error) -> Failure {
        match error.kind() {
            ErrorKind::Remote | ErrorKind::PeerIncompatible => {
                Failure::new(UNREACHABLE, labelled(label, error))
            }
            _ => Failure::of(label, server, error),
        }
    }

    /// Failure of a request to the server with this label.
    pub(crate) fn of_request(label: &str, error: &Error) -> Failure {
        Failure::of(label, &operand(label), error)
    }

    fn of(label: &str, server: &str, error: &Error) -> Failure {
        let mut message = labelled(label, error);
        #[cfg(unix)]
        if error.kind() == ErrorKind::Cancelled && signals::is_received() {
            return Failure::new(TIMED_OUT, message);
        }
        let status = match error.kind() {
            ErrorKind::Remote | ErrorKind::PeerIncompatible | ErrorKind::Cancelled => FAILED,
            ErrorKind::Invalid | ErrorKind::Misuse => USAGE,
            // An error with data is that of the authorization server.
            ErrorKind::Refused if error.code() == Some(UNAUTHORIZED) || error.data().is_some() => {
                message.push_str(&sign_in_hint(server, error));
                SIGN_IN
            }
            ErrorKind::Refused if error.challenge().and_then(Challenge::error) == Some(SCOPE) => {
                message.push_str(&scope_hint(server, error));
                SIGN_IN
            }
            ErrorKind::Timeout => TIMED_OUT,
            _ => UNREACHABLE,
        };
        Failure::new(status, message)
    }
}

fn labelled(label: &str, error: &Error) -> String {
    let mut text = if label.is_empty() { error.to_string() } else { format!("{label}: {error}") };
    if text.ends_with("invalid peer certificate: UnknownIssuer") {
        text.push_str("; trust its authority by --cacert FILE");
    }
    text
}

/// Returns the server in the form that a command accepts.
fn operand(label: &str) -> String {
    if label.contains("://") { label.to_owned() } else { format!("--server {label}") }
}

/// Returns the advice for credentials that do not permit the request.
fn scope_hint(server: &str, error: &Error) -> String {
    // The text is for a shell and comes from the server.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/ ".contains(c);
    let scope = error.challenge().and_then(Challenge::scope);
    let scope = scope.filter(|scope| scope.chars().all(is_plain)).unwrap_or("SCOPES");
    format!("; sign in for more by `tinymcp login {server} --scope \"{scope}\"`")
}

/// Returns the advice for a request without valid credentials.
fn sign_in_hint(server: &str, error: &Error) -> String {
    match error.challenge().and_then(Challenge::resource_metadata) {
        Some(_) => format!("; sign in by `tinymcp login {server}`"),
        None if error.data().is_some() => format!("; sign in again by `tinymcp login {server}`"),
        None => format!("; use --bearer TOKEN, or `tinymcp login {server}` if the server has a sign-in"),
    }
}
