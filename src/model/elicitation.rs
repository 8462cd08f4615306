//! Form elicitation: a flat form of primitive fields, and its response.
//!
//! The fields are those of MCP client/elicitation (2025-11-25, 2026-07-28): strings with bounds
//! and a format, numbers, integers, booleans, single and multiple choice with or without titles,
//! each with a default. A response is validated against its form before a handler receives it. A
//! form must never request passwords, keys or payment data: use a URL.

use crate::json::{Doc, Json, Kind, Value};
#[cfg(feature = "client")]
use crate::json::{ToJson, Writer};

/// A form for the user.
///
/// Fields are flat; there are no nested objects.
///
/// ```
/// use tinymcp::{Context, Field, Form, ToolError};
///
/// fn book(ctx: &mut Context<'_>) -> Result<String, ToolError> {
///     let form = Form::new("Which seat?")
///         .field(Field::choice("class", ["first", "second"]).required())
///         .field(Field::integer("row").min(1).max(40))
///         .field(Field::boolean("window").default(true));
///     let answer = ctx.elicit("seat", form)?;
///     if !answer.accepted() {
///         return Ok("nothing was booked".to_owned());
///     }
///     let class = answer.text("class").unwrap_or("second");
///     Ok(format!("class {class}, row {:?}", answer.integer("row")))
/// }
/// ```
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

    /// Returns a description of the first error of this form, such as a choice without options.
    pub(crate) fn fault(&self) -> Option<String> {
        for (at, field) in self.fields.iter().enumerate() {
            let name = &field.name;
            if self.fields.iter().take(at).any(|other| other.name == *name) {
                return Some(format!("duplicate field {name:?}"));
            }
            if let FieldKind::SingleSelect { options, .. } | FieldKind::MultiSelect { options } = &field.kind
            {
                if options.is_empty() {
                    return Some(format!("{name:?} has no choices"));
                }
            }
            // Lengths and counts must not be negative.
            let min = if matches!(field.kind, FieldKind::Text { .. } | FieldKind::MultiSelect { .. }) {
                0.0
            } else {
                f64::MIN
            };
            if [field.min, field.max].into_iter().flatten().any(|bound| !(min..=f64::MAX).contains(&bound)) {
                return Some(format!("{name:?} has an invalid bound"));
            }
            if field.min.zip(field.max).is_some_and(|(min, max)| min > max) {
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

    /// Checks that `answer` is an elicitation result that fits this form.
    pub(crate) fn check(&self, answer: Value<'_>) -> Result<(), String> {
        if ElicitAction::read(answer)? != ElicitAction::Accept {
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
///
/// ```
/// use tinymcp::{Field, Form};
///
/// let form = Form::new("Where shall the report go?")
///     .field(Field::email("to").title("Address").required())
///     .field(Field::text("subject").max(80).default("Report"))
///     .field(Field::choices("parts", ["summary", "tables", "log"]).min(1))
///     .field(Field::date("from").description("The first day of the report"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Field {
    /// Name of its value in the response.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description for the user.
    pub description: Option<String>,
    /// The form cannot be accepted without this field.
    pub required: bool,
    /// Type and constraints of the value.
    pub kind: FieldKind,
    /// Minimum: length of a text, value of a number, or number of choices.
    pub min: Option<f64>,
    /// Maximum: length of a text, value of a number, or number of choices.
    pub max: Option<f64>,
    /// Initial value.
    pub default: Option<Json>,
}

/// Type and constraints of a field.
///
/// A client finds it in the fields of a [`Form`] and shows a widget that fits; the constructors of
/// [`Field`] set it.
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
    /// One of several values.
    SingleSelect {
        /// Values, each with an optional display name.
        options: Vec<(String, Option<String>)>,
        /// Encoding of the titles.
        titles: TitleEncoding,
    },
    /// Any number of several values.
    MultiSelect {
        /// Values, each with an optional display name.
        options: Vec<(String, Option<String>)>,
    },
}

/// Encoding of the titles of choices, if the revision leaves a choice.
///
/// [`Field::titled_choice`] and [`Field::enum_names_choice`] set it; see [`Field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitleEncoding {
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
            min: None,
            max: None,
            default: None,
        }
    }

    /// Creates a field for a line of text.
    pub fn text(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: None })
    }

    /// Creates a field for an email address such as `ada@example.org`.
    pub fn email(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("email") })
    }

    /// Creates a field for a URI.
    pub fn uri(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("uri") })
    }

    /// Creates a field for a date such as `2026-07-28`.
    pub fn date(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("date") })
    }

    /// Creates a field for a date and time such as `2026-07-28T10:00:00Z`.
    pub fn date_time(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Text { format: Some("date-time") })
    }

    /// Creates a field for a number.
    pub fn number(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Number)
    }

    /// Creates a field for an integer.
    pub fn integer(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Integer)
    }

    /// Creates a field for a boolean.
    pub fn boolean(name: impl Into<String>) -> Field {
        Field::new(name, FieldKind::Bool)
    }

    /// Creates a field for one of these values.
    pub fn choice<S: Into<String>>(name: impl Into<String>, options: impl IntoIterator<Item = S>) -> Field {
        let options = options.into_iter().map(|o| (o.into(), None)).collect();
        Field::new(name, FieldKind::SingleSelect { options, titles: TitleEncoding::OneOf })
    }

    /// Creates a field for one of these values, each with a display name.
    pub fn titled_choice<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(name, FieldKind::SingleSelect { options: titled(options), titles: TitleEncoding::OneOf })
    }

    /// Creates a field for one of these values, with the titles in the older form `enumNames`, for
    /// clients that support only that form.
    pub fn enum_names_choice<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(
            name,
            FieldKind::SingleSelect { options: titled(options), titles: TitleEncoding::EnumNames },
        )
    }

    /// Creates a field for any number of these values.
    pub fn choices<S: Into<String>>(name: impl Into<String>, options: impl IntoIterator<Item = S>) -> Field {
        let options = options.into_iter().map(|o| (o.into(), None)).collect();
        Field::new(name, FieldKind::MultiSelect { options })
    }

    /// Creates a field for any number of these values, each with a display name.
    pub fn titled_choices<V: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        options: impl IntoIterator<Item = (V, T)>,
    ) -> Field {
        Field::new(name, FieldKind::MultiSelect { options: titled(options) })
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Field {
        self.title = Some(title.into());
        self
    }

    /// Sets the description for the user.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Field {
        self.description = Some(text.into());
        self
    }

    /// Makes the field required: the form cannot be accepted without it.
    #[must_use]
    pub fn required(mut self) -> Field {
        self.required = true;
        self
    }

    /// Sets the minimum: length of a text, value of a number, or number of choices.
    #[must_use]
    pub fn min(mut self, min: impl Into<f64>) -> Field {
        self.min = Some(min.into());
        self
    }

    /// Sets the maximum: length of a text, value of a number, or number of choices.
    #[must_use]
    pub fn max(mut self, max: impl Into<f64>) -> Field {
        self.max = Some(max.into());
        self
    }

    /// Sets the initial value, a hint to the client: it is not added to a response that lacks the
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
            FieldKind::SingleSelect { options, .. } => {
                let known = value.as_str().is_some_and(|v| options.iter().any(|(o, _)| o == v));
                return if known { Ok(()) } else { bad(&one_of(options)) };
            }
            FieldKind::MultiSelect { options } => {
                // Revisions without multiple choice have a single choice, whose value is a string.
                let chosen = |v: Value<'_>| v.as_str().is_some_and(|v| options.iter().any(|(o, _)| o == v));
                match value.kind() {
                    Kind::Array if value.items().all(chosen) => value.len() as f64,
                    Kind::String if chosen(value) => 1.0,
                    _ => return bad(&format!("an array, each item {}", one_of(options))),
                }
            }
        };
        if self.min.is_some_and(|min| measure < min) || self.max.is_some_and(|max| measure > max) {
            let (before, after) = match &self.kind {
                FieldKind::Text { .. } => ("a text of ", " characters"),
                FieldKind::MultiSelect { .. } => ("an array of ", " choices"),
                _ => ("", ""),
            };
            return bad(&match (self.min.map(bound), self.max.map(bound)) {
                (Some(min), Some(max)) => format!("{before}{min} to {max}{after}"),
                (Some(min), None) => format!("{before}at least {min}{after}"),
                (None, max) => format!("{before}at most {}{after}", max.unwrap_or_default()),
            });
        }
        Ok(())
    }
}

