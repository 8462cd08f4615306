//! HTTP/1.1 request reader: bytes are pushed in, whole requests come out.
//!
//! A request that arrives in one piece is passed on without a copy. Only a request that arrives in
//! several pieces is buffered. The reader performs no I/O and reads no clock.
//!
//! # Invariants
//! - `buf` is empty between requests: an idle connection holds no buffer.
//! - While a body arrives, `buf` is the head.
//! - Nothing beyond the end of the current request is consumed.

use super::chunk_buffer::ChunkBuffer;
use super::chunked::{ChunkDecoder, ChunkError};
use super::head::{Framing, Head, RequestOptions, StatusError, field_buffer, find_end, parse};
use super::response_head::ResponseOptions;
use super::{Admission, Response};

/// Limits of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub head_bytes: usize,
    pub head_fields: usize,
    pub body_bytes: usize,
}

/// Receiver of requests.
pub(super) trait RequestSink {
    /// Decides from the head of a request whether its body is read.
    fn check(&mut self, head: &Head<'_>) -> Admission;
    /// Sends status 100 (Continue), for which the peer waits before it sends the body.
    fn send_continue(&mut self);
    /// Handles a complete request.
    fn handle(&mut self, head: &Head<'_>, options: ResponseOptions, body: &[u8]);
}

/// Result of [`RequestReader::push`].
pub(super) enum Step {
    /// All bytes were consumed and the request is incomplete.
    Incomplete,
    /// A request was passed to the sink.
    Handled,
    /// A request waits: its bytes are stored like pipelined ones, and are pushed again later.
    Waiting,
    /// A request was rejected after its head. `whole` is set if all its bytes were consumed.
    Rejected { response: Response, options: ResponseOptions, whole: bool },
}

/// Request that is being read.
#[derive(Debug)]
pub(super) struct RequestReader {
    buf: Vec<u8>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Reading the head. The lines before `searched` do not end it.
    Head {
        searched: usize,
    },
    /// Reading a body of which `left` bytes are missing.
    Length {
        left: usize,
        body: Box<ChunkBuffer>,
    },
    Chunked {
        decoder: ChunkDecoder,
        body: Box<ChunkBuffer>,
    },
    /// `buf` holds input after a request without a response, or a request that waits.
    Pipelined,
}

const START: Stage = Stage::Head { searched: 0 };

impl RequestReader {
    pub(super) fn new() -> RequestReader {
        RequestReader { buf: Vec::new(), stage: START }
    }

    fn body(&self) -> Option<&ChunkBuffer> {
        match &self.stage {
            Stage::Length { body, .. } | Stage::Chunked { body, .. } => Some(body),
            Stage::Head { .. } | Stage::Pipelined => None,
        }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buf.capacity() + self.body().map_or(0, ChunkBuffer::memory)
    }

    /// Returns whether no part of a request has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Returns the bytes of the body that have arrived, while a body is being read.
    pub(super) fn body_received(&self) -> Option<usize> {
        self.body().map(ChunkBuffer::len)
    }

    /// Stores input that follows a request without a response.
    pub(super) fn store_pipelined(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.buf = rest.to_vec();
            self.stage = Stage::Pipelined;
        }
    }

    /// Takes the input that [`store_pipelined`](Self::store_pipelined) stored.
    pub(super) fn take_pipelined(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.stage, Stage::Pipelined) {
            return None;
        }
        self.stage = START;
        Some(std::mem::take(&mut self.buf))
    }

    /// Reads `input` up to the end of a request. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// The request is rejected with this status, and the input after it cannot be interpreted.
    pub(super) fn push(
        &mut self,
        input: &[u8],
        bounds: &Bounds,
        sink: &mut dyn RequestSink,
    ) -> Result<(usize, Step), StatusError> {
        let (n, whole) = match &mut self.stage {
            Stage::Head { .. } | Stage::Pipelined => return self.push_head(input, bounds, sink),
            Stage::Length { left, body } => {
                let n = (*left).min(input.len());
                *left -= n;
                body.push(&input[..n]);
                (n, *left == 0)
            }
            Stage::Chunked { decoder, body } => {
                let n = decode(decoder, input, body, bounds)?;
                (n, decoder.is_done())
            }
        };
        let step = if whole { self.finish_body(bounds, sink)? } else { Step::Incomplete };
        Ok((n, step))
    }

