//! Catalog of the skills below a folder: found, checked and hashed.
//!
//! Every folder with a `SKILL.md` is a skill, with `skill://` and its path as URI. A skill in the
//! folder of another one is a separate skill; its files also belong to the outer one. A skill that
//! breaks a rule is left out, and so is a folder without a `SKILL.md`; both are
//! [problems](Catalog::problems).
//!
//! # Invariants
//! - The files of a skill in the catalog are complete: one entry below its folder that cannot be
//!   served leaves the skill out.
//! - A catalog holds no contents, so its memory is bounded by the entries of the folder.
//! - A digest is used again only for a file whose [`Stamp`] is the same, and was
//!   [settled](is_settled) when the file was hashed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::json::Json;
use crate::model::skill::{SKILL_MD, Skill, SkillFile, digest_text, is_skill_name, uri_below};

use super::files::{self, Folder, Listing, Stamp};
use super::frontmatter;

/// Scheme of the URIs of all files.
pub(super) const SCHEME: &str = "skill://";
/// Largest number of characters of a description, by the rules of Agent Skills.
const MAX_DESCRIPTION: usize = 1024;

/// The skills below a folder at one time.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// In order of their paths.
    pub skills: Vec<Skill>,
    /// Paths of the files of all skills, with their sizes.
    pub files: BTreeMap<String, u64>,
    /// Paths of the folders of all skills, of those within them and of those around them.
    pub folders: BTreeSet<String>,
    /// Skills that are left out, with the reason, and folders without a skill, for the operator.
    pub problems: Vec<String>,
    known: BTreeMap<String, Known>,
}

/// A hashed file.
#[derive(Clone, Debug)]
struct Known {
    stamp: Stamp,
    settled: bool,
    digest: String,
    /// Frontmatter, for a `SKILL.md`.
    frontmatter: Option<Result<Json, String>>,
}

impl Catalog {
    /// Reads the folder. Hashes only files that have changed since `before`.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub(super) fn read(folder: &Folder, before: &Catalog) -> io::Result<Catalog> {
        let listing = folder.list()?;
        let mut catalog = Catalog::default();
        for (path, _) in &listing.files {
            let Some(skill) = path.strip_suffix(SKILL_MD) else { continue };
            match skill.strip_suffix('/') {
                Some(skill) => {
                    let found = catalog.skill(folder, before, &listing, skill);
                    found.unwrap_or_else(|why| catalog.problems.push(format!("skill {skill:?}: {why}")));
                }
                None if skill.is_empty() => {
                    catalog.problems.push(format!("{SKILL_MD}: a skill needs a folder of its own"));
                }
                None => {}
            }
        }
        for path in folders_without_skill(&listing) {
            catalog.problems.push(format!("folder {path:?}: no {SKILL_MD} in it"));
        }
        // A link in place of a SKILL.md hides a skill completely.
        for (path, why) in &listing.others {
            if path.rsplit('/').next() == Some(SKILL_MD) {
                catalog.problems.push(format!("{path:?}: {why}"));
            }
        }
        Ok(catalog)
    }

    /// Adds the skill in a folder.
    fn skill(
        &mut self,
        folder: &Folder,
        before: &Catalog,
        listing: &Listing,
        path: &str,
    ) -> Result<(), String> {
        let prefix = format!("{path}/");
        if let Some((other, why)) = below(&listing.others, &prefix, |(path, _)| path).first() {
            return Err(format!("{other:?}: {why}"));
        }
        let members = below(&listing.files, &prefix, |(path, _)| path);
        if members.len() > Skill::MAX_FILES {
            return Err(format!("{} files, at most {} are allowed", members.len(), Skill::MAX_FILES));
        }
        let bytes = members.iter().fold(0u64, |sum, (_, stamp)| sum.saturating_add(stamp.size));
        if bytes > Skill::MAX_BYTES {
            return Err(format!("{bytes} bytes in all files, at most {} are allowed", Skill::MAX_BYTES));
        }
        let mut files = Vec::new();
        for (member, stamp) in members {
            let known = self.hashed(folder, before, member, *stamp);
            let known = known.map_err(|error| format!("{member:?}: {error}"))?;
            files.push(SkillFile {
                uri: uri_below(SCHEME, member),
                path: member.strip_prefix(&prefix).unwrap_or_default().to_owned(),
                digest: known.digest.clone(),
                size: stamp.size,
            });
        }
        let skill_md = self.known.get(&format!("{prefix}{SKILL_MD}"));
        let frontmatter = skill_md.and_then(|known| known.frontmatter.clone()).unwrap_or(Ok(Json::NULL))?;
        let (name, description) = checked(&frontmatter, path)?;
        let uri = uri_below(SCHEME, &format!("{prefix}{SKILL_MD}"));
        self.skills.push(Skill { uri, name, description, frontmatter, files: Some(files) });
        self.files.extend(members.iter().map(|(path, stamp)| (path.clone(), stamp.size)));
        self.folders.extend(below(&listing.folders, &prefix, |path| path).iter().cloned());
        self.folders.extend(ancestors(path).map(str::to_owned));
        Ok(())
    }

    fn hashed(&mut self, folder: &Folder, before: &Catalog, path: &str, stamp: Stamp) -> io::Result<&Known> {
        let hashed_before = || before.known.get(path).filter(|known| known.stamp == stamp && known.settled);
        let known = match self.known.remove(path).or_else(|| hashed_before().cloned()) {
            Some(known) => known,
            None => {
                let now = SystemTime::now();
                let is_skill_md = path.rsplit('/').next() == Some(SKILL_MD);
                // One more byte shows that the frontmatter is too long.
                let head = if is_skill_md { frontmatter::MAX_BYTES + 1 } else { 0 };
                let (digest, start) = files::hash(folder.open(path)?, stamp.size, head)?;
                Known {
                    stamp,
                    settled: is_settled(stamp, now),
                    digest: digest_text(&digest),
                    frontmatter: is_skill_md.then(|| frontmatter::parse(&start)),
                }
            }
        };
        Ok(self.known.entry(path.to_owned()).or_insert(known))
    }

    /// The direct children of a folder, in order of their names: with their path, and their size
    /// for a file. `None` if the catalog has no such folder.
    pub(super) fn children(&self, folder: &str) -> Option<BTreeMap<&str, (&str, Option<u64>)>> {
        if !self.folders.contains(folder) {
            return None;
        }
        let prefix = format!("{folder}/");
        let name =
            |path: &'_ str| path.strip_prefix(&prefix).filter(|name| !name.contains('/')).map(str::len);
        let tail = |path: &'_ str| name(path).map(|length| path.len() - length);
        let start = prefix.clone();
        let files = self.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let folders = self.folders.range(start..).take_while(|path| path.starts_with(&prefix));
        let files = files.map(|(path, size)| (path.as_str(), Some(*size)));
        let all = files.chain(folders.map(|path| (path.as_str(), None)));
        Some(all.filter_map(|(path, size)| Some((path.get(tail(path)?..)?, (path, size)))).collect())
    }
}

