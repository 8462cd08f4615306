//! Argument templates.
//!
//! | element | arguments |
//! |---|---|
//! | `"--bed"` | itself |
//! | `"{bed}"`, `"--bed={bed}"` | one, with the value of the required argument `bed` |
//! | `"{?note}"`, `"--note={?note}"` | one, or none if the optional argument `note` is absent |
//! | `"{?all:--all}"` | one, the text after the colon, if the argument `all` is `true`, otherwise none |
//! | `"{tags...}"`, `"--tag={tags...}"` | one for each item of the array; none if it is absent or empty |
//! | `"{{"`, `"}}"` | a literal brace |
//!
//! An element with `{?note}` is dropped with all of its text if `note` is absent. An element with
//! `{tags...}` has no other placeholder, so that expansion takes time linear in the arguments.
//!
//! A string is inserted as it is, also if it is empty or begins with `-`. An integer below 2^53 is
//! inserted in plain form: `-0.0` as `0`, `8e0` as `8`. Other numbers, booleans, `null`, objects
//! and arrays are inserted as JSON text. One element never becomes two arguments except by `...`,
//! and no shell reads any of them.

use std::borrow::Cow;
use std::ffi::OsString;

use tinymcp::json::{Kind, Value};

use super::words::{join, nearest};
use crate::escape::one_line;

/// Maximum number of names that an error message lists.
const LISTED: usize = 8;
/// Bound of the integers that are exact in `f64`: 2^53.
const PLAIN: f64 = 9_007_199_254_740_992.0;

/// The arguments that templates may name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    /// Name, and whether every call has it: required, or with a default.
    pub(crate) names: Vec<(String, bool)>,
    /// The schema allows other names, too.
    pub(crate) open: bool,
    /// The schema has a problem, so nothing is known about its names.
    pub(crate) is_unknown: bool,
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argv {
    elements: Vec<Text>,
}

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `{name}`.
    Required(String),
    /// `{?name}`.
    Optional(String),
    /// `{name...}`.
    Spread(String),
    /// `{?name:TEXT}`.
    Flag {
        name: String,
        text: String,
    },
}

impl Argv {
    /// Parses a command line. The first element must not have placeholders.
    ///
    /// # Errors
    /// Index of the element, and a message with a correction.
    pub(crate) fn parse(elements: &[&str], properties: &Properties) -> Result<Argv, (usize, String)> {
        let mut parsed = Vec::with_capacity(elements.len());
        for (at, element) in elements.iter().enumerate() {
            let text = Text::parse_parts(element, properties).map_err(|message| (at, message))?;
            let fault = if element.contains('\0') {
                Some("an argument must not contain a NUL character")
            } else if text.spread().is_some() && text.names().count() > 1 {
                Some("`...` must be the only placeholder of its element")
            } else if at == 0 && element.is_empty() {
                Some("the program must not be empty")
            } else if at == 0 && text.names().next().is_some() {
                Some("the program must not have placeholders; write `{{` for a literal brace")
            } else {
                None
            };
            if let Some(fault) = fault {
                return Err((at, fault.to_owned()));
            }
            parsed.push(text);
        }
        if parsed.is_empty() {
            return Err((0, "the command line must not be empty: expected a program".to_owned()));
        }
        Ok(Argv { elements: parsed })
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> &str {
        self.elements.first().map_or("", Text::leading_literal)
    }

    /// Returns the elements, the program first.
    pub(crate) fn elements(&self) -> &[Text] {
        &self.elements
    }

    /// Returns the arguments without placeholders after the program, with their indices.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &str)> {
        let elements = self.elements.iter().enumerate().skip(1);
        elements.filter_map(|(at, element)| Some((at, element.literal()?)))
    }

