//! `--check`: problems and warnings of definition files; `--schema`: the schema of the files.
//!
//! | check | reason |
//! |---|---|
//! | programs, folders and files exist | a call would fail |
//! | the sandbox of a tool contains its program | the same |
//! | every skill can be offered | one that breaks a rule is left out |
//! | no sandbox may write a definition file, or a program or script of another tool | it could change what runs outside |
//! | no value can be read as an option | an argument `-rf` would change what the program does |
//! | no value runs as code | shells, SQL, `ssh`, which joins its arguments to a command line |
//! | every argument is used, lists by `...` | the author forgot one, or wrote a shell command |
//! | tools have descriptions, the lint has no findings | models choose tools by them |
//! | this kernel can apply the sandboxes | otherwise programs run without |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::definition::{Definition, Grants, Mode, ResourceDefinition, ToolDefinition};
use super::files;
use super::place::Place;
use super::programs::sandbox;
use super::read::{self, Problem, reason, script};
use super::skills;
use crate::escape::one_line;
use crate::{Result, out};

mod arguments;
mod program;
mod shell;
mod usage;

/// JSON Schema of the definition files, on one line.
pub(crate) const FILE_SCHEMA: &str = match std::str::from_utf8(&compact::<COMPACT_LENGTH>().0) {
    Ok(text) => text,
    Err(_) => panic!("the schema is not UTF-8"),
};

const COMPACT_LENGTH: usize = compact::<{ SCHEMA_SOURCE.len() }>().1;
const SCHEMA_SOURCE: &[u8] = include_bytes!("file-schema.json");

/// The schema without the white space between its tokens, and its length.
const fn compact<const N: usize>() -> ([u8; N], usize) {
    let (mut compact, mut length) = ([0; N], 0);
    let (mut in_string, mut is_escaped) = (false, false);
    let mut rest = SCHEMA_SOURCE;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if in_string || !byte.is_ascii_whitespace() {
            compact[length] = *byte;
            length += 1;
        }
        in_string ^= *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
    }
    (compact, length)
}

/// Maximum number of problems that are printed.
const MAX_SHOWN: usize = 1000;

/// Prints the problems and warnings of these files and a summary. The exit status is 1 for
/// warnings and 2 for problems.
pub(crate) fn run(paths: &[PathBuf]) -> Result<u8> {
    let (problems, contents, status) = match read::definition(paths) {
        Ok(definition) => {
            let warnings = check(&definition);
            let status = u8::from(!warnings.is_empty());
            (warnings, contents(&definition), status)
        }
        Err(problems) => (problems, "invalid".to_owned(), 2),
    };
    let shown = problems.iter().take(MAX_SHOWN);
    let mut text: String = shown.map(|problem| one_line(&problem.to_string()) + "\n").collect();
    if problems.len() > MAX_SHOWN {
        text.push_str("…\n");
    }
    let number = match problems.len() {
        0 => "no problems".to_owned(),
        n => counted(n, "problem"),
    };
    let more = if status == 2 { "; more checks run once these are corrected" } else { "" };
    text.push_str(&format!("{contents}: {number}{more}\n"));
    out(text.as_bytes()).map(|()| status)
}