    fn push_head(
        &mut self,
        input: &[u8],
        bounds: &Bounds,
        sink: &mut dyn RequestSink,
    ) -> Result<(usize, Step), StatusError> {
        // At least one empty line before a request SHOULD be ignored (RFC 9112, 2.2).
        let mut skipped = 0;
        if self.buf.is_empty() {
            while input[skipped..].starts_with(b"\r\n") {
                skipped += 2;
            }
        }
        let fresh = &input[skipped..];
        if fresh.is_empty() {
            return Ok((skipped, Step::Incomplete));
        }
        let before = self.buf.len();
        let mut searched = match self.stage {
            Stage::Head { searched } => searched,
            _ => 0,
        };
        let end = if before == 0 && fresh != b"\r" {
            // Errors beyond the limit must not change the status, which would then depend on the
            // pieces in which the head arrives.
            let limited = &fresh[..fresh.len().min(bounds.head_bytes + 1)];
            let end = find_end(limited, &mut searched)?;
            if end.is_none() {
                self.buf.extend_from_slice(limited);
            }
            end
        } else {
            let room = (bounds.head_bytes + 1).saturating_sub(before);
            self.buf.extend_from_slice(&fresh[..fresh.len().min(room)]);
            if self.buf == b"\r" {
                None
            } else if self.buf.starts_with(b"\r\n") {
                self.buf.clear();
                self.stage = START;
                return self.push_head(&fresh[2 - before..], bounds, sink).map(|(n, s)| (n + 2 - before, s));
            } else {
                find_end(&self.buf, &mut searched)?
            }
        };
        self.stage = Stage::Head { searched };
        let Some(end) = end.filter(|end| *end <= bounds.head_bytes) else {
            let received = if before == 0 { fresh } else { &self.buf };
            if received.len() <= bounds.head_bytes {
                return Ok((skipped + fresh.len(), Step::Incomplete));
            }
            return Err(too_long(&received[..bounds.head_bytes]));
        };
        let consumed = skipped + end - before;
        self.stage = START;
        let mut stored = std::mem::take(&mut self.buf);
        stored.truncate(end);
        let head = if stored.is_empty() { &fresh[..end] } else { &stored[..] };
        let (n, step) = self.begin_body(head, &input[consumed..], bounds, sink)?;
        Ok((consumed + n, step))
    }

    /// Processes a complete head. `rest` is the input after it.
    fn begin_body(
        &mut self,
        bytes: &[u8],
        rest: &[u8],
        bounds: &Bounds,
        sink: &mut dyn RequestSink,
    ) -> Result<(usize, Step), StatusError> {
        let mut fields = field_buffer();
        let (head, options) = parse(bytes, &mut fields, bounds.head_fields)?;
        let RequestOptions { framing, expects_continue, response: options } = options;
        let length = match framing {
            Framing::Length(n) => Some(usize::try_from(n).unwrap_or(usize::MAX)),
            Framing::Chunked => None,
        };
        match sink.check(&head) {
            Admission::ReadBody => {}
            Admission::Respond(response) => {
                let n = length.filter(|n| *n <= rest.len());
                return Ok((n.unwrap_or(0), Step::Rejected { response, options, whole: n.is_some() }));
            }
            Admission::Wait => {
                self.store_pipelined(&[bytes, rest].concat());
                return Ok((rest.len(), Step::Waiting));
            }
        }
        let (n, stage) = match length {
            Some(n) if n > bounds.body_bytes => return Err(StatusError(413)),
            Some(n) => {
                if let Some(body) = rest.get(..n) {
                    sink.handle(&head, options, body);
                    return Ok((n, Step::Handled));
                }
                let mut body = Box::<ChunkBuffer>::default();
                body.push(rest);
                (rest.len(), Stage::Length { left: n - rest.len(), body })
            }
            None => {
                let (mut decoder, mut body) = (ChunkDecoder::new(), Box::<ChunkBuffer>::default());
                let n = decode(&mut decoder, rest, &mut body, bounds)?;
                if decoder.is_done() {
                    sink.handle(&head, options, &body.into_vec());
                    return Ok((n, Step::Handled));
                }
                (n, Stage::Chunked { decoder, body })
            }
        };
        self.buf = bytes.to_vec();
        self.stage = stage;
        if expects_continue && rest.is_empty() {
            sink.send_continue();
        }
        Ok((n, Step::Incomplete))
    }

    /// Passes a request to the sink whose body is complete. Parses its head again; this happens
    /// only for bodies that arrive in several pieces.
    fn finish_body(&mut self, bounds: &Bounds, sink: &mut dyn RequestSink) -> Result<Step, StatusError> {
        let RequestReader { buf, stage } = std::mem::replace(self, RequestReader::new());
        let (Stage::Length { body, .. } | Stage::Chunked { body, .. }) = stage else {
            return Ok(Step::Incomplete);
        };
        let mut fields = field_buffer();
        let (head, options) = parse(&buf, &mut fields, bounds.head_fields)?;
        sink.handle(&head, options.response, &body.into_vec());
        Ok(Step::Handled)
    }
}

/// Status of a head beyond the limit. Without a line end within the limit, the target is too long.
fn too_long(head: &[u8]) -> StatusError {
    StatusError(if head.contains(&b'\n') { 431 } else { 414 })
}

fn decode(
    decoder: &mut ChunkDecoder,
    input: &[u8],
    body: &mut ChunkBuffer,
    bounds: &Bounds,
) -> Result<usize, StatusError> {
    let room = bounds.body_bytes.saturating_sub(body.len());
    decoder.decode(input, room, |piece| body.push(piece)).map_err(|error| match error {
        ChunkError::Malformed => StatusError(400),
        ChunkError::TooLong => StatusError(413),
    })
}
