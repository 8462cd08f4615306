//! URI templates (RFC 6570, levels 1 to 3): parsed once, expanded, and matched against URIs.
//!
//! [`UriTemplate::expand`] writes the URI for a set of variables, [`UriTemplate::matches`] reads
//! the variables of a URI. The modifiers of level 4 (`{var:3}`, `{list*}`) are rejected when the
//! template is parsed. URIs are not resolved, normalised or fetched, and scheme and host are
//! compared with regard to case.
//!
//! # Matching
//!
//! A URI matches if expansion could have produced it, with three allowances: the parameters of
//! one `{;…}`, `{?…}` or `{&…}` may come in any order, hexadecimal digits after `%` in either
//! case, and a value may percent-encode characters that need no encoding. Raw non-ASCII
//! characters, `+` for a space, parameters that the template does not name, and percent-encoding
//! that is not UTF-8 do not match. `%00` is an ordinary character.
//!
//! | expression | characters of a value |
//! |---|---|
//! | `{x}` `{.x}` `{/x}` `{;x}` `{?x}` `{&x}` | unreserved characters, percent-encoded characters |
//! | `{+x}` `{#x}` | reserved characters as well |
//!
//! Matching is leftmost-greedy: the first variable takes the longest text with which the rest of
//! the URI matches, then the second variable, and so on. `{name}.{ext}` on `a.tar.gz` gives
//! `a.tar` and `gz`; `{+path}/{name}` on `a/b/c` gives `a/b` and `c`. If `{x}` or `{+x}` takes no
//! text, the variable is undefined, although an empty value expands to the same. If only some
//! variables of a list such as `{x,y}` are defined, they are the first ones.
//!
//! # Ambiguous templates
//!
//! A template is ambiguous if two variables are adjacent: no literal is between them, and a value
//! of the first may contain the character with which the second begins. `{a}{b}`, `{name}{.ext}`,
//! `{+path}{?line}` and `{+x,y}` are ambiguous; `{dir}{/file}{?line}` and `{x,y}` are not. A server
//! rejects an ambiguous template, because a handler would get other values than the client
//! inserted. [`UriTemplate::parse`] accepts it, and [`UriTemplate::matches`] gives all text to the
//! first variable. Put a literal between the variables.
//!
//! A variable that occurs twice must have the same value at each position. This is checked after
//! the search: such a template never accepts a URI that it could not have produced, and may reject
//! an ambiguous one that it could.
//!
//! # Values are untrusted
//!
//! Values are decoded: `{x}` on `..%2F..%2Fetc` gives `../../etc`, with a `/` where the URI has
//! none, and a value may contain NUL. A program that turns a value into a file name, a query or a
//! command must confine it first: a matching value is not a safe value.
//!
//! # Invariants
//!
//! - Nothing recurses. The search enters each (piece of the template, position in the URI) at most
//!   once. So time and transient memory are bounded by the length of the template times the length
//!   of the URI, which [`UriTemplate::MAX_URI`] bounds.
//! - A `%` in a parsed literal is always followed by two hexadecimal digits, and literals are
//!   ASCII.

mod matcher;
mod percent;
#[cfg(test)]
mod tests;

use percent::{encode, is_literal, is_triplet, is_unreserved, literal_at};
pub(crate) use percent::{has_scheme, unencoded};
#[cfg(feature = "skills")]
pub(crate) use percent::{percent_decoded, percent_encoded};
use std::fmt;

/// A parsed URI template (RFC 6570, levels 1 to 3).
///
/// Matching is leftmost-greedy: `{name}.{ext}` on `a.tar.gz` gives `a.tar` and `gz`. A server
/// rejects a template in which two variables are adjacent, such as `{a}{b}` or `{name}{.ext}`: see
/// [`Server::template`](crate::Server::template). Values are decoded and untrusted: `%2F` is read
/// as `/`, so confine paths before use.
///
/// ```
/// use tinymcp::UriTemplate;
///
/// let pins = UriTemplate::parse("gpio://{bank}/pin/{number}{?unit}")?;
/// let found = pins.matches("gpio://a/pin/4?unit=volt").expect("the URI fits");
/// assert_eq!((found.get("bank"), found.get("unit")), (Some("a"), Some("volt")));
///
/// let uri = pins.expand(|name| match name {
///     "bank" => Some("b c"),
///     "number" => Some("17"),
///     _ => None,
/// });
/// assert_eq!(uri, "gpio://b%20c/pin/17");
/// # Ok::<(), tinymcp::TemplateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    text: Box<str>,
    parts: Box<[Part]>,
    /// Each name once, in order of first appearance. [`Part::Expression`] holds indices into it.
    names: Box<[Box<str>]>,
}

/// Piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Text as in the URI: characters outside ASCII already percent-encoded.
    Literal(Box<str>),
    Expression {
        op: Op,
        vars: Box<[u8]>,
    },
}

/// Operator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

impl Op {
    fn of(byte: u8) -> Option<Op> {
        Some(match byte {
            b'+' => Op::Reserved,
            b'#' => Op::Fragment,
            b'.' => Op::Label,
            b'/' => Op::Path,
            b';' => Op::Parameter,
            b'?' => Op::Query,
            b'&' => Op::Continuation,
            _ => return None,
        })
    }

    /// First character of the expression's text when any variable is defined.
    fn prefix(self) -> Option<u8> {
        match self {
            Op::Simple | Op::Reserved => None,
            Op::Fragment => Some(b'#'),
            Op::Label => Some(b'.'),
            Op::Path => Some(b'/'),
            Op::Parameter => Some(b';'),
            Op::Query => Some(b'?'),
            Op::Continuation => Some(b'&'),
        }
    }

    /// Separator between two variables.
    fn separator(self) -> u8 {
        match self {
            Op::Simple | Op::Reserved | Op::Fragment => b',',
            Op::Label => b'.',
            Op::Path => b'/',
            Op::Parameter => b';',
            Op::Query | Op::Continuation => b'&',
        }
    }

    /// Returns `true` if the variable's name is written before its value.
    fn named(self) -> bool {
        matches!(self, Op::Parameter | Op::Query | Op::Continuation)
    }

    /// Returns `true` if a value may contain `next`, the first character of the next variable. Pass
    /// `None` if the next variable begins with its value.
    fn touches(self, next: Option<u8>) -> bool {
        next.is_none_or(|next| self.reserved() || is_unreserved(next))
    }

    /// Returns `true` if reserved characters stay unencoded in values.
    fn reserved(self) -> bool {
        matches!(self, Op::Reserved | Op::Fragment)
    }
}

/// Error of a text that is not a template, with its position.
///
/// ```
/// use tinymcp::{TemplateErrorKind, UriTemplate};
///
/// let error = UriTemplate::parse("gpio://pin/{number").unwrap_err();
/// assert_eq!((error.kind, error.offset), (TemplateErrorKind::Unclosed, 11));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateError {
    /// Kind of the error.
    pub kind: TemplateErrorKind,
    /// Byte offset in the text of the first byte that is wrong.
    pub offset: usize,
}

/// Kind of an error in a template. It is a field of [`TemplateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// Longer than [`UriTemplate::MAX_LENGTH`] bytes.
    TooLong,
    /// More than [`UriTemplate::MAX_VARIABLES`] places for variables.
    TooManyVariables,
    /// A `{` without its `}`.
    Unclosed,
    /// A `}` without its `{`.
    StrayClose,
    /// A missing variable name: `{}`, `{a,}`, `{+}`.
    EmptyName,
    /// A character that is not allowed at this position of a variable name.
    Name,
    /// An operator that RFC 6570 reserves: `=`, `,`, `!`, `@` or `|`.
    ReservedOperator,
    /// A modifier of level 4, `:` or `*`, which is not supported.
    Modifier,
    /// A character that is not allowed outside expressions: a space, a quote, `<`, `>`, `\`, `^`,
    /// a backquote, `|`, a control or a noncharacter.
    Literal,
    /// A `%` that two hexadecimal digits do not follow.
    Percent,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            TemplateErrorKind::TooLong => "longer than 4096 bytes",
            TemplateErrorKind::TooManyVariables => "more than 32 variables",
            TemplateErrorKind::Unclosed => "'{' without '}'",
            TemplateErrorKind::StrayClose => "'}' without '{'",
            TemplateErrorKind::EmptyName => "variable name missing",
            TemplateErrorKind::Name => "character not allowed in a variable name",
            TemplateErrorKind::ReservedOperator => "operator reserved by RFC 6570",
            TemplateErrorKind::Modifier => "level 4 modifier (':' or '*') not supported",
            TemplateErrorKind::Literal => "character not allowed outside expressions",
            TemplateErrorKind::Percent => "'%' without two hexadecimal digits",
        };
        write!(f, "URI template, byte {}: {what}", self.offset)
    }
}

