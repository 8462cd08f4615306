//! The receiving half of a connection: bytes are pushed in, whole requests come out.
//!
//! A request that arrives in one piece is handed over where it lies, without a copy; only one that
//! arrives in several is kept. What it does not do: read, write, or look at the clock.
//!
//! # Invariants
//! - `buf` is empty while nothing of a request is there: an idle connection keeps no buffer.
//! - While a body is coming, `buf` is the head.
//! - Nothing is taken beyond the end of the request that is being read.

use super::chunked::{Chunked, Fault};
use super::head::{Framing, Head, Plan, Refused, find_end, no_fields, parse};
use super::pieces::Pieces;
use super::{Admission, Refusal};

/// What requests are held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub head_bytes: usize,
    pub head_fields: usize,
    pub body_bytes: usize,
}

/// Where requests go.
pub(super) trait Desk {
    /// Whether the body of this request is wanted.
    fn admit(&mut self, head: &Head<'_>) -> Admission;
    /// The peer waits for a word before it sends the body.
    fn proceed(&mut self);
    /// A request is complete.
    fn request(&mut self, head: &Head<'_>, plan: Plan, body: &[u8]);
}

/// What taking bytes in led to.
pub(super) enum Step {
    /// All were taken and the request is not complete.
    More,
    /// A request was handed over.
    Asked,
    /// The service refused one. If `whole`, all of it has been taken.
    Refused { refusal: Refusal, plan: Plan, whole: bool },
}

/// What has come of a request.
#[derive(Debug)]
pub(super) struct Inbox {
    buf: Vec<u8>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// In the head; lines before this have been searched for its end.
    Head {
        searched: usize,
    },
    /// So many bytes of the body have not come.
    Length {
        left: usize,
        body: Box<Pieces>,
    },
    Chunks {
        decoder: Chunked,
        body: Box<Pieces>,
    },
    /// `buf` is what came behind a request that is not answered yet.
    Ahead,
}

const START: Stage = Stage::Head { searched: 0 };

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox { buf: Vec::new(), stage: START }
    }

    /// Bytes of memory it keeps.
    pub(super) fn kept(&self) -> usize {
        let body = match &self.stage {
            Stage::Length { body, .. } | Stage::Chunks { body, .. } => body.kept(),
            Stage::Head { .. } | Stage::Ahead => 0,
        };
        self.buf.capacity() + body
    }

    /// Whether nothing of a request is there.
    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The bytes of a body that have come, if one is being read.
    pub(super) fn body(&self) -> Option<usize> {
        match &self.stage {
            Stage::Length { body, .. } | Stage::Chunks { body, .. } => Some(body.len()),
            Stage::Head { .. } | Stage::Ahead => None,
        }
    }

    /// Keeps what came behind a request until that is answered.
    pub(super) fn keep_ahead(&mut self, rest: &[u8]) {
        self.buf = rest.to_vec();
        self.stage = Stage::Ahead;
    }

