//! Reader of definition files: files and folders to one [`Definition`].
//!
//! Every problem of every file is reported, each with its file, line, JSON pointer and correction.
//! Programs are not started and files of resources are not opened; `--check` examines them.
//!
//! | file | contents |
//! |---|---|
//! | `document.rs` | JSON documents with the place of each value |
//! | `members.rs` | typed access to members |
//! | `tools.rs` | tools |
//! | `resources.rs` | resources, resource templates, prompts |
//! | `script.rs` | scripts among the arguments, which have no placeholders |
//!
//! # Invariants
//! - A definition is returned only if no file has a problem.
//! - Names are unique over all files.
//! - Paths of a definition are absolute.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::definition::{
    Definition, PromptDefinition, ResourceDefinition, SandboxPolicy, ServerInfo, Source, TemplateDefinition,
    ToolDefinition,
};
use super::place::Place;
use super::skills::Skills;

mod document;
mod input;
mod members;
mod resources;
mod schema;
pub(crate) mod script;
mod tools;

use document::{Document, Node};
use members::Problems;
#[cfg(test)]
pub(crate) use tools::MEMBERS as TOOL_MEMBERS;

/// A problem of a definition file: displayed as `FILE:LINE: POINTER: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    /// Description and correction.
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Sorts problems by file and line.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by(|a, b| (&a.place.file, a.place.line).cmp(&(&b.place.file, b.place.line)));
}

/// Members of a file.
const MEMBERS: &str = "server tools resources resourceTemplates prompts skills sandbox $schema";

/// Reads files, and all `*.json` files of folders in the order of their names.
///
/// # Errors
/// All problems of all files, sorted by file and line.
pub(crate) fn definition(paths: &[PathBuf]) -> Result<Definition, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut sources = paths.to_vec();
    let documents: Vec<Document> = files(paths, &mut problems)
        .iter()
        .filter_map(|path| {
            if !sources.contains(path) {
                sources.push(path.clone());
            }
            Document::read(path).map_err(|problem| problems.list.push(problem)).ok()
        })
        .collect();
    let mut reader = Reader { problems, ..Reader::default() };
    for document in &documents {
        reader.document(document);
    }
    reader.finish(default_name(paths), sources)
}

/// Returns the files of the paths. A file that is given twice is read once.
fn files(paths: &[PathBuf], problems: &mut Problems) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        let mut found = if path.is_dir() {
            folder(path).unwrap_or_else(|message| {
                let place = Place { file: path.as_path().into(), line: 0, pointer: String::new() };
                problems.list.push(Problem { place, message });
                Vec::new()
            })
        } else {
            vec![path.clone()]
        };
        found.retain(|file| !files.contains(file));
        files.append(&mut found);
    }
    files
}

/// Returns the `*.json` files of a folder, sorted. Hidden files, such as those of editors, are left
/// out.
fn folder(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(path).map_err(|e| reason(&e))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|e| reason(&e))?.path();
        let hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|e| e == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err("the folder has no *.json file".to_owned());
    }
    files.sort();
    Ok(files)
}

/// Returns the name of the first file or folder without `.json`.
fn default_name(paths: &[PathBuf]) -> String {
    let absolute = paths.first().and_then(|path| std::path::absolute(path).ok());
    let stem = absolute.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "tinymcp".to_owned())
}

/// State of the reader.
#[derive(Default)]
struct Reader {
    problems: Problems,
    server: Option<(ServerInfo, Place)>,
    sandbox: SandboxPolicy,
    tools: Vec<Arc<ToolDefinition>>,
    resources: Vec<Arc<ResourceDefinition>>,
    templates: Vec<Arc<TemplateDefinition>>,
    prompts: Vec<Arc<PromptDefinition>>,
    skills: Option<Skills>,
    /// Member of the file, name and place of each entry.
    names: Vec<(&'static str, String, Place)>,
}

impl Reader {
    fn document(&mut self, document: &Document) {
        for (node, line) in document.duplicates() {
            self.problems.add(&node, format!("the object has this member twice, first in line {line}"));
        }
        let root = document.root();
        if !self.problems.object(&root, MEMBERS) {
            return;
        }
        if let Some(node) = root.get("server") {
            self.server(&node);
        }
        if let Some(node) = root.get("skills") {
            self.skills(&node);
        }
        // One file that requires a sandbox is enough.
        if self.problems.word(&root, "sandbox", &["available", "required"]) == Some("required") {
            self.sandbox = SandboxPolicy::Required;
        }
        self.entries(&root, "tools", |reader, name, node| {
            if let Some(tool) = tools::tool(name, node, &mut reader.problems) {
                reader.tools.push(Arc::new(tool));
            }
        });
        self.entries(&root, "resources", |reader, uri, node| {
            if let Some(resource) = resources::resource(uri, node, &mut reader.problems) {
                reader.resources.push(Arc::new(resource));
            }
        });
        self.entries(&root, "resourceTemplates", |reader, uri, node| {
            if let Some(template) = resources::template(uri, node, &mut reader.problems) {
                reader.templates.push(Arc::new(template));
            }
        });
        self.entries(&root, "prompts", |reader, name, node| {
            if let Some(prompt) = resources::prompt(name, node, &mut reader.problems) {
                reader.prompts.push(Arc::new(prompt));
            }
        });
    }

