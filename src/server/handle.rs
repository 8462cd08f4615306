//! Handle: registration, and changes while a server runs.

use std::sync::{Arc, Weak};

use crate::era::meta;
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput};
use crate::model::uri_template::{Variables, unencoded};
use crate::model::{Change, CompletionKind, Level};

use super::call::Handled;
use super::context::Context;
use super::handler::{self, ToolArguments, ToolResult};
use super::redact;
use super::registry::catalog::Catalog;
use super::registry::{Arguments, Checks, CompletionRequest, Registry, ToolHandler};
use super::serve::state::Shared;
use super::tool_error::ToolError;

/// Changes what a server offers while it runs, from any thread.
///
/// Adding and removing entries notifies the clients. Changes must be announced before serving, with
/// [`Server::tools_may_change`](crate::Server::tools_may_change) and similar methods.
#[derive(Clone)]
pub struct Handle {
    /// Weak, so that a handler may keep a handle without keeping its own server alive.
    pub(super) shared: Weak<Shared>,
}

impl Handle {
    /// Adds a tool and notifies the clients.
    ///
    /// # Errors
    /// As with [`Server::tool`](crate::Server::tool); [`crate::ErrorKind::Misuse`] when changes
    /// were not announced.
    pub fn add_tool<A, R>(
        &self,
        tool: Tool,
        handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        self.changing(&Change::Tools, |catalog| insert_tool(catalog, tool, handler))
    }

    /// Removes a tool and notifies the clients. Running calls continue. Returns whether the tool
    /// was registered.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: changes were not announced.
    pub fn remove_tool(&self, name: &str) -> Result<bool, Error> {
        self.edit(&Change::Tools, |r| r.remove_tool(name))
    }

    /// Adds a resource and notifies the clients.
    ///
    /// # Errors
    /// As with [`Server::resource`](crate::Server::resource) and [`Handle::add_tool`].
    pub fn add_resource<R: Into<ReadOutput>>(
        &self,
        resource: Resource,
        read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.changing(&Change::Resources, |catalog| insert_resource(catalog, resource, read))
    }

    /// Removes a resource and notifies the clients.
    ///
    /// # Errors
    /// As with [`Handle::remove_tool`].
    pub fn remove_resource(&self, uri: &str) -> Result<bool, Error> {
        self.edit(&Change::Resources, |r| r.remove_resource(uri))
    }

    /// Adds a resource template and notifies the clients.
    ///
    /// # Errors
    /// As with [`Server::template`](crate::Server::template) and [`Handle::add_tool`].
    pub fn add_template<R: Into<ReadOutput>>(
        &self,
        template: Template,
        read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.changing(&Change::Resources, |catalog| insert_template(catalog, template, read))
    }

    /// Removes a resource template, with the completions of its variables, and notifies the
    /// clients.
    ///
    /// # Errors
    /// As with [`Handle::remove_tool`].
    pub fn remove_template(&self, uri_template: &str) -> Result<bool, Error> {
        self.edit(&Change::Resources, |r| r.remove_template(uri_template))
    }

    /// Adds a prompt and notifies the clients.
    ///
    /// # Errors
    /// As with [`Handle::add_tool`].
    pub fn add_prompt(
        &self,
        prompt: Prompt,
        fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.changing(&Change::Prompts, |catalog| insert_prompt(catalog, prompt, fill))
    }

    /// Removes a prompt, with the completions of its arguments, and notifies the clients.
    ///
    /// # Errors
    /// As with [`Handle::remove_tool`].
    pub fn remove_prompt(&self, name: &str) -> Result<bool, Error> {
        self.edit(&Change::Prompts, |r| r.remove_prompt(name))
    }

    /// Sets the completion of an argument of a registered prompt. Replaces an existing one.
    ///
    /// # Errors
    /// As with [`Server::complete_prompt`](crate::Server::complete_prompt);
    /// [`crate::ErrorKind::Misuse`] when completions were not announced:
    /// [`Server::completions_may_change`](crate::Server::completions_may_change).
    pub fn complete_prompt(
        &self,
        prompt: &str,
        argument: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let shared = self.completing()?;
        insert_completion(&shared.catalog, CompletionKind::Prompt, prompt, argument, complete)
    }

    /// Sets the completion of a variable of a registered resource template. Replaces an existing
    /// one.
    ///
    /// # Errors
    /// As with [`Handle::complete_prompt`].
    pub fn complete_template(
        &self,
        uri_template: &str,
        variable: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let shared = self.completing()?;
        insert_completion(&shared.catalog, CompletionKind::Template, uri_template, variable, complete)
    }

    /// Notifies the subscribers of this resource that its contents changed. Having no subscriber is
    /// not an error. Never blocks on a client that does not read.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Closed`]: serving has ended. A thread that watches a resource can use
    /// this as the end of its loop: `while handle.resource_updated(uri).is_ok() { … }`.
    /// [`crate::ErrorKind::Misuse`]: resource updates were not announced with
    /// [`Server::resource_updates`](crate::Server::resource_updates).
    pub fn resource_updated(&self, uri: &str) -> Result<(), Error> {
        self.shared()?.notify(&Change::Updated(uri.to_owned()))
    }