    /// What [`keep_ahead`](Self::keep_ahead) kept.
    pub(super) fn take_ahead(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.stage, Stage::Ahead) {
            return None;
        }
        self.stage = START;
        let ahead = std::mem::take(&mut self.buf);
        (!ahead.is_empty()).then_some(ahead)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Inbox::new();
    }

    /// Takes bytes in, up to the end of a request, and tells how many.
    ///
    /// # Errors
    /// The request is refused with this status, and what follows cannot be made sense of.
    pub(super) fn push(
        &mut self,
        input: &[u8],
        bounds: &Bounds,
        desk: &mut dyn Desk,
    ) -> Result<(usize, Step), Refused> {
        match &mut self.stage {
            Stage::Head { .. } | Stage::Ahead => self.push_head(input, bounds, desk),
            Stage::Length { left, body } => {
                let n = (*left).min(input.len());
                *left -= n;
                body.push(&input[..n]);
                let whole = *left == 0;
                let step = if whole { self.hand_over(bounds, desk)? } else { Step::More };
                Ok((n, step))
            }
            Stage::Chunks { decoder, body } => {
                let n = decode(decoder, input, body, bounds)?;
                let whole = decoder.is_done();
                let step = if whole { self.hand_over(bounds, desk)? } else { Step::More };
                Ok((n, step))
            }
        }
    }

    fn push_head(
        &mut self,
        input: &[u8],
        bounds: &Bounds,
        desk: &mut dyn Desk,
    ) -> Result<(usize, Step), Refused> {
        // SHOULD ignore at least one empty line before a request (RFC 9112, 2.2).
        let mut skipped = 0;
        if self.buf.is_empty() {
            while input[skipped..].starts_with(b"\r\n") {
                skipped += 2;
            }
        }
        let fresh = &input[skipped..];
        if fresh.is_empty() {
            return Ok((skipped, Step::More));
        }
        let before = self.buf.len();
        let mut searched = match self.stage {
            Stage::Head { searched } => searched,
            _ => 0,
        };
        let end = if before == 0 && fresh != b"\r" {
            let end = find_end(fresh, &mut searched)?;
            if end.is_none() {
                self.buf.extend_from_slice(&fresh[..fresh.len().min(bounds.head_bytes + 1)]);
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
                return self.push_head(&fresh[2 - before..], bounds, desk).map(|(n, s)| (n + 2 - before, s));
            } else {
                find_end(&self.buf, &mut searched)?
            }
        };
        self.stage = Stage::Head { searched };
        let Some(end) = end.filter(|end| *end <= bounds.head_bytes) else {
            let come = if before == 0 { fresh } else { &self.buf };
            if come.len() <= bounds.head_bytes {
                return Ok((skipped + fresh.len(), Step::More));
            }
            // Too long before the first line ended is too long a target.
            let target = !come[..bounds.head_bytes].contains(&b'\n');
            return Err(Refused(if target { 414 } else { 431 }));
        };
        let taken = skipped + end - before;
        self.stage = START;
        let mut stored = std::mem::take(&mut self.buf);
        stored.truncate(end);
        let head = if stored.is_empty() { &fresh[..end] } else { &stored[..] };
        let (n, step) = self.start(head, &input[taken..], bounds, desk)?;
        Ok((taken + n, step))
    }

    /// A head is complete; `rest` is what came behind it.
    fn start(
        &mut self,
        bytes: &[u8],
        rest: &[u8],
        bounds: &Bounds,
        desk: &mut dyn Desk,
    ) -> Result<(usize, Step), Refused> {
        let mut space = no_fields();
        let (head, plan) = parse(bytes, &mut space, bounds.head_fields)?;
        let length = match plan.framing {
            Framing::Length(n) => usize::try_from(n).ok(),
            Framing::Chunked => None,
        };
        if let Admission::Refuse(refusal) = desk.admit(&head) {
            let whole = length.filter(|n| *n <= rest.len());
            return Ok((whole.unwrap_or(0), Step::Refused { refusal, plan, whole: whole.is_some() }));
        }
        match (plan.framing, length) {
            (Framing::Length(_), Some(n)) if n <= bounds.body_bytes => {
                if let Some(body) = rest.get(..n) {
                    desk.request(&head, plan, body);
                    return Ok((n, Step::Asked));
                }
                self.buf = bytes.to_vec();
                let mut body = Box::<Pieces>::default();
                body.push(rest);
                self.stage = Stage::Length { left: n - rest.len(), body };
                if plan.expects && rest.is_empty() {
                    desk.proceed();
                }
                Ok((rest.len(), Step::More))
            }
            (Framing::Length(_), _) => Err(Refused(413)),
            (Framing::Chunked, _) => {
                let (mut decoder, mut body) = (Chunked::new(), Box::<Pieces>::default());
                let n = decode(&mut decoder, rest, &mut body, bounds)?;
                if decoder.is_done() {
                    desk.request(&head, plan, &body.into_vec());
                    return Ok((n, Step::Asked));
                }
                self.buf = bytes.to_vec();
                self.stage = Stage::Chunks { decoder, body };
                if plan.expects && rest.is_empty() {
                    desk.proceed();
                }
                Ok((n, Step::More))
            }
        }
    }

    /// The body is complete. The head is parsed once more: only bodies that came in pieces pay.
    fn hand_over(&mut self, bounds: &Bounds, desk: &mut dyn Desk) -> Result<Step, Refused> {
        let Inbox { buf, stage } = std::mem::take(self);
        let (Stage::Length { body, .. } | Stage::Chunks { body, .. }) = stage else { return Ok(Step::More) };
        let mut space = no_fields();
        let (head, plan) = parse(&buf, &mut space, bounds.head_fields)?;
        desk.request(&head, plan, &body.into_vec());
        Ok(Step::Asked)
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}

fn decode(decoder: &mut Chunked, input: &[u8], body: &mut Pieces, bounds: &Bounds) -> Result<usize, Refused> {
    let room = bounds.body_bytes.saturating_sub(body.len());
    decoder.decode(input, room, |piece| body.push(piece)).map_err(|fault| match fault {
        Fault::Malformed => Refused(400),
        Fault::TooLong => Refused(413),
    })
}
