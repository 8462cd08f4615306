//! Codec of the skills extension (SEP-2640): names of its methods, entries, and results.

use crate::json::{Json, Writer};
use crate::model::catalog::Resource;
use crate::model::skill::Skill;
use crate::model::{CacheHint, Fault, Revision};
use crate::rpc::code;

use super::{Descriptor, RequestMode, encode, modern};

/// Id of the extension.
pub(crate) const ID: &str = "io.modelcontextprotocol/skills";
/// Lists the skills, in pages.
pub(crate) const LIST: &str = "skills/list";
/// Returns one skill.
pub(crate) const GET: &str = "skills/get";
/// Lists the direct children of a folder, in pages.
pub(crate) const READ_DIRECTORY: &str = "resources/directory/read";
/// Media type of a folder.
pub(crate) const DIRECTORY: &str = "inode/directory";

/// Stands for the list of files if the files of a skill are generated.
pub(super) const DYNAMIC: &str = "dynamic";

/// Returns the settings of a server with every method.
pub(crate) fn settings() -> Json {
    encode::object(|w| _ = w.key("directoryRead").bool(true))
}

/// Returns a page of skills, with the cursor of the next one.
pub(crate) fn list_result(
    mode: RequestMode,
    cache: CacheHint,
    skills: &mut dyn Iterator<Item = &Skill>,
    next: Option<&str>,
) -> Json {
    encode::object(|w| {
        w.key("skills").begin_array();
        skills.for_each(|skill| entry(w, skill));
        w.end_array();
        cursor(w, next);
        cacheable(w, mode, cache);
    })
}

/// Returns one skill.
pub(crate) fn get_result(mode: RequestMode, cache: CacheHint, skill: &Skill) -> Json {
    encode::object(|w| {
        w.key("skill");
        entry(w, skill);
        cacheable(w, mode, cache);
    })
}

/// Returns a page of the children of a folder, with the cursor of the next one.
pub(crate) fn directory_result(
    revision: Revision,
    children: &mut dyn Iterator<Item = Resource>,
    next: Option<&str>,
) -> Json {
    encode::object(|w| {
        w.key("resources").begin_array();
        children.for_each(|child| Descriptor::Resource(&child).render(w, revision));
        w.end_array();
        cursor(w, next);
    })
}

fn cursor(w: &mut Writer, next: Option<&str>) {
    if let Some(next) = next {
        w.key("nextCursor").string(next);
    }
}

/// Only the modern era has results with a cache hint.
fn cacheable(w: &mut Writer, mode: RequestMode, cache: CacheHint) {
    if mode == RequestMode::InResult {
        modern::hint(w, cache);
    }
}

/// Returns the error for parameters that name an unknown skill or folder.
pub(crate) fn unknown(message: String) -> Fault {
    Fault::Custom { code: code::INVALID_PARAMS, message, data: None }
}

fn entry(w: &mut Writer, skill: &Skill) {
    w.begin_object().key("uri").string(&skill.uri);
    w.key("frontmatter").json(&skill.frontmatter).key("resources");
    match &skill.files {
        None => _ = w.string(DYNAMIC),
        Some(files) => {
            w.begin_array();
            for file in files {
                w.begin_object().key("uri").string(&file.uri);
                w.key("digest").string(&file.digest).key("size").u64(file.size);
                w.end_object();
            }
            w.end_array();
        }
    }
    w.end_object();
}