    /// Expands to the arguments, the program first.
    ///
    /// # Errors
    /// A value contains a NUL byte, or `...` is applied to something other than an array.
    pub(crate) fn expand(&self, arguments: Value<'_>) -> Result<Vec<OsString>, String> {
        let mut argv = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            let Some(name) = element.spread() else {
                match element.insert(arguments, None) {
                    Ok(text) => argv.push(without_nul(text, element)?),
                    Err(Absent::Optional) => {}
                    Err(Absent::Required(name)) => return Err(format!("missing argument `{name}`")),
                }
                continue;
            };
            let Some(array) = arguments.get(name) else { continue };
            if array.kind() != Kind::Array {
                return Err(format!("argument `{name}` must be an array"));
            }
            for item in array.items() {
                // OK to skip errors: the item replaces the only placeholder.
                if let Ok(text) = element.insert(arguments, Some(item)) {
                    argv.push(without_nul(text, element)?);
                }
            }
        }
        Ok(argv)
    }
}

/// The reason why an element has no value.
enum Absent<'t> {
    Optional,
    /// The caller has not checked the arguments against the schema.
    Required(&'t str),
}

/// Returns the text as an argument. System calls end an argument at the first NUL byte, so a value
/// with one cannot be passed.
fn without_nul(text: String, element: &Text) -> Result<OsString, String> {
    if text.contains('\0') {
        let names = join(&mut element.names().map(|name| format!("`{name}`")), " or ");
        return Err(format!("argument {names} must not contain a NUL character"));
    }
    Ok(text.into())
}

impl Text {
    /// Parses one text. `...` is not allowed.
    ///
    /// # Errors
    /// A message with a correction.
    pub(crate) fn parse(text: &str, properties: &Properties) -> Result<Text, String> {
        let text = Text::parse_parts(text, properties)?;
        if let Some(name) = text.flags().next() {
            return Err(format!("`{{?{name}:TEXT}}` is allowed in command lines only"));
        }
        match text.spread() {
            Some(name) => {
                Err(format!("`{{{name}...}}` is allowed in command lines only: write `{{?{name}}}`"))
            }
            None => Ok(text),
        }
    }

    fn parse_parts(text: &str, properties: &Properties) -> Result<Text, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            literal.push_str(before);
            let doubled = brace.strip_prefix("{{").map(|rest| ('{', rest));
            if let Some((character, after)) = doubled.or(brace.strip_prefix("}}").map(|rest| ('}', rest))) {
                literal.push(character);
                rest = after;
                continue;
            }
            let Some(inside) = brace.strip_prefix('{') else {
                return Err("unbalanced `}`: write `}}` for a literal brace".to_owned());
            };
            let Some((inside, after)) = inside.split_once('}').filter(|(inside, _)| !inside.contains('{'))
            else {
                return Err("unbalanced `{`: write `{{` for a literal brace".to_owned());
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::parse(inside, properties)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Text { parts })
    }

    /// Returns the names of the placeholders in their order, repeated as often as they occur.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(Part::name)
    }

    /// Returns the text, if it has no placeholder.
    pub(crate) fn literal(&self) -> Option<&str> {
        self.names().next().is_none().then(|| self.leading_literal())
    }

    /// Returns the name of the placeholder at the beginning.
    pub(crate) fn leading_name(&self) -> Option<&str> {
        self.parts.first().filter(|part| !matches!(part, Part::Flag { .. }))?.name()
    }

    /// Returns the placeholder at the beginning as it is written, such as `{?note}`.
    pub(crate) fn leading_placeholder(&self) -> String {
        let (before, after) = match self.parts.first() {
            Some(Part::Optional(_)) => ("?", ""),
            Some(Part::Spread(_)) => ("", "..."),
            _ => ("", ""),
        };
        format!("{{{before}{}{after}}}", self.leading_name().unwrap_or_default())
    }

    /// Returns the names of the placeholders `{?name:TEXT}`.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| matches!(part, Part::Flag { .. })).filter_map(Part::name)
    }

    /// Returns the text before the first placeholder.
    pub(crate) fn leading_literal(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn spread(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Part::Spread(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Replaces the placeholders; `None` if an optional argument is absent.
    pub(crate) fn expand(&self, arguments: Value<'_>) -> Option<String> {
        self.insert(arguments, None).ok()
    }

    /// Replaces the placeholders in a text for people. Absent arguments are removed, and line ends
    /// in values are replaced.
    pub(crate) fn fill(&self, arguments: Value<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Required(name) | Part::Optional(name) | Part::Spread(name) => {
                    text.push_str(&one_line(&arguments.get(name).map_or(Cow::Borrowed(""), inserted)));
                }
                Part::Flag { .. } => {}
            }
        }
        text
    }

    /// Replaces the placeholders, `{name...}` by this item.
    fn insert(&self, arguments: Value<'_>, item: Option<Value<'_>>) -> Result<String, Absent<'_>> {
        let mut text = String::new();
        for part in &self.parts {
            let value = match part {
                Part::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Required(name) => arguments.get(name).ok_or(Absent::Required(name))?,
                Part::Optional(name) => arguments.get(name).ok_or(Absent::Optional)?,
                Part::Spread(_) => item.ok_or(Absent::Optional)?,
                Part::Flag { name, text: flag } => {
                    let is_set = arguments.get(name).and_then(Value::as_bool) == Some(true);
                    text.push_str(Some(flag).filter(|_| is_set).ok_or(Absent::Optional)?);
                    continue;
                }
            };
            text.push_str(&inserted(value));
        }
        Ok(text)
    }
}

