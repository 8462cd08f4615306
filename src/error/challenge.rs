//! `WWW-Authenticate`: the challenge of a server that refuses a request.
//!
//! Source: RFC 9110, section 11.6.1 (grammar); RFC 6750, section 3; RFC 9728, section 5.1; RFC
//! 9449, section 7.1.
//!
//! # Invariants
//! - Parsing never fails: text that does not match the grammar ends the list of challenges.
//! - Of a parameter that occurs twice, the first one is used.

use std::fmt;
use std::sync::Arc;

use super::Error;

/// Challenge of a server that refused a request: the `WWW-Authenticate` header as data.
///
/// [`Error::challenge`](crate::Error::challenge) returns it. Its content is chosen by the server.
///
/// ```no_run
/// use tinymcp::Client;
///
/// match Client::connect("http://127.0.0.1:8080/mcp") {
///     Ok(client) => println!("{}", client.server().name),
///     Err(error) => match error.challenge() {
///         Some(challenge) => println!("needs {}", challenge.scope().unwrap_or("a token")),
///         None => println!("{error}"),
///     },
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Parses the values of the headers. Prefers the schemes `Bearer` and `DPoP`.
    pub(crate) fn parse<'h>(values: impl IntoIterator<Item = &'h [u8]>) -> Option<Challenge> {
        Challenge::parse_for(None, values)
    }

    /// Parses the values of the headers. Prefers the scheme of the request, then `Bearer` and
    /// `DPoP`.
    pub(crate) fn parse_for<'h>(
        scheme: Option<&str>,
        values: impl IntoIterator<Item = &'h [u8]>,
    ) -> Option<Challenge> {
        let mut found = Vec::new();
        for value in values {
            if let Ok(value) = std::str::from_utf8(value) {
                Parser { rest: value }.challenges(&mut found);
            }
        }
        let token = |c: &Challenge| ["bearer", "dpop"].contains(&&*c.scheme.to_ascii_lowercase());
        let same = |c: &Challenge| scheme.is_some_and(|scheme| c.scheme.eq_ignore_ascii_case(scheme));
        let at = found.iter().position(same).or_else(|| found.iter().position(token)).unwrap_or(0);
        (at < found.len()).then(|| found.swap_remove(at))
    }

    /// The authentication scheme, such as `Bearer`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The scopes that the request needs, separated by spaces.
    pub fn scope(&self) -> Option<&str> {
        self.parameter("scope")
    }

    /// The URL of the protected-resource metadata (RFC 9728).
    pub fn resource_metadata(&self) -> Option<&str> {
        self.parameter("resource_metadata")
    }

    /// The error code, such as `invalid_token` or `insufficient_scope`.
    pub fn error(&self) -> Option<&str> {
        self.parameter("error")
    }

    /// Returns a parameter by its name, in any case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Challenge");
        shown.field("scheme", &self.scheme).field("error", &self.error()).field("scope", &self.scope());
        shown.field("resource_metadata", &self.resource_metadata()).finish_non_exhaustive()
    }
}

impl Error {
    /// The challenge of a server that refused a request: its scheme, scopes and metadata.
    pub fn challenge(&self) -> Option<&Challenge> {
        self.0.challenge.as_ref()
    }

    /// The same error for another waiter; its source becomes text.
    pub(crate) fn copy(&self) -> Error {
        let mut copy = Error::new(self.0.kind, self.to_string());
        (copy.0.code, copy.0.data) = (self.0.code, self.0.data.clone());
        copy.with_challenge(self.0.challenge.clone())
    }

    pub(crate) fn with_challenge(mut self, challenge: Option<Challenge>) -> Error {
        self.0.challenge = challenge;
        self
    }
}

/// Failure to obtain credentials, for each request that waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Unauthorized(Arc<Error>);

impl From<Error> for Unauthorized {
    fn from(error: Error) -> Unauthorized {
        Unauthorized(Arc::new(error))
    }
}

impl Unauthorized {
    pub(crate) fn to_error(&self) -> Error {
        self.0.copy()
    }
}

/// Rest of a header value.
struct Parser<'h> {
    rest: &'h str,
}

impl<'h> Parser<'h> {
    fn challenges(mut self, found: &mut Vec<Challenge>) {
        loop {
            self.skip(&[' ', '\t', ',']);
            let Some(scheme) = self.token() else { return };
            let mut challenge = Challenge { scheme: scheme.to_owned(), parameters: Vec::new() };
            self.skip(&[' ', '\t']);
            self.parameters(&mut challenge);
            found.push(challenge);
        }
    }

    /// Reads parameters up to the next challenge.
    fn parameters(&mut self, challenge: &mut Challenge) {
        loop {
            self.skip(&[' ', '\t', ',']);
            let start = self.rest;
            let Some(name) = self.token() else { return };
            self.skip(&[' ', '\t']);
            let Some(rest) = self.rest.strip_prefix('=') else {
                // The scheme of the next challenge.
                self.rest = start;
                return;
            };
            self.rest = rest;
            self.skip(&[' ', '\t']);
            match self.value() {
                Some(value) => challenge.parameters.push((name.to_owned(), value)),
                // The padding of a token68, or no grammar at all.
                None => self.skip(&['=']),
            }
        }
    }

    fn value(&mut self) -> Option<String> {
        let Some(quoted) = self.rest.strip_prefix('"') else { return self.token().map(str::to_owned) };
        let mut value = String::new();
        let mut escaped = false;
        for (at, c) in quoted.char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    self.rest = quoted.get(at + 1..).unwrap_or_default();
                    return Some(value);
                }
                c => {
                    value.push(c);
                    escaped = false;
                }
            }
        }
        self.rest = "";
        None
    }

    fn token(&mut self) -> Option<&'h str> {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/:".contains(c);
        let end = self.rest.find(|c| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn skip(&mut self, of: &[char]) {
        self.rest = self.rest.trim_start_matches(of);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(values: &[&str]) -> Option<Challenge> {
        Challenge::parse(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn challenges_are_read_with_quotes_escapes_and_several_schemes() {
        let challenge = parse(&[
            "Basic realm=\"a, Bearer scope=x\", Bearer error=insufficient_scope , scope = \"a \\\"b\\\" c\", \
             scope=\"second\", Resource_Metadata=\"https://h/.well-known/x\"",
        ]);
        let challenge = challenge.unwrap();
        assert_eq!(challenge.scheme(), "Bearer");
        assert_eq!(challenge.error(), Some("insufficient_scope"));
        assert_eq!(challenge.scope(), Some("a \"b\" c"));
        assert_eq!(challenge.resource_metadata(), Some("https://h/.well-known/x"));
        assert_eq!(challenge.parameter("realm"), None);
        assert_eq!(parse(&["Negotiate YII==", "DPoP algs=\"ES256\""]).unwrap().scheme(), "DPoP");
        assert_eq!(parse(&["bearer"]).unwrap().scheme(), "bearer");
        assert_eq!(parse(&["Digest a=b"]).unwrap().parameter("A"), Some("b"));
    }

    #[test]
    fn malformed_challenges_end_the_list() {
        for nothing in ["", " , ,", "=", "\"", "\u{7f}"] {
            assert_eq!(parse(&[nothing]), None, "{nothing:?}");
        }
        for odd in ["Bearer scope=\"open", "Bearer scope=", "Bearer =x", "Bearer scope=\"a\\"] {
            assert_eq!(parse(&[odd]).unwrap().scope(), None, "{odd:?}");
        }
        assert_eq!(parse(&["Bearer scope=a;b"]).unwrap().scope(), Some("a"));
    }
}
