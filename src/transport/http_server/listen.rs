//! Addresses: TCP, Unix sockets, and sockets that the service manager opened for us.
//!
//! # Invariants
//! - A Unix socket that somebody listens to is never taken away; one that nobody listens to is.
//! - The file of a Unix socket of ours is only its owner's, and is removed at the end.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::TcpStream;
#[cfg(unix)]
use mio::net::UnixStream;

/// A connected socket, non-blocking.
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).read(into),
            #[cfg(unix)]
            Socket::Unix(s) => (&mut &*s).read(into),
        }
    }

    pub(super) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).write_vectored(parts),
            #[cfg(unix)]
            Socket::Unix(s) => (&mut &*s).write_vectored(parts),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(how),
            #[cfg(unix)]
            Socket::Unix(s) => s.shutdown(how),
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(s) => s,
            #[cfg(unix)]
            Socket::Unix(s) => s,
        }
    }
}
