//! Typed access to the members of an object, with a problem for each invalid one.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tinymcp::json::{Kind, Value};

use super::super::words::{self, nearest};
use super::Problem;
use super::document::Node;

/// Member names of other formats, and the members of this format with the same meaning.
const FOREIGN: &[(&str, &str)] = &[
    ("args", "run"),
    ("arguments", "input"),
    ("argv", "run"),
    ("cmd", "run"),
    ("command", "run"),
    ("exec", "run"),
    ("destructiveHint", "destructive"),
    ("idempotentHint", "idempotent"),
    ("inputSchema", "input"),
    ("openWorldHint", "openWorld"),
    ("parameters", "input"),
    ("params", "input"),
    ("readOnlyHint", "readOnly"),
    ("path", "file"),
    ("environment", "env"),
    ("workingDirectory", "cwd"),
];

/// Problems found so far.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) list: Vec<Problem>,
}

impl Problems {
    pub(super) fn add(&mut self, at: &Node<'_>, message: impl Into<String>) {
        self.list.push(Problem { place: at.place(), message: message.into() });
    }

    /// Reports a value of another kind. `expected` begins with an article.
    pub(super) fn expected(&mut self, at: &Node<'_>, expected: &str) {
        self.add(at, format!("expected {expected}, got {}", described(at.value)));
    }

    /// Checks that this is an object with known members only.
    pub(super) fn object(&mut self, node: &Node<'_>, known: &str) -> bool {
        if !self.any_object(node) {
            return false;
        }
        for (name, member) in node.members().filter(|(name, _)| !words::has(known, name)) {
            self.add(&member, unknown_member(name, known, member.value.kind()));
        }
        true
    }

    /// Checks that this is an object.
    pub(super) fn any_object(&mut self, node: &Node<'_>) -> bool {
        let is_object = node.value.kind() == Kind::Object;
        if !is_object {
            let example = example(&node.place().pointer);
            self.expected(node, &format!("an object{example}"));
        }
        is_object
    }

    /// Reads a string without NUL, which neither programs nor paths can contain.
    pub(super) fn string<'d>(&mut self, node: &Node<'d>) -> Option<&'d str> {
        let text = node.value.as_str();
        match text {
            None => self.expected(node, "a string"),
            Some(text) if text.contains('\0') => {
                self.add(node, "the text contains a NUL character");
                return None;
            }
            Some(_) => {}
        }
        text
    }

    /// Reads a member that is a string.
    pub(super) fn text(&mut self, node: &Node<'_>, name: &str) -> Option<String> {
        self.string(&node.get(name)?).map(str::to_owned)
    }

    /// Reads a member that is a boolean.
    pub(super) fn flag(&mut self, node: &Node<'_>, name: &str) -> Option<bool> {
        let member = node.get(name)?;
        let flag = member.value.as_bool();
        if flag.is_none() {
            self.expected(&member, "true or false");
        }
        flag
    }

    /// Reads a member that is an integer in a range.
    pub(super) fn integer(&mut self, node: &Node<'_>, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let member = node.get(name)?;
        let number = member.value.as_u64().filter(|n| range.contains(n));
        if number.is_none() {
            self.expected(&member, &format!("an integer from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// Reads a member whose value is one of these texts.
    pub(super) fn word(
        &mut self,
        node: &Node<'_>,
        name: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let member = node.get(name)?;
        let word = words.iter().copied().find(|word| member.value.as_str() == Some(word));
        if word.is_none() {
            let accepted = words::join(&mut words.iter().map(|word| format!("{word:?}")), " or ");
            self.expected(&member, &accepted);
        }
        word
    }

    /// Reads a string as an absolute path. Relative paths start at the folder of the file.
    pub(super) fn path(&mut self, node: &Node<'_>) -> Option<PathBuf> {
        let text = self.string(node)?;
        if text.is_empty() {
            self.add(node, "empty path; \".\" is the folder of this file");
            return None;
        }
        if text.starts_with(['~', '$']) {
            self.add(node, format!("{text:?}: `~` and `$` are not expanded; write the path itself"));
            return None;
        }
        Some(absolute(&node.document().folder, text))
    }
}

/// Joins a path to a folder and removes `.` components.
pub(super) fn absolute(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().collect()
}

/// Returns an example of the object at this pointer.
fn example(pointer: &str) -> &'static str {
    let mut names = pointer.split('/').skip(1);
    match (names.next(), names.next(), names.next()) {
        (Some("server"), None, _) => " such as {\"name\": \"my-machine\"}",
        (Some("tools"), None, _) => " such as {\"disk_usage\": {\"run\": [\"df\", \"-h\"]}}",
        (Some("tools"), Some(_), None) => " such as {\"run\": [\"df\", \"-h\"]}",
        (Some("tools"), Some(_), Some("input")) => " such as {\"bed\": \"integer 1..8\"}",
        (Some("tools"), Some(_), Some("env")) => " such as {\"LC_ALL\": \"C.UTF-8\"}",
        (Some("tools"), Some(_), Some("sandbox")) => " such as {\"read\": [\"system\"], \"net\": false}",
        (Some("resources"), None, _) => " such as {\"status://load\": {\"file\": \"/proc/loadavg\"}}",
        (Some("prompts"), None, _) => " such as {\"review\": {\"file\": \"review.md\"}}",
        _ => "",
    }
}

fn unknown_member(name: &str, known: &str, kind: Kind) -> String {
    if name == "shell" && words::has(known, "run") {
        return "unknown member \"shell\": no shell runs by itself; write \
                \"run\": [\"/bin/sh\", \"-c\", \"script \\\"$1\\\"\", \"sh\", \"{argument}\"]"
            .to_owned();
    }
    if matches!(name, "mcpServers" | "servers") && words::has(known, "resourceTemplates") {
        return format!(
            "this is the configuration of a host; expected members are {}",
            known.replace(' ', ", ")
        );
    }
    // Other formats have the arguments of the program in an array, and those of a call in an
    // object.
    let foreign = if name == "args" && kind == Kind::Object { "params" } else { name };
    let foreign = FOREIGN.iter().find(|(other, ours)| *other == foreign && words::has(known, ours));
    match foreign.map(|(_, ours)| *ours).or_else(|| nearest(name, &mut known.split(' '))) {
        Some(near) => format!("unknown member {name:?}; did you mean {near:?}?"),
        None => format!("unknown member {name:?}; accepted are {}", known.replace(' ', ", ")),
    }
}

/// Describes a value in an error message.
pub(super) fn described(value: Value<'_>) -> String {
    match value.kind() {
        Kind::Object => "an object".to_owned(),
        Kind::Array => "an array".to_owned(),
        Kind::String if value.raw().len() > 60 => "a long string".to_owned(),
        _ => value.raw().to_owned(),
    }
}