impl Part {
    /// Parses the inside of a pair of braces.
    fn parse(inside: &str, properties: &Properties) -> Result<Part, String> {
        let (optional, name) = inside.strip_prefix('?').map_or((false, inside), |name| (true, name));
        let known =
            |name: &str| properties.names.iter().find(|(known, _)| known == name).map(|(_, always)| *always);
        let flag = name.split_once(':').filter(|_| optional && known(name).is_none());
        let (name, flag) = flag.map_or((name, None), |(name, text)| (name, Some(text)));
        let (spread, name) = name.strip_suffix("...").map_or((false, name), |name| (true, name));
        if name.is_empty() {
            return Err(format!("`{{{inside}}}` has no name; write `{{{{` and `}}}}` for literal braces"));
        }
        let known = known(name).or(properties.is_unknown.then_some(true));
        if known.is_none() && !properties.open {
            return Err(unknown(inside, name, properties));
        }
        let name = name.to_owned();
        if let Some(text) = flag.filter(|_| !spread) {
            if text.is_empty() {
                return Err(format!(
                    "`{{{inside}}}` has no text after the colon, such as `{{?{name}:--all}}`"
                ));
            }
            return Ok(Part::Flag { name, text: text.to_owned() });
        }
        match (spread, optional) {
            (true, true) => {
                Err(format!("write `{{{name}...}}` without `?`: an absent array gives no argument"))
            }
            (true, false) => Ok(Part::Spread(name)),
            (false, true) => Ok(Part::Optional(name)),
            (false, false) if known == Some(true) => Ok(Part::Required(name)),
            (false, false) => Err(format!(
                "`{name}` is optional: write `{{?{name}}}`, which drops the element or text if it is absent"
            )),
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Part::Literal(_) => None,
            Part::Required(name) | Part::Optional(name) | Part::Spread(name) | Part::Flag { name, .. } => {
                Some(name)
            }
        }
    }
}

/// Returns the text that replaces a placeholder. Programs read `-0` or `8.0` in other ways than a
/// schema, so integers have their plain form.
fn inserted(value: Value<'_>) -> Cow<'_, str> {
    if let Some(text) = value.as_str() {
        return text.into();
    }
    match value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < PLAIN) {
        Some(integer) => (integer as i64).to_string().into(),
        None => value.raw().into(),
    }
}

/// Returns the message about an unknown name, with the nearest known one or a list.
fn unknown(inside: &str, name: &str, properties: &Properties) -> String {
    let known = || properties.names.iter().map(|(known, _)| known.as_str());
    let expected = match nearest(name, &mut known()) {
        _ if properties.names.is_empty() => "there are no arguments".to_owned(),
        Some(known) => format!("did you mean `{{{known}}}`?"),
        None => {
            let mut list = join(&mut known().take(LISTED).map(|name| format!("`{{{name}}}`")), ", ");
            if properties.names.len() > LISTED {
                list.push_str(", …");
            }
            format!("expected one of {list}")
        }
    };
    format!("unknown placeholder `{{{inside}}}`: {expected}; write `{{{{{inside}}}}}` for literal braces")
}

#[cfg(test)]
mod tests;
