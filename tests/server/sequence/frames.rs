//! Random sequences of frames, each a changed copy of the one before it. A seed always gives the same sequence.

use super::rig::TOOLS;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A JSON value; a scalar is its text.
#[derive(Clone)]
pub(crate) enum Tree {
    Scalar(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

use Tree::{List, Object, Scalar};

const NAMES: &[&str] = &["l", "text", "kind", "n", "list", "inner", "whole", "a", "b"];
const METHODS: &[&str] = &[
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "completion/complete",
    "server/discover",
    "ping",
    "tools/cull",
    "notifications/cancelled",
];

/// Protocol of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Session(&'static str),
    Stateless,
}

impl Protocol {
    pub(crate) fn random(r: &mut Random) -> Protocol {
        match r.below(8) {
            0 => Protocol::Session("2024-11-05"),
            1 => Protocol::Session("2025-03-26"),
            2 => Protocol::Session("2025-06-18"),
            3 => Protocol::Session("2025-11-25"),
            _ => Protocol::Stateless,
        }
    }
}

fn object<const N: usize>(members: [(&str, Tree); N]) -> Tree {
    Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn quoted(text: &str) -> Tree {
    Scalar(format!("\"{text}\""))
}

impl Tree {
    pub(crate) fn write(&self, r: &mut Random, out: &mut String) {
        let space = |r: &mut Random, out: &mut String| {
            if r.one_in(60) {
                out.push_str([" ", "  ", "\t"][r.below(3)]);
            }
        };
        space(r, out);
        match self {
            Scalar(text) => out.push_str(text),
            List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(r, out);
                }
                out.push(']');
            }
            Object(members) => {
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    out.push('"');
                    out.push_str(name);
                    out.push_str("\":");
                    value.write(r, out);
                }
                out.push('}');
            }
        }
        space(r, out);
    }

    fn member(&mut self, name: &str) -> Option<&mut Tree> {
        let Object(members) = self else { return None };
        members.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The text of a string below these names.
    #[cfg(feature = "http-server")]
    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        let Some((first, rest)) = path.split_first() else {
            let Scalar(text) = self else { return None };
            return text.strip_prefix('"')?.strip_suffix('"');
        };
        let Object(members) = self else { return None };
        members.iter().find(|(known, _)| known == first)?.1.text(rest)
    }
}

fn number(r: &mut Random) -> Tree {
    let edges =
        ["0", "-0", "1", "12", "77777", "123456", "4.0", "4.099", "1e3", "1E-2", "1e400", "-7", "2.5"];
    match r.below(4) {
        0 => Scalar(r.below(10).to_string()),
        1 => Scalar(r.below(1_000_000).to_string()),
        2 => Scalar(r.next().to_string()),
        _ => Scalar(r.pick(&edges).to_owned()),
    }
}

fn string(r: &mut Random) -> Tree {
    let whole = [
        "",
        "a",
        "low",
        "High",
        "Off",
        "hello",
        "something longer than before",
        "a \\\"word\\\"",
        "\\u00e9",
        "é",
        "\\ud83d\\ude00",
    ];
    match r.below(3) {
        0 => quoted(&"abcdefghijklmnopqrstuvwxyz"[..r.below(27)]),
        _ => quoted(r.pick(&whole)),
    }
}

fn value(r: &mut Random, depth: usize) -> Tree {
    match r.below(if depth == 0 { 7 } else { 11 }) {
        0..=2 => number(r),
        3 | 4 => string(r),
        5 => Scalar(r.pick(&["true", "false"]).to_owned()),
        6 => Scalar("null".to_owned()),
        7 | 8 => List((0..r.below(6)).map(|_| number(r)).collect()),
        9 => List((0..r.below(5)).map(|_| value(r, depth - 1)).collect()),
        _ => Object((0..r.below(4)).map(|_| (r.pick(NAMES).to_owned(), value(r, depth - 1))).collect()),
    }
}

/// Arguments that the tool accepts, mostly.
fn arguments(r: &mut Random, tool: &str) -> Tree {
    let numbers = |r: &mut Random| List((0..r.below(6)).map(|_| number(r)).collect());
    match tool {
        "list" | "checked" => object([("l", numbers(r))]),
        "mixed" => object([
            ("text", string(r)),
            ("n", Scalar(r.below(100_000).to_string())),
            ("list", List((0..r.below(4)).map(|_| string(r)).collect())),
            ("inner", object([("l", numbers(r))])),
        ]),
        _ => Object((0..r.below(4)).map(|n| (NAMES[n].to_owned(), value(r, 2))).collect()),
    }
}

/// A call, as a client sends it.
pub(crate) fn call(r: &mut Random, protocol: Protocol) -> Tree {
    let tool = r.pick(&TOOLS);
    let mut params = vec![("name".to_owned(), quoted(tool)), ("arguments".to_owned(), arguments(r, tool))];
    if protocol == Protocol::Stateless {
        let meta = object([
            ("io.modelcontextprotocol/protocolVersion", quoted("2026-07-28")),
            ("io.modelcontextprotocol/clientCapabilities", object([])),
        ]);
        params.push(("_meta".to_owned(), meta));
    } else if r.one_in(3) {
        params.push(("_meta".to_owned(), object([("progressToken", quoted("p"))])));
    }
    object([
        ("jsonrpc", quoted("2.0")),
        ("id", Scalar(r.below(100).to_string())),
        ("method", quoted("tools/call")),
        ("params", Object(params)),
    ])
}

