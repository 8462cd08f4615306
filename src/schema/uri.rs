//! Resolution of URI references (RFC 3986 §5) for `$id` and `$ref`.
//!
//! Nothing is fetched, and all schemes are equal.
//!
//! Invariants: no recursion; the result is at most as long as base and reference together.

/// The parts of a URI reference.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

#[cold]
fn parts(text: &str) -> Parts<'_> {
    let scheme = scheme(text);
    let rest = scheme.map_or(text, |s| text.get(s.len() + 1..).unwrap_or_default());
    let (authority, rest) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (rest.get(..end), rest.get(end..).unwrap_or_default())
        }
        None => (None, rest),
    };
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    Parts { scheme, authority, path, query }
}

/// The scheme of an absolute URI.
pub(super) fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let good = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    good.then_some(scheme)
}

/// Splits a reference into the part before `#` and the fragment.
pub(super) fn split_fragment(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('#') {
        Some((uri, fragment)) => (uri, Some(fragment)),
        None => (reference, None),
    }
}

pub(super) fn last_slash(path: &str) -> Option<usize> {
    path.bytes().rposition(|b| b == b'/')
}

/// Joins a reference without fragment to a base without fragment.
#[cold]
pub(super) fn join(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let r = parts(reference);
    if r.scheme.is_some() && (r.authority.is_some() || !r.path.starts_with('/')) {
        return reference.to_owned();
    }
    let b = parts(base);
    let mut out = String::with_capacity(base.len() + reference.len() + 1);
    if let Some(scheme) = r.scheme.or(b.scheme) {
        out.push_str(scheme);
        out.push(':');
    }
    let inherits = r.scheme.is_none() && r.authority.is_none();
    if let Some(authority) = if inherits { b.authority } else { r.authority } {
        out.push_str("//");
        out.push_str(authority);
    }
    let mut query = r.query;
    if !inherits || r.path.starts_with('/') {
        without_dots(r.path, &mut out);
    } else if r.path.is_empty() {
        out.push_str(b.path);
        query = r.query.or(b.query);
    } else {
        let folder = last_slash(b.path).map_or("", |end| b.path.get(..=end).unwrap_or_default());
        let slash = if folder.is_empty() && b.authority.is_some() { "/" } else { "" };
        let merged = format!("{slash}{folder}{}", r.path);
        without_dots(&merged, &mut out);
    }
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
    out
}

/// Appends a path without its `.` and `..` segments (RFC 3986 §5.2.4).
#[cold]
fn without_dots(path: &str, out: &mut String) {
    let start = out.len();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    // Removes the previous segment and its slash.
                    let kept = out.get(start..).unwrap_or_default();
                    let kept = kept.strip_suffix('/').unwrap_or(kept);
                    let cut = last_slash(kept).map_or(usize::from(path.starts_with('/')), |slash| slash + 1);
                    out.truncate(start + cut.min(out.len() - start));
                }
                if last && out.len() == start && path.starts_with('/') {
                    out.push('/');
                }
            }
            _ => {
                out.push_str(segment);
                if !last {
                    out.push('/');
                }
            }
        }
    }
}

/// Decodes `%XX`. `None` if an escape is invalid or the result is not UTF-8.
#[cold]
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_join_as_the_rfc_lists_them() {
        // RFC 3986 §5.4, without the fragments.
        let base = "http://a/b/c/d;p?q";
        for (reference, expected) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
        ] {
            assert_eq!(join(base, reference), expected, "{reference}");
        }
    }

    #[test]
    fn bases_without_authority_and_without_anything_join_too() {
        for (base, reference, expected) in [
            ("", "a.json", "a.json"),
            ("a/b.json", "c.json", "a/c.json"),
            ("http://h", "a", "http://h/a"),
            ("urn:uuid:1", "", "urn:uuid:1"),
            ("urn:uuid:1", "urn:uuid:2", "urn:uuid:2"),
            ("file:///a/b", "c", "file:///a/c"),
        ] {
            assert_eq!(join(base, reference), expected, "{base} {reference}");
        }
    }

    #[test]
    fn percent_escapes_are_resolved_or_refused() {
        assert_eq!(percent_decoded("a%25b%C3%A9").as_deref(), Some("a%bé"));
        assert_eq!(percent_decoded("%2"), None);
        assert_eq!(percent_decoded("%zz"), None);
        assert_eq!(percent_decoded("%ff"), None);
    }
}