/// Returns a bound as text. The formatter of the standard library would add 20 kB to small servers.
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

/// Action of the user on a form or a URL.
///
/// ```
/// use tinymcp::{Context, ElicitAction, ToolError};
///
/// fn pay(ctx: &mut Context<'_>) -> Result<&'static str, ToolError> {
///     let action = ctx.elicit_url("pay", "Pay the order", "https://shop.example/pay/17")?;
///     Ok(match action {
///         ElicitAction::Accept => "the payment page was opened",
///         ElicitAction::Decline | ElicitAction::Cancel => "the order is not paid",
///     })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitAction {
    /// The user submitted the form, or agreed to open the URL.
    Accept,
    /// The user declined.
    Decline,
    /// The user closed the form without a choice.
    Cancel,
}

impl ElicitAction {
    pub(crate) fn read(answer: Value<'_>) -> Result<ElicitAction, String> {
        match answer.get("action").and_then(Value::as_str) {
            Some("accept") => Ok(ElicitAction::Accept),
            Some("decline") => Ok(ElicitAction::Decline),
            Some("cancel") => Ok(ElicitAction::Cancel),
            _ => Err("/action must be accept, decline or cancel".to_owned()),
        }
    }
}

impl ElicitAction {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            ElicitAction::Accept => "accept",
            ElicitAction::Decline => "decline",
            ElicitAction::Cancel => "cancel",
        }
    }
}

