//! A server process that listens on a local port.
//!
//! Starts it on a reserved port and waits until it listens.
//!
//! # Invariants
//! - Every process has a deadline, after which it is killed.
//! - A dropped `Peer` leaves no process running.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use stdio_bench::peer::Watch;

use crate::Result;

/// Time until a server must listen; under a counting tool it takes seconds.
const START: Duration = Duration::from_secs(60);
/// Time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(1);

/// A running server.
pub struct Peer<'w> {
    child: Child,
    /// The server itself, if the child is a tool that runs it.
    server: u32,
    port: u16,
    /// Keeps the port.
    _reserved: OwnedFd,
    watch: &'w Watch,
}

impl<'w> Peer<'w> {
    /// Starts `command` with the arguments `--http ADDRESS`; it is killed after `limit`.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started or does not listen in time.
    pub fn spawn(command: &[String], limit: Duration, watch: &'w Watch) -> Result<Self> {
        let (program, args) = command.split_first().ok_or("an empty command")?;
        let (reserved, port) = reserve()?;
        let child = Command::new(program)
            .args(args)
            .args(["--http", &format!("127.0.0.1:{port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        watch.arm(&child, limit)?;
        let server = child.id();
        let mut peer = Self { child, server, port, _reserved: reserved, watch };
        peer.listening()?;
        // `strace` stays the parent of its program; valgrind becomes the program.
        if program == "strace" {
            let pid = peer.server;
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            peer.server = children.split_whitespace().next().ok_or("strace runs nothing")?.parse()?;
        }
        Ok(peer)
    }

    fn listening(&mut self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status} before it listened").into());
            }
            if began.elapsed() > START {
                return Err("the server does not listen".into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> u32 {
        self.server
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Sends SIGTERM and waits until the server has ended; returns the time and the exit status.
    ///
    /// # Errors
    /// Returns an error if there is no process to signal.
    pub fn finish(mut self) -> Result<(Duration, ExitStatus)> {
        let began = Instant::now();
        let pid = i32::try_from(self.server).ok().and_then(Pid::from_raw).ok_or("no process number")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        self.watch.disarm();
        Ok((began.elapsed(), status))
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        // Both have no effect after `finish`.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.watch.disarm();
    }
}

/// Binds a port and does not listen on it. The server may, because both sockets have `SO_REUSEADDR`; the system gives
/// the port to no other program.
fn reserve() -> Result<(OwnedFd, u16)> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let port = SocketAddrV4::try_from(net::getsockname(&socket)?)?.port();
    Ok((socket, port))
}

/// Raises the descriptor limit of this process and of the servers it starts to the maximum.
///
/// # Errors
/// Returns an error if the kernel rejects it.
pub fn raise_descriptors() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
