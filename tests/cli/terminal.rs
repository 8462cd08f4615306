//! Programs at a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::TIMEOUT;

/// A program whose standard input, output and error are a terminal of 80 columns.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(command: Command) -> Terminal {
        Terminal::with_columns(80, command)
    }

    pub(crate) fn with_columns(columns: u16, mut command: Command) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let path = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let end = || Stdio::from(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // The command holds ends of the terminal, too.
        drop(command);
        let keyboard = File::from(controller);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal without a program fails to read.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, screen, seen: String::new() }
    }

    /// Waits for a text on the screen, and returns everything up to its end.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.screen.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} does not appear: {:?}", self.seen),
            }
        }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the exit status and the remaining text of the screen.
    pub(crate) fn end(mut self) -> (i32, String) {
        while let Ok(bytes) = self.screen.recv_timeout(TIMEOUT) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (self.child.wait().unwrap().code().unwrap(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves no program behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program with arguments.
pub(crate) fn tinymcp(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.args(args);
    command
}
