//! The server's process as seen from outside, and the witness who calls it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::server::ROLE;
use super::wire::{PATIENCE, call, connect, exchange};

/// A running server.
pub struct Victim {
    child: Child,
    pub address: SocketAddr,
}

/// What a process takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub resident_kb: u64,
    pub threads: u64,
    pub files: usize,
}

impl Victim {
    /// Starts a server with these limits.
    pub fn start(role: &str, limits: &[(&str, &str)]) -> Victim {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .envs(limits.iter().copied())
            .stdout(Stdio::piped())
            // It reports the requests that it rejects, which is what an attack is for.
            .stderr(if std::env::var_os("TEST_LONG").is_some() { Stdio::inherit() } else { Stdio::null() })
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").parse().unwrap();
        Victim { child, address }
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

    /// Waits until something holds for the server.
    pub fn wait_for(&self, what: &str, holds: impl Fn(Size) -> bool) {
        let began = Instant::now();
        while !holds(self.size()) {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", self.size());
            std::thread::yield_now();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls again and again, and remembers the worst.
pub struct Witness {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What a witness saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub calls: u64,
    pub slowest: Duration,
    pub most: Size,
}

impl Witness {
    /// Begins to call.
    pub fn of(victim: &Arc<Victim>) -> Witness {
        let (over, victim) = (Arc::new(AtomicBool::new(false)), Arc::clone(victim));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut kept = None;
            while !told.load(Ordering::Acquire) || seen.calls < 4 {
                seen.calls += 1;
                let began = Instant::now();
                answered(&victim, seen.calls, &mut kept);
                seen.slowest = seen.slowest.max(began.elapsed());
                let size = victim.size();
                seen.most.resident_kb = seen.most.resident_kb.max(size.resident_kb);
                seen.most.threads = seen.most.threads.max(size.threads);
                seen.most.files = seen.most.files.max(size.files);
            }
            seen
        });
        Witness { over, thread }
    }

    /// Ends the calling.
    pub fn end(self) -> Seen {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("the witness was not answered")
    }
}

/// One call until it is answered: every other on a new connection. A connection that the server
/// closed while nobody called on it is no failure, and nothing the caller would see.
fn answered(victim: &Victim, id: u64, kept: &mut Option<std::net::TcpStream>) {
    let request = call(victim.address, id, "echo");
    let began = Instant::now();
    loop {
        let mut fresh = None;
        let stream = if id % 2 == 0 { &mut *kept } else { &mut fresh };
        let answer = exchange(stream.get_or_insert_with(|| connect(victim.address)), &request);
        match answer {
            Some((status, body)) => {
                assert!(status == 200 && body.contains(&format!(r#"\"n\":{id}"#)), "{status} {body}");
                return;
            }
            None => *stream = None,
        }
        assert!(began.elapsed() < PATIENCE, "no answer");
    }
}
