//! Failures of commands that use a server, each with its exit status.
//!
//! | status | meaning |
//! |---|---|
//! | 1 | the server returned an error, a tool failed, or a question was not answered |
//! | 2 | wrong usage or unusable input |
//! | 3 | the server requires sign-in |
//! | 4 | no server was reached, or it refused the request or broke the protocol |
//! | 5 | a timeout expired |

use tinymcp::{Error, ErrorKind, stderr};

use crate::escape::one_line;

/// HTTP status of a request without valid credentials.
const UNAUTHORIZED: i32 = 401;

/// Status for an error of the server or a tool.
pub(crate) const FAILED: u8 = 1;
const USAGE: u8 = 2;
const SIGN_IN: u8 = 3;
/// Status for a server that was not reached.
pub(crate) const UNREACHABLE: u8 = 4;
/// Status for a timeout.
pub(crate) const TIMED_OUT: u8 = 5;

/// A message for standard error, and the exit status.
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) message: String,
    /// Data of the server's error.
    pub(crate) data: Option<String>,
}

/// Result of a part of such a command.
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

    /// Prints the message, on one line each, so that a server cannot imitate one.
    pub(crate) fn print(&self) {
        stderr::write(format!("tinymcp: {}\n", one_line(&self.message)));
        if let Some(data) = &self.data {
            stderr::write(format!("  {}\n", one_line(data)));
        }
    }

    /// Failure to connect to the server with this label.
    pub(crate) fn of_connection(label: &str, error: &Error) -> Failure {
        match error.kind() {
            ErrorKind::Remote | ErrorKind::PeerIncompatible => {
                Failure::new(UNREACHABLE, labelled(label, error))
            }
            _ => Failure::of_request(label, error),
        }
    }

    /// Failure of a request to the server with this label.
    pub(crate) fn of_request(label: &str, error: &Error) -> Failure {
        let mut message = labelled(label, error);
        let status = match error.kind() {
            ErrorKind::Remote | ErrorKind::PeerIncompatible | ErrorKind::Cancelled => FAILED,
            ErrorKind::Invalid | ErrorKind::Misuse => USAGE,
            ErrorKind::Refused if error.code() == Some(UNAUTHORIZED) => {
                message.push_str("; use --bearer TOKEN or --header \"Authorization: …\"");
                SIGN_IN
            }
            ErrorKind::Timeout => TIMED_OUT,
            _ => UNREACHABLE,
        };
        Failure::new(status, message)
    }
}

fn labelled(label: &str, error: &Error) -> String {
    if label.is_empty() { error.to_string() } else { format!("{label}: {error}") }
}
