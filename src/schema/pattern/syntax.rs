//! Parser of patterns.
//!
//! The grammar is ECMA-262 with the flag `u`, extended for schemas written without it:
//! - Any character except ASCII letters and digits may be escaped.
//! - `{`, `}` and `]` are literals where they open or close nothing.
//! - A `-` beside a class like `\w` inside brackets is a hyphen.
//! - A lookahead may have a quantifier, and two groups may have the same name.
//!
//! For valid texts, the result differs from the other mode only in that a character beyond U+FFFF
//! is one character.
//!
//! Backreferences and lookbehind are parsed to their end before they are rejected, so that a syntax
//! error after them is reported first.
//!
//! Invariants: no recursion; groups nest at most [`GROUPS`] deep, so the tree may be walked
//! recursively.

use std::collections::HashMap;

use super::char_set::{CharSet, DIGIT, LAST, LINE_END, SPACE, WORD, property};
use super::{Kind, PatternError};

/// Largest pattern in bytes. A list of a thousand words fits.
pub(super) const LENGTH: usize = 16 << 10;
/// Largest number of open groups.
const GROUPS: usize = 20;
/// Largest number of ranges in all sets; limits the cost of `\p` in many classes.
const RANGES: usize = 50_000;
/// Largest count of a repetition. The number of states limits its expansion.
const COUNT: u32 = 1_000_000;

/// One part of a pattern.
#[derive(Debug)]
pub(super) enum Node {
    /// One character of the set with this number.
    CharSet(u32),
    /// A sequence; an empty one is the empty text.
    Concat(Vec<Node>),
    /// A choice.
    Alt(Vec<Node>),
    /// A repetition of `min` to `max` times.
    Repeat { node: Box<Node>, min: u32, max: Option<u32> },
    /// The start of the text.
    Start,
    /// The end of the text.
    End,
    /// A word boundary, or with `false` any other position.
    Word(bool),
    /// The text continues with this, or with `negative` does not. `at` is the position of the
    /// lookahead.
    Ahead { node: Box<Node>, negative: bool, at: usize },
}

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    pub(super) sets: Vec<CharSet>,
    /// True if a word boundary occurs.
    pub(super) word: bool,
}

/// The content of an open group.
struct Group {
    kind: GroupKind,
    at: usize,
    branches: Vec<Node>,
    current: Vec<Node>,
}

#[derive(Clone, Copy, PartialEq)]
enum GroupKind {
    Root,
    Plain,
    Ahead { negative: bool },
    Behind,
}

/// An item of a class: one character, or a set that cannot be the end of a range.
enum Item {
    One(u32),
    Many(CharSet),
}

struct Reader<'p> {
    source: &'p str,
    at: usize,
    sets: Vec<CharSet>,
    numbers: HashMap<CharSet, u32>,
    ranges: usize,
    /// Properties by name, because looking one up is slow.
    properties: HashMap<&'p str, CharSet>,
    word: bool,
    groups: u32,
    names: Vec<&'p str>,
    /// Backreferences, checked once all groups are known.
    references: Vec<(usize, u32)>,
    named_references: Vec<(usize, &'p str)>,
    /// The first construct that is not supported.
    unsupported: Option<PatternError>,
}

