//! Checks of command lines: values that a program reads as options or as code.

use tinymcp::json::{Doc, Json, Value};
use tinymcp::schema::Schema;

use super::super::definition::ToolDefinition;
use super::super::read::script::{self, Language};
use super::super::template::Text;
use super::super::words;
use super::shell;

/// Programs whose operands are an expression: `--` does not end it, and it also has [`OPERATORS`].
pub(super) const EXPRESSIONS: &str = "find test [ expr";

/// Texts that a program of [`EXPRESSIONS`] reads as operators: `find !` lists other files.
const OPERATORS: [&str; 4] = ["!", "(", ")", ","];

/// Programs, and their options that take the next argument as their value, also if it begins with
/// a dash.
const VALUES: [(&str, &str); 11] = [
    ("grep egrep fgrep", "-e -f -m -A -B -C"),
    ("zgrep git", "-e"),
    ("rg", "-e -f -m -A -B -C -g -t"),
    ("awk gawk mawk", "-v -F"),
    ("head tail", "-n -c"),
    ("cut", "-b -c -d -f"),
    ("date", "-d"),
    ("journalctl", "-n -u"),
    ("test [", "-d -e -f -n -r -s -w -x -z"),
    (
        "find",
        "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -newer -samefile \
         -type -size -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -user -group -uid -gid -perm",
    ),
    ("gfind", "-name -iname"),
];

/// Arguments of a tool, by the input schema.
struct Arguments<'t> {
    properties: Option<Value<'t>>,
}

impl<'t> Arguments<'t> {
    fn get(&self, name: &str) -> Option<Value<'t>> {
        self.properties.and_then(|properties| properties.get(name))
    }

    fn may_begin_with_dash(&self, name: &str) -> bool {
        self.get(name).is_none_or(may_begin_with_dash)
    }

    fn may_be_operator(&self, name: &str) -> bool {
        self.get(name).is_none_or(|property| accepts(property, OPERATORS))
    }

    /// Returns advice on how to exclude values that begin with a dash, or that are a part of an
    /// expression.
    fn exclusion(&self, name: &str, in_expression: bool) -> String {
        let pattern = if in_expression { "^[^-!(),]" } else { "^[^-]" };
        let kind = |value: Option<Value<'t>>| value?.get("type")?.as_str();
        let property = self.get(name);
        let is_list = kind(property) == Some("array");
        let items = if is_list { property.and_then(|list| list.get("items")) } else { property };
        let schema = match kind(items) {
            Some("integer" | "number") if !is_list => "a range such as 0..".to_owned(),
            Some("integer" | "number") => {
                "the schema {\"type\": \"array\", \"items\": {\"type\": \"integer\", \"minimum\": 0}}"
                    .to_owned()
            }
            _ if is_list => format!(
                "the schema {{\"type\": \"array\", \"items\": {{\"type\": \"string\", \"pattern\": \"{pattern}\"}}}}"
            ),
            _ => format!("the schema {{\"type\": \"string\", \"pattern\": \"{pattern}\"}}"),
        };
        format!("exclude such values by {schema} for `{name}` in `input`")
    }

    /// Returns whether all values are numbers, booleans or texts that the author chose.
    fn is_plain(&self, element: &Text) -> bool {
        element.names().all(|name| self.get(name).is_some_and(is_plain))
    }
}