    /// Sends a log entry, outside of any call, to every session with this level. Clients of the
    /// stateless protocol do not get it, because their log entries belong to a request. Never
    /// blocks on a client that does not read.
    ///
    /// Values under names such as `password` or `token` are masked at any depth.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Closed`]: serving has ended.
    /// [`crate::ErrorKind::Misuse`]: [`Server::logging`](crate::Server::logging) was not called.
    pub fn log(&self, level: Level, logger: Option<&str>, data: impl Into<Json>) -> Result<(), Error> {
        let shared = self.shared()?;
        if !shared.catalog.capabilities().logging {
            let why = "the server did not announce log entries: call Server::logging first";
            return Err(Error::new(ErrorKind::Misuse, why));
        }
        let data = redact::masked(data.into());
        for connection in shared.connections() {
            connection.log(level, logger, &data);
        }
        Ok(())
    }

    /// Ends serving. No further request is read; running calls have the grace period to finish.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.stop();
        }
    }

    pub(super) fn shared(&self) -> Result<Arc<Shared>, Error> {
        self.shared.upgrade().ok_or_else(|| Error::new(ErrorKind::Closed, "the server has ended"))
    }

    /// Returns the catalog of a server that declares completions.
    fn completing(&self) -> Result<Arc<Shared>, Error> {
        let shared = self.shared()?;
        if !shared.catalog.capabilities().completions {
            let why = "completions were not announced to clients: call Server::completions_may_change first";
            return Err(Error::new(ErrorKind::Misuse, why));
        }
        Ok(shared)
    }

    fn changing(
        &self,
        change: &Change,
        add: impl FnOnce(&Catalog) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let shared = self.shared()?;
        shared.catalog.announced(change)?;
        add(&shared.catalog)?;
        shared.notify(change)
    }

    /// Edits the registry, and notifies the clients if `edit` returns `true`, which this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`]: changes were not announced.
    pub(crate) fn edit(
        &self,
        change: &Change,
        edit: impl FnOnce(&mut Registry) -> bool,
    ) -> Result<bool, Error> {
        let shared = self.shared()?;
        shared.catalog.announced(change)?;
        let changed = shared.catalog.change(edit);
        if changed {
            shared.notify(change)?;
        }
        Ok(changed)
    }
}

