//! Push decoder for the chunked transfer coding.
//!
//! Accepts the body in pieces of any size and stores only its position. Chunk extensions and
//! trailers are dropped.
//!
//! Source: RFC 9112, 7.1.
//!
//! # Invariants
//! - A line ends with carriage return and line feed, never with one of them alone: implementations
//!   that differ could see two different requests.
//! - Dropped bytes are bounded by [`MAX_DROPPED`].

/// Maximum number of bytes of extensions and trailers in one body.
const MAX_DROPPED: usize = 4096;
/// Maximum number of digits of a chunk size: enough for every limit, too few to overflow.
const MAX_DIGITS: u8 = 15;

/// Position in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    Trailer,
    TrailerEnd,
    /// After the line end of a trailer or of the last chunk size.
    TrailerStart,
    LastEnd,
    Done,
}

/// Error of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkError {
    /// The body is not a chunked body, or has too many extensions or trailers.
    Malformed,
    TooLong,
}

/// Decoder of one body.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    state: State,
    digits: u8,
    /// Missing bytes of the current chunk.
    left: u64,
    dropped: u16,
}

impl ChunkDecoder {
    pub(super) fn new() -> ChunkDecoder {
        ChunkDecoder { state: State::Size, digits: 0, left: 0, dropped: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes `input` up to the end of the body, passes the bytes to `out` in pieces, and returns
    /// the number of bytes consumed. The body may have `room` more bytes.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        mut room: usize,
        mut out: impl FnMut(&[u8]),
    ) -> Result<usize, ChunkError> {
        let mut consumed = 0;
        while self.state != State::Done {
            let Some(rest) = input.get(consumed..).filter(|r| !r.is_empty()) else { break };
            if self.state == State::Data {
                let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                out(&rest[..n]);
                room -= n;
                consumed += n;
                self.left -= n as u64;
                if self.left == 0 {
                    self.state = State::DataReturn;
                }
                continue;
            }
            consumed += 1;
            self.state = self.step(rest[0])?;
            if self.state == State::Data && self.left > room as u64 {
                return Err(ChunkError::TooLong);
            }
        }
        Ok(consumed)
    }

    /// Returns the state after a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        Ok(match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < MAX_DIGITS => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                State::Size
            }
            (State::Size, b'\r') if self.digits > 0 => State::SizeEnd,
            (State::Size, b';' | b' ' | b'\t') if self.digits > 0 => self.drop_one(State::Extension)?,
            (State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, _) if is_text(byte) => self.drop_one(State::Extension)?,
            (State::SizeEnd, b'\n') => {
                self.digits = 0;
                if self.left > 0 { State::Data } else { State::TrailerStart }
            }
            (State::DataReturn, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size,
            (State::TrailerStart, b'\r') => State::LastEnd,
            (State::TrailerStart | State::Trailer, _) if is_text(byte) => self.drop_one(State::Trailer)?,
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::LastEnd, b'\n') => State::Done,
            _ => return Err(ChunkError::Malformed),
        })
    }

    fn drop_one(&mut self, next: State) -> Result<State, ChunkError> {
        self.dropped += 1;
        if usize::from(self.dropped) > MAX_DROPPED { Err(ChunkError::Malformed) } else { Ok(next) }
    }
}

fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` in two pieces. Returns the body, the bytes consumed, and whether it is done.
    fn decode(text: &[u8], split: usize) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        let mut decoder = ChunkDecoder::new();
        let mut body = Vec::new();
        let mut consumed = 0;
        for piece in [&text[..split], &text[split..]] {
            let room = 100_usize.saturating_sub(body.len());
            consumed += decoder.decode(piece, room, |b| body.extend_from_slice(b))?;
        }
        Ok((body, consumed, decoder.is_done()))
    }

    #[test]
    fn bodies_are_read_at_every_split() {
        for (text, body) in [
            ("0\r\n\r\n", ""),
            ("1\r\nx\r\n0\r\n\r\n", "x"),
            ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
            ("0000A\r\n0123456789\r\n000\r\n\r\n", "0123456789"),
            ("2;a=b;c=\"d\"\r\n\r\n\r\n0 ;x\r\n\r\n", "\r\n"),
            ("1\r\n\n\r\n0\r\nA: b\r\nC: \td\r\n\r\n", "\n"),
        ] {
            let with_next = format!("{text}POST");
            for split in 0..=with_next.len() {
                let expected = Ok((body.as_bytes().to_vec(), text.len(), true));
                assert_eq!(decode(with_next.as_bytes(), split), expected, "{text:?} at {split}");
            }
            for end in 0..text.len() {
                assert!(decode(&text.as_bytes()[..end], end / 2).is_ok_and(|(_, _, done)| !done));
            }
        }
    }

    #[test]
    fn malformed_bodies_are_rejected_at_every_split() {
        for text in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1\n",
            "1\rx",
            "1\r\r\n",
            "1;\n",
            "1;a\0\r\n",
            "1\r\nxy",
            "1\r\nx\n",
            "1\r\nx\rx",
            "1\r\nx\r\n\r\n",
            "0\r\n\n",
            "0\r\nA: b\n",
            "0\r\nA\0: b\r\n",
            "0\r\nA: b\rc\r\n",
            "0\r\n\r\r\n",
            "1000000000000000\r\n",
            ";\r\n",
        ] {
            for split in 0..=text.len() {
                assert_eq!(decode(text.as_bytes(), split), Err(ChunkError::Malformed), "{text:?} at {split}");
            }
        }
        for text in ["65\r\n", "fffffffffffffff\r\n", "64\r\n"] {
            let text = format!(
                "{text}{}",
                if text == "64\r\n" { format!("{}\r\n1\r\nx", "x".repeat(100)) } else { String::new() }
            );
            for split in 0..=text.len() {
                assert_eq!(decode(text.as_bytes(), split), Err(ChunkError::TooLong), "{text:?} at {split}");
            }
        }
    }

    #[test]
    fn dropped_bytes_are_bounded() {
        let long = "x".repeat(MAX_DROPPED);
        for text in [format!("1;{long}"), format!("0\r\n{long}x"), "1;x\r\ny\r\n".repeat(MAX_DROPPED / 2 + 1)]
        {
            let mut decoder = ChunkDecoder::new();
            assert_eq!(decoder.decode(text.as_bytes(), usize::MAX, |_| ()), Err(ChunkError::Malformed));
        }
    }
}