/// Warns of values that a program may read as options or as code.
pub(super) fn check(tool: &ToolDefinition, warn: &mut dyn FnMut(String)) {
    let schema = tool.tool.input_schema.as_ref().map_or_else(Doc::default, Json::to_doc);
    let arguments = Arguments { properties: schema.root().get("properties") };
    let elements = tool.program.argv.elements();
    // Elements with placeholders are empty texts here.
    let words: Vec<&str> = elements.iter().map(|element| element.literal().unwrap_or_default()).collect();
    let start = command(&words);
    let program = words.get(start).map_or("", |word| script::name(word));
    let is_dynamic = elements.iter().any(|element| element.literal().is_none());
    if matches!(program, "ssh" | "autossh") && is_dynamic {
        warn(
            "ssh joins its arguments to a command line for a shell on the other machine, which a value can \
             change: pass values by `stdin`"
                .to_owned(),
        );
    }
    let behind = script::find(&words, &|_| true)
        .filter(|(_, language)| matches!(language, Language::Shell | Language::Python));
    for (at, element) in elements.iter().enumerate().skip(1) {
        let Some(name) = element.leading_name() else { continue };
        let before = words.get(start..at).unwrap_or_default();
        if matches!(before.last(), Some(&("-exec" | "-execdir" | "-ok" | "-okdir"))) {
            warn(format!(
                "argument {at} of the command line, {{{name}}}, is the name of a program that runs"
            ));
        } else if behind.is_none_or(|(script, _)| at <= script) && !is_protected(before) {
            let in_expression = words::has(EXPRESSIONS, program);
            let is_operator = in_expression && arguments.may_be_operator(name);
            if is_operator || arguments.may_begin_with_dash(name) {
                let exclusion = arguments.exclusion(name, in_expression);
                warn(option_message(at, &element.leading_placeholder(), &exclusion, before));
            }
        }
    }
    sql(elements, &words, start, &arguments, warn);
    if let Some((at, Language::Shell)) = behind {
        let values =
            elements.get(at + 1..).unwrap_or_default().iter().map(|element| parameter(element, &arguments));
        let values: Vec<shell::Parameter> = values.collect();
        shell::check(words.get(at).unwrap_or(&""), &values, warn);
    }
}

/// Returns the warning about a value that a program may read as an option, with the corrections,
/// the best one first. For a script of the author, `--` comes last: a script does not handle it by
/// itself.
fn option_message(at: usize, placeholder: &str, exclusion: &str, before: &[&str]) -> String {
    let program = before.first().copied().unwrap_or_default();
    let start = format!("argument {at} of the command line begins with {placeholder}, whose value may");
    if words::has(EXPRESSIONS, script::name(program)) {
        return format!(
            "{start} be `!` or begin with `-`; {} reads it as a part of its expression, also after \"--\": put a \
             fixed text in front of it, such as \"./{placeholder}\", or {exclusion}",
            script::name(program)
        );
    }
    let option = match before.last() {
        Some(option) if option.starts_with("--") && option.len() > 2 => format!("{option}="),
        Some(option) if option.starts_with('-') && option.len() == 2 && *option != "--" => {
            (*option).to_owned()
        }
        _ => "--option=".to_owned(),
    };
    let attached = format!("write \"{option}{placeholder}\"");
    let cures = if program.contains('/') || script::is_interpreter(program) {
        let dashes =
            "put \"--\" in front of it, if the program ends its options there (a script must do so itself)";
        [exclusion, &attached, dashes]
    } else {
        ["put \"--\" in front of it", &attached, exclusion]
    };
    format!("{start} begin with `-` and be read as an option: {}", cures.join(", or "))
}

/// Returns the index of the program in a command line, after `sudo`, `env`, `timeout 5` and the
/// like.
pub(super) fn command(words: &[&str]) -> usize {
    let is_known = |word: &&str| {
        let name = script::name(word);
        words::has(EXPRESSIONS, name)
            || name == "ssh"
            || VALUES.iter().any(|(programs, _)| words::has(programs, name))
    };
    let program = words.first().map_or("", |program| script::name(program));
    if program == "find" || !words::has(script::WRAPPERS, program) {
        return 0;
    }
    // Only options of the wrapper precede its `--`.
    let separator = words.iter().position(|word| *word == "--").filter(|at| {
        let options = words.get(1..*at).unwrap_or_default();
        let next = words.get(at + 1).is_some_and(|word| !word.is_empty());
        next && options.iter().all(|word| word.starts_with('-') || word.contains('='))
    });
    let known = || words.iter().skip(1).position(is_known).map(|at| at + 1);
    separator.map(|at| at + 1).or_else(known).unwrap_or(0)
}

/// Returns whether the program reads the argument after these words as an operand, even if it
/// begins with `-`.
pub(super) fn is_protected(before: &[&str]) -> bool {
    let Some((program, before)) = before.split_first() else { return true };
    let program = script::name(program);
    let options =
        VALUES.iter().find(|(programs, _)| words::has(programs, program)).map_or("", |(_, options)| *options);
    if before.last().is_some_and(|last| !last.is_empty() && words::has(options, last)) {
        return true;
    }
    !words::has(EXPRESSIONS, program) && before.iter().any(|word| matches!(*word, "--" | "--end-of-options"))
}

