//! Stdio transport of the player: this test binary runs again as a child process with a fixture
//! server.
//!
//! The child runs one test of this binary, selected by its exact name. An environment variable
//! makes that test serve instead of passing at once. The output of the test harness ends with a
//! line that starts with [`MARK`]; the protocol starts after it. Commands for the fixture use a
//! loopback connection to the port in that line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{self, Order, Stage};
use crate::wire::{Received, TIMEOUT, Wire};

const VARIABLE: &str = "TEST_FIXTURE";
const MARK: &str = "@serving ";

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: mpsc::Receiver<String>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the standard error of the child is closed, which is when the child has
    /// ended.
    gone: mpsc::Receiver<()>,
    control: BufReader<TcpStream>,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    match start(order) {
        // The emulator starts a process by a fork, whose copy may wait for ever for a lock that another thread held.
        // Nothing was sent to that child yet.
        Err(why) if std::env::var_os("TEST_EMULATED").is_some() => {
            eprintln!("starting the child once more: {why}");
            start(order)
        }
        result => result,
    }
}

fn start(order: &Order) -> Result<Box<dyn Wire>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["--exact", "wire_stdio::child_serves", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, order.to_text())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the child: {error}"))?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child has no output".to_owned());
    };
    let (lines, output) = mpsc::channel();
    thread::spawn(move || read_lines(BufReader::new(stdout), &lines));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&errors);
    let (going, gone) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _going = going;
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = stderr.read(&mut chunk) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..n]);
        }
    });
    let input = child.stdin.take();
    let port = serving_port(&output).map_err(|why| {
        let state = child.try_wait();
        let _ = child.kill();
        let _ = child.wait();
        let errors =
            String::from_utf8_lossy(&errors.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        format!("{why}; its state: {state:?}; its standard error: {errors}")
    })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let control = TcpStream::connect_timeout(&address, TIMEOUT).map_err(|error| error.to_string())?;
    control.set_read_timeout(Some(TIMEOUT + Duration::from_secs(5))).map_err(|error| error.to_string())?;
    Ok(Box::new(Process { child, input, output, errors, gone, control: BufReader::new(control) }))
}

/// Forwards lines until the stream ends. A line that is not UTF-8, or that has no newline, is
/// forwarded in a form that matches no pattern.
fn read_lines(mut stream: impl BufRead, lines: &mpsc::Sender<String>) {
    let mut bytes = Vec::new();
    while let Ok(1..) = stream.read_until(b'\n', &mut bytes) {
        let line = match String::from_utf8(std::mem::take(&mut bytes)) {
            Ok(line) => {
                line.strip_suffix('\n').map_or_else(|| format!("no newline after {line}"), str::to_owned)
            }
            Err(error) => format!("not UTF-8: {error}"),
        };
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn serving_port(output: &mpsc::Receiver<String>) -> Result<u16, String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let line =
            output.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| {
                match error {
                    mpsc::RecvTimeoutError::Timeout => {
                        format!("the child did not start to serve within {TIMEOUT:?}")
                    }
                    mpsc::RecvTimeoutError::Disconnected => {
                        "the child closed its output before it served".to_owned()
                    }
                }
            })?;
        if let Some(port) = line.strip_prefix(MARK) {
            return port.parse().map_err(|_| format!("{line:?} has no port"));
        }
    }
}

impl Wire for Process {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the input is closed")?;
        input
            .write_all(bytes)
            .and_then(|()| input.flush())
            .map_err(|error| format!("writing failed: {error}"))
    }

    fn receive(&mut self, deadline: Instant) -> Received {
        match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Received::Message(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => Received::Closed,
            Err(mpsc::RecvTimeoutError::Timeout) => Received::TimedOut,
        }
    }

    fn finish(&mut self) {
        self.input = None;
    }

    fn act(&mut self, command: &str) -> Result<(), String> {
        let line = format!("{command}\n");
        self.control.get_mut().write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        let mut reply = String::new();
        self.control.read_line(&mut reply).map_err(|error| format!("no reply from the fixture: {error}"))?;
        match reply.trim_end() {
            "ok" => Ok(()),
            why => Err(why.to_owned()),
        }
    }

    fn end(mut self: Box<Self>) -> Result<(), String> {
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.gone.recv_timeout(TIMEOUT) {
            return Err(format!("the child did not end: {}", self.stderr()));
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the child ended with {status}: {}", self.stderr())),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Process {
    /// Standard error of the child so far.
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already ended unless its transcript failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves if this process was started as a fixture; otherwise passes at once.
#[test]
fn child_serves() {
    let Some(order) = std::env::var_os(VARIABLE) else { return };
    let order = Order::from_text(&order.to_string_lossy()).unwrap();
    let stage = Arc::new(Stage::default());
    let server = fixture::build(&order, &stage).unwrap();
    let handle = server.handle();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // Starts a new line after any output of the harness.
    writeln!(std::io::stdout(), "\n{MARK}{port}").unwrap();
    // Held while a command runs: the process does not end before the reply is sent.
    let acting = Arc::new(Mutex::new(()));
    let actor = Arc::clone(&acting);
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let _acting = actor.lock().unwrap();
            let reply = match fixture::act(&stage, &handle, &order.server, &line) {
                Ok(()) => "ok\n".to_owned(),
                Err(why) => why.replace('\n', " ") + "\n",
            };
            // One write: a second one would wait for the acknowledgement of the first.
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    });
    let served = server.serve_stdio();
    let _acting = acting.lock().unwrap();
    std::process::exit(i32::from(served.is_err()));
}