/// Changes a frame to a likely next message of a client, or makes it invalid.
pub(crate) fn change(r: &mut Random, frame: &mut Tree) {
    match r.below(20) {
        0 => {
            if let Some(method) = frame.member("method") {
                *method = quoted(r.pick(METHODS));
            }
        }
        1 => {
            if let Some(id) = frame.member("id") {
                *id = if r.one_in(4) { value(r, 1) } else { Scalar(r.below(100_000).to_string()) };
            }
        }
        2 => {
            if let Some(name) = frame.member("params").and_then(|params| params.member("name")) {
                *name = if r.one_in(4) { string(r) } else { quoted(r.pick(&TOOLS)) };
            }
        }
        3 => {
            let uri = r.pick(&["rig:note", "rig:x/y", "rig:x%2fy", "rig:", "none:x"]);
            if let Some(Object(params)) = frame.member("params") {
                params.push(("uri".to_owned(), quoted(uri)));
            }
        }
        4 => anywhere(r, frame),
        _ => match frame.member("params").and_then(|params| params.member("arguments")) {
            Some(arguments) => anywhere(r, arguments),
            None => anywhere(r, frame),
        },
    }
}

/// Changes the first list of numbers of a call by one item, as two calls of the same tool differ most often.
fn change_list(r: &mut Random, frame: &mut Tree) {
    let Some(List(items)) = frame
        .member("params")
        .and_then(|params| params.member("arguments"))
        .and_then(|arguments| arguments.member("l"))
    else {
        return change(r, frame);
    };
    match r.below(3) {
        0 if !items.is_empty() => drop(items.remove(r.below(items.len()))),
        1 if !items.is_empty() => {
            let at = r.below(items.len());
            items[at] = number(r);
        }
        _ => items.insert(r.below(items.len() + 1), number(r)),
    }
}

/// Changes something in the tree. Never makes a method that changes the server's state.
fn anywhere(r: &mut Random, tree: &mut Tree) {
    match tree {
        Scalar(_) => *tree = value(r, 1),
        List(items) => match r.below(6) {
            0 | 1 => {
                let item = if r.one_in(4) { value(r, 1) } else { number(r) };
                items.insert(r.below(items.len() + 1), item);
            }
            2 | 3 if !items.is_empty() => drop(items.remove(r.below(items.len()))),
            _ if items.is_empty() => *tree = value(r, 1),
            _ => {
                let at = r.below(items.len());
                anywhere(r, &mut items[at]);
            }
        },
        Object(members) => match r.below(8) {
            0 => {
                let at = r.below(members.len() + 1);
                members.insert(at, (r.pick(NAMES).to_owned(), value(r, 2)));
            }
            1 if !members.is_empty() => drop(members.remove(r.below(members.len()))),
            2 if !members.is_empty() => {
                let at = r.below(members.len());
                if members[at].0 != "method" {
                    members[at].0 = r.pick(NAMES).to_owned();
                }
            }
            3 if !members.is_empty() => {
                let (a, b) = (r.below(members.len()), r.below(members.len()));
                members.swap(a, b);
            }
            _ if members.is_empty() => members.push((r.pick(NAMES).to_owned(), value(r, 1))),
            _ => {
                let at = r.below(members.len());
                anywhere(r, &mut members[at].1);
            }
        },
    }
}

/// Puts an error into the text of a frame, which stays one line of UTF-8.
fn spoil(r: &mut Random, text: &mut String) {
    let at = r.below(text.len() + 1);
    let at = (0..=at).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
    match r.below(3) {
        0 => text.truncate(at),
        1 => text.insert_str(
            at,
            r.pick(&["{", "}", "[", "]", ",", ":", "\"", "0", ".002", "-", "e", "\\", "x", "é"]),
        ),
        _ => {
            let mut rest = text.split_off(at).chars().collect::<Vec<_>>();
            rest.drain(..rest.len().min(1 + r.below(3)));
            text.extend(rest);
        }
    }
}

/// One frame: its text, and the tree that the text was written from.
pub(crate) struct Frame {
    pub(crate) text: String,
    #[cfg_attr(not(feature = "http-server"), allow(dead_code))] // The header fields of a request.
    pub(crate) tree: Tree,
}

/// A sequence of frames. `batches` of the revision that has them may be among them.
pub(crate) fn sequence(r: &mut Random, protocol: Protocol, length: usize, batches: bool) -> Vec<Frame> {
    let mut tree = call(r, protocol);
    let mut frames = Vec::new();
    let lists_only = r.one_in(3);
    for _ in 0..length {
        let mut text = String::new();
        tree.write(r, &mut text);
        if batches && protocol == Protocol::Session("2025-03-26") && r.one_in(12) {
            let mut second = String::new();
            call(r, protocol).write(r, &mut second);
            text = format!("[{text},{second}]");
        }
        if r.one_in(16) {
            spoil(r, &mut text);
        }
        frames.push(Frame { text, tree: tree.clone() });
        match r.below(12) {
            0 => tree = call(r, protocol),
            2.. if lists_only => change_list(r, &mut tree),
            // The same frame again.
            1 => {}
            _ => (0..1 + r.below(3)).for_each(|_| change(r, &mut tree)),
        }
    }
    frames
}