/// A folder and those around it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end))
}

/// The outermost folders that neither contain a `SKILL.md`, at any depth, nor are in the folder of
/// one.
fn folders_without_skill(listing: &Listing) -> BTreeSet<&str> {
    let files = listing.files.iter().map(|(path, _)| path);
    let paths = files.chain(listing.others.iter().map(|(path, _)| path));
    let skills: BTreeSet<&str> =
        paths.filter_map(|path| path.strip_suffix(SKILL_MD)?.strip_suffix('/')).collect();
    let around: BTreeSet<&str> = skills.iter().flat_map(|path| ancestors(path)).collect();
    let mut found = BTreeSet::new();
    // A folder precedes those in it.
    for path in &listing.folders {
        let is_within = |folders: &BTreeSet<&str>| ancestors(path).any(|path| folders.contains(path));
        if !around.contains(path.as_str()) && !is_within(&skills) && !is_within(&found) {
            found.insert(path.as_str());
        }
    }
    found
}

/// The entries below a folder, of a list sorted by path.
fn below<'l, T>(sorted: &'l [T], prefix: &str, path: impl Fn(&T) -> &String) -> &'l [T] {
    let start = sorted.partition_point(|entry| path(entry).as_str() < prefix);
    let rest = sorted.get(start..).unwrap_or_default();
    let length = rest.partition_point(|entry| path(entry).starts_with(prefix));
    rest.get(Range { start: 0, end: length }).unwrap_or_default()
}

/// Checks name and description by the rules of Agent Skills.
fn checked(frontmatter: &Json, path: &str) -> Result<(String, String), String> {
    let (name, description) = frontmatter::name_and_description(frontmatter)?;
    if !is_skill_name(&name) {
        return Err(format!(
            "invalid name {name:?}: must be 1 to 64 of a-z 0-9 -, without - at the start or end, or doubled"
        ));
    }
    if path.rsplit('/').next() != Some(&name) {
        return Err(format!("its name is {name:?}, which must be the name of its folder"));
    }
    match description.chars().count() {
        0..=MAX_DESCRIPTION => Ok((name, description)),
        length => {
            Err(format!("its description has {length} characters, at most {MAX_DESCRIPTION} are allowed"))
        }
    }
}

/// Returns whether a later change of a file will change its stamp. Times of files have a limited
/// resolution, so a file that changed just now may change again without a new time.
fn is_settled(stamp: Stamp, now: SystemTime) -> bool {
    const RESOLUTION_SECONDS: i64 = 2;
    let now =
        now.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    stamp.changed.0 < now.saturating_sub(RESOLUTION_SECONDS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_changed_just_now_is_not_settled() {
        let folder = std::env::temp_dir().join(format!("tinymcp-catalog-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/SKILL.md"), "---\nname: a\ndescription: d\n---\n").unwrap();
        let source = Folder::new(folder.clone());
        let mut before = Catalog::read(&source, &Catalog::default()).unwrap();
        let digest = |catalog: &Catalog| catalog.skills[0].files.as_ref().unwrap()[0].digest.clone();
        let right = digest(&before);
        let known = before.known.get_mut("a/SKILL.md").unwrap();
        let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(known.stamp.changed.0).unwrap());
        for (later, settled) in [(0, false), (2, false), (3, true)] {
            assert_eq!(is_settled(known.stamp, written + Duration::from_secs(later)), settled, "{later}");
        }
        // Only a settled digest is used again.
        (known.settled, known.digest) = (false, "old".to_owned());
        assert_eq!(digest(&Catalog::read(&source, &before).unwrap()), right);
        before.known.get_mut("a/SKILL.md").unwrap().settled = true;
        assert_eq!(digest(&Catalog::read(&source, &before).unwrap()), "old");
        fs::write(folder.join("a/SKILL.md"), "---\nname: a\ndescription: e\n---\n").unwrap();
        assert_ne!(digest(&Catalog::read(&source, &before).unwrap()), "old");
        fs::remove_dir_all(folder).unwrap();
    }
}
