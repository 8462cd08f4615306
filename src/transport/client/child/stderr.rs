//! Stderr of a child process: its end is kept, or its lines are passed on.

use std::sync::Mutex;

use super::settings::OnStderr;
use crate::sync::lock;
use crate::terminal::is_control;

/// Longest line of stderr; a longer one is passed on in parts.
const MAX_LINE: usize = 8 << 10;

/// What happens with the stderr of a child.
#[derive(Clone)]
pub(super) enum StderrUse {
    /// It is inherited or discarded.
    None,
    /// This many last bytes are kept.
    Tail(usize),
    /// A function gets each line.
    Lines(OnStderr),
}

/// Receives the bytes of the stderr of one process.
pub(super) struct StderrReader {
    to: StderrUse,
    /// The last bytes, or the beginning of a line.
    kept: Mutex<Vec<u8>>,
}

impl StderrReader {
    pub(super) fn new(to: StderrUse) -> StderrReader {
        StderrReader { to, kept: Mutex::default() }
    }

    /// Returns whether lines are passed on.
    pub(super) fn passes_lines(&self) -> bool {
        matches!(self.to, StderrUse::Lines(_))
    }

    /// Returns the end of stderr, if it is kept.
    pub(super) fn tail(&self) -> Option<String> {
        let StderrUse::Tail(_) = self.to else { return None };
        Some(String::from_utf8_lossy(&lock(&self.kept)).trim().to_owned())
    }

    /// Processes output of the child.
    pub(super) fn push(&self, output: &[u8]) {
        let mut kept = lock(&self.kept);
        kept.extend_from_slice(output);
        match &self.to {
            StderrUse::None => kept.clear(),
            StderrUse::Tail(most) => {
                // Cut rarely: each cut moves the whole tail.
                if kept.len() > most.saturating_mul(2) {
                    let cut = kept.len() - most;
                    kept.drain(..cut);
                }
            }
            StderrUse::Lines(on_line) => {
                let whole = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                // A line beyond the limit is passed on in parts.
                let most = if kept.len() - whole > MAX_LINE { kept.len() } else { whole };
                let lines: Vec<u8> = kept.drain(..most).collect();
                drop(kept);
                forward_lines(on_line, &lines);
            }
        }
    }

    /// Stderr has ended: passes on the last line, which has no line end.
    pub(super) fn end(&self) {
        if let StderrUse::Lines(on_line) = &self.to {
            let rest = std::mem::take(&mut *lock(&self.kept));
            forward_lines(on_line, &rest);
        }
    }
}

/// Passes lines of the child on. A line must not control the terminal.
fn forward_lines(on_line: &OnStderr, lines: &[u8]) {
    let controls = |c: char| is_control(c) && c != '\t';
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        on_line(&String::from_utf8_lossy(line).trim_end_matches('\r').replace(controls, "?"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_line_of_a_child_does_not_control_a_terminal() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let on_line: OnStderr = Arc::new(move |line| lock(&to).push(line.to_owned()));
        forward_lines(&on_line, "a\tb\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{200f}\u{e0041}é\r\n\u{85}".as_bytes());
        assert_eq!(*lock(&lines), ["a\tb?[2J?????é", "?"]);
    }
}
