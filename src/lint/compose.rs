//! Which subschemas stand alone and which are applied together with others to one value.
//!
//! Closing a schema (`additionalProperties: false`) is right where it alone says what members an
//! object has, and wrong where another schema says more about the same object. This finds out:
//! combinators, references beside other keywords, overlapping patterns, and definitions that are
//! used in any of these ways. It changes nothing.
//!
//! # Invariants
//! - When in doubt a site is shared: a shared site is never changed.
//! - Marks only ever grow, each site is visited once for each mark, and a group is at most
//!   [`GROUP`] sites, so the cost is bounded by the size of the schema.

use std::collections::{HashMap, HashSet};

use super::walk::{ROOT, Role, Survey, Target, has_type, is_object};
use crate::json::{Kind, Value};

/// Sites looked at for one composition; beyond, everything in it counts as shared.
const GROUP: usize = 250;

/// Passes over a schema to find what says nothing of members; each settles at least one more link
/// of a chain of references.
const ROUNDS: usize = 256;

/// How a site relates to the schemas within it that are applied to the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// None are.
    Plain,
    /// It is nothing but a reference or an `allOf` of one.
    Wrapper,
    /// It is nothing but alternatives, each a whole schema.
    Union,
    /// It says something and others say more.
    Composed,
}

/// How far marks are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// In the site itself.
    Direct,
    /// Also in everything that is applied to the same value.
    Groups,
}

/// The marks of one schema's sites.
pub(super) struct Composition {
    pub forms: Vec<Form>,
    /// Applied together with another schema that may speak of the same members.
    pub shared: Vec<bool>,
    /// Within a condition, where making a schema stricter can make the whole laxer.
    pub asked: Vec<bool>,
    /// Takes objects and says nothing of their members.
    pub indifferent: Vec<bool>,
}

/// Keywords that demand nothing.
pub(super) fn is_note(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$comment"
            | "$schema"
            | "$id"
            | "$anchor"
            | "$dynamicAnchor"
            | "$defs"
            | "definitions"
            | "$vocabulary"
    ) || keyword.starts_with("x-")
}

impl Composition {
    pub(super) fn new(survey: &Survey<'_>) -> Composition {
        let count = survey.sites.len();
        let forms = (0..count).map(|at| form(survey, at)).collect();
        let indifferent = indifferent(survey);
        let mut marks =
            Composition { forms, shared: vec![false; count], asked: vec![false; count], indifferent };
        if survey.rebased {
            marks.shared.fill(true);
        }
        // What is cheap to see goes first, so that fewer groups have to be looked through.
        for look in [Search::Direct, Search::Groups] {
            let mut work: Vec<usize> = (0..count).rev().collect();
            while let Some(at) = work.pop() {
                marks.spread(survey, at, look, &mut work);
            }
        }
        marks
    }

    fn share(&mut self, at: usize, work: &mut Vec<usize>) {
        if !self.shared[at] {
            self.shared[at] = true;
            work.push(at);
        }
    }

    /// Marks what follows from the marks of one site.
    fn spread(&mut self, survey: &Survey<'_>, at: usize, search: Search, work: &mut Vec<usize>) {
        let (shared, asked) = (self.shared[at], self.asked[at]);
        let form = self.forms[at];
        let target = survey.target(at);
        if let Target::Site(target) = target {
            if shared || asked || form == Form::Composed {
                self.share(target, work);
            }
        }
        let overlap = self.overlap(survey, at, search);
        for child in survey.children(at) {
            let site = survey.site(child);
            // A definition is applied where it is referred to, not where it stands.
            if site.role == Role::Definition {
                continue;
            }
            if (asked || site.role == Role::Condition) && !self.asked[child] {
                self.asked[child] = true;
                work.push(child);
            }
            let alone = match site.role {
                Role::Branch => form != Form::Composed,
                _ => !overlap.covers(site.role, site.name()),
            };
            if shared || !alone {
                self.share(child, work);
            }
        }
    }

