//! The request reader as the fuzz targets see it: bytes in pieces, a transcript out.

use super::head::{Head, Plan};
use super::inbox::{Bounds, Desk, Inbox, Step};
use super::{Admission, Refusal};

const BOUNDS: Bounds = Bounds { head_bytes: 512, head_fields: 16, body_bytes: 1000 };

/// Writes down each request.
#[derive(Default)]
struct Transcript(Vec<String>);

impl Desk for Transcript {
    fn admit(&mut self, head: &Head<'_>) -> Admission {
        if head.path() != "/no" {
            return Admission::Read;
        }
        Admission::Refuse(Refusal { status: 404, fields: Vec::new(), body: Vec::new() })
    }

    fn proceed(&mut self) {}

    fn request(&mut self, head: &Head<'_>, plan: Plan, body: &[u8]) {
        let fields: Vec<String> =
            head.fields.iter().map(|f| format!("{}: {}", f.name, f.value.escape_ascii())).collect();
        let (method, path) = (head.method(), head.path());
        self.0.push(format!("{method} {path} {plan:?} {fields:?} {}", body.escape_ascii()));
    }
}

/// What a connection's bytes mean: each request, and the end: a status, the bytes that a rejected
/// body leaves unread, or an incomplete request.
pub(crate) fn requests(pieces: &[&[u8]]) -> Vec<String> {
    let (mut inbox, mut transcript) = (Inbox::new(), Transcript::default());
    let mut ahead = Vec::new();
    for piece in pieces {
        ahead.extend_from_slice(piece);
        while !ahead.is_empty() {
            match inbox.push(&ahead, &BOUNDS, &mut transcript) {
                Err(refused) => {
                    transcript.0.push(refused.0.to_string());
                    return transcript.0;
                }
                Ok((taken, Step::More)) => {
                    assert_eq!(taken, ahead.len(), "bytes are left although the request is incomplete");
                    ahead.clear();
                }
                Ok((taken, Step::Asked)) => drop(ahead.drain(..taken)),
                Ok((taken, Step::Refused { refusal, whole, .. })) => {
                    transcript.0.push(refusal.status.to_string());
                    if !whole {
                        transcript.0.push("unread body".to_owned());
                        return transcript.0;
                    }
                    ahead.drain(..taken);
                }
            }
        }
    }
    if !inbox.is_empty() || inbox.body().is_some() {
        transcript.0.push("incomplete".to_owned());
    }
    transcript.0
}
