//! Resources, resource templates and prompts of a definition file.

use tinymcp::{Argument, Prompt, ReadOutput, Resource, Server, Template, ToolError};

use super::super::definition::{PromptDefinition, ResourceDefinition, TemplateDefinition};
use super::super::files;
use super::super::template::{Properties, Text};
use super::document::Node;
use super::members::{Problems, absolute};
use super::schema::MAX_ARGUMENTS;
use super::source;
use super::tools::check_name;

/// Members of a resource.
const RESOURCE: &str = "file folder watch name title description mimeType";
/// Members of a resource template.
const TEMPLATE: &str = "file name title description mimeType";
/// Members of a prompt.
const PROMPT: &str = "file title description arguments";
/// Members of an argument of a prompt.
const ARGUMENT: &str = "name title description required";

/// Reads a resource.
pub(super) fn resource(uri: &str, node: &Node<'_>, problems: &mut Problems) -> Option<ResourceDefinition> {
    let before = problems.list.len();
    check_uri(uri, node, problems);
    // Registration rejects other invalid URIs.
    let registered = Server::new("check", "0")
        .resource(Resource::new(uri, "check"), |_, _| Err::<ReadOutput, _>(ToolError::new("")))
        .map(|_| ());
    if let Some(error) = registered.err().filter(|_| problems.list.len() == before) {
        problems.add(node, error.to_string());
    }
    if !problems.object(node, RESOURCE) {
        return None;
    }
    let (file, folder) = (node.get("file"), node.get("folder"));
    let is_folder = folder.is_some();
    match (&file, &folder) {
        (Some(_), Some(_)) => {
            problems.add(node, "the resource has both `file` and `folder`; remove one of them");
        }
        (None, None) => problems.add(node, "missing member `file` or `folder`, the path of the contents"),
        _ => {}
    }
    let path = file.or(folder).and_then(|path| problems.path(&path));
    let mut resource = Resource::new(uri, problems.text(node, "name").unwrap_or_else(|| default_name(uri)));
    resource.title = problems.text(node, "title");
    resource.description = problems.text(node, "description");
    resource.mime_type = media(node, problems);
    let watch = problems.flag(node, "watch").unwrap_or(false);
    let path = path?;
    if resource.mime_type.is_none() && !is_folder {
        resource.mime_type = files::media_type(&path).map(str::to_owned);
    }
    Some(ResourceDefinition { resource, source: source(node), path, is_folder, watch })
}

/// Reads a resource template.
pub(super) fn template(uri: &str, node: &Node<'_>, problems: &mut Problems) -> Option<TemplateDefinition> {
    check_uri(uri, node, problems);
    let known = problems.object(node, TEMPLATE);
    let mut template = match Template::new(uri, default_name(uri)) {
        Ok(template) => template,
        Err(error) => {
            problems.add(node, error.to_string());
            return None;
        }
    };
    if !known {
        return None;
    }
    if template.uri_template().variables().next().is_none() {
        problems.add(node, "the URI template has no {variable}; put the entry into `resources`");
    }
    // Registration rejects templates whose variables cannot be distinguished.
    let registered = Server::new("check", "0")
        .template(template.clone(), |_, _, _| Err::<ReadOutput, _>(ToolError::new("")))
        .map(|_| ());
    if let Err(error) = registered {
        problems.add(node, error.to_string());
    }
    if let Some(name) = problems.text(node, "name") {
        template.name = name;
    }
    template.title = problems.text(node, "title");
    template.description = problems.text(node, "description");
    template.mime_type = media(node, problems);
    let Some(member) = node.get("file") else {
        problems.add(node, "missing member `file`, a path such as \"/var/log/{day}.log\"");
        return None;
    };
    let file = template_file(&member, &template, problems);
    Some(TemplateDefinition { template, source: source(node), file: file? })
}

