//! Entry points to internals for the fuzz targets in `conformance/fuzz`. Compiled only for fuzzing
//! and for unit tests.

use std::time::Duration;

use crate::era::modern::header;
use crate::json::Doc;
use crate::server::Sealer;
use crate::transport::sse::{Parser, Step};

/// Parses the requests of a connection whose bytes arrive in these pieces.
pub fn http_requests(pieces: &[&[u8]]) -> Vec<String> {
    crate::transport::http_server::fuzzing::requests(pieces)
}

/// Parses an event stream that arrives in these pieces. Returns type and data of each event, the
/// last id, and the retry time.
#[allow(clippy::type_complexity)]
pub fn events(pieces: &[&[u8]], limit: usize) -> (Vec<Option<(Vec<u8>, Vec<u8>)>>, Vec<u8>, Option<u64>) {
    let mut parser = Parser::new(limit);
    let mut found = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        loop {
            match parser.next(&mut piece) {
                Step::More => break,
                Step::TooLong { .. } => found.push(None),
                Step::Event { kind, data } => found.push(Some((kind.to_vec(), data.to_vec()))),
            }
        }
    }
    (found, parser.last_id().to_vec(), parser.retry())
}

/// Returns `true` if a server rejects this template, because two variables are adjacent.
pub fn is_ambiguous(template: &crate::UriTemplate) -> bool {
    template.ambiguity().is_some()
}

/// Encodes a header value and decodes it again.
pub fn header_round_trip(value: &str) -> Option<String> {
    header::decode(header::encode(value).as_bytes()).map(|text| text.into_owned())
}

/// Decodes a header value.
pub fn header_value(bytes: &[u8]) -> Option<String> {
    header::decode(bytes).map(|text| text.into_owned())
}

/// The headers that a client sends with these arguments, and the first one that a server rejects.
/// `None` if the schema or the arguments are invalid.
#[allow(clippy::type_complexity)]
pub fn mirrored(schema: &str, arguments: &str) -> Option<(Vec<(String, String)>, Option<String>)> {
    let (schema, arguments) = (Doc::parse(schema).ok()?, Doc::parse(arguments).ok()?);
    let mirrors = header::mirrors(schema.root()).ok()?;
    let mut sent = Vec::new();
    header::params(&mirrors, Some(arguments.root()), &mut sent);
    let rejected = mirrors.iter().find(|mirror| {
        let value = sent.iter().find(|(name, _)| **name == *mirror.header).map(|(_, value)| value.as_bytes());
        mirror.check(value, Some(arguments.root())).is_err()
    });
    let rejected = rejected.map(|mirror| mirror.header.to_string());
    Some((sent, rejected))
}

/// Seals a `requestState` with these responses, which are JSON texts by key.
pub fn seal(principal: &str, params: &Doc, answers: &[(String, String)]) -> String {
    let answers = answers.iter().filter_map(|(key, text)| Some((key.clone(), Ok(Doc::parse(text).ok()?))));
    let answers = answers.collect();
    sealer().seal(principal, ("tools/call", Some(params.root())), Duration::from_secs(600), &answers)
}

/// The responses in a sealed `requestState`, as JSON texts by key; `None` if it is invalid.
pub fn open(principal: &str, params: &Doc, state: &str) -> Option<Vec<(String, String)>> {
    let answers = sealer().open(principal, ("tools/call", Some(params.root())), state)?;
    Some(
        answers
            .into_iter()
            .map(|(key, doc)| (key, doc.map_or(String::new(), |d| d.text().to_owned())))
            .collect(),
    )
}

fn sealer() -> Sealer {
    Sealer::new([7; 32])
}
