//! Form elicitation: a flat form of primitive fields, and its response.
//!
//! The fields are those of MCP client/elicitation (2025-11-25, 2026-07-28): strings with bounds
//! and a format, numbers, integers, booleans, single and multiple choice with or without titles,
//! each with a default. A response is validated against its form before a handler gets it.
//! A form must never request passwords, keys or payment data: use a URL.

use crate::json::{Doc, Json, Kind, Value};
#[cfg(feature = "client")]
use crate::json::{ToJson, Writer};

/// A form for the user.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Form {
    /// Message above the form.
    pub message: String,
    /// Fields, in display order.
    pub fields: Vec<Field>,
}

impl Form {
    /// Creates a form with this message.
    pub fn new(message: impl Into<String>) -> Form {
        Form { message: message.into(), fields: Vec::new() }
    }

    /// Appends a field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Form {
        self.fields.push(field);
        self
    }

    /// Describes the first fault of this form, such as a field without choices.
    pub(crate) fn fault(&self) -> Option<String> {
        for (at, field) in self.fields.iter().enumerate() {
            let name = &field.name;
            if self.fields.iter().take(at).any(|other| other.name == *name) {
                return Some(format!("duplicate field {name:?}"));
            }
            if let FieldKind::One { options, .. } | FieldKind::Many { options } = &field.kind {
                if options.is_empty() {
                    return Some(format!("{name:?} has no choices"));
                }
            }
            // Lengths and counts must not be negative.
            let least = if matches!(field.kind, FieldKind::Text { .. } | FieldKind::Many { .. }) {
                0.0
            } else {
                f64::MIN
            };
            if [field.least, field.most]
                .into_iter()
                .flatten()
                .any(|bound| !(least..=f64::MAX).contains(&bound))
            {
                return Some(format!("{name:?} has an invalid bound"));
            }
            if field.least.zip(field.most).is_some_and(|(least, most)| least > most) {
                return Some(format!("{name:?} has a lower bound above its upper one"));
            }
            if let Some(default) = &field.default {
                if field.check(default.to_doc().root()).is_err() {
                    return Some(format!("the default of {name:?} does not match the field"));
                }
            }
        }
        None
    }

    /// Returns `true` if `answer` is an elicitation result that fits this form.
    pub(crate) fn check(&self, answer: Value<'_>) -> Result<(), String> {
        if Action::read(answer)? != Action::Accept {
            return Ok(());
        }
        let content = answer.get("content");
        if content.is_some_and(|c| c.kind() != Kind::Object) {
            return Err("/content must be an object".to_owned());
        }
        for field in &self.fields {
            match content.and_then(|c| c.get(&field.name)) {
                Some(value) => field.check(value)?,
                None if field.required => return Err(format!("/content/{} is missing", field.name)),
                None => {}
            }
        }
        Ok(())
    }
}

/// One field of a form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Field {
    /// Name of its value in the response.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description for the user.
    pub description: Option<String>,
    /// The form cannot be accepted without it.
    pub required: bool,
    /// Type and constraints of the value.
    pub kind: FieldKind,
    /// Minimum: length of a text, value of a number, or number of choices.
    pub least: Option<f64>,
    /// Maximum of the same.
    pub most: Option<f64>,
    /// Initial value.
    pub default: Option<Json>,
}

/// Type and constraints of a field.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FieldKind {
    /// A line of text.
    Text {
        /// `email`, `uri`, `date` or `date-time`.
        format: Option<&'static str>,
    },
    /// A number.
    Number,
    /// An integer.
    Integer,
    /// A boolean.
    Bool,
    /// One of several.
    One {
        /// Values, each with an optional display name.
        options: Vec<(String, Option<String>)>,
        /// Encoding of the titles.
        naming: Naming,
    },
    /// Any number of several.
    Many {
        /// Values, each with an optional display name.
        options: Vec<(String, Option<String>)>,
    },
}

/// Encoding of the titles of choices, if the revision leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `oneOf` with `const` and `title`.
    OneOf,
    /// `enum` with the older `enumNames`.
    EnumNames,
}

impl Field {
    pub(crate) fn new(name: impl Into<String>, kind: FieldKind) -> Field {
        Field {
            name: name.into(),
            title: None,
            description: None,
            required: false,
            kind,
            least: None,
            most: None,
            default: None,
        }
    }

