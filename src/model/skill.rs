//! Skills (SEP-2640): entries, the files that they list, and the URIs of both.
//!
//! # Invariants
//! - [`SkillFile::path`] has no component that is empty, `.` or `..`, so it stays below the folder
//!   of the skill.

use crate::json::Json;

use super::uri_template::{percent_decoded, percent_encoded};

/// Name of the file that every skill has in its root folder.
pub(crate) const SKILL_MD: &str = "SKILL.md";

/// One skill: its frontmatter, and its files with their digests. See the example of
/// [`crate::skills`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skill {
    /// The URI of its `SKILL.md`. Together with the server it identifies the skill.
    pub uri: String,
    /// Its name in the frontmatter: a label, which several skills of one server may share.
    pub name: String,
    /// Its purpose and when to use it, from the frontmatter.
    pub description: String,
    /// The YAML frontmatter of its `SKILL.md` as a JSON object.
    pub frontmatter: Json,
    /// All its files, `SKILL.md` included. `None` for a skill that the server generates
    /// (`"dynamic"`): its content cannot be verified.
    pub files: Option<Vec<SkillFile>>,
}

/// A file of a skill. See the example of [`crate::skills`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// Its URI.
    pub uri: String,
    /// Its path below the folder of the skill, such as `references/FORMS.md`.
    pub path: String,
    /// SHA-256 of its bytes: `sha256:` and 64 hexadecimal digits in lower case.
    pub digest: String,
    /// Its number of bytes.
    pub size: u64,
}

impl Skill {
    /// Maximum number of files of a skill that every client accepts (SEP-2640, limits).
    pub const MAX_FILES: usize = 512;
    /// Maximum size of all files of a skill, in bytes, that every client accepts (SEP-2640,
    /// limits).
    pub const MAX_BYTES: u64 = 16 << 20;

    /// Returns the sum of the sizes of its files; 0 for a generated skill.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flatten().fold(0, |sum, file| file.size.saturating_add(sum))
    }

    /// Returns the file at a relative path in the form that the text of a skill uses:
    /// `references/FORMS.md`, `./scripts/../README.md`. `None` if the skill does not list the file.
    pub fn file(&self, path: &str) -> Option<&SkillFile> {
        let path = resolved(path)?;
        self.files.iter().flatten().find(|file| file.path == path)
    }

    /// Returns the digest of all files: of every URI with its digest, in the order of the URIs.
    /// Store it with a user's approval: if the digest changes, the approval is no longer valid
    /// (SEP-2640, content-bound approval). `None` for a generated skill, whose content cannot be
    /// approved.
    pub fn fingerprint(&self) -> Option<String> {
        let mut lines: Vec<_> =
            self.files.as_ref()?.iter().map(|file| format!("{} {}\n", file.uri, file.digest)).collect();
        lines.sort_unstable();
        Some(digest_text(&hmac_sha256::Hash::hash(lines.concat().as_bytes())))
    }
}

/// Returns a digest in its wire format.
pub(crate) fn digest_text(hash: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in hash {
        // OK to drop: writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns `true` for a valid name of Agent Skills: 1 to 64 characters of `a-z 0-9 -`, without `-`
/// at the start, at the end or twice in a row.
pub(crate) fn is_skill_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns the path of a URI below a folder whose URI ends with `/`.
pub(crate) fn path_below(folder: &str, uri: &str) -> Option<String> {
    let encoded = uri.strip_prefix(folder)?;
    if encoded.contains(['?', '#']) {
        return None;
    }
    let path = percent_decoded(encoded)?;
    let stays = path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains('\0');
    stays.then_some(path)
}

/// Returns the URI of a path below a folder whose URI ends with `/`.
pub(crate) fn uri_below(folder: &str, path: &str) -> String {
    let mut uri = folder.to_owned();
    for (at, part) in path.split('/').enumerate() {
        if at > 0 {
            uri.push('/');
        }
        percent_encoded(part, &mut uri);
    }
    uri
}

/// Returns a relative path with `.` and `..` resolved. `None` if the path is absolute or leaves the
/// folder.
pub(crate) fn resolved(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop()?,
            "" => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
pub(crate) mod tests {
    use super::*;

    /// A file of a sample skill.
    pub(crate) fn file(path: &str, size: u64) -> SkillFile {
        let uri = uri_below("skill://a/pdf/", path);
        SkillFile { uri, path: path.to_owned(), digest: digest_text(&[0; 32]), size }
    }

    /// A sample skill with these files.
    pub(crate) fn skill(files: Vec<SkillFile>) -> Skill {
        Skill {
            uri: "skill://a/pdf/SKILL.md".into(),
            name: "pdf".into(),
            description: "d".into(),
            frontmatter: Json::NULL,
            files: Some(files),
        }
    }

    #[test]
    fn names_follow_the_rules_of_agent_skills() {
        for name in ["a", "pdf-processing", "x1-2", &"a".repeat(64)] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "ä", "a/b", "..", &"a".repeat(65)] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    #[test]
    fn a_path_stays_below_its_folder() {
        let below = |uri| path_below("skill://a/pdf/", uri);
        assert_eq!(below("skill://a/pdf/x%20y/z.md").as_deref(), Some("x y/z.md"));
        for uri in [
            "skill://a/pdf/",
            "skill://a/pdfx/y",
            "skill://a/pdf/../other/SKILL.md",
            "skill://a/pdf/%2e%2e/x",
            "skill://a/pdf/..%2fx",
            "skill://a/pdf//etc/passwd",
            "skill://a/pdf/x?y",
            "skill://a/pdf/x#y",
            "skill://a/pdf/%00",
            "skill://a/pdf/%ff",
        ] {
            assert_eq!(below(uri), None, "{uri}");
        }
    }

    #[test]
    fn relative_paths_resolve_to_listed_files() {
        let skill = skill(vec![file(SKILL_MD, 1), file("references/FORMS.md", 1)]);
        for path in ["references/FORMS.md", "./references/FORMS.md", "x/../references/./FORMS.md"] {
            assert!(skill.file(path).is_some(), "{path}");
        }
        for path in ["FORMS.md", "../pdf/SKILL.md", "/SKILL.md", "references//FORMS.md", "", "references"] {
            assert!(skill.file(path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_fingerprint_depends_on_every_file_but_not_on_their_order() {
        let (a, b) = (file(SKILL_MD, 1), file("b.md", 1));
        let print = |files| skill(files).fingerprint().unwrap();
        let both = print(vec![a.clone(), b.clone()]);
        assert_eq!(both, print(vec![b.clone(), a.clone()]));
        assert_ne!(both, print(vec![a.clone()]));
        let changed = SkillFile { digest: digest_text(&[1; 32]), ..b };
        assert_ne!(both, print(vec![a, changed]));
    }
}