    /// Which children of a site another schema of its group speaks of as well.
    fn overlap<'d>(&self, survey: &Survey<'d>, at: usize, search: Search) -> Overlap<'d> {
        let patterns = survey.site(at).value.get("patternProperties").map_or(0, Value::len);
        let members = survey.site(at).value.get("properties").map_or(0, Value::len);
        let mut overlap = Overlap {
            members: patterns > 0,
            patterns: patterns > 1 || patterns > 0 && members > 0,
            ..Overlap::default()
        };
        if self.forms[at] != Form::Composed || self.shared[at] || search == Search::Direct {
            return overlap;
        }
        let Some(group) = Group::of(survey, at) else {
            return Overlap { members: true, patterns: true, items: true, extra: true, ..overlap };
        };
        for other in group.sites.iter().copied().filter(|other| *other != at) {
            let value = survey.site(other).value;
            if value.get("patternProperties").is_some() {
                overlap.members = true;
                overlap.patterns = true;
            }
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if value.get(keyword).is_some_and(|v| v.kind() == Kind::Object) {
                    overlap.members = true;
                    overlap.patterns = true;
                    overlap.extra = true;
                }
            }
            if let Some(properties) = value.get("properties") {
                overlap.patterns |= !properties.is_empty();
                overlap.extra |= !properties.is_empty();
                overlap.names.extend(properties.members().map(|(name, _)| name));
            }
            overlap.items |= ["items", "prefixItems", "additionalItems", "unevaluatedItems"]
                .iter()
                .any(|k| value.get(k).is_some());
        }
        overlap
    }
}

#[derive(Default)]
struct Overlap<'d> {
    members: bool,
    patterns: bool,
    items: bool,
    extra: bool,
    names: HashSet<&'d str>,
}

impl Overlap<'_> {
    fn covers(&self, role: Role, name: Option<&str>) -> bool {
        match role {
            Role::Member => self.members || name.is_some_and(|n| self.names.contains(n)),
            Role::PatternMember => self.patterns,
            Role::Extra => self.extra,
            Role::Item => self.items,
            Role::Root | Role::Branch | Role::Condition | Role::Definition => false,
        }
    }
}