    /// A line of text.
    pub fn text(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: None })
    }

    /// An address such as `ada@example.org`.
    pub fn email(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("email") })
    }

    /// A URI.
    pub fn uri(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("uri") })
    }

    /// A day such as `2026-07-28`.
    pub fn date(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("date") })
    }

    /// A moment such as `2026-07-28T10:00:00Z`.
    pub fn date_time(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("date-time") })
    }

    /// A number.
    pub fn number(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Number)
    }

    /// An integer.
    pub fn integer(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Integer)
    }

    /// A boolean.
    pub fn boolean(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Bool)
    }

    /// One of these.
    pub fn choice<S: Into<String>>(name: impl Into<String>, options: impl IntoIterator<Item = S>) -> Field {
        let options = options.into_iter().map(|o| (o.into(), None)).collect();
        Field::new(name, FieldKind::One { options, naming: Naming::OneOf })
    }

    /// One of these, each with a display name.
    pub fn titled_choice<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(name, FieldKind::One { options: titled(options), naming: Naming::OneOf })
    }

    /// One of these, the titles in the older `enumNames` form, for clients that know only that.
    pub fn named_choice<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(name, FieldKind::One { options: titled(options), naming: Naming::EnumNames })
    }

    /// Any number of these.
    pub fn choices<S: Into<String>>(name: impl Into<String>, options: impl IntoIterator<Item = S>) -> Field {
        let options = options.into_iter().map(|o| (o.into(), None)).collect();
        Field::new(name, FieldKind::Many { options })
    }

    /// Any number of these, each with a display name.
    pub fn titled_choices<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(name, FieldKind::Many { options: titled(options) })
    }

    /// Display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Field {
        self.title = Some(title.into());
        self
    }

    /// Description for the user.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Field {
        self.description = Some(text.into());
        self
    }

    /// The form cannot be accepted without it.
    #[must_use]
    pub fn required(mut self) -> Field {
        self.required = true;
        self
    }

    /// Minimum: length of a text, value of a number, or number of choices.
    #[must_use]
    pub fn least(mut self, least: impl Into<f64>) -> Field {
        self.least = Some(least.into());
        self
    }

    /// Maximum: length of a text, value of a number, or number of choices.
    #[must_use]
    pub fn most(mut self, most: impl Into<f64>) -> Field {
        self.most = Some(most.into());
        self
    }

    /// Initial value. It is a hint to the client: it is not added to a response without the
    /// field.
    #[must_use]
    pub fn default(mut self, value: impl Into<Json>) -> Field {
        self.default = Some(value.into());
        self
    }

    fn check(&self, value: Value<'_>) -> Result<(), String> {
        let bad = |expected: &str| Err(format!("/content/{} must be {expected}", self.name));
        let measure = match &self.kind {
            FieldKind::Text { .. } => match value.as_str() {
                Some(text) => text.chars().count() as f64,
                None => return bad("a string"),
            },
            FieldKind::Number | FieldKind::Integer => match value.as_f64() {
                Some(n) if matches!(self.kind, FieldKind::Number) || n.fract() == 0.0 => n,
                _ => {
                    return bad(if matches!(self.kind, FieldKind::Number) {
                        "a number"
                    } else {
                        "an integer"
                    });
                }
            },
            FieldKind::Bool => return value.as_bool().map_or_else(|| bad("true or false"), |_| Ok(())),
            FieldKind::One { options, .. } => {
                let known = value.as_str().is_some_and(|v| options.iter().any(|(o, _)| o == v));
                return if known { Ok(()) } else { bad(&one_of(options)) };
            }
            FieldKind::Many { options } => {
                // Revisions without multiple choice get a single choice, whose value is a string.
                let chosen = |v: Value<'_>| v.as_str().is_some_and(|v| options.iter().any(|(o, _)| o == v));
                match value.kind() {
                    Kind::Array if value.items().all(chosen) => value.len() as f64,
                    Kind::String if chosen(value) => 1.0,
                    _ => return bad(&format!("an array, each item {}", one_of(options))),
                }
            }
        };
        if self.least.is_some_and(|least| measure < least) || self.most.is_some_and(|most| measure > most) {
            let (before, after) = match &self.kind {
                FieldKind::Text { .. } => ("a text of ", " characters"),
                FieldKind::Many { .. } => ("an array of ", " choices"),
                _ => ("", ""),
            };
            return bad(&match (self.least.map(bound), self.most.map(bound)) {
                (Some(least), Some(most)) => format!("{before}{least} to {most}{after}"),
                (Some(least), None) => format!("{before}at least {least}{after}"),
                (None, most) => format!("{before}at most {}{after}", most.unwrap_or_default()),
            });
        }
        Ok(())
    }
}

/// A bound as text. The formatter of the standard library would make small servers 20 kB larger.
fn bound(n: f64) -> String {
    Json::from(n).as_str().trim_end_matches(".0").to_owned()
}