/// Warns of values inside SQL.
fn sql(
    elements: &[Text],
    words: &[&str],
    start: usize,
    arguments: &Arguments<'_>,
    warn: &mut dyn FnMut(String),
) {
    let program = words.get(start).map_or("", |word| script::name(word));
    let is_embedded = matches!(program, "sqlite3" | "duckdb");
    if !is_embedded && !matches!(program, "psql" | "mysql" | "mariadb") {
        return;
    }
    // The first operand of an embedded database program is the file.
    let mut is_file = is_embedded;
    for (at, element) in elements.iter().enumerate().skip(start + 1) {
        let text = element.leading_literal();
        let previous = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or_default();
        let is_option = text.starts_with('-');
        let is_operand = is_embedded && !is_option && !is_file;
        is_file &= is_option;
        let is_script = matches!(previous, "-c" | "-e" | "-cmd" | "--command" | "--execute")
            || ["-c", "-e", "--command=", "--execute="].iter().any(|option| text.starts_with(option));
        if element.literal().is_none() && (is_operand || is_script) && !arguments.is_plain(element) {
            warn(format!(
                "argument {at} of the command line is a script of {program}, so the value of {{{}}} runs as SQL: \
                 exclude quotes with a pattern in the input schema, or use a script in a language that binds values",
                element.names().next().unwrap_or_default()
            ));
        }
    }
}

fn parameter(element: &Text, arguments: &Arguments<'_>) -> shell::Parameter {
    shell::Parameter {
        name: element.names().next().map(str::to_owned),
        is_list: element.spread().is_some(),
        is_plain: arguments.is_plain(element),
        exclusion: element
            .leading_name()
            .filter(|name| arguments.may_begin_with_dash(name))
            .map(|name| arguments.exclusion(name, false)),
        exclusion_in_expression: element
            .leading_name()
            .filter(|name| arguments.may_begin_with_dash(name) || arguments.may_be_operator(name))
            .map(|name| arguments.exclusion(name, true)),
    }
}

/// Returns whether a schema accepts only numbers, booleans or texts that the author chose. For an
/// array, the schema of its items counts.
fn is_plain(property: Value<'_>) -> bool {
    match property.get("type").and_then(Value::as_str) {
        Some("array") => property.get("items").is_some_and(is_plain),
        Some("integer" | "number" | "boolean") => true,
        _ => property.get("enum").is_some() || property.get("const").is_some(),
    }
}

/// Returns whether the schema of an argument accepts one of these texts, except texts that the
/// author chose. For an array, the schema of its items counts.
fn accepts(property: Value<'_>, texts: [&str; 4]) -> bool {
    if property.get("type").and_then(Value::as_str) == Some("array") {
        return property.get("items").is_none_or(|items| accepts(items, texts));
    }
    if property.get("enum").is_some() || property.get("const").is_some() {
        return false;
    }
    let Ok(schema) = Schema::compile(property) else { return true };
    texts.iter().any(|text| schema.is_valid(Json::from(*text).to_doc().root()))
}

/// Returns whether the schema of an argument accepts a value whose text begins with `-`, except
/// texts that the author chose. For an array, the schema of its items counts.
fn may_begin_with_dash(property: Value<'_>) -> bool {
    if property.get("type").and_then(Value::as_str) == Some("array") {
        return property.get("items").is_none_or(may_begin_with_dash);
    }
    if property.get("enum").is_some() || property.get("const").is_some() {
        return false;
    }
    // A reference to another part of the schema is not resolved.
    let Ok(schema) = Schema::compile(property) else { return true };
    let mut candidates: Vec<Json> = Vec::new();
    let length = property.get("minLength").and_then(Value::as_u64).unwrap_or(0).clamp(2, 1000) as usize;
    for (start, fill) in [("-", "a"), ("--", "a"), ("-", "1"), ("-", "A")] {
        let text = format!("\"{start}{}\"", fill.repeat(length - start.len().min(length)));
        candidates.extend(Json::parse(text).ok());
    }
    let low = property.get("minimum").map(Value::raw).filter(|low| low.starts_with('-'));
    for number in ["-1", "-0.5"].into_iter().chain(low) {
        candidates.extend(Json::parse(number.to_owned()).ok());
    }
    candidates.iter().any(|candidate| schema.is_valid(candidate.to_doc().root()))
}
