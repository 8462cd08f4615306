//! `\p{…}`: character sets by Unicode property.
//!
//! The tables of regex-syntax are larger than the rest of the pattern engine, so the feature
//! `unicode-pattern` enables them. Without it every property is rejected with a message that names
//! the feature. Names are compared without case after their first letter, while ECMA-262 requires
//! the exact spelling.

use super::char_set::CharSet;

/// The set of a property, given the text between the braces, or the error.
#[cfg(feature = "unicode-pattern")]
pub(super) fn property(name: &str) -> Result<CharSet, String> {
    let unknown = || format!("`{name}` is not a supported Unicode property");
    let plain = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some((key, value)) = name.split_once('=') {
        let key = match key {
            "General_Category" | "gc" => "gc",
            "Script" | "sc" => "sc",
            "Script_Extensions" | "scx" => "scx",
            _ => return Err(unknown()),
        };
        return Some(value)
            .filter(|v| plain(v))
            .and_then(|v| look_up(&format!("{key}={v}")))
            .ok_or_else(unknown);
    }
    let spelt =
        name.starts_with(|c: char| c.is_ascii_uppercase()) || ["punct", "digit", "cntrl"].contains(&name);
    if !plain(name) || !spelt {
        return Err(unknown());
    }
    if let Some(set) = look_up(&format!("gc={name}")) {
        return Ok(set);
    }
    // The tables accept a script without its key; ECMA-262 does not.
    if look_up(&format!("sc={name}")).is_some() {
        return Err(format!("`{name}` is a script; write \\p{{Script={name}}}"));
    }
    look_up(name).ok_or_else(unknown)
}

/// Looks a property up in the tables.
#[cfg(feature = "unicode-pattern")]
fn look_up(query: &str) -> Option<CharSet> {
    use regex_syntax::hir::{Class, HirKind};
    let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{query}}}")).ok()?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let ranges: Vec<_> = class.iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect();
            Some(CharSet::of(&ranges))
        }
        // A property with one character is returned as a literal.
        HirKind::Literal(literal) => {
            let c = u32::from(std::str::from_utf8(&literal.0).ok()?.chars().next()?);
            Some(CharSet::of(&[(c, c)]))
        }
        _ => None,
    }
}

/// Rejects every property.
#[cfg(not(feature = "unicode-pattern"))]
pub(super) fn property(_name: &str) -> Result<CharSet, String> {
    Err("Unicode properties need the Cargo feature `unicode-pattern`; without it list the ranges, \
         as in [\\u00C0-\\u024F]"
        .to_owned())
}
