//! Checks of skills before a client uses them: entries, files and frontmatters.

use crate::json::{Json, Kind, Value};
use crate::model::skill::{SKILL_MD, Skill, SkillFile, digest_text};
use crate::model::uri_template::percent_decoded;

/// Returns the first reason why a client must not load this skill.
pub(super) fn rejection_reason(skill: &Skill) -> Option<String> {
    let folder = skill.uri.strip_suffix(SKILL_MD).and_then(|folder| folder.strip_suffix('/'));
    let Some(folder) = folder else { return Some("its URI must end with /SKILL.md".to_owned()) };
    let name = folder.rsplit('/').next().and_then(percent_decoded);
    if name.as_deref() != Some(&skill.name) {
        return Some(format!("the last folder of its URI must be its name {:?}", skill.name));
    }
    let Some(files) = &skill.files else { return None };
    if !files.iter().any(|file| file.uri == skill.uri) {
        return Some("its files do not include its SKILL.md".to_owned());
    }
    let mut paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    if let Some(twice) = paths.windows(2).find(|pair| pair.first() == pair.last()) {
        return Some(format!("its files include {:?} twice", twice.first().unwrap_or(&"")));
    }
    if files.len() > Skill::MAX_FILES {
        return Some(format!("it has {} files, at most {} are accepted", files.len(), Skill::MAX_FILES));
    }
    let bytes = skill.bytes();
    (bytes > Skill::MAX_BYTES)
        .then(|| format!("its files have {bytes} bytes, at most {} are accepted", Skill::MAX_BYTES))
}

/// Describes how the bytes of a file differ from its entry.
pub(super) fn mismatch(file: &SkillFile, bytes: &[u8]) -> Option<String> {
    let size = bytes.len() as u64;
    if size != file.size {
        return Some(format!("{:?} has {size} bytes, its entry says {}", file.path, file.size));
    }
    let digest = digest_text(&hmac_sha256::Hash::hash(bytes));
    (digest != file.digest)
        .then(|| format!("{:?} has the digest {digest}, its entry says {}", file.path, file.digest))
}

/// Returns the first member that differs between two frontmatters, without regard to order and to
/// the form of numbers. `None` if they are equal.
pub(super) fn difference(a: &Json, b: &Json) -> Option<String> {
    let (a, b) = (a.to_doc(), b.to_doc());
    let (a, b) = (a.root(), b.root());
    if a.kind() != Kind::Object || b.kind() != Kind::Object {
        return Some("it is not an object".to_owned());
    }
    let absent = |(name, _): &(&str, Value<'_>)| a.get(name).is_none();
    if let Some((name, _)) = b.members().find(absent) {
        return Some(name.to_owned());
    }
    let differs = |(name, value): &(&str, Value<'_>)| b.get(name).is_none_or(|other| !same(*value, other));
    a.members().find(differs).map(|(name, _)| name.to_owned())
}

fn same(a: Value<'_>, b: Value<'_>) -> bool {
    let mut pairs = vec![(a, b)];
    while let Some((a, b)) = pairs.pop() {
        let equal = a.kind() == b.kind()
            && match a.kind() {
                Kind::Null => true,
                Kind::Bool => a.as_bool() == b.as_bool(),
                Kind::Number => a.as_number() == b.as_number() || a.as_f64() == b.as_f64(),
                Kind::String => a.as_str() == b.as_str(),
                Kind::Array | Kind::Object => a.len() == b.len(),
            };
        if !equal {
            return false;
        }
        pairs.extend(a.items().zip(b.items()));
        for (name, value) in a.members() {
            let Some(other) = b.get(name) else { return false };
            pairs.push((value, other));
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::model::skill::tests::{file, skill};

    #[test]
    fn entries_that_break_a_rule_have_a_flaw() {
        let at_limits = || {
            let mut files: Vec<_> = (1..Skill::MAX_FILES).map(|n| file(&format!("{n}"), 0)).collect();
            files.push(file(SKILL_MD, Skill::MAX_BYTES));
            files
        };
        assert_eq!(rejection_reason(&skill(at_limits())), None);
        let of = |files| rejection_reason(&skill(files)).unwrap();
        assert!(of(vec![file("README.md", 1)]).contains("SKILL.md"));
        assert!(of(vec![file(SKILL_MD, 1), file(SKILL_MD, 1)]).contains("twice"));
        let mut many = at_limits();
        many.push(file("one more", 0));
        assert!(of(many).contains("513 files"));
        let mut large = at_limits();
        large.pop();
        large.push(file(SKILL_MD, Skill::MAX_BYTES + 1));
        assert!(of(large).contains("16777217 bytes"));
        let mut endless = at_limits();
        endless.iter_mut().for_each(|file| file.size = u64::MAX);
        assert!(of(endless).contains("bytes"));
        let named = Skill { name: "other".into(), ..skill(vec![file(SKILL_MD, 1)]) };
        assert!(rejection_reason(&named).unwrap().contains("name"));
    }

    #[test]
    fn frontmatters_are_compared_by_value() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let a = json(r#"{"a":1,"b":{"x":[1,"é"],"y":null}}"#);
        let equal = json(r#"{"b":{"y":null,"x":[1.0,"\u00e9"]},"a":1e0}"#);
        assert_eq!(difference(&a, &equal), None);
        for (other, name) in [
            (r#"{"a":2,"b":{"x":[1,"é"],"y":null}}"#, "a"),
            (r#"{"a":"1","b":{"x":[1,"é"],"y":null}}"#, "a"),
            (r#"{"a":1,"b":{"x":[1],"y":null}}"#, "b"),
            (r#"{"a":1,"b":{"x":["é",1],"y":null}}"#, "b"),
            (r#"{"a":1,"b":{"x":[1,"é"]}}"#, "b"),
            (r#"{"a":1,"b":{"x":[1,"é"],"z":null}}"#, "b"),
            (r#"{"a":1}"#, "b"),
            (r#"{"a":1,"b":{"x":[1,"é"],"y":null},"c":null}"#, "c"),
            ("[]", "it is not an object"),
        ] {
            assert_eq!(difference(&a, &json(other)).as_deref(), Some(name), "{other}");
        }
    }
}
