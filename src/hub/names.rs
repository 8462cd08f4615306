//! Names under which a hub offers a server's tools and prompts, and the tools that it offers.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind};

use super::SEPARATOR;

/// Maximum length of a prefix in bytes.
const MAX_PREFIX: usize = 34;
/// Maximum length of a pattern and of a new name in bytes.
const MAX_NAME: usize = 128;

/// Names and filter of one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UpstreamNames {
    /// Prefix of all names. `None` means the server's key and [`SEPARATOR`].
    pub(super) prefix: Option<String>,
    /// Patterns of tools that are offered; all tools if empty.
    pub(super) allowed: Vec<String>,
    /// Patterns of tools that are not offered, also when they are allowed.
    pub(super) denied: Vec<String>,
    /// Tools with another name: the name at the server and the new one.
    pub(super) renamed: Vec<(String, String)>,
}

/// Names on the last lists that the host requested from a server, as in the hub.
#[derive(Default)]
pub(super) struct ListedNames {
    pub(super) tools: BTreeSet<String>,
    pub(super) prompts: BTreeSet<String>,
}

impl UpstreamNames {
    /// Returns an error if a part is not valid.
    pub(super) fn check(&self) -> Result<(), Error> {
        let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, why));
        if let Some(prefix) = &self.prefix {
            let fits = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
            if !fits || prefix.len() > MAX_PREFIX {
                return invalid(format!(
                    "invalid prefix {prefix:?}: allowed are at most {MAX_PREFIX} characters of \
                     A-Z a-z 0-9 - _ ."
                ));
            }
        }
        let patterns = self.allowed.iter().chain(&self.denied);
        if let Some(pattern) = patterns.into_iter().find(|p| p.is_empty() || p.len() > MAX_NAME) {
            return invalid(format!("invalid pattern {pattern:?}: expected 1 to {MAX_NAME} bytes"));
        }
        for (at, (from, to)) in self.renamed.iter().enumerate() {
            if from.is_empty() || to.is_empty() || to.len() > MAX_NAME {
                return invalid(format!(
                    "invalid renaming {from:?} to {to:?}: expected 1 to {MAX_NAME} bytes"
                ));
            }
            if self.renamed.iter().take(at).any(|(other, new)| other == from || new == to) {
                return invalid(format!("renaming {from:?} to {to:?} contradicts an earlier one"));
            }
        }
        Ok(())
    }

    /// Returns the length of the prefix of the server with this key, in bytes.
    pub(super) fn prefix_length(&self, key: &str) -> usize {
        self.prefix.as_ref().map_or(key.len() + SEPARATOR.len(), String::len)
    }

    /// Returns the name of a prompt in the hub.
    pub(super) fn prompt(&self, key: &str, name: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}{name}"),
            None => format!("{key}{SEPARATOR}{name}"),
        }
    }

    /// Returns the name of a tool in the hub; `None` if the tool is not offered.
    pub(super) fn tool(&self, key: &str, name: &str) -> Option<String> {
        self.own_tool(name).map(|name| self.prompt(key, name))
    }

    /// Returns the name of a tool without a prefix; `None` if the tool is not offered.
    pub(super) fn own_tool<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        if !self.offers(name) {
            return None;
        }
        match self.renamed.iter().find(|(from, _)| from == name) {
            Some((_, new)) => Some(new),
            // Another tool was renamed to this name.
            None if self.renamed.iter().any(|(_, new)| new == name) => None,
            None => Some(name),
        }
    }

    /// Returns the name of a prompt at the server, if the name in the hub has the server's prefix.
    pub(super) fn prompt_at_server<'n>(&self, key: &str, name: &'n str) -> Option<&'n str> {
        match &self.prefix {
            Some(prefix) => name.strip_prefix(prefix.as_str()),
            None => name.strip_prefix(key)?.strip_prefix(SEPARATOR),
        }
    }

    /// Returns the name of a tool at the server for its name in the hub, if the server offers the
    /// tool.
    pub(super) fn tool_at_server<'n>(&'n self, key: &str, name: &'n str) -> Option<&'n str> {
        self.own_tool_at_server(self.prompt_at_server(key, name)?)
    }

    /// Returns the name at the server for a name without a prefix, if the tool is offered.
    pub(super) fn own_tool_at_server<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        let original = match self.renamed.iter().find(|(_, new)| new == name) {
            Some((from, _)) => from,
            None if self.renamed.iter().any(|(from, _)| from == name) => return None,
            None => name,
        };
        self.offers(original).then_some(original)
    }

    /// Returns the patterns and the old names that match none of the server's tools.
    pub(super) fn unused(&self, tools: &[&str]) -> Vec<String> {
        let patterns = self.allowed.iter().chain(&self.denied);
        let patterns = patterns.filter(|pattern| !tools.iter().any(|tool| matches_pattern(pattern, tool)));
        let renamed = self.renamed.iter().map(|(from, _)| from);
        let renamed = renamed.filter(|from| !tools.contains(&from.as_str()));
        patterns.chain(renamed).cloned().collect()
    }

    /// Returns the old name of the tool that was renamed to this name.
    pub(super) fn taken_by(&self, name: &str) -> Option<&str> {
        let is_renamed = self.renamed.iter().any(|(from, _)| from == name);
        let new = self.renamed.iter().find(|(_, new)| new == name && !is_renamed && self.offers(name));
        new.map(|(from, _)| from.as_str())
    }

    /// Returns whether the server's tool with this name is offered.
    fn offers(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
        (self.allowed.is_empty() || any(&self.allowed)) && !any(&self.denied)
    }
}

