//! Types of a definition: the server, its tools, resources and prompts.
//!
//! `read.rs` makes them from files. Everything that can be checked without running a program is
//! checked there, so the other modules rely on it: names are valid and unique, schemas compile,
//! templates name existing arguments, and paths are absolute.
//!
//! Each entry holds its JSON text. A reload replaces the entries whose text or folder changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{Prompt, Resource, Template, Tool};

use super::place::Place;
use super::skills::Skills;
use super::template::{Argv, Text};

/// A whole server, from one or more files.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) server: ServerInfo,
    pub(crate) sandbox: SandboxPolicy,
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    pub(crate) resources: Vec<Arc<ResourceDefinition>>,
    pub(crate) templates: Vec<Arc<TemplateDefinition>>,
    pub(crate) prompts: Vec<Arc<PromptDefinition>>,
    pub(crate) skills: Option<Skills>,
    /// Files and folders that were read, for `--watch`.
    pub(crate) sources: Vec<PathBuf>,
}

/// Member `server`. Changes take effect at the next start only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// By default the name of the first file without `.json`.
    pub(crate) name: String,
    /// By default `0`.
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) website: Option<String>,
}

/// Member `sandbox` of the file: whether the server starts where a sandbox cannot be applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SandboxPolicy {
    /// `"available"`: starts, and reports the tools that run without their sandbox.
    #[default]
    Available,
    /// `"required"`: refuses to start.
    Required,
}

/// Text and origin of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The entry in its file, for messages.
    pub(crate) place: Place,
    /// JSON text of the entry.
    pub(crate) text: String,
    /// Folder of the file. Relative paths of the entry start there.
    pub(crate) folder: PathBuf,
}

impl Source {
    /// Returns whether the other entry has the same definition.
    pub(crate) fn same(&self, other: &Source) -> bool {
        self.text == other.text && self.folder == other.folder
    }
}

/// One tool.
#[derive(Clone, Debug)]
pub(crate) struct ToolDefinition {
    /// Name, title, description, schemas and hints, ready for registration.
    pub(crate) tool: Tool,
    pub(crate) source: Source,
    /// Arguments that have a `default` in the input schema. The handler adds those that a call
    /// omits, before templates are expanded and the arguments are written to a program.
    pub(crate) defaults: Vec<(String, Json)>,
    pub(crate) program: Program,
    pub(crate) mode: Mode,
    /// `confirm`: question to the user before each call.
    pub(crate) confirm: Option<Text>,
    /// `timeout`: seconds, 30 by default. After it the process group is killed.
    pub(crate) timeout: Duration,
    /// `concurrency`: calls of this tool at once, 4 by default. Others wait.
    pub(crate) concurrency: usize,
    /// `outputLimit`: bytes of output in the result, 64 KiB by default. The rest is cut or, with
    /// `"rest": "link"`, linked as a resource.
    pub(crate) output_limit: usize,
    /// `rest`: `"link"` instead of `"cut"`.
    pub(crate) link_rest: bool,
}

/// A program with its arguments and surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// First element: the program, without placeholders. A name without `/` is searched in PATH of
    /// this process when it starts; a relative path starts at the folder of the file.
    pub(crate) argv: Argv,
    /// `env`: the only variables besides [`INHERITED`](super::programs::process::INHERITED).
    /// `${NAME}` in a value is replaced by a variable of this process when the file is read.
    pub(crate) env: Vec<(String, String)>,
    /// `cwd`: absolute; by default the folder of the file.
    pub(crate) cwd: PathBuf,
    pub(crate) sandbox: Option<Grants>,
}

/// How a tool uses its program.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// `run`: one process per call.
    PerCall { stdin: Stdin, output: Output },
    /// `worker`: one process for many calls, a JSON line each. Placeholders are not allowed.
    Worker,
}

/// Member `stdin`.
#[derive(Clone, Debug)]
pub(crate) enum Stdin {
    /// `"none"`: empty. The default.
    None,
    /// `"json"`: the arguments as one JSON document and a newline.
    Json,
    /// A template such as `"{text}"`.
    Text(Text),
}

/// Member `output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// `"text"`: one text block. The default.
    Text,
    /// `"json"`: structured content, checked against `outputSchema` if there is one.
    Json,
    /// `"lines"`: each line is a progress message; the last block of lines is the result.
    Lines,
    /// A media type such as `image/png`: the bytes, as an image, audio or embedded resource.
    Media(String),
}

/// Member `sandbox` of a tool: what its program may access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// Absolute paths that may be read and executed, with everything below them, and the word
    /// [`SYSTEM_WORD`](super::programs::sandbox::SYSTEM_WORD).
    pub(crate) read: Vec<PathBuf>,
    /// Absolute paths that may be read and written, with everything below them.
    pub(crate) write: Vec<PathBuf>,
    /// Whether the network may be used. `false` by default.
    pub(crate) net: bool,
}

/// A resource: one file, or a folder whose files are listed.
#[derive(Clone, Debug)]
pub(crate) struct ResourceDefinition {
    pub(crate) resource: Resource,
    pub(crate) source: Source,
    /// `file` or `folder`, absolute.
    pub(crate) path: PathBuf,
    /// Given as `folder`: the URI is a prefix of those of its files.
    pub(crate) is_folder: bool,
    /// `watch`: subscribers are notified when the file changes.
    pub(crate) watch: bool,
}

/// A resource template. Values fill single path components of `file`.
#[derive(Clone, Debug)]
pub(crate) struct TemplateDefinition {
    pub(crate) template: Template,
    pub(crate) source: Source,
    /// `file`: absolute path template. The folder before the first placeholder is never left.
    pub(crate) file: Text,
}

/// A prompt: a text file with `{name}` placeholders.
#[derive(Clone, Debug)]
pub(crate) struct PromptDefinition {
    pub(crate) prompt: Prompt,
    pub(crate) source: Source,
    /// `file`, absolute. Read at each request.
    pub(crate) file: PathBuf,
}