fn titled<V: Into<String>, T: Into<String>>(
    options: impl IntoIterator<Item = (V, T)>,
) -> Vec<(String, Option<String>)> {
    options.into_iter().map(|(v, t)| (v.into(), Some(t.into()))).collect()
}

fn one_of(options: &[(String, Option<String>)]) -> String {
    let names: Vec<&str> = options.iter().map(|(v, _)| v.as_str()).collect();
    format!("one of {}", names.join(", "))
}

/// The user's reaction to a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The user submitted the form.
    Accept,
    /// The user declined.
    Decline,
    /// The user closed the form without a choice.
    Cancel,
}

impl Action {
    pub(crate) fn read(answer: Value<'_>) -> Result<Action, String> {
        match answer.get("action").and_then(Value::as_str) {
            Some("accept") => Ok(Action::Accept),
            Some("decline") => Ok(Action::Decline),
            Some("cancel") => Ok(Action::Cancel),
            _ => Err("/action must be accept, decline or cancel".to_owned()),
        }
    }
}

impl Action {
    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Accept => "accept",
            Action::Decline => "decline",
            Action::Cancel => "cancel",
        }
    }
}

/// A client's response to a form.
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormResponse {
    pub(crate) action: Action,
    pub(crate) content: Option<Json>,
}

#[cfg(feature = "client")]
impl FormResponse {
    /// The user filled it in: an object with one member per field. Fields that are missing take
    /// their defaults.
    pub fn accept(content: impl ToJson) -> FormResponse {
        FormResponse { action: Action::Accept, content: Some(content.to_json()) }
    }

    /// The user declined.
    pub fn decline() -> FormResponse {
        FormResponse { action: Action::Decline, content: None }
    }

    /// The user closed the form without a choice.
    pub fn cancel() -> FormResponse {
        FormResponse { action: Action::Cancel, content: None }
    }
}

#[cfg(feature = "client")]
impl Form {
    /// The reply with defaults filled in (client/elicitation, default values), if it fits the form.
    ///
    /// # Errors
    /// The first mismatch.
    pub(crate) fn completed(&self, reply: FormResponse) -> Result<FormResponse, String> {
        let Some(content) = reply.content.filter(|_| reply.action == Action::Accept) else {
            return Ok(FormResponse { action: reply.action, content: None });
        };
        let given = content.to_doc();
        if given.root().kind() != Kind::Object {
            return Err("the content of a form is an object".to_owned());
        }
        let mut w = Writer::new();
        w.begin_object();
        for (name, value) in given.root().members() {
            w.key(name).value(value);
        }
        for field in &self.fields {
            if let Some(default) = field.default.as_ref().filter(|_| given.root().get(&field.name).is_none())
            {
                w.key(&field.name).json(default);
            }
        }
        w.end_object();
        let content = w.into_json();
        let whole = crate::json!({"action": "accept", "content": content}).to_doc();
        self.check(whole.root())?;
        Ok(FormResponse { action: Action::Accept, content: Some(content) })
    }
}

/// The user's response to a form, validated against the form.
#[derive(Debug)]
pub struct FormResult {
    action: Action,
    doc: Doc,
}

impl FormResult {
    pub(crate) fn new(action: Action, doc: Doc) -> FormResult {
        FormResult { action, doc }
    }

    /// The user's reaction; declining and closing are ordinary outcomes.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns `true` if the user filled the form in.
    pub fn accepted(&self) -> bool {
        self.action == Action::Accept
    }

    /// A field's value, when the form was accepted and the field was filled in.
    pub fn value(&self, field: &str) -> Option<Value<'_>> {
        match self.action {
            Action::Accept => self.doc.root().get("content")?.get(field),
            Action::Decline | Action::Cancel => None,
        }
    }

    /// The values of a field with several choices.
    pub fn texts(&self, field: &str) -> impl Iterator<Item = &str> {
        let value = self.value(field);
        // In revisions without multiple choice the value is a single string.
        let single = value.filter(|v| v.kind() == Kind::String);
        single.into_iter().chain(value.into_iter().flat_map(Value::items)).filter_map(Value::as_str)
    }

    /// A text's or a choice's value.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.value(field)?.as_str()
    }

    /// A boolean's value.
    pub fn bool(&self, field: &str) -> Option<bool> {
        self.value(field)?.as_bool()
    }

    /// An integer's value.
    pub fn integer(&self, field: &str) -> Option<i64> {
        let value = self.value(field)?;
        value
            .as_i64()
            .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
    }

    /// A number's value.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.value(field)?.as_f64()
    }
}