pub(super) fn insert_tool<A: ToolArguments, R: ToolResult>(
    catalog: &Catalog,
    tool: Tool,
    handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<(), Error> {
    let handler = ToolHandler::Pooled(Arc::new(handler::pooled::<A, R>(handler)));
    add_tool::<A, R>(catalog, tool, handler)
}

pub(super) fn insert_resource<R: Into<ReadOutput>>(
    catalog: &Catalog,
    resource: Resource,
    read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<(), Error> {
    check_meta(&resource.uri, resource.meta.as_ref())?;
    check_uri(&resource.uri)?;
    let mime_type = resource.mime_type.clone();
    let read = Arc::new(move |ctx: &mut Context<'_>, uri: &str, _: &Variables| {
        read(ctx, uri).map(|output| Handled::Read(output.into().complete(uri, mime_type.as_deref())))
    });
    catalog.change(|r| r.add_resource(resource, read))
}

pub(super) fn insert_template<R: Into<ReadOutput>>(
    catalog: &Catalog,
    template: Template,
    read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<(), Error> {
    check_meta(template.uri.as_str(), template.meta.as_ref())?;
    if let Some(why) = template.uri.ambiguity() {
        let what = format!("ambiguous URI template {:?}: {why}", template.uri.as_str());
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let mime_type = template.mime_type.clone();
    let read = Arc::new(move |ctx: &mut Context<'_>, uri: &str, variables: &Variables| {
        read(ctx, uri, variables)
            .map(|output| Handled::Read(output.into().complete(uri, mime_type.as_deref())))
    });
    catalog.change(|r| r.add_template(template, read))
}

pub(super) fn insert_prompt(
    catalog: &Catalog,
    prompt: Prompt,
    fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
) -> Result<(), Error> {
    check_meta(&prompt.name, prompt.meta.as_ref())?;
    let fill =
        move |ctx: &mut Context<'_>, arguments: &Arguments<'_>| fill(ctx, arguments).map(Handled::Prompt);
    catalog.change(|r| r.add_prompt(prompt, Arc::new(fill)))
}

pub(super) fn insert_completion(
    catalog: &Catalog,
    kind: CompletionKind,
    subject: &str,
    argument: &str,
    complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
) -> Result<(), Error> {
    let complete = Arc::new(move |_: &mut Context<'_>, asked: &CompletionRequest<'_>| {
        Ok(Handled::Completion(complete(asked)))
    });
    catalog.change(|r| r.add_completion(kind, subject, argument, complete))
}

/// Registers a tool. Schemas that it lacks come from its argument and result types.
pub(super) fn add_tool<A: ToolArguments, R: ToolResult>(
    catalog: &Catalog,
    mut tool: Tool,
    handler: ToolHandler,
) -> Result<(), Error> {
    if let Some(flaw) = A::flaw().or_else(R::flaw) {
        return Err(Error::new(ErrorKind::Invalid, format!("tool {:?}: {flaw}", tool.name)));
    }
    check_meta(&tool.name, tool.meta.as_ref())?;
    // Decoding a record already enforces its schema; every other schema needs a check.
    let compiler = catalog.compiler();
    let checks = Checks {
        input: compiler.as_deref().filter(|_| tool.input_schema.is_some() || !A::enforces_schema()),
        output: compiler.as_deref().filter(|_| tool.output_schema.is_some() || !R::fits_schema()),
    };
    tool.input_schema = tool.input_schema.or_else(A::schema);
    tool.output_schema = tool.output_schema.or_else(R::schema);
    catalog.change(|r| r.add_tool(tool, handler, checks))
}

/// Rejects characters that RFC 3986 §2 does not allow in a URI. Some clients percent-encode them,
/// so they could list the resource and never read it.
fn check_uri(uri: &str) -> Result<(), Error> {
    match unencoded(uri) {
        None => Ok(()),
        Some((at, c)) => {
            let what =
                format!("invalid URI {uri:?}: {c:?} at byte {at} must be percent-encoded (RFC 3986 §2)");
            Err(Error::new(ErrorKind::Invalid, what))
        }
    }
}

fn check_meta(name: &str, meta: Option<&Json>) -> Result<(), Error> {
    match meta.and_then(meta::flaw) {
        Some(flaw) => Err(Error::new(ErrorKind::Invalid, format!("the _meta of {name:?} {flaw}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use crate::{Context, Prompt, PromptOutput, Resource, Server, Template, Tool, ToolError, json};

    #[test]
    fn what_is_no_uri_is_refused_when_it_is_registered() {
        let register = |uri: &str| {
            let done = Server::new("s", "1").resource(Resource::new(uri, "r"), |_, _| Ok("")).map(|_| ());
            done.map_err(|error| error.to_string()).err()
        };
        for uri in ["file:///a%20b/%C3%a9", "a+b-c.1:x", "urn:a:b?c=d&e='(f)'*,;#[g]@h!$~i_", "tel:"] {
            assert_eq!(register(uri), None, "{uri}");
        }
        for (uri, why) in [
            ("file:///a b", "' ' at byte 9 must be percent-encoded (RFC 3986 §2)"),
            ("a:é", "'é' at byte 2 must be percent-encoded (RFC 3986 §2)"),
            ("a:b\n", "'\\n' at byte 3 must be percent-encoded (RFC 3986 §2)"),
            ("a:100%", "'%' at byte 5 must be percent-encoded (RFC 3986 §2)"),
            ("a:%2", "'%' at byte 2 must be percent-encoded (RFC 3986 §2)"),
            ("a:%2é", "'%' at byte 2 must be percent-encoded (RFC 3986 §2)"),
            ("a:{b}", "'{' at byte 2 must be percent-encoded (RFC 3986 §2)"),
            ("users/me", "it has no scheme (RFC 3986 §3)"),
            ("1a:b", "it has no scheme (RFC 3986 §3)"),
            ("", "it has no scheme (RFC 3986 §3)"),
        ] {
            assert_eq!(register(uri), Some(format!("{uri:?} is no URI: {why}")));
        }
    }

    #[test]
    fn what_clients_may_not_read_as_meta_is_refused_when_it_is_registered() {
        fn read(_: &mut Context<'_>, _: &str) -> Result<&'static str, ToolError> {
            Ok("")
        }
        for (meta, fits) in [
            (json!([1]), false),
            (json!(null), false),
            (json!({"a.b/c": 1, "dev.mcp/x": 2}), false),
            (crate::json::Json::constant(r#"{"a": 1, "a": 1}"#), false),
            (json!({"a.b/c": 1}), true),
        ] {
            let mut server = Server::new("s", "1");
            let template = Template::new("t://{a}", "t").expect("a template");
            let done = [
                server.tool(Tool::new("t").meta(meta.clone()), |_, ()| Ok("")).is_ok(),
                server.resource(Resource::new("r://r", "r").meta(meta.clone()), read).is_ok(),
                server.template(template.meta(meta.clone()), |_, _, _| Ok("")).is_ok(),
                server.prompt(Prompt::new("p").meta(meta.clone()), |_, _| Ok(PromptOutput::new())).is_ok(),
            ];
            assert_eq!(done, [fits; 4], "{meta}");
        }
    }
}