/// A client's response to a form.
///
/// ```
/// use tinymcp::{Client, ElicitResponse, json};
///
/// let builder = Client::builder("batch", "1.0.0").on_elicit(|form| {
///     // Answers one known question, declines all others.
///     if form.fields.iter().any(|field| field.name == "zone") {
///         return Ok(ElicitResponse::accept(json!({"zone": "a"})));
///     }
///     Ok(ElicitResponse::decline())
/// });
/// ```
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitResponse {
    pub(crate) action: ElicitAction,
    pub(crate) content: Option<Json>,
}

#[cfg(feature = "client")]
impl ElicitResponse {
    /// Creates the response of a user who submitted the form: an object with one member per field.
    /// Missing fields get their defaults.
    pub fn accept(content: impl ToJson) -> ElicitResponse {
        ElicitResponse { action: ElicitAction::Accept, content: Some(content.to_json()) }
    }

    /// Creates the response of a user who declined.
    pub fn decline() -> ElicitResponse {
        ElicitResponse { action: ElicitAction::Decline, content: None }
    }

    /// Creates the response of a user who closed the form without a choice.
    pub fn cancel() -> ElicitResponse {
        ElicitResponse { action: ElicitAction::Cancel, content: None }
    }
}

#[cfg(feature = "client")]
impl Form {
    /// Returns the response with defaults for missing fields (client/elicitation, default values).
    ///
    /// # Errors
    /// A description of the first value that does not match the form.
    pub(crate) fn completed(&self, reply: ElicitResponse) -> Result<ElicitResponse, String> {
        let Some(content) = reply.content.filter(|_| reply.action == ElicitAction::Accept) else {
            return Ok(ElicitResponse { action: reply.action, content: None });
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
        Ok(ElicitResponse { action: ElicitAction::Accept, content: Some(content) })
    }
}

/// The user's response to a form, validated against the form.
///
/// [`Context::elicit`](crate::Context::elicit) returns it; see [`Form`].
#[derive(Debug)]
pub struct ElicitResult {
    action: ElicitAction,
    doc: Doc,
}

impl ElicitResult {
    pub(crate) fn new(action: ElicitAction, doc: Doc) -> ElicitResult {
        ElicitResult { action, doc }
    }

    /// Returns the action of the user. Declining and closing are not errors.
    pub fn action(&self) -> ElicitAction {
        self.action
    }

    /// Returns `true` if the user submitted the form.
    pub fn accepted(&self) -> bool {
        self.action == ElicitAction::Accept
    }

    /// Returns the value of a field, if the user submitted the form and filled in the field.
    pub fn value(&self, field: &str) -> Option<Value<'_>> {
        match self.action {
            ElicitAction::Accept => self.doc.root().get("content")?.get(field),
            ElicitAction::Decline | ElicitAction::Cancel => None,
        }
    }

    /// Returns the values of a field with several choices.
    pub fn texts(&self, field: &str) -> impl Iterator<Item = &str> {
        let value = self.value(field);
        // In revisions without multiple choice the value is a single string.
        let single = value.filter(|v| v.kind() == Kind::String);
        single.into_iter().chain(value.into_iter().flat_map(Value::items)).filter_map(Value::as_str)
    }

    /// Returns the value of a text or a choice.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.value(field)?.as_str()
    }

    /// Returns the value of a boolean.
    pub fn bool(&self, field: &str) -> Option<bool> {
        self.value(field)?.as_bool()
    }

    /// Returns the value of an integer.
    pub fn integer(&self, field: &str) -> Option<i64> {
        let value = self.value(field)?;
        value
            .as_i64()
            .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
    }

    /// Returns the value of a number.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.value(field)?.as_f64()
    }
}