/// Returns the number of entries of each kind of a definition, as text.
pub(crate) fn contents(definition: &Definition) -> String {
    let mut contents = counted(definition.tools.len(), "tool");
    contents.push_str(&format!(", {}", counted(definition.resources.len(), "resource")));
    if !definition.templates.is_empty() {
        contents.push_str(&format!(", {}", counted(definition.templates.len(), "resource template")));
    }
    contents.push_str(&format!(", {}", counted(definition.prompts.len(), "prompt")));
    if definition.skills.is_some() {
        contents.push_str(", a folder of skills");
    }
    contents
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Checks facts outside of the definition files. The warnings are sorted by file and
/// line.
pub(crate) fn check(definition: &Definition) -> Vec<Problem> {
    let mut warnings = Vec::new();
    let Definition { tools, resources, templates, prompts, .. } = definition;
    let is_empty = tools.is_empty() && resources.is_empty() && templates.is_empty() && prompts.is_empty();
    if is_empty && definition.skills.is_none() {
        let file = definition.sources.first().map_or(Path::new(""), PathBuf::as_path).into();
        let message = "nothing is served: add `tools`, `resources`, `prompts` or `skills`".to_owned();
        warnings.push(Problem { place: Place { file, line: 0, pointer: String::new() }, message });
    }
    for tool in &definition.tools {
        check_tool(tool, &mut |message| warnings.push(Problem { place: tool.source.place.clone(), message }));
    }
    check_write_grants(definition, &mut warnings);
    for resource in &definition.resources {
        let message = check_resource(resource);
        warnings.extend(message.map(|message| Problem { place: resource.source.place.clone(), message }));
    }
    for template in &definition.templates {
        let prefix = template.file.leading_literal();
        let folder = Path::new(prefix.rsplit_once('/').map_or("/", |(folder, _)| folder));
        if !folder.is_dir() && prefix.contains('/') {
            let message = format!("{}: not a folder", folder.display());
            warnings.push(Problem { place: template.source.place.clone(), message });
        }
    }
    for prompt in &definition.prompts {
        let messages = files::check_prompt(&prompt.file, &prompt.prompt);
        let place = |message| Problem { place: prompt.source.place.clone(), message };
        warnings.extend(messages.into_iter().map(|why| place(format!("{}: {why}", prompt.file.display()))));
    }
    warnings.extend(definition.skills.iter().flat_map(skills::check));
    #[cfg(feature = "lint")]
    lint(definition, &mut warnings);
    read::sort(&mut warnings);
    warnings
}

fn check_resource(resource: &ResourceDefinition) -> Option<String> {
    let path = resource.path.display();
    match std::fs::metadata(&resource.path) {
        Err(error) => Some(format!("{path}: {}", reason(&error))),
        Ok(metadata) if resource.is_folder && !metadata.is_dir() => {
            Some(format!("{path}: not a folder; use `file`"))
        }
        Ok(metadata) if !resource.is_folder && metadata.is_dir() => {
            Some(format!("{path}: a folder; use `folder`"))
        }
        Ok(metadata) if !resource.is_folder && !metadata.is_file() => {
            Some(format!("{path}: not a regular file"))
        }
        Ok(_) => None,
    }
}

fn check_tool(tool: &ToolDefinition, warn: &mut dyn FnMut(String)) {
    if tool.tool.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        warn("missing `description`: models choose a tool by it".to_owned());
    }
    let argv = &tool.program.argv;
    let mut files = script_files(tool);
    let words: Vec<&str> = argv.elements().iter().map(|word| word.literal().unwrap_or_default()).collect();
    let script = script::file(&words).map(|file| tool.program.cwd.join(file));
    if let Some(path) = script.as_ref().filter(|path| !path.exists()) {
        warn(format!("script {}: does not exist", path.display()));
    }
    match program::find(argv.program()) {
        Ok(path) => {
            let file = script.as_ref().unwrap_or(&path);
            let has_shell = script.is_some() && words.iter().any(|word| script::is_shell(word));
            if words.contains(&"--") && program::reads_dashes(file, has_shell) {
                warn(String::from(
                    "the script gets `--` as its first argument, $1, because a script does not end its options \
                     there by itself: leave it out, and exclude values that begin with `-` by a pattern",
                ));
            }
            files.push(path);
        }
        Err(message) => warn(message),
    }
    for path in files {
        let path = path.canonicalize().unwrap_or(path);
        if tool.program.sandbox.as_ref().is_some_and(|grants| !may_read(grants, &path)) {
            let grant = if is_system(&path) { Path::new(sandbox::SYSTEM_WORD) } else { &path };
            warn(format!("the sandbox does not allow reading {}: add {grant:?} to `read`", path.display()));
        }
    }
    if !tool.program.cwd.is_dir() {
        warn(format!("cwd {}: not a folder", tool.program.cwd.display()));
    }
    if let Some(grants) = &tool.program.sandbox {
        for path in grants.read.iter().chain(&grants.write).filter(|p| p.is_absolute() && !p.exists()) {
            warn(format!("sandbox: {} does not exist, so it is not granted", path.display()));
        }
        if let Some(missing) = sandbox::support().missing(grants) {
            warn(format!("sandbox: {missing}"));
        }
    }
    usage::check(tool, warn);
    if matches!(tool.mode, Mode::PerCall { .. }) {
        arguments::check(tool, warn);
    }
}

/// Returns whether the word `system` grants access to a file.
fn is_system(path: &Path) -> bool {
    const SYSTEM: &str = "/usr /bin /sbin /lib /lib32 /lib64 /nix/store /gnu/store";
    SYSTEM.split(' ').any(|folder| path.starts_with(folder))
}

/// Returns whether a sandbox grants access to a file.
fn may_read(grants: &Grants, path: &Path) -> bool {
    grants.read.iter().chain(&grants.write).any(|grant| {
        if grant == Path::new(sandbox::SYSTEM_WORD) {
            return is_system(path);
        }
        path.starts_with(grant.canonicalize().as_deref().unwrap_or(grant))
    })
}