fn form(survey: &Survey<'_>, at: usize) -> Form {
    let value = survey.site(at).value;
    let reference = survey.target(at) != Target::None;
    let mut branches = 0;
    let mut words = [false; 3];
    for child in survey.children(at) {
        let site = survey.site(child);
        match site.keyword {
            "allOf" => words[0] = true,
            "anyOf" => words[1] = true,
            "oneOf" => words[2] = true,
            "then" | "else" | "dependentSchemas" | "dependencies" | "if" | "not" => return Form::Composed,
            _ => continue,
        }
        branches += 1;
    }
    if reference && survey.old {
        return Form::Wrapper;
    }
    if !reference && branches == 0 {
        return Form::Plain;
    }
    let kinds = words.iter().filter(|w| **w).count() + usize::from(reference);
    let bare = value.members().all(|(keyword, _)| {
        is_note(keyword)
            || matches!(
                keyword,
                "type" | "allOf" | "anyOf" | "oneOf" | "$ref" | "$dynamicRef" | "$recursiveRef"
            )
    });
    if !bare || kinds != 1 {
        return Form::Composed;
    }
    if reference || words[0] && branches == 1 {
        return if value.get("$ref").is_some() || words[0] { Form::Wrapper } else { Form::Composed };
    }
    let whole = |child: usize| {
        let value = survey.site(child).value;
        value.kind() == Kind::Bool
            || ["type", "properties", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"]
                .iter()
                .any(|k| value.get(k).is_some())
    };
    let all_whole = survey.children(at).filter(|c| survey.site(*c).role == Role::Branch).all(whole);
    if !words[0] && all_whole { Form::Union } else { Form::Composed }
}

/// For each site whether it takes objects without a word on their members. A circle of references
/// says nothing, and counts as if it did.
fn indifferent(survey: &Survey<'_>) -> Vec<bool> {
    let mut found = vec![false; survey.sites.len()];
    for _ in 0..ROUNDS {
        let mut grown = false;
        // Children stand behind their parents, so most chains settle in one pass.
        for at in (0..survey.sites.len()).rev() {
            if !found[at] && is_indifferent(survey, at, &found) {
                found[at] = true;
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    found
}

fn is_indifferent(survey: &Survey<'_>, at: usize, found: &[bool]) -> bool {
    let value = survey.site(at).value;
    if let Some(verdict) = value.as_bool() {
        return verdict;
    }
    let typed = value.get("type").is_some() && !has_type(value, "object");
    let chosen = value.get("const").is_some() || value.get("enum").is_some();
    if typed || chosen || speaks_of_members(value) {
        return false;
    }
    let referred = match survey.target(at) {
        Target::Site(target) => found[target],
        Target::Unknown => false,
        Target::None => true,
    };
    // Of alternatives one is enough; all else has to be silent.
    let (mut any, mut one) = ([true; 2], [false; 2]);
    for child in survey.children(at) {
        match survey.site(child).keyword {
            "anyOf" => (any[0], one[0]) = (false, one[0] || found[child]),
            "oneOf" => (any[1], one[1]) = (false, one[1] || found[child]),
            "allOf" | "then" | "else" if !found[child] => return false,
            "if" | "not" if speaks_of_members(survey.site(child).value) => return false,
            _ => {}
        }
    }
    referred && (any[0] || one[0]) && (any[1] || one[1])
}

/// Whether a schema itself names members of objects, or says what all of them are.
fn speaks_of_members(schema: Value<'_>) -> bool {
    schema.members().any(|(keyword, _)| {
        matches!(
            keyword,
            "properties"
                | "patternProperties"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "required"
                | "dependentRequired"
                | "dependentSchemas"
                | "dependencies"
        )
    })
}

/// A site and everything that is applied to the same value because of it.
pub(super) struct Group {
    /// The first one is the site itself.
    pub sites: Vec<usize>,
    /// For each, the place in `sites` of the one that applies it.
    above: Vec<usize>,
    /// A reference leads elsewhere.
    pub unknown: bool,
}

impl Group {
    /// `None` when there are too many.
    pub(super) fn of(survey: &Survey<'_>, at: usize) -> Option<Group> {
        let mut group = Group { sites: vec![at], above: vec![0], unknown: false };
        let mut seen = HashSet::from([at]);
        let mut next = 0;
        while next < group.sites.len() {
            let here = group.sites[next];
            let mut add = |site: usize| {
                if seen.insert(site) {
                    group.sites.push(site);
                    group.above.push(next);
                }
            };
            match survey.target(here) {
                Target::Site(target) => add(target),
                Target::Unknown => group.unknown = true,
                Target::None => {}
            }
            for child in survey.children(here) {
                let site = survey.site(child);
                if site.role == Role::Branch || matches!(site.keyword, "if" | "not") {
                    add(child);
                }
            }
            if group.sites.len() > GROUP {
                return None;
            }
            next += 1;
        }
        Some(group)
    }

    /// Whether some site of the group has this member.
    pub(super) fn any_has(&self, survey: &Survey<'_>, keyword: &str) -> bool {
        self.sites.iter().any(|at| survey.site(*at).value.get(keyword).is_some())
    }

    /// Whether the group as a whole describes objects.
    pub(super) fn is_object(&self, survey: &Survey<'_>) -> bool {
        let first = self.sites.first().is_some_and(|at| is_object(survey.site(*at).value));
        let typed = self.sites.first().is_some_and(|at| survey.site(*at).value.get("type").is_some());
        first || !typed && self.sites.iter().any(|at| is_object(survey.site(*at).value))
    }

    /// Whether one alternative takes any object while only others declare some of the members:
    /// closing the group would refuse a member it allows as soon as the other does not hold.
    pub(super) fn has_loophole(&self, survey: &Survey<'_>, marks: &Composition) -> bool {
        let alternative = |at: &usize| matches!(survey.site(*at).keyword, "anyOf" | "oneOf");
        if !self.sites.iter().any(|at| alternative(at) && marks.indifferent[*at]) {
            return false;
        }
        let mut always: Vec<bool> = Vec::with_capacity(self.sites.len());
        let mut known = HashSet::new();
        for (place, at) in self.sites.iter().enumerate() {
            let above = self.above.get(place).copied().unwrap_or_default();
            let referred = self.sites.get(above).is_some_and(|a| survey.target(*a) == Target::Site(*at));
            let with_above = referred || survey.site(*at).keyword == "allOf";
            always.push(place == 0 || with_above && always.get(above) == Some(&true));
            if always.last() == Some(&true) {
                known.extend(
                    survey
                        .site(*at)
                        .value
                        .get("properties")
                        .map(Value::members)
                        .into_iter()
                        .flatten()
                        .map(|(n, _)| n),
                );
            }
        }
        self.sites.iter().zip(&always).filter(|(_, always)| !**always).any(|(at, _)| {
            let value = survey.site(*at).value;
            let mut own = value.get("properties").map(Value::members).into_iter().flatten();
            value.get("patternProperties").is_some() || own.any(|(name, _)| !known.contains(name))
        })
    }

    /// A name that some site of the group wants to be there while neither it nor one that applies
    /// it declares that name: closing the group would forbid what it demands.
    pub(super) fn undeclared<'d>(&self, survey: &Survey<'d>) -> Option<&'d str> {
        let mut known: HashMap<usize, HashSet<&'d str>> = HashMap::new();
        for (place, at) in self.sites.iter().enumerate() {
            let value = survey.site(*at).value;
            let own = value.get("properties").map(Value::members).into_iter().flatten().map(|(n, _)| n);
            let mut names: HashSet<&'d str> = own.collect();
            if place > 0 {
                if let Some(above) = self.above.get(place).and_then(|a| known.get(a)) {
                    names.extend(above.iter().copied());
                }
            }
            if let Some(missing) = wanted(value).into_iter().find(|n| !names.contains(n)) {
                return Some(missing);
            }
            // What only an `if` declares is not declared where the `if` does not hold.
            if survey.site(*at).role == Role::Condition {
                let above = self.above.get(place).and_then(|a| known.get(a));
                if let Some(only) = names.iter().find(|n| !above.is_some_and(|a| a.contains(*n))) {
                    return Some(only);
                }
            }
            known.insert(place, names);
        }
        None
    }
}

/// Every name a schema itself wants to be there, or whose being there it makes something of.
pub(super) fn wanted<'d>(schema: Value<'d>) -> Vec<&'d str> {
    let mut names = Vec::new();
    if let Some(required) = schema.get("required") {
        names.extend(required.items().filter_map(Value::as_str));
    }
    for keyword in ["dependentRequired", "dependencies"] {
        for (_, needs) in schema.get(keyword).map(Value::members).into_iter().flatten() {
            names.extend(needs.items().filter_map(Value::as_str));
        }
    }
    names
}

/// Whether the schema, taken as a whole, is closed: members nobody declared are refused, or are
/// given a schema that says something.
pub(super) fn is_closed(schema: Value<'_>) -> bool {
    ["additionalProperties", "unevaluatedProperties"].iter().any(|keyword| match schema.get(keyword) {
        Some(extra) => extra.as_bool() == Some(false) || extra.members().any(|(k, _)| !is_note(k)),
        None => false,
    })
}

/// Whether a site is closed by itself or by one that applies it to the same value.
pub(super) fn is_closed_from_above(survey: &Survey<'_>, at: usize) -> bool {
    let mut here = at;
    loop {
        if is_closed(survey.site(here).value) {
            return true;
        }
        if here == ROOT || survey.site(here).role != Role::Branch {
            return false;
        }
        here = survey.parent(here);
    }
}