    /// Reads the entries of a member of the file.
    fn entries(&mut self, root: &Node<'_>, member: &'static str, read: fn(&mut Reader, &str, &Node<'_>)) {
        let Some(node) = root.get(member) else { return };
        if !self.problems.any_object(&node) {
            return;
        }
        for (name, node) in node.members() {
            self.names.push((member, name.to_owned(), node.place()));
            read(self, name, &node);
        }
    }

    /// Reports names that several files define. Those of one file are duplicate members.
    fn check_names(&mut self) {
        // A stable sort, so the first of equal names is that of the first file.
        self.names.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for pair in self.names.windows(2) {
            let [(member, name, first), (other_member, other_name, place)] = pair else { continue };
            if (member, name) == (other_member, other_name) && first.file != place.file {
                let first = format!("{}:{}", first.file.display(), first.line);
                let message = format!("{name:?} is also defined in {first}; rename one of them");
                self.problems.list.push(Problem { place: place.clone(), message });
            }
        }
    }

    fn server(&mut self, node: &Node<'_>) {
        const MEMBERS: &str = "name version title description instructions website";
        let problems = &mut self.problems;
        if let Some((_, first)) = &self.server {
            let first = format!("{}:{}", first.file.display(), first.line);
            problems.add(node, format!("`server` is also in {first}; keep one of them"));
        }
        if !problems.object(node, MEMBERS) {
            return;
        }
        let name = problems.text(node, "name");
        if name.as_deref() == Some("") {
            problems.add(&node.below("/name"), "the name must not be empty");
        }
        let info = ServerInfo {
            name: name.unwrap_or_default(),
            version: problems.text(node, "version").unwrap_or_else(|| "0".to_owned()),
            title: problems.text(node, "title"),
            description: problems.text(node, "description"),
            instructions: problems.text(node, "instructions"),
            website: problems.text(node, "website"),
        };
        self.server = Some((info, node.place()));
    }

    fn skills(&mut self, node: &Node<'_>) {
        if cfg!(not(feature = "skills")) {
            return self
                .problems
                .add(node, "skills require a program that was built with the feature `skills`");
        }
        if let Some(place) = self.skills.as_ref().map(Skills::place) {
            let first = format!("{}:{}", place.file.display(), place.line);
            self.problems.add(node, format!("`skills` is also in {first}; keep one of them"));
        }
        if let Some(path) = self.problems.path(node) {
            self.skills = Skills::new(path, node.place());
        }
    }

    fn finish(mut self, default_name: String, sources: Vec<PathBuf>) -> Result<Definition, Vec<Problem>> {
        self.check_names();
        let mut list = self.problems.list;
        if !list.is_empty() {
            sort(&mut list);
            return Err(list);
        }
        let mut server = self.server.map(|(server, _)| server).unwrap_or_else(|| ServerInfo {
            name: String::new(),
            version: "0".to_owned(),
            title: None,
            description: None,
            instructions: None,
            website: None,
        });
        if server.name.is_empty() {
            server.name = default_name;
        }
        Ok(Definition {
            server,
            sandbox: self.sandbox,
            tools: self.tools,
            resources: self.resources,
            templates: self.templates,
            prompts: self.prompts,
            skills: self.skills,
            sources,
        })
    }
}

/// Describes an error of the file system in plain words.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the text and origin of an entry.
fn source(node: &Node<'_>) -> Source {
    Source { place: node.place(), text: node.value.raw().to_owned(), folder: node.document().folder.clone() }
}

#[cfg(test)]
mod tests;
