//! Bodies without a length: chunks come in, bytes come out.
//!
//! A push decoder: it takes any piece of the stream and keeps no more than where it stands.
//! Extensions and trailers are read over and dropped. What it does not do: store trailers.
//!
//! Source: RFC 9112, 7.1.
//!
//! # Invariants
//! - Lines end with carriage return and line feed; nothing else ends one, and nothing is skipped
//!   that another reader could take for an end.
//! - What is dropped is bounded by [`EXTRA`].

/// Bytes of extensions and trailers in one body.
const EXTRA: usize = 4096;
/// Digits of a chunk's size: more than any limit needs, fewer than overflow.
const DIGITS: u8 = 15;

/// Where in the body the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    Trailer,
    TrailerEnd,
    /// Behind the line end of a trailer, or of the last chunk's size.
    TrailerStart,
    LastEnd,
    Done,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no chunked body, or has too much that is none of its bytes.
    Malformed,
    TooLong,
}

/// Decodes one body.
#[derive(Debug)]
pub(super) struct Chunked {
    at: At,
    digits: u8,
    /// Bytes of the chunk that have not come.
    left: u64,
    extra: u16,
}

impl Chunked {
    pub(super) fn new() -> Chunked {
        Chunked { at: At::Size, digits: 0, left: 0, extra: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// Takes what belongs to the body from the start of `input`, gives its bytes to `out` in
    /// pieces, and tells how much it took. `room` is how many more bytes the body may have.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        mut room: usize,
        mut out: impl FnMut(&[u8]),
    ) -> Result<usize, Fault> {
        let mut taken = 0;
        while self.at != At::Done {
            let Some(rest) = input.get(taken..).filter(|r| !r.is_empty()) else { break };
            if self.at == At::Data {
                let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                out(&rest[..n]);
                room -= n;
                taken += n;
                self.left -= n as u64;
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
                continue;
            }
            taken += 1;
            self.at = self.step(rest[0])?;
            if self.at == At::Data && self.left > room as u64 {
                return Err(Fault::TooLong);
            }
        }
        Ok(taken)
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<At, Fault> {
        Ok(match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < DIGITS => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                At::Size
            }
            (At::Size, b'\r') if self.digits > 0 => At::SizeEnd,
            (At::Size, b';' | b' ' | b'\t') if self.digits > 0 => self.drop_one(At::Extension)?,
            (At::Extension, b'\r') => At::SizeEnd,
            (At::Extension, _) if is_text(byte) => self.drop_one(At::Extension)?,
            (At::SizeEnd, b'\n') => {
                self.digits = 0;
                if self.left > 0 { At::Data } else { At::TrailerStart }
            }
            (At::DataReturn, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Size,
            (At::TrailerStart, b'\r') => At::LastEnd,
            (At::TrailerStart | At::Trailer, _) if is_text(byte) => self.drop_one(At::Trailer)?,
            (At::Trailer, b'\r') => At::TrailerEnd,
            (At::TrailerEnd, b'\n') => At::TrailerStart,
            (At::LastEnd, b'\n') => At::Done,
            _ => return Err(Fault::Malformed),
        })
    }

    fn drop_one(&mut self, at: At) -> Result<At, Fault> {
        self.extra += 1;
        if usize::from(self.extra) > EXTRA { Err(Fault::Malformed) } else { Ok(at) }
    }
}

fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` in two pieces: what came out, what was taken, and whether it is done.
    fn decode(text: &[u8], split: usize) -> Result<(Vec<u8>, usize, bool), Fault> {
        let mut decoder = Chunked::new();
        let mut body = Vec::new();
        let mut taken = 0;
        for piece in [&text[..split], &text[split..]] {
            let room = 100_usize.saturating_sub(body.len());
            taken += decoder.decode(piece, room, |b| body.extend_from_slice(b))?;
        }
        Ok((body, taken, decoder.is_done()))
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
    fn anything_else_is_refused_at_every_split() {
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
                assert_eq!(decode(text.as_bytes(), split), Err(Fault::Malformed), "{text:?} at {split}");
            }
        }
        for text in ["65\r\n", "fffffffffffffff\r\n", "64\r\n"] {
            let text = format!(
                "{text}{}",
                if text == "64\r\n" { format!("{}\r\n1\r\nx", "x".repeat(100)) } else { String::new() }
            );
            for split in 0..=text.len() {
                assert_eq!(decode(text.as_bytes(), split), Err(Fault::TooLong), "{text:?} at {split}");
            }
        }
    }

    #[test]
    fn what_is_dropped_is_bounded() {
        let long = "x".repeat(EXTRA);
        for text in [format!("1;{long}"), format!("0\r\n{long}x"), "1;x\r\ny\r\n".repeat(EXTRA / 2 + 1)] {
            let mut decoder = Chunked::new();
            assert_eq!(decoder.decode(text.as_bytes(), usize::MAX, |_| ()), Err(Fault::Malformed));
        }
    }
}
