//! Decoding of the skills of a server (SEP-2640).

use crate::era::extension;
use crate::era::skills::{self, DYNAMIC};
use crate::json::{Kind, Value};
use crate::model::skill::{SKILL_MD, Skill, SkillFile, path_below};

/// Returns `None` if a server does not declare the extension, otherwise whether it lists folders.
pub(crate) fn skills_capability(capabilities: Value<'_>) -> Option<bool> {
    let settings = extension::declared(capabilities, skills::ID)?;
    Some(settings.get("directoryRead").and_then(Value::as_bool) == Some(true))
}

/// Reads an entry.
///
/// # Errors
/// Describes the first member that is missing or invalid.
pub(crate) fn skill(value: Value<'_>) -> Result<Skill, String> {
    let text = |value: Value<'_>, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let uri = text(value, "uri").ok_or("the entry of a skill has no `uri`")?;
    let missing = |what: &str| format!("the entry of the skill {uri:?} has no valid {what}");
    let frontmatter = value.get("frontmatter").filter(|all| all.kind() == Kind::Object);
    let frontmatter = frontmatter.ok_or_else(|| missing("`frontmatter`"))?;
    let name = text(frontmatter, "name").ok_or_else(|| missing("`frontmatter.name`"))?;
    let description = text(frontmatter, "description").ok_or_else(|| missing("`frontmatter.description`"))?;
    let folder = uri.strip_suffix(SKILL_MD).unwrap_or(&uri).to_owned();
    let mut skill =
        Skill { name, description, frontmatter: frontmatter.to_json(), files: None, uri: uri.clone() };
    let resources = value.get("resources").ok_or_else(|| missing("`resources`"))?;
    if resources.as_str() == Some(DYNAMIC) {
        return Ok(skill);
    }
    if resources.kind() != Kind::Array {
        return Err(missing("`resources`"));
    }
    let file = |file: Value<'_>| {
        let uri = text(file, "uri")?;
        Some(SkillFile {
            path: path_below(&folder, &uri)?,
            digest: text(file, "digest").filter(|digest| is_digest(digest))?,
            size: file.get("size")?.as_u64()?,
            uri,
        })
    };
    let files: Option<Vec<_>> = resources.items().map(file).collect();
    skill.files =
        Some(files.ok_or_else(|| {
            missing("`resources`: each needs a `uri` below the skill, `digest` and `size`")
        })?);
    Ok(skill)
}

/// Reads the skill in a result.
///
/// # Errors
/// As with [`skill`].
pub(crate) fn one_skill(result: Value<'_>) -> Result<Skill, String> {
    skill(result.get("skill").ok_or("the result has no `skill`")?)
}

/// Returns `true` for `sha256:` and 64 hexadecimal digits in lower case.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}
