//! Standard input and output, taken for the protocol alone.
//!
//! The protocol's descriptors are duplicated; then descriptor 0 is pointed at `/dev/null` and
//! descriptor 1 at standard error. A stray `println!` in a handler, or in a child process of one,
//! ends up among the diagnostics instead of between two messages (MCP basic/transports/stdio: a
//! server must not write anything to stdout that is not a message).

use crate::error::Error;
use crate::limits::Limits;

use super::Link;

/// Takes standard input and output.
///
/// # Errors
/// [`crate::ErrorKind::Io`] when a descriptor is missing or cannot be duplicated.
#[cfg(unix)]
pub(crate) fn own_stdio(limits: &Limits) -> Result<Link, Error> {
    use rustix::io::fcntl_dupfd_cloexec;
    use rustix::stdio::{dup2_stdin, dup2_stdout};

    // Above the three standard numbers, so that a closed descriptor is never handed out again.
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(std::io::Error::from)?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(std::io::Error::from)?;
    let null = std::fs::File::open("/dev/null")?;
    dup2_stdin(&null).map_err(std::io::Error::from)?;
    dup2_stdout(rustix::stdio::stderr()).map_err(std::io::Error::from)?;
    Ok(Link::lines(std::fs::File::from(input), std::fs::File::from(output), limits))
}

/// Takes standard input and output; where there is no `dup2`, a handler must not print.
#[cfg(not(unix))]
pub(crate) fn own_stdio(limits: &Limits) -> Result<Link, Error> {
    Ok(Link::lines(std::io::stdin(), std::io::stdout(), limits))
}