/// Parses a pattern.
pub(super) fn read(source: &str) -> Result<Tree, PatternError> {
    if source.len() > LENGTH {
        return Err(PatternError::limit(
            LENGTH,
            format!("is longer than {LENGTH} bytes; match a smaller part, or use `enum`"),
        ));
    }
    let mut reader = Reader {
        source,
        at: 0,
        sets: Vec::new(),
        numbers: HashMap::new(),
        ranges: 0,
        properties: HashMap::new(),
        word: false,
        groups: 0,
        names: Vec::new(),
        references: Vec::new(),
        named_references: Vec::new(),
        unsupported: None,
    };
    let root = reader.pattern()?;
    reader.check_references()?;
    match reader.unsupported {
        Some(error) => Err(error),
        None => Ok(Tree { root, sets: reader.sets, word: reader.word }),
    }
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'p str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn pattern(&mut self) -> Result<Node, PatternError> {
        let mut open = Vec::new();
        let mut group = Group::new(GroupKind::Root, 0);
        loop {
            let at = self.at;
            let Some(c) = self.next() else { break };
            // True if a quantifier may follow.
            let mut repeatable = true;
            let node = match c {
                '(' => {
                    if open.len() == GROUPS {
                        let what = format!("nests groups deeper than {GROUPS}; flatten them");
                        return Err(PatternError::limit(at, what));
                    }
                    let kind = self.group_kind(at)?;
                    open.push(std::mem::replace(&mut group, Group::new(kind, at)));
                    continue;
                }
                ')' => {
                    let Some(outer) = open.pop() else {
                        return Err(PatternError::syntax(at, "`)` closes no group; write \\)"));
                    };
                    let inner = std::mem::replace(&mut group, outer);
                    repeatable = inner.kind != GroupKind::Behind;
                    inner.into_node()
                }
                '|' => {
                    let branch = concat(std::mem::take(&mut group.current));
                    group.branches.push(branch);
                    continue;
                }
                '^' | '$' => {
                    repeatable = false;
                    if c == '^' { Node::Start } else { Node::End }
                }
                '.' => self.set(CharSet::of(LINE_END).negated())?,
                '[' => {
                    let set = self.class(at)?;
                    self.set(set)?
                }
                '\\' => {
                    let node = self.escape(at)?;
                    repeatable = !matches!(node, Node::Word(_));
                    node
                }
                '*' | '+' | '?' => return Err(nothing_to_repeat(at)),
                '{' if self.braces(at)?.is_some() => return Err(nothing_to_repeat(at)),
                c => self.set(CharSet::of(&[(c.into(), c.into())]))?,
            };
            let node = self.repeated(node, repeatable)?;
            group.current.push(node);
        }
        if group.kind != GroupKind::Root {
            return Err(PatternError::syntax(group.at, "`(` is never closed; write \\( for the character"));
        }
        Ok(group.close())
    }

    /// The kind of a group, from the characters after its parenthesis.
    fn group_kind(&mut self, at: usize) -> Result<GroupKind, PatternError> {
        if !self.eat("?") {
            self.groups += 1;
            return Ok(GroupKind::Plain);
        }
        if self.eat(":") {
            return Ok(GroupKind::Plain);
        }
        for (spelling, negative) in [("=", false), ("!", true)] {
            if self.eat(spelling) {
                return Ok(GroupKind::Ahead { negative });
            }
        }
        if self.eat("<=") || self.eat("<!") {
            self.refuse(at, "a lookbehind cannot be run in linear time here; match the text before it as well, or use a lookahead after `^`");
            return Ok(GroupKind::Behind);
        }
        if self.eat("<") {
            let name = self.name(at)?;
            self.names.push(name);
            self.groups += 1;
            return Ok(GroupKind::Plain);
        }
        Err(PatternError::syntax(
            at,
            "`(?` does not start a group of ECMA-262 (flags such as (?i) are not supported); use (?:…), (?=…), (?!…) or (?<name>…), and list both cases as in [Aa]",
        ))
    }

    /// Parses a name up to `>`.
    fn name(&mut self, at: usize) -> Result<&'p str, PatternError> {
        let wrong = || PatternError::syntax(at, "the group's name is not an identifier; write (?<name>…)");
        let name = self.rest().split_once('>').map(|(name, _)| name).ok_or_else(wrong)?;
        let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(fits) {
            return Err(wrong());
        }
        self.at += name.len() + 1;
        Ok(name)
    }

    fn refuse(&mut self, at: usize, what: &str) {
        self.unsupported.get_or_insert_with(|| PatternError::new(Kind::Unsupported, at, what));
    }

    /// Applies the quantifier after a node, if there is one.
    fn repeated(&mut self, node: Node, repeatable: bool) -> Result<Node, PatternError> {
        let at = self.at;
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.at += 1;
                match self.braces(at)? {
                    Some(counts) => counts,
                    None => {
                        self.at = at;
                        return Ok(node);
                    }
                }
            }
            _ => return Ok(node),
        };
        if self.at == at {
            self.at += 1;
        }
        if !repeatable {
            return Err(PatternError::syntax(
                at,
                "a quantifier after ^, $, \\b, \\B or a lookbehind has nothing to repeat; remove it",
            ));
        }
        // Lazy and greedy quantifiers match the same texts.
        self.eat("?");
        Ok(Node::Repeat { node: Box::new(node), min, max })
    }

    /// Parses the counts after a `{`. `None`, without consuming anything, if it is not a
    /// quantifier.
    fn braces(&mut self, at: usize) -> Result<Option<(u32, Option<u32>)>, PatternError> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b',').count();
        let Some((inside, "}")) = rest.get(..length).zip(rest.get(length..length + 1)) else {
            return Ok(None);
        };
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let count = |s: &str| s.parse::<u32>().ok().filter(|n| *n <= COUNT);
        let (min, max) = inside
            .split_once(',')
            .map_or((inside, Some(inside)), |(min, max)| (min, Some(max).filter(|m| !m.is_empty())));
        if !digits(min) || !max.is_none_or(digits) {
            return Ok(None);
        }
        let too_many = || PatternError::limit(at, format!("repeats more than {COUNT} times; use maxLength"));
        let min = count(min).ok_or_else(too_many)?;
        let max = match max {
            Some(max) => Some(count(max).ok_or_else(too_many)?),
            None => None,
        };
        if max.is_some_and(|max| max < min) {
            return Err(PatternError::syntax(at, "the counts of this quantifier are out of order"));
        }
        self.at += inside.len() + 1;
        Ok(Some((min, max)))
    }

    /// The node of a set; equal sets share a number.
    fn set(&mut self, set: CharSet) -> Result<Node, PatternError> {
        if let Some(number) = self.numbers.get(&set) {
            return Ok(Node::CharSet(*number));
        }
        self.ranges += set.ranges().len();
        if self.ranges > RANGES {
            return Err(PatternError::limit(
                self.at,
                format!("has more than {RANGES} ranges in its classes; use fewer \\p"),
            ));
        }
        let number = self.sets.len() as u32;
        self.sets.push(set.clone());
        self.numbers.insert(set, number);
        Ok(Node::CharSet(number))
    }

    /// Parses an escape outside of brackets; the backslash is at `at`.
    fn escape(&mut self, at: usize) -> Result<Node, PatternError> {
        match self.peek() {
            Some('b' | 'B') => {
                self.word = true;
                Ok(Node::Word(self.next() == Some('b')))
            }
            Some('1'..='9') => {
                let digits =
                    self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
                let number = self.rest().get(..digits).and_then(|d| d.parse().ok()).unwrap_or(u32::MAX);
                self.at += digits;
                self.references.push((at, number));
                self.refuse(at, "a backreference cannot be run in linear time; list the alternatives, or check equality in the handler");
                Ok(Node::Concat(Vec::new()))
            }
            Some('k') => {
                self.at += 1;
                if !self.eat("<") {
                    return Err(PatternError::syntax(at, "`\\k` without <name> is not an escape"));
                }
                let name = self.name(at)?;
                self.named_references.push((at, name));
                self.refuse(at, "a backreference cannot be run in linear time; list the alternatives, or check equality in the handler");
                Ok(Node::Concat(Vec::new()))
            }
            _ => match self.character(at)? {
                Item::Many(set) => self.set(set),
                Item::One(c) => {
                    if char::from_u32(c).is_none() {
                        return Err(PatternError::syntax(
                            at,
                            "half a surrogate pair matches nothing; write both halves or \\u{…}",
                        ));
                    }
                    self.set(CharSet::of(&[(c, c)]))
                }
            },
        }
    }

    fn check_references(&self) -> Result<(), PatternError> {
        for (at, number) in &self.references {
            if *number > self.groups {
                return Err(PatternError::syntax(
                    *at,
                    "refers to a group that does not exist; for a character write \\xHH",
                ));
            }
        }
        for (at, name) in &self.named_references {
            if !self.names.contains(name) {
                return Err(PatternError::syntax(*at, "refers to a group that does not exist"));
            }
        }
        Ok(())
    }

    /// Parses an escape for a character or set, inside or outside of brackets.
    fn character(&mut self, at: usize) -> Result<Item, PatternError> {
        let Some(c) = self.next() else {
            return Err(PatternError::syntax(
                at,
                "a lone `\\` ends the pattern; write \\\\ for the character",
            ));
        };
        let one = |c: u32| Ok(Item::One(c));
        let many = |ranges, negative| {
            let set = CharSet::of(ranges);
            Ok(Item::Many(if negative { set.negated() } else { set }))
        };
        match c {
            'd' | 'D' => many(DIGIT, c == 'D'),
            'w' | 'W' => many(WORD, c == 'W'),
            's' | 'S' => many(SPACE, c == 'S'),
            't' => one(0x09),
            'n' => one(0x0A),
            'v' => one(0x0B),
            'f' => one(0x0C),
            'r' => one(0x0D),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => one(0),
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => one(u32::from(letter) % 32),
                _ => {
                    Err(PatternError::syntax(at, "`\\c` needs a letter; write \\\\c for the two characters"))
                }
            },
            'x' => self
                .hex(2)
                .map(Item::One)
                .ok_or_else(|| PatternError::syntax(at, "`\\x` needs two hexadecimal digits")),
            'u' => self.unicode().map(Item::One).ok_or_else(|| {
                PatternError::syntax(at, "`\\u` needs four hexadecimal digits, or {…} up to 10FFFF")
            }),
            'p' | 'P' => {
                let name =
                    self.rest().strip_prefix('{').and_then(|r| r.split_once('}')).map(|(name, _)| name);
                let Some(name) = name else {
                    return Err(PatternError::syntax(at, "a Unicode property is written \\p{…}"));
                };
                self.at += name.len() + 2;
                let set = match self.properties.get(name) {
                    Some(set) => set.clone(),
                    None => property(name).map_err(|why| PatternError::new(Kind::Unsupported, at, why))?,
                };
                self.properties.insert(name, set.clone());
                Ok(Item::Many(if c == 'P' { set.negated() } else { set }))
            }
            c if c.is_ascii_alphanumeric() => Err(PatternError::syntax(
                at,
                format!("`\\{c}` is not an escape of ECMA-262; write {c} for the character"),
            )),
            c => one(c.into()),
        }
    }

    /// Parses this many hexadecimal digits.
    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits).filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let value = u32::from_str_radix(text, 16).ok()?;
        self.at += digits;
        Some(value)
    }

    /// Parses the escape after `\u`; a surrogate pair is one character.
    fn unicode(&mut self) -> Option<u32> {
        if self.eat("{") {
            let (digits, _) = self.rest().split_once('}')?;
            let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let significant = Some(digits.trim_start_matches('0')).filter(|_| hex)?;
            let value = if significant.is_empty() { 0 } else { u32::from_str_radix(significant, 16).ok()? };
            self.at += digits.len() + 1;
            return Some(value).filter(|v| *v <= LAST);
        }
        let high = self.hex(4)?;
        let behind = self.at;
        if (0xD800..0xDC00).contains(&high) && self.eat("\\u") {
            match self.hex(4) {
                Some(low) if (0xDC00..0xE000).contains(&low) => {
                    return Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
                }
                _ => self.at = behind,
            }
        }
        Some(high)
    }

    /// Parses a class; its `[` at `at` is consumed.
    fn class(&mut self, at: usize) -> Result<CharSet, PatternError> {
        let negative = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            let from = self.at;
            let Some(first) = self.item()? else { break };
            let before = self.at;
            // A range, unless the hyphen is the last character of the class.
            let second = if self.eat("-") && !self.rest().starts_with(']') { self.item()? } else { None };
            match (first, second) {
                (Item::One(low), Some(Item::One(high))) if low <= high => ranges.push((low, high)),
                (Item::One(_), Some(Item::One(_))) => {
                    return Err(PatternError::syntax(from, "the range is out of order"));
                }
                (first, None) => {
                    self.at = before;
                    add(&mut ranges, first);
                }
                // A set cannot be the end of a range, so the hyphen is a literal.
                (first, Some(second)) => {
                    ranges.push((0x2D, 0x2D));
                    add(&mut ranges, first);
                    add(&mut ranges, second);
                }
            }
        }
        if !self.eat("]") {
            return Err(PatternError::syntax(at, "`[` is never closed; write \\[ for the character"));
        }
        let set = CharSet::of(&ranges);
        Ok(if negative { set.negated() } else { set })
    }

    /// Parses one item of a class. `None` at the end of the class and of the pattern.
    fn item(&mut self) -> Result<Option<Item>, PatternError> {
        let at = self.at;
        let Some(c) = self.peek().filter(|c| *c != ']') else { return Ok(None) };
        self.at += c.len_utf8();
        if c != '\\' {
            return Ok(Some(Item::One(c.into())));
        }
        if self.eat("b") {
            return Ok(Some(Item::One(0x08)));
        }
        self.character(at).map(Some)
    }
}

fn add(ranges: &mut Vec<(u32, u32)>, item: Item) {
    match item {
        Item::One(c) => ranges.push((c, c)),
        Item::Many(set) => ranges.extend(set.ranges()),
    }
}

fn nothing_to_repeat(at: usize) -> PatternError {
    PatternError::syntax(
        at,
        "this quantifier has nothing to repeat (`a++` is not of ECMA-262); escape it for the character",
    )
}

fn concat(mut nodes: Vec<Node>) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            Node::Concat(nodes)
        }
        None => Node::Concat(nodes),
    }
}

impl Group {
    fn new(kind: GroupKind, at: usize) -> Group {
        Group { kind, at, branches: Vec::new(), current: Vec::new() }
    }

    fn close(mut self) -> Node {
        let last = concat(self.current);
        if self.branches.is_empty() {
            return last;
        }
        self.branches.push(last);
        Node::Alt(self.branches)
    }

    fn into_node(self) -> Node {
        let (kind, at) = (self.kind, self.at);
        let node = self.close();
        match kind {
            GroupKind::Ahead { negative } => Node::Ahead { node: Box::new(node), negative, at },
            GroupKind::Plain | GroupKind::Root | GroupKind::Behind => node,
        }
    }
}