/// Reads `file` of a resource template as an absolute path template.
fn template_file(node: &Node<'_>, template: &Template, problems: &mut Problems) -> Option<Text> {
    let text = problems.string(node)?;
    problems.path(node)?;
    let names = template.uri_template().variables().map(|name| (name.to_owned(), true)).collect();
    let properties = Properties { names, ..Properties::default() };
    let before = problems.list.len();
    if text.contains("{?") {
        problems.add(node, "every URI has all variables: write `{name}` without `?`");
    }
    for (name, _) in &properties.names {
        if !text.contains(&format!("{{{name}}}")) && !text.contains(&format!("{{?{name}}}")) {
            problems.add(node, format!("the path does not use the variable {{{name}}} of the URI template"));
        }
    }
    let (_, below) = text.split_at(text.find('{').unwrap_or(text.len()));
    if below.split('/').any(|component| matches!(component, "." | "..")) || below.contains("//") {
        problems.add(node, "the path has `.`, `..` or `//` after a placeholder");
    }
    if below.ends_with('/') {
        problems.add(node, "the path ends with `/`; it must name a file");
    }
    let folder = node.document().folder.to_str().map(|path| path.replace('{', "{{").replace('}', "}}"));
    let Some(folder) = folder else {
        problems.add(node, "the path of this definition file is not UTF-8");
        return None;
    };
    let path = absolute(folder.as_ref(), text);
    // Parse the text after a problem as well, to report the problems of its placeholders.
    let parsed = Text::parse(path.to_str().unwrap_or_default(), &properties);
    let parsed = parsed.map_err(|message| problems.add(node, message)).ok();
    parsed.filter(|_| problems.list.len() == before)
}

/// Reads a prompt.
pub(super) fn prompt(name: &str, node: &Node<'_>, problems: &mut Problems) -> Option<PromptDefinition> {
    check_name("prompt", name, node, problems);
    if !problems.object(node, PROMPT) {
        return None;
    }
    let mut prompt = Prompt::new(name);
    prompt.title = problems.text(node, "title");
    prompt.description = problems.text(node, "description");
    if let Some(member) = node.get("arguments") {
        if member.value.kind() != tinymcp::json::Kind::Array {
            problems.expected(&member, "an array such as [\"topic\", \"note?\"]");
        }
        if member.value.len() > MAX_ARGUMENTS {
            problems.add(&member, format!("more than {MAX_ARGUMENTS} arguments"));
        }
        for item in member.items().take(MAX_ARGUMENTS) {
            let Some(argument) = argument(&item, problems) else { continue };
            if prompt.arguments.iter().any(|other| other.name == argument.name) {
                problems.add(&item, format!("the argument {:?} is defined twice", argument.name));
            }
            prompt.arguments.push(argument);
        }
    }
    let Some(file) = node.get("file") else {
        problems.add(node, "missing member `file`, the path of the text");
        return None;
    };
    Some(PromptDefinition { prompt, source: source(node), file: problems.path(&file)? })
}

/// Reads an argument of a prompt: an object, or a name, followed by `?` if it is optional.
fn argument(node: &Node<'_>, problems: &mut Problems) -> Option<Argument> {
    if let Some(text) = node.value.as_str() {
        let (name, is_optional) = super::input::name(text).map_err(|m| problems.add(node, m)).ok()?;
        return Some(if is_optional { Argument::optional(name) } else { Argument::required(name) });
    }
    if node.value.kind() != tinymcp::json::Kind::Object {
        problems.expected(node, "a name such as \"topic\" or an object with `name`");
        return None;
    }
    problems.object(node, ARGUMENT);
    let Some(member) = node.get("name") else {
        problems.add(node, "missing member `name`");
        return None;
    };
    let text = problems.string(&member)?;
    match super::input::name(text) {
        Ok((_, true)) => problems.add(&member, "remove `?` and write \"required\": false"),
        Ok(_) => {}
        Err(message) => problems.add(&member, message),
    }
    let mut argument = Argument::optional(text);
    argument.title = problems.text(node, "title");
    argument.description = problems.text(node, "description");
    argument.required = problems.flag(node, "required").unwrap_or(false);
    Some(argument)
}

fn media(node: &Node<'_>, problems: &mut Problems) -> Option<String> {
    let media = problems.text(node, "mimeType")?;
    if !media.contains('/') || media.contains(char::is_control) {
        problems.add(&node.below("/mimeType"), "expected a media type such as \"text/plain\"");
    }
    Some(media)
}

fn check_uri(uri: &str, node: &Node<'_>, problems: &mut Problems) {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !valid {
        problems.add(node, format!("invalid URI {uri:?}: expected a scheme, such as \"status://soil\""));
    } else if uri.contains(|c: char| c.is_whitespace() || c.is_control()) {
        problems.add(node, format!("invalid URI {uri:?}: write %20 for a space"));
    }
}

/// Returns the last component of a URI.
fn default_name(uri: &str) -> String {
    let name = uri.trim_end_matches('/').rsplit(['/', ':']).find(|part| !part.is_empty());
    name.unwrap_or(uri).to_owned()
}