/// Reports `write` grants by which a program could replace what runs outside its sandbox.
fn check_write_grants(definition: &Definition, warnings: &mut Vec<Problem>) {
    // Each file, its description, and the tool that it belongs to.
    let mut runs: Vec<(PathBuf, &str, Option<&Arc<ToolDefinition>>)> =
        definition.sources.iter().map(|file| (file.clone(), "a definition file", None)).collect();
    for tool in &definition.tools {
        let program = program::find(tool.program.argv.program()).ok();
        runs.extend(program.map(|path| (path, "the program", Some(tool))));
        runs.extend(script_files(tool).into_iter().map(|path| (path, "a script", Some(tool))));
    }
    for tool in &definition.tools {
        for (at, grant) in tool.program.sandbox.iter().flat_map(|grants| &grants.write).enumerate() {
            let is_other = |owner: &Option<&Arc<_>>| owner.is_none_or(|owner| !Arc::ptr_eq(owner, tool));
            let covered = runs.iter().find(|(path, _, owner)| is_other(owner) && is_below(path, grant));
            let Some((path, what, owner)) = covered else { continue };
            let owner = owner.map(|owner| format!(" of the tool `{}`", owner.tool.name)).unwrap_or_default();
            let mut place = tool.source.place.clone();
            place.pointer.push_str(&format!("/sandbox/write/{at}"));
            let message = format!(
                "the program could replace {}, {what}{owner}, and so change what runs outside its sandbox: \
                 grant another folder",
                path.display()
            );
            warnings.push(Problem { place, message });
        }
    }
}

/// Returns the files that a tool passes to an interpreter, such as `tool.py` in `["python3",
/// "tool.py"]`: the script, and files that it may import or include.
fn script_files(tool: &ToolDefinition) -> Vec<PathBuf> {
    let words = tool.program.argv.elements().iter().filter_map(|element| element.literal());
    let behind = words.skip_while(|word| !script::is_interpreter(word)).skip(1);
    behind.map(|word| tool.program.cwd.join(word)).filter(|path| path.is_file()).collect()
}

/// Returns whether a grant contains a file, or the symbolic link that the path ends with.
fn is_below(path: &Path, grant: &Path) -> bool {
    let Ok(grant) = grant.canonicalize() else { return false };
    let parent = path.parent().and_then(|folder| folder.canonicalize().ok());
    let link = parent.and_then(|folder| Some(folder.join(path.file_name()?)));
    link.into_iter().chain(path.canonicalize()).any(|path| path.starts_with(&grant))
}

/// Adds the findings of the recommended lint rules, at the line of their tool.
#[cfg(feature = "lint")]
fn lint(definition: &Definition, warnings: &mut Vec<Problem>) {
    use tinymcp::lint::{Options, Severity, check_with};

    let tools: Vec<tinymcp::Tool> = definition.tools.iter().map(|tool| tool.tool.clone()).collect();
    let options = Options::new().rules("recommended").unwrap_or_default();
    for finding in check_with(&tools, &options).findings {
        let tool = definition.tools.iter().find(|tool| tool.tool.name == finding.tool);
        let Some(tool) = tool.filter(|_| finding.severity != Severity::Note) else { continue };
        // Reported already, also without the lint.
        let no_description = tool.tool.description.as_deref().is_none_or(|text| text.trim().is_empty());
        if no_description && (finding.pointer == "/description" || finding.rule == "TOOL-003") {
            continue;
        }
        let hint = if finding.hint.is_empty() { String::new() } else { format!(" ({})", finding.hint) };
        let mut place = tool.source.place.clone();
        place.pointer.push_str(&pointer_in_file(tool, &finding.pointer));
        warnings.push(Problem { place, message: format!("{}: {}{hint}", finding.rule, finding.message) });
    }
}

/// Returns the pointer of a finding below its tool. The short form of `input` has no `properties`.
#[cfg(feature = "lint")]
fn pointer_in_file(tool: &ToolDefinition, pointer: &str) -> String {
    use tinymcp::json::{Doc, Value};

    let Some(input) = pointer.strip_prefix("/inputSchema") else { return pointer.to_owned() };
    let doc = Doc::parse(&tool.source.text).unwrap_or_default();
    let is_schema = doc.root().pointer("/input/type").and_then(Value::as_str) == Some("object");
    let argument = input.strip_prefix("/properties/").filter(|_| !is_schema);
    match argument.and_then(|argument| argument.split('/').next()) {
        Some(argument) => format!("/input/{argument}"),
        None => format!("/input{input}"),
    }
}

#[cfg(test)]
mod tests;
