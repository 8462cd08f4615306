//! Process of the server under attack, and the witness that calls it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::server::ROLE;
use super::wire::{TIMEOUT, call, connect, exchange};

/// A running server process.
pub struct ServerProcess {
    child: Child,
    pub address: SocketAddr,
}

/// Resources that a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub resident_kb: u64,
    pub threads: u64,
    pub files: usize,
}

impl ServerProcess {
    /// Starts a server with these limits.
    pub fn start(role: &str, limits: &[(&str, &str)]) -> ServerProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .envs(limits.iter().copied())
            .stdout(Stdio::piped())
            // The server logs the requests that it rejects, which is every request of an attack.
            .stderr(if std::env::var_os("TEST_LONG").is_some() { Stdio::inherit() } else { Stdio::null() })
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").parse().unwrap();
        ServerProcess { child, address }
    }

    pub fn size(&self) -> Size {
        let process = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Size {
            resident_kb: number("VmRSS:"),
            threads: number("Threads:"),
            files: std::fs::read_dir(format!("{process}/fd")).unwrap().count(),
        }
    }

    /// Waits until a condition on the size of the process is true.
    pub fn wait_for(&self, what: &str, holds: impl Fn(Size) -> bool) {
        let began = Instant::now();
        while !holds(self.size()) {
            assert!(began.elapsed() < TIMEOUT, "{what}: {:?}", self.size());
            std::thread::yield_now();
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls a tool in a loop and stores the maxima.
pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// Results of a witness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub calls: u64,
    pub slowest: Duration,
    pub max: Size,
}

impl Witness {
    /// Starts the calls.
    pub fn of(server: &Arc<ServerProcess>) -> Witness {
        let (stop, server) = (Arc::new(AtomicBool::new(false)), Arc::clone(server));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut kept_open = None;
            while !stopping.load(Ordering::Acquire) || seen.calls < 4 {
                seen.calls += 1;
                let began = Instant::now();
                call_until_response(&server, seen.calls, &mut kept_open);
                seen.slowest = seen.slowest.max(began.elapsed());
                let size = server.size();
                seen.max.resident_kb = seen.max.resident_kb.max(size.resident_kb);
                seen.max.threads = seen.max.threads.max(size.threads);
                seen.max.files = seen.max.files.max(size.files);
            }
            seen
        });
        Witness { stop, thread }
    }

    /// Stops the calls and returns the results.
    pub fn end(self) -> Seen {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("a call of the witness got no response")
    }
}

/// Sends one call and waits for its response; every second call uses a new connection. A connection
/// that the server closed between two calls is replaced.
fn call_until_response(server: &ServerProcess, id: u64, kept_open: &mut Option<std::net::TcpStream>) {
    let request = call(server.address, id, "echo");
    let began = Instant::now();
    loop {
        let mut fresh = None;
        let stream = if id % 2 == 0 { &mut *kept_open } else { &mut fresh };
        let response = exchange(stream.get_or_insert_with(|| connect(server.address)), &request);
        match response {
            Some((status, body)) => {
                assert!(status == 200 && body.contains(&format!(r#"\"n\":{id}"#)), "{status} {body}");
                return;
            }
            None => *stream = None,
        }
        assert!(began.elapsed() < TIMEOUT, "no response");
    }
}
