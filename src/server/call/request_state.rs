//! Sealed `requestState`: the data of a call's next round, stored by the client and protected
//! against changes.
//!
//! The state is a JSON object (expiry, digest of the request, responses so far), followed by an
//! HMAC-SHA256 over it and over the caller's principal, in base64url (RFC 2104, RFC 4648 §5).
//! Every invalid state gets the same error, so that the error reveals nothing.
//! Source: MCP 2026-07-28 basic/patterns/mrtr, `requestState` security.
//!
//! Times are whole seconds, rounded so that a state is valid for at least its lifetime, and for
//! less than two seconds more.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac_sha256::{HMAC, Hash};

use crate::era;
use crate::json::sort::sort;
use crate::json::{Doc, Kind, Value, Writer};
use crate::model::client_request::ClientResponse;
use crate::rpc::{RpcError, code as rpc_code};

/// Length of the message authentication code (MAC) in bytes.
const TAG: usize = 32;

/// The client's responses of earlier rounds, by key.
pub(crate) type Responses = Vec<(String, ClientResponse)>;

/// Key of the note that a handler leaves for its next run. No client can send a response with this
/// key: see [`Core::input_responses`](crate::server::serve::state::Core::input_responses).
pub(crate) const NOTE: &str = "\0";

/// A method and its parameters.
pub(crate) type BoundRequest<'d> = (&'d str, Option<Value<'d>>);

/// Function that opens a state. Its arguments are the key, the principal, the digest of the
/// request, the time and the state.
type Open = fn(&[u8; 32], &str, &[u8; 32], u64, &str) -> Option<Responses>;

/// Key for sealed states, with the functions that use it.
///
/// The functions are called through fields, so that a program that neither sends requests to the
/// client nor sets a key links no cryptography.
pub(crate) struct Sealer {
    key: [u8; 32],
    /// Start of the time scale. `None` for the system's clock, which other processes share.
    since: Option<Instant>,
    digest: fn(&str, Option<Value<'_>>) -> [u8; 32],
    seal: fn(&[u8; 32], &str, &[u8; 32], u64, &Responses) -> String,
    open: Open,
}

impl Sealer {
    /// Creates a sealer with a key that other processes share.
    pub(crate) fn new(key: [u8; 32]) -> Sealer {
        Sealer { key, since: None, digest, seal, open }
    }

    /// Creates a sealer with a key of this process only. It does not use the system's clock, which
    /// jumps by years on a single-board computer without a real-time clock.
    pub(crate) fn for_this_process(key: [u8; 32]) -> Sealer {
        Sealer { since: Some(Instant::now()), ..Sealer::new(key) }
    }

