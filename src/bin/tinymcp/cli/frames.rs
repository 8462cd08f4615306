//! Option `--verbose`: the frames of a connection on standard error, with credentials masked.
//!
//! A line has the direction (`>` to the server, `<` from it), the seconds since the start, and the
//! frame. A long frame is shortened; `tinymcp record` writes all of it.

use std::time::Instant;

use tinymcp::{ClientBuilder, Direction};

use super::args::Args;
use super::print;
use crate::escape::push_json;
use crate::mask::{Mask, parts, shortened};

/// Longest frame that is shown, in bytes. Standard error queues 64 KiB.
const MAX_FRAME: usize = 16 << 10;

/// Frames that are shown.
pub(crate) struct Frames {
    began: Instant,
    mask: Mask,
}

impl Frames {
    /// Returns the frames if `--verbose` is given. The values of headers, of variables and of
    /// the query of the URL are masked, and those of `secrets`.
    pub(crate) fn new(args: &Args, secrets: &[String]) -> Option<Frames> {
        let secrets = secrets.iter().map(String::as_str);
        let mask = Mask::new(args.server.secrets().chain(secrets).flat_map(parts).collect());
        args.has("verbose").then(|| Frames { began: Instant::now(), mask })
    }

    /// Writes one frame to standard error.
    pub(crate) fn show(&self, direction: Direction, frame: &[u8]) {
        let sign = if direction == Direction::Sent { '>' } else { '<' };
        let text = match self.mask.frame(frame, MAX_FRAME) {
            Ok((text, _)) => text,
            Err(error) => shortened(&self.mask.invalid(frame, &error), MAX_FRAME),
        };
        let seconds = self.began.elapsed().as_secs_f64();
        let mut line = format!("{sign} {seconds:.3} ");
        text.trim_end().chars().for_each(|c| push_json(&mut line, c));
        print::note(&line);
    }
}

/// Shows the frames of a client if `--verbose` is given.
pub(crate) fn show(client: ClientBuilder, args: &Args, secrets: &[String]) -> ClientBuilder {
    match Frames::new(args, secrets) {
        Some(frames) => client.on_frame(move |frame| frames.show(frame.direction, frame.bytes)),
        None => client,
    }
}