/// Returns whether a name matches a pattern: `*` stands for any characters, `?` for one.
///
/// The time is at most the product of the lengths, because only the last `*` is tried again.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // The last `*`, and the end of the characters that it stands for.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some('*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(expected), _) if *expected == '?' || Some(expected) == name.get(n) => {
                p += 1;
                n += 1;
            }
            (_, Some((at, end))) => {
                star = Some((at, end + 1));
                (p, n) = (at + 1, end + 1);
            }
            _ => return false,
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(
        prefix: Option<&str>,
        allowed: &[&str],
        denied: &[&str],
        renamed: &[(&str, &str)],
    ) -> UpstreamNames {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        UpstreamNames {
            prefix: prefix.map(str::to_owned),
            allowed: texts(allowed),
            denied: texts(denied),
            renamed: renamed.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
        }
    }

    #[test]
    fn patterns_have_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("read_*", "read_", true),
            ("*file", "read_file", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbxc", false),
            ("?", "é", true),
            ("?", "", false),
            ("*", "", true),
            ("**", "a", true),
            ("a?c*", "abc", true),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_of_the_hub_leads_back_to_the_tool() {
        for (names, there, here) in [
            (names(None, &[], &[], &[]), "echo", Some("board__echo")),
            (names(Some(""), &[], &[], &[]), "echo", Some("echo")),
            (names(Some("b."), &[], &[], &[]), "echo", Some("b.echo")),
            (names(Some(""), &["e*"], &[], &[]), "echo", Some("echo")),
            (names(Some(""), &["x*"], &[], &[]), "echo", None),
            (names(Some(""), &["e*"], &["ec*"], &[]), "echo", None),
            (names(Some(""), &["echo"], &[], &[("echo", "say")]), "echo", Some("say")),
            (names(Some(""), &[], &[], &[("echo", "say")]), "say", None),
            (names(None, &[], &[], &[("a", "b"), ("b", "a")]), "b", Some("board__a")),
        ] {
            let name = names.tool("board", there);
            assert_eq!(name.as_deref(), here, "{names:?}");
            if let Some(name) = name {
                assert_eq!(names.tool_at_server("board", &name), Some(there), "{names:?}");
            }
        }
        let renamed = names(Some(""), &[], &["d*"], &[("echo", "say")]);
        assert_eq!(renamed.tool_at_server("board", "echo"), None);
        assert_eq!(renamed.tool_at_server("board", "delete"), None);
    }

    #[test]
    fn invalid_names_are_errors() {
        for (names, part) in [
            (names(Some("a b"), &[], &[], &[]), "invalid prefix \"a b\""),
            (names(None, &[""], &[], &[]), "invalid pattern \"\""),
            (names(None, &[], &[], &[("a", "")]), "invalid renaming \"a\" to \"\""),
            (names(None, &[], &[], &[("a", "x"), ("b", "x")]), "\"b\" to \"x\" contradicts"),
            (names(None, &[], &[], &[("a", "x"), ("a", "y")]), "\"a\" to \"y\" contradicts"),
        ] {
            let error = names.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(names(Some(""), &["*"], &["?"], &[("a", "b"), ("b", "a")]).check().is_ok());
    }
}
