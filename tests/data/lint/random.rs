//! Random catalogs: the autofix is idempotent and keeps complete values valid.
//!
//! `TEST_LINT_CATALOGS` is the number of catalogs (default 150), `TEST_LINT_SEED` the first seed.

use tinymcp::json::{Doc, Kind, Value};
use tinymcp::lint::{self, OptionalProperties, Options, PROFILES, Snapshot};
use tinymcp::schema::Schema;

/// SplitMix64 random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const NAMES: &[&str] = &["a", "b", "c", "d", "kind"];
const DEFS: &[&str] = &["p", "q", "r"];

/// A random schema with at most `depth` more levels.
fn schema(r: &mut Random, depth: usize) -> String {
    let leaf = [
        r#"{"type":"string","maxLength":5}"#,
        r#"{"type":"integer","minimum":1,"maximum":3.0}"#,
        r#"{"type":["string","null"]}"#,
        r#"{"enum":["x","y"]}"#,
        r#"{"const":1.0}"#,
        r#"{"type":"boolean"}"#,
        r#"{"type":"null"}"#,
        "{}",
        "true",
        "false",
        r#"{"type":"integer","minimum":3,"maximum":2}"#,
    ];
    if depth == 0 {
        return r.pick(&leaf).to_owned();
    }
    let reference = |r: &mut Random| format!(r##"{{"$ref":"#/$defs/{}"}}"##, r.pick(DEFS));
    match r.below(12) {
        0..=2 => r.pick(&leaf).to_owned(),
        3 => reference(r),
        4 => {
            let extra = r.pick(&["", r#","minItems":1"#, r#","maxItems":4"#, r#","uniqueItems":true"#]);
            format!(r#"{{"type":"array","items":{}{extra}}}"#, schema(r, depth - 1))
        }
        5 => {
            let keyword = r.pick(&["anyOf", "oneOf", "allOf"]);
            format!(r#"{{"{keyword}":[{},{}]}}"#, schema(r, depth - 1), schema(r, depth - 1))
        }
        6 => format!(r#"{{"anyOf":[{},{{"type":"null"}}],"description":"n"}}"#, schema(r, depth - 1)),
        7 => format!(r#"{{"allOf":[{}],"title":"w"}}"#, reference(r)),
        _ => object(r, depth, ""),
    }
}

fn object(r: &mut Random, depth: usize, tail: &str) -> String {
    let mut names: Vec<&str> = NAMES.to_vec();
    names.truncate(r.below(4) + 1);
    let members: Vec<String> = names.iter().map(|n| format!(r#""{n}":{}"#, schema(r, depth - 1))).collect();
    let mut text = format!(r#"{{"type":"object","properties":{{{}}}"#, members.join(","));
    if r.below(3) == 0 {
        let required = r.pick(&[r#"[]"#, r#"["a"]"#, r#"["a","zz"]"#, r#"["kind"]"#]);
        text.push_str(&format!(r#","required":{required}"#));
    }
    match r.below(14) {
        0 => text.push_str(r#","additionalProperties":true"#),
        1 => text.push_str(r#","additionalProperties":false"#),
        2 => text.push_str(&format!(r#","additionalProperties":{}"#, schema(r, depth - 1))),
        3 => text.push_str(r#","maxProperties":1"#),
        4 => text.push_str(r#","minProperties":2"#),
        5 => text.push_str(r#","dependentRequired":{"a":["b"]}"#),
        6 => text.push_str(&format!(r#","patternProperties":{{"^a":{}}}"#, schema(r, depth - 1))),
        _ => {}
    }
    match r.below(10) {
        0 => text.push_str(r#","oneOf":[{"required":["a"]},{"required":["b"]}]"#),
        1 => text.push_str(&format!(r#","allOf":[{}]"#, object(r, depth.saturating_sub(1).max(1), ""))),
        2 => text.push_str(&format!(r##","$ref":"#/$defs/{}""##, r.pick(DEFS))),
        3 => text.push_str(r#","not":{"required":["a","b"]}"#),
        4 => text.push_str(r#","if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}"#),
        _ => {}
    }
    text + tail + "}"
}

fn catalog(r: &mut Random) -> String {
    let tools: Vec<String> = (0..r.below(2) + 1)
        .map(|i| {
            let defs: Vec<String> = DEFS.iter().map(|d| format!(r#""{d}":{}"#, schema(r, 2))).collect();
            let root = object(r, 3, &format!(r#","$defs":{{{}}}"#, defs.join(",")));
            format!(r#"{{"name":"t{i}","inputSchema":{root}}}"#)
        })
        .collect();
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

/// A value with each declared member and no other, to this depth. Often valid.
fn value(r: &mut Random, root: Value<'_>, schema: Value<'_>, depth: usize) -> String {
    if depth == 0 {
        return "null".to_owned();
    }
    if let Some(reference) = schema.get("$ref").and_then(|v| v.as_str()) {
        if schema.get("properties").is_none() {
            let target = root.pointer(&reference[1..]).unwrap();
            return value(r, root, target, depth - 1);
        }
    }
    if let Some(only) = schema.get("const").or_else(|| schema.get("enum")?.index(0)) {
        return only.raw().to_owned();
    }
    if schema.get("properties").is_none() {
        for keyword in ["anyOf", "oneOf", "allOf"] {
            if let Some(branches) = schema.get(keyword) {
                let branch = branches.index(r.below(branches.len())).unwrap();
                return value(r, root, branch, depth - 1);
            }
        }
    }
    let kind = schema.get("type").and_then(|t| t.as_str().or_else(|| t.index(r.below(t.len()))?.as_str()));
    match kind {
        Some("string") => r#""s""#.to_owned(),
        Some("integer") => "2".to_owned(),
        Some("boolean") => "true".to_owned(),
        Some("array") => match r.below(2) {
            0 if schema.get("minItems").is_none() => "[]".to_owned(),
            _ => format!("[{}]", value(r, root, schema.get("items").unwrap(), depth - 1)),
        },
        Some("object") => {
            let mut members: Vec<(String, String)> = Vec::new();
            let mut parts = vec![schema];
            // `allOf` and a reference beside it declare members as well.
            if let Some(branches) = schema.get("allOf") {
                parts.extend(branches.items());
            }
            for part in parts {
                for (name, inner) in part.get("properties").map(Value::members).into_iter().flatten() {
                    if members.iter().all(|(n, _)| n != name) {
                        members.push((name.to_owned(), value(r, root, inner, depth - 1)));
                    }
                }
            }
            let text: Vec<String> = members.into_iter().map(|(n, v)| format!(r#""{n}":{v}"#)).collect();
            format!("{{{}}}", text.join(","))
        }
        _ => "null".to_owned(),
    }
}

/// Whether every object of the value has all members that its schema declares. False for values
/// that [`value`] truncated.
fn complete(root: Value<'_>, schema: Value<'_>, value: Value<'_>, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    let again = |s: Value<'_>, v: Value<'_>| complete(root, s, v, depth - 1);
    let reference = schema.get("$ref").and_then(|v| v.as_str()).map(|r| root.pointer(&r[1..]).unwrap());
    reference.is_none_or(|target| again(target, value))
        && ["anyOf", "oneOf", "allOf"]
            .iter()
            .all(|k| schema.get(k).map(Value::items).into_iter().flatten().all(|branch| again(branch, value)))
        && match value.kind() {
            Kind::Object => schema
                .get("properties")
                .map(Value::members)
                .into_iter()
                .flatten()
                .all(|(n, s)| value.get(n).is_some_and(|v| again(s, v))),
            Kind::Array => schema.get("items").is_none_or(|s| value.items().all(|v| again(s, v))),
            _ => true,
        }
}

/// Whether every member of every object is declared by a schema that accepts the object. The
/// members of one alternative are not declared by another. An empty alternative accepts any member.
fn declared(root: Value<'_>, schema: Value<'_>, value: Value<'_>, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    let defs = root.get("$defs").map_or("{}", Value::raw);
    let holds = |branch: Value<'_>| {
        let alone = format!(r#"{{"allOf":[{}],"$defs":{defs}}}"#, branch.raw());
        Schema::parse(&alone).is_ok_and(|s| s.is_valid(value))
    };
    let mut work = vec![(schema, false)];
    let mut applied = Vec::new();
    while let Some((schema, alternative)) = work.pop() {
        if applied.len() > 200 {
            return false;
        }
        if alternative
            && (schema.as_bool() == Some(true) || schema.kind() == Kind::Object && schema.is_empty())
        {
            return true;
        }
        applied.push(schema);
        if let Some(reference) = schema.get("$ref").and_then(|v| v.as_str()) {
            work.push((root.pointer(&reference[1..]).unwrap(), alternative && schema.len() == 1));
        }
        work.extend(schema.get("allOf").map(Value::items).into_iter().flatten().map(|s| (s, false)));
        for keyword in ["anyOf", "oneOf"] {
            let branches = schema.get(keyword).map(Value::items).into_iter().flatten();
            work.extend(branches.filter(|b| holds(*b)).map(|s| (s, true)));
        }
    }
    match value.kind() {
        Kind::Object => value.members().all(|(name, inner)| {
            let mut by = applied.iter().filter_map(|s| s.get("properties")?.get(name)).peekable();
            by.peek().is_some() && by.all(|s| declared(root, s, inner, depth - 1))
        }),
        Kind::Array => {
            let mut items = applied.iter().filter_map(|s| s.get("items"));
            items.all(|s| value.items().all(|v| declared(root, s, v, depth - 1)))
        }
        _ => true,
    }
}

#[test]
fn the_fix_of_random_catalogs_is_idempotent_and_keeps_values_valid() {
    let setting = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let count = setting("TEST_LINT_CATALOGS", 150);
    let first = setting("TEST_LINT_SEED", 1);
    let (mut changed, mut kept, mut copies) = (0, 0, 0);
    for seed in first..first + count {
        let mut r = Random(seed);
        let text = catalog(&mut r);
        let loose = Snapshot::parse(&text).unwrap();
        for optional in [OptionalProperties::Require, OptionalProperties::Keep] {
            let fixed = lint::fix(&loose, optional);
            let tight = Snapshot::parse(&fixed.text).expect("the fix writes JSON");
            let again = lint::fix(&tight, optional);
            assert_eq!((again.changes, &again.text), (0, &fixed.text), "seed {seed}\n{text}");
            changed += fixed.changes;
            let before = lint::check(&loose);
            let after = lint::check(&tight);
            let fixable = |report: &lint::Report| report.findings.iter().filter(|f| f.fixable).count();
            if optional == OptionalProperties::Require {
                assert_eq!(fixable(&after), 0, "seed {seed}\n{}", fixed.text);
            }
            assert!(after.criticals <= before.criticals, "seed {seed}\n{text}");
            for (old, new) in loose.tools().zip(tight.tools()) {
                let (old, new) = (old.get("inputSchema").unwrap(), new.get("inputSchema").unwrap());
                let (Ok(before), Ok(after)) = (Schema::compile(old), Schema::compile(new)) else { continue };
                for _ in 0..8 {
                    let value = value(&mut r, old, old, 9);
                    let doc = Doc::parse(&value).unwrap();
                    if before.is_valid(doc.root())
                        && complete(old, old, doc.root(), 24)
                        && declared(old, old, doc.root(), 24)
                    {
                        kept += 1;
                        assert!(after.is_valid(doc.root()), "seed {seed}\n{old}\n{new}\n{value}");
                    }
                }
            }
        }
        let profile = &PROFILES[r.below(PROFILES.len())];
        if let Ok(simple) = lint::simplify(&loose, profile) {
            copies += 1;
            let copy =
                Snapshot::parse(&simple.text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", simple.text));
            let report = lint::check_with(&copy, &Options::new().profile(profile));
            // No copy can add a missing type or remove properties.
            let refused: Vec<_> = report
                .findings
                .iter()
                .filter(|f| {
                    f.rule.starts_with("HOST")
                        && f.severity == lint::Severity::Critical
                        && !["HOST-006", "HOST-011"].contains(&f.rule)
                })
                .collect();
            assert!(refused.is_empty(), "seed {seed} {}\n{text}\n{}\n{refused:#?}", profile.id, simple.text);
        }
    }
    assert!(changed as u64 > count && kept as u64 > count / 10 && copies > 0, "{changed} {kept} {copies}");
}
