//! Entry point of the fuzz targets to the request reader: bytes in pieces, a transcript out.

use super::head::Head;
use super::request_reader::{Bounds, RequestReader, RequestSink, Step};
use super::response_head::ResponseOptions;
use super::{Admission, Response};

const BOUNDS: Bounds = Bounds { head_bytes: 512, head_fields: 16, body_bytes: 1000 };

/// Transcript of the requests.
#[derive(Default)]
struct Transcript(Vec<String>);

impl RequestSink for Transcript {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        if head.path() != "/no" {
            return Admission::ReadBody;
        }
        Admission::Respond(Response::new(404))
    }

    fn send_continue(&mut self) {}

    fn handle(&mut self, head: &Head<'_>, options: ResponseOptions, body: &[u8]) {
        let fields: Vec<String> =
            head.fields.iter().map(|f| format!("{}: {}", f.name, f.value.escape_ascii())).collect();
        let (method, path) = (head.method, head.path());
        self.0.push(format!("{method} {path} {options:?} {fields:?} {}", body.escape_ascii()));
    }
}

/// Returns the requests in the bytes of a connection, and its end: an error status, an unread body,
/// or an incomplete request.
pub(crate) fn requests(pieces: &[&[u8]]) -> Vec<String> {
    let (mut reader, mut transcript) = (RequestReader::new(), Transcript::default());
    let mut ahead = Vec::new();
    for piece in pieces {
        ahead.extend_from_slice(piece);
        while !ahead.is_empty() {
            match reader.push(&ahead, &BOUNDS, &mut transcript) {
                Err(refused) => {
                    transcript.0.push(refused.0.to_string());
                    return transcript.0;
                }
                Ok((taken, Step::Incomplete | Step::Waiting)) => {
                    assert_eq!(taken, ahead.len(), "bytes are left although the request is incomplete");
                    ahead.clear();
                }
                Ok((taken, Step::Handled)) => drop(ahead.drain(..taken)),
                Ok((taken, Step::Rejected { response, whole, .. })) => {
                    transcript.0.push(response.status.to_string());
                    if !whole {
                        transcript.0.push("unread body".to_owned());
                        return transcript.0;
                    }
                    ahead.drain(..taken);
                }
            }
        }
    }
    if !reader.is_empty() || reader.body_received().is_some() {
        transcript.0.push("incomplete".to_owned());
    }
    transcript.0
}