    /// Returns the time in seconds. A clock before 1970 reads as 1970.
    fn now(&self) -> u64 {
        match self.since {
            Some(since) => since.elapsed().as_secs(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        }
    }

    /// Seals `responses` for the request. The state is valid for `time`.
    pub(crate) fn seal(
        &self,
        principal: &str,
        request: BoundRequest<'_>,
        time: Duration,
        responses: &Responses,
    ) -> String {
        let expires = self.now().saturating_add(seconds(time));
        (self.seal)(&self.key, principal, &(self.digest)(request.0, request.1), expires, responses)
    }

    /// Returns the responses in a sealed state. `None` if it was not sealed with this key, was
    /// changed, has expired, or belongs to another request or principal.
    pub(crate) fn open(&self, principal: &str, request: BoundRequest<'_>, state: &str) -> Option<Responses> {
        (self.open)(&self.key, principal, &(self.digest)(request.0, request.1), self.now(), state)
    }
}

/// Returns whole seconds, rounded up, so that a state does not expire early.
fn seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn seal(key: &[u8; 32], principal: &str, digest: &[u8; 32], expires: u64, responses: &Responses) -> String {
    let mut w = Writer::new();
    w.begin_object();
    w.key("e").u64(expires);
    w.key("d").string(&Base64UrlUnpadded::encode_string(digest));
    w.key("a").begin_object();
    for (name, response) in responses {
        // Errors are not stored: in the modern era responses are results.
        if let Ok(doc) = response {
            w.key(name).value(doc.root());
        }
    }
    w.end_object().end_object();
    let mut bytes = w.into_bytes();
    let tag = mac(key, principal, &bytes);
    bytes.extend_from_slice(&tag);
    Base64UrlUnpadded::encode_string(&bytes)
}

fn open(key: &[u8; 32], principal: &str, digest: &[u8; 32], now: u64, state: &str) -> Option<Responses> {
    let bytes = Base64UrlUnpadded::decode_vec(state).ok()?;
    let (text, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG)?)?;
    let expected = mac(key, principal, text);
    // Compares every byte, so that the duration does not reveal the first difference.
    let difference = expected.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
    if std::hint::black_box(difference) != 0 {
        return None;
    }
    let doc = Doc::parse(text).ok()?;
    let root = doc.root();
    let same_request = root.get("d")?.as_str()? == Base64UrlUnpadded::encode_string(digest);
    if !same_request || root.get("e")?.as_u64()? < now {
        return None;
    }
    let mut responses = Responses::new();
    for (name, value) in root.get("a")?.members() {
        let response = Doc::parse(value.raw().as_bytes()).map_err(|_| RpcError::new(0, "unreadable"));
        responses.push((name.to_owned(), response));
    }
    Some(responses)
}

/// Digest of a request: its method and its parameters as JSON values, without those that change
/// between rounds. The order of members does not matter.
fn digest(method: &str, params: Option<Value<'_>>) -> [u8; 32] {
    let top = step(&[0; 32], b'.', "");
    // An explicit stack instead of recursion. Each name is hashed once, at any depth.
    let mut open: Vec<([u8; 32], Value<'_>)> = Vec::new();
    for (name, value) in params.into_iter().flat_map(Value::members) {
        if !era::CHANGES_BETWEEN_ROUNDS.contains(&name) {
            open.push((step(&top, b'.', name), value));
        }
    }
    let mut leaves = Vec::new();
    while let Some((place, value)) = open.pop() {
        match value.kind() {
            Kind::Object if !value.is_empty() => {
                open.extend(value.members().map(|(name, member)| (step(&place, b'.', name), member)));
            }
            Kind::Array if !value.is_empty() => {
                let items = value.items().enumerate();
                open.extend(items.map(|(i, item)| (step(&place, b'#', (i as u64).to_le_bytes()), item)));
            }
            Kind::Object => leaves.push(step(&place, b'=', "{}")),
            Kind::Array => leaves.push(step(&place, b'=', "[]")),
            Kind::String => leaves.push(step(&place, b'"', value.as_str().unwrap_or_default())),
            Kind::Null | Kind::Bool | Kind::Number => leaves.push(step(&place, b'=', value.raw())),
        }
    }
    sort(&mut leaves, |a, b| a.cmp(b));
    let mut hash = Hash::new();
    hash.update(step(&top, b'!', method));
    for leaf in leaves {
        hash.update(leaf);
    }
    hash.finalize()
}

/// Hash of a position, a kind and a value. The position and the kind have fixed lengths, so
/// different steps never hash the same bytes.
fn step(place: &[u8; 32], kind: u8, value: impl AsRef<[u8]>) -> [u8; 32] {
    let mut hash = Hash::new();
    hash.update(place);
    hash.update([kind]);
    hash.update(value);
    hash.finalize()
}

fn mac(key: &[u8; 32], principal: &str, text: &[u8]) -> [u8; TAG] {
    let mut message = Vec::with_capacity(8 + principal.len() + text.len());
    message.extend_from_slice(&(principal.len() as u64).to_le_bytes());
    message.extend_from_slice(principal.as_bytes());
    message.extend_from_slice(text);
    HMAC::mac(message, key)
}

/// Converts the client's response to stored data. The handler that sent the request checks its
/// content.
#[cold]
#[inline(never)]
pub(crate) fn client_response(outcome: Result<Value<'_>, Value<'_>>) -> ClientResponse {
    match outcome {
        Ok(result) => Doc::parse(result.raw().as_bytes())
            .map_err(|error| RpcError::new(rpc_code::PARSE, error.to_string())),
        Err(error) => Err(RpcError::read(error)
            .unwrap_or_else(|| RpcError::new(rpc_code::INTERNAL, "the client gave no reason"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn sealed() -> (String, [u8; 32]) {
        let params = Doc::parse(br#"{"name":"t","arguments":{"a":1}}"#).unwrap();
        let digest = digest("tools/call", Some(params.root()));
        let responses = vec![("who".to_owned(), Ok(Doc::parse(br#"{"action":"accept"}"#).unwrap()))];
        (seal(&KEY, "ada", &digest, 1000, &responses), digest)
    }

    #[test]
    fn a_sealed_state_opens() {
        let (state, digest) = sealed();
        let responses = open(&KEY, "ada", &digest, 1000, &state).unwrap();
        assert_eq!(responses.len(), 1);
        assert_eq!(responses[0].0, "who");
        assert_eq!(responses[0].1.as_ref().unwrap().root().raw(), r#"{"action":"accept"}"#);
    }

    #[test]
    fn any_change_is_refused() {
        let (state, digest) = sealed();
        for at in 0..state.len() {
            let mut bytes = state.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            // The last character may contain unused bits, which the decoder rejects.
            assert!(open(&KEY, "ada", &digest, 0, &changed).is_none(), "byte {at}");
        }
        for cut in 0..state.len() {
            assert!(open(&KEY, "ada", &digest, 0, &state[..cut]).is_none(), "cut at {cut}");
        }
        assert!(open(&KEY, "ada", &digest, 0, &format!("{state}-TAMPERED")).is_none());
    }

    #[test]
    fn another_key_principal_request_or_time_is_refused() {
        let (state, digest) = sealed();
        assert!(open(&[8; 32], "ada", &digest, 0, &state).is_none());
        assert!(open(&KEY, "bob", &digest, 0, &state).is_none());
        assert!(open(&KEY, "ada", &[0; 32], 0, &state).is_none());
        assert!(open(&KEY, "ada", &digest, 1001, &state).is_none());
    }

    #[test]
    fn a_state_is_valid_for_its_lifetime_rounded_up_to_seconds() {
        for (time, whole) in
            [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (1900, 2), (2000, 2), (600_000, 600)]
        {
            assert_eq!(seconds(Duration::from_millis(time)), whole, "{time} ms");
        }
        assert_eq!(seconds(Duration::MAX), u64::MAX);
        // Sealed at the very end of a second, opened just before its lifetime ends.
        let (key, digest) = (&KEY, &[1; 32]);
        let (sealed, opened) = (Duration::from_millis(10_999), Duration::from_millis(10_999 + 1_900 - 1));
        let state = seal(key, "", digest, sealed.as_secs() + seconds(Duration::from_millis(1_900)), &vec![]);
        assert!(open(key, "", digest, opened.as_secs(), &state).is_some());
        assert!(open(key, "", digest, opened.as_secs() + 2, &state).is_none());
    }

    #[test]
    fn a_key_of_one_process_does_not_use_the_system_clock() {
        let (own, common) = (Sealer::for_this_process(KEY), Sealer::new(KEY));
        let request = ("tool", None);
        let state = own.seal("", request, Duration::from_secs(600), &vec![]);
        assert!(own.open("", request, &state).is_some());
        assert!(common.open("", request, &state).is_none(), "by the system's clock it was over in 1970");
        let state = common.seal("", request, Duration::from_secs(600), &vec![]);
        assert!(common.open("", request, &state).is_some());
    }

    #[test]
    fn the_digest_ignores_only_what_changes_between_rounds() {
        let of = |text: &str| digest("tools/call", Some(Doc::parse(text.as_bytes()).unwrap().root()));
        let base = of(r#"{"name":"t","arguments":{"a":1}}"#);
        assert_eq!(
            base,
            of(r#"{"name":"t","_meta":{"x":1},"arguments":{"a":1},"requestState":"s","inputResponses":{}}"#)
        );
        assert_ne!(base, of(r#"{"name":"t","arguments":{"a":2}}"#));
        assert_ne!(base, of(r#"{"name":"u","arguments":{"a":1}}"#));
        assert_ne!(of(r#"{"a":"1","b":""}"#), of(r#"{"a":"","b":"1"}"#));
        assert_ne!(
            base,
            digest("prompts/get", Some(Doc::parse(r#"{"name":"t","arguments":{"a":1}}"#).unwrap().root()))
        );
    }

    #[test]
    fn the_digest_is_of_values_not_of_their_text() {
        let of = |text: &str| digest("tool", Some(Doc::parse(text.as_bytes()).unwrap().root()));
        assert_eq!(
            of(r#"{"name":"t","arguments":{"a":[1,{"b":"\u00e9","c":{}}],"d":null}}"#),
            of(r#"{ "arguments": {"d":null, "a":[1, {"c":{ }, "b":"é"}]}, "name":"t" }"#)
        );
        let apart = [
            r#"{}"#,
            r#"{"a":{}}"#,
            r#"{"a":[]}"#,
            r#"{"a":null}"#,
            r#"{"a":"null"}"#,
            r#"{"a":"{}"}"#,
            r#"{"a":[null]}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2,1]}"#,
            r#"{"a":[[1],2]}"#,
            r#"{"a":{"0":1,"1":2}}"#,
            r#"{"a":{"b":1},"c":2}"#,
            r#"{"a":{"b":1,"c":2}}"#,
            r#"{"a":{"b":2,"c":1}}"#,
            r#"{"a":{"":{"b":1}}}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1}"#,
            r#"{"":1}"#,
        ];
        for (i, one) in apart.iter().enumerate() {
            for other in &apart[..i] {
                assert_ne!(of(one), of(other), "{one} and {other}");
            }
        }
    }
}
