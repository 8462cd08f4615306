//! One server process that listens on a port of this machine.
//!
//! Does: spawn it on a free port, wait until it listens, end it. Does not: speak to it.
//! Invariants: every process has a deadline, past which it is killed; a dropped `Peer` leaves no process behind.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use stdio_bench::peer::Watch;

use crate::Result;

/// How long a server may take until it listens; under a counting tool that is seconds.
const START: Duration = Duration::from_secs(15);
/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(1);

/// A running server.
pub struct Peer<'w> {
    child: Child,
    /// The server itself, where the child is a tool that runs it.
    server: u32,
    port: u16,
    watch: &'w Watch,
}

impl<'w> Peer<'w> {
    /// Starts `command` with `--http ADDRESS` behind it; it is killed after `limit`.
    ///
    /// # Errors
    /// When the program cannot be started or does not listen in time.
    pub fn spawn(command: &[String], limit: Duration, watch: &'w Watch) -> Result<Self> {
        let (program, args) = command.split_first().ok_or("an empty command")?;
        // Free a moment ago. Should somebody else take it, the server says so and the run ends.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
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
        let mut peer = Self { child, server, port, watch };
        peer.listening()?;
        // `strace` stays the parent of what it runs; valgrind becomes it.
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

    /// Number of the server's process.
    pub fn pid(&self) -> u32 {
        self.server
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Sends SIGTERM and waits for the end; gives how long that took and how the process ended.
    ///
    /// # Errors
    /// When there is nothing to signal.
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
        // Both do nothing after `finish`.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.watch.disarm();
    }
}

/// Lets this process and the servers it starts hold as many descriptors as the system allows.
///
/// # Errors
/// When the kernel refuses.
pub fn raise_descriptors() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