impl std::error::Error for TemplateError {}

impl UriTemplate {
    /// Longest template, in bytes.
    pub const MAX_LENGTH: usize = 4096;

    /// Most occurrences of variables in one template. It bounds the time of a match.
    pub const MAX_VARIABLES: usize = 32;

    /// Longest URI that can match, in bytes. Web servers commonly stop at 8 KiB. It bounds the
    /// memory of a match: one bit for each piece of the template and byte of the URI.
    pub const MAX_URI: usize = 16 * 1024;

    /// Parses a template.
    ///
    /// # Errors
    ///
    /// The first error and its byte offset: grammar of RFC 6570 section 2 (with
    /// verified erratum 6937, so `'` is a literal), modifiers of level 4, more than
    /// [`Self::MAX_LENGTH`] bytes or [`Self::MAX_VARIABLES`] variables.
    pub fn parse(text: &str) -> Result<UriTemplate, TemplateError> {
        let err = |kind, offset| Err(TemplateError { kind, offset });
        if text.len() > Self::MAX_LENGTH {
            return err(TemplateErrorKind::TooLong, Self::MAX_LENGTH);
        }
        let bytes = text.as_bytes();
        let mut parts = Vec::new();
        let mut names: Vec<Box<str>> = Vec::new();
        let mut literal = String::new();
        let mut places = 0;
        let mut at = 0;
        for (offset, c) in text.char_indices() {
            if offset < at {
                continue;
            }
            at = offset + c.len_utf8();
            match c {
                '{' => {
                    let Some(length) = text[at..].find('}') else {
                        return err(TemplateErrorKind::Unclosed, offset);
                    };
                    if !literal.is_empty() {
                        let done = std::mem::take(&mut literal);
                        parts.push(Part::Literal(done.into()));
                    }
                    let inner = &text[at..at + length];
                    parts.push(parse_expression(inner, at, &mut names, &mut places)?);
                    at += length + 1;
                }
                '}' => return err(TemplateErrorKind::StrayClose, offset),
                '%' if !is_triplet(bytes, offset) => {
                    return err(TemplateErrorKind::Percent, offset);
                }
                _ if c.is_ascii() && is_literal(c) => literal.push(c),
                _ if is_literal(c) => encode(&text[offset..at], false, &mut literal),
                _ => return err(TemplateErrorKind::Literal, offset),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Ok(UriTemplate { text: text.into(), parts: parts.into(), names: names.into() })
    }

    /// A peer's template that this library cannot parse, with its text: it has no variables and
    /// expands to itself.
    #[cfg(feature = "client")]
    pub(crate) fn opaque(text: &str) -> UriTemplate {
        UriTemplate { text: text.into(), parts: [Part::Literal(text.into())].into(), names: [].into() }
    }

    /// Returns the text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names of the variables, each once, in order of first appearance.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Returns the variables of a URI that this template could have produced, percent-decoded;
    /// `None` if the URI does not match or is longer than [`Self::MAX_URI`] bytes.
    ///
    /// The leftmost variable takes the longest text, then the next one. Query parameters that are
    /// missing in the URI are missing from the result. The values are untrusted: `%2F` is decoded
    /// to `/`, `%2E%2E` to `..`; a handler that opens files must confine the path itself.
    pub fn matches(&self, uri: &str) -> Option<Variables> {
        if uri.len() > Self::MAX_URI {
            return None;
        }
        let uri = uri.as_bytes();
        // Most URIs match another template: the leading literal is compared first, without a
        // search.
        let (parts, rest) = match self.parts.split_first() {
            Some((Part::Literal(text), parts)) => (parts, &uri[literal_at(text.as_bytes(), uri)?..]),
            _ => (&*self.parts, uri),
        };
        let values = matcher::Search::new(parts, &self.names, rest).run()?;
        let named = self.names.iter().zip(values);
        Some(Variables { list: named.filter_map(|(name, value)| Some((name.clone(), value?))).collect() })
    }

    /// Returns the reason if two variables are adjacent, so that a match may assign the text of one
    /// to the other.
    pub(crate) fn ambiguity(&self) -> Option<String> {
        let mut texts = self.text.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        // Expressions since the last literal. Each of them may be empty, so it separates nothing.
        let mut run: Vec<(Op, &str)> = Vec::new();
        for part in &self.parts {
            let Part::Expression { op, vars } = part else {
                run.clear();
                continue;
            };
            let (text, separator) = (texts.next()?, char::from(op.separator()));
            if let Some((_, first)) = run.iter().find(|(before, _)| before.touches(op.prefix())) {
                let prefix = op.prefix().map(char::from);
                let may = prefix.map(|c| format!(", and a value of {{{first}}} may contain {c:?}"));
                let may = may.unwrap_or_default();
                return Some(format!("no literal is between {{{first}}} and {{{text}}}{may}"));
            }
            if vars.len() > 1 && !op.named() && op.touches(Some(op.separator())) {
                return Some(format!(
                    "a value of {{{text}}} may contain {separator:?}, which separates its variables"
                ));
            }
            run.push((*op, text));
        }
        None
    }

    /// Returns the URI for the given variables. A variable for which `lookup` returns `None` is
    /// omitted with its separator (RFC 6570 section 3.2.1). `{+x}` and `{#x}` copy characters that
    /// are percent-encoded already.
    pub fn expand<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
        let mut out = String::with_capacity(self.text.len());
        for part in &self.parts {
            let (op, vars) = match part {
                Part::Literal(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Expression { op, vars } => (*op, vars),
            };
            let mut mark = op.prefix();
            for &var in vars {
                let name = &self.names[usize::from(var)];
                let Some(value) = lookup(name) else { continue };
                out.extend(mark.map(char::from));
                mark = Some(op.separator());
                if op.named() {
                    out.push_str(name);
                    if !value.is_empty() || op != Op::Parameter {
                        out.push('=');
                    }
                }
                encode(value, op.reserved(), &mut out);
            }
        }
        out
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The variables that [`UriTemplate::matches`] read from a URI: decoded, untrusted text.
///
/// See [`UriTemplate`], and [`Template`](crate::Template) for their use in a handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    list: Vec<(Box<str>, String)>,
}

impl Variables {
    /// Returns the value of a variable; `None` if it is undefined in the URI.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Returns names and values of the defined variables, in order of first appearance in the
    /// template.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.iter().map(|(n, v)| (&**n, v.as_str()))
    }
}

/// Parses the text between braces; `base` is its offset in the template.
fn parse_expression(
    inner: &str,
    base: usize,
    names: &mut Vec<Box<str>>,
    places: &mut usize,
) -> Result<Part, TemplateError> {
    let err = |kind, offset| TemplateError { kind, offset };
    let first = inner.bytes().next();
    if first.is_some_and(|b| b"=,!@|".contains(&b)) {
        return Err(err(TemplateErrorKind::ReservedOperator, base));
    }
    let op = first.and_then(Op::of);
    let mut at = base + usize::from(op.is_some());
    let mut vars = Vec::new();
    for name in inner[at - base..].split(',') {
        check_name(name, at)?;
        if *places == UriTemplate::MAX_VARIABLES {
            return Err(err(TemplateErrorKind::TooManyVariables, at));
        }
        *places += 1;
        let id = names.iter().position(|n| **n == *name);
        let id = id.unwrap_or_else(|| {
            names.push(name.into());
            names.len() - 1
        });
        // Exact: UriTemplate::MAX_VARIABLES bounds the number of names.
        vars.push(id as u8);
        at += name.len() + 1;
    }
    Ok(Part::Expression { op: op.unwrap_or(Op::Simple), vars: vars.into() })
}

/// Checks a name (RFC 6570 section 2.3): letters, digits, `_` and triplets, with single dots
/// between them.
fn check_name(name: &str, base: usize) -> Result<(), TemplateError> {
    let bytes = name.as_bytes();
    let err = |kind, i| {
        let offset = base + i;
        Err(TemplateError { kind, offset })
    };
    if bytes.is_empty() {
        return err(TemplateErrorKind::EmptyName, 0);
    }
    let mut dot_may_follow = false;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' if !is_triplet(bytes, i) => return err(TemplateErrorKind::Percent, i),
            b'%' => i += 2,
            b if b.is_ascii_alphanumeric() || b == b'_' => {}
            b'.' if dot_may_follow && i + 1 < bytes.len() => {}
            b':' | b'*' if dot_may_follow => return err(TemplateErrorKind::Modifier, i),
            _ => return err(TemplateErrorKind::Name, i),
        }
        dot_may_follow = bytes[i] != b'.';
        i += 1;
    }
    Ok(())
}
