//! Sets of changes to what a server offers, and the preparation of each change.
//!
//! Changes are prepared before the registry is locked, because that may call code of the program:
//! schema compilers, and destructors of rejected handlers.

use std::sync::Arc;

use crate::era::meta;
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput};
use crate::model::uri_template::{Variables, unencoded};
use crate::model::{Change, CompletionKind};

use super::call::Output;
use super::context::Context;
use super::handle::Handle;
use super::handler::{self, ToolArguments, ToolResult};
use super::registry::catalog::{Catalog, Edit};
use super::registry::{
    Arguments, Checks, CompleteFn, CompletionRequest, PromptEntry, Registry, ResourceEntry, TemplateEntry,
    ToolEntry, ToolHandler,
};
use super::tasks;
use super::tool_error::ToolError;

/// A set of changes to what a running server offers, made by [`Handle::changes`].
///
/// [`Changes::apply`] makes all of them or none: the response to every message of a client uses the
/// entries before all changes, or those after them. Clients get one notification for each list that
/// changed. Changes are made in the order in which they were added, so an entry is replaced by
/// removing it and adding another one with its name, which moves it to the end of its list.
///
/// A client that reads a list in pages may get pages from before and after the changes, as with
/// any change. Calls that run continue with the handlers that they started with.
///
/// ```
/// # use tinymcp::{Error, Server, Tool};
/// # fn main() -> Result<(), Error> {
/// # let mut server = Server::new("weather", "1.0.0");
/// server.tools_may_change();
/// server.tool(Tool::new("today"), |_, ()| Ok("rain"))?;
/// let handle = server.handle();
/// // Later, while the server runs:
/// let mut changes = handle.changes();
/// changes.remove_tool("today")?;
/// changes.add_tool(Tool::new("today"), |_, ()| Ok("sun"))?;
/// changes.add_tool(Tool::new("tomorrow"), |_, ()| Ok("clouds"))?;
/// changes.apply()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Methods that add a change fail with [`crate::ErrorKind::Closed`] when the server has ended, with
/// [`crate::ErrorKind::Misuse`] when changes were not announced, and if the entry by itself is
/// invalid. The set is then unchanged.
#[must_use = "nothing changes until `apply` is called"]
pub struct Changes {
    handle: Handle,
    /// The edits, each with the list that it changes.
    edits: Vec<(Option<Change>, Edit)>,
}

impl Changes {
    pub(super) fn new(handle: &Handle) -> Changes {
        Changes { handle: handle.clone(), edits: Vec::new() }
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// See [`Changes`]; also as with [`Server::tool`](crate::Server::tool), except that
    /// [`Changes::apply`] checks that the name is free.
    pub fn add_tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        self.add(Change::Tools, |catalog| self::tool(catalog, tool, handler))
    }

    /// Removes a tool, if it is registered.
    ///
    /// # Errors
    /// See [`Changes`].
    pub fn remove_tool(&mut self, name: &str) -> Result<(), Error> {
        self.remove(Change::Tools, name, Registry::remove_tool)
    }

    /// Adds a resource.
    ///
    /// # Errors
    /// See [`Changes`]; also as with [`Server::resource`](crate::Server::resource).
    pub fn add_resource<R: Into<ReadOutput>>(
        &mut self,
        resource: Resource,
        read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.add(Change::Resources, |_| self::resource(resource, read))
    }

    /// Removes a resource, if it is registered.
    ///
    /// # Errors
    /// See [`Changes`].
    pub fn remove_resource(&mut self, uri: &str) -> Result<(), Error> {
        self.remove(Change::Resources, uri, Registry::remove_resource)
    }

    /// Adds a resource template.
    ///
    /// # Errors
    /// See [`Changes`]; also as with [`Server::template`](crate::Server::template).
    pub fn add_template<R: Into<ReadOutput>>(
        &mut self,
        template: Template,
        read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.add(Change::Resources, |_| self::template(template, read))
    }

    /// Removes a resource template with the completions of its variables, if it is registered.
    ///
    /// # Errors
    /// See [`Changes`].
    pub fn remove_template(&mut self, uri_template: &str) -> Result<(), Error> {
        self.remove(Change::Resources, uri_template, Registry::remove_template)
    }

    /// Adds a prompt.
    ///
    /// # Errors
    /// See [`Changes`]; also as with [`Server::prompt`](crate::Server::prompt).
    pub fn add_prompt(
        &mut self,
        prompt: Prompt,
        fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.add(Change::Prompts, |_| self::prompt(prompt, fill))
    }

    /// Removes a prompt with the completions of its arguments, if it is registered.
    ///
    /// # Errors
    /// See [`Changes`].
    pub fn remove_prompt(&mut self, name: &str) -> Result<(), Error> {
        self.remove(Change::Prompts, name, Registry::remove_prompt)
    }

    /// Sets the completion of an argument of a prompt, which the same set may add. Replaces an
    /// earlier completion.
    ///
    /// # Errors
    /// See [`Changes`]. [`Changes::apply`] checks that the prompt has this argument.
    pub fn complete_prompt(
        &mut self,
        prompt: &str,
        argument: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.handle.with_completions()?;
        self.edits.push((None, completion(CompletionKind::Prompt, prompt, argument, complete)));
        Ok(())
    }

    /// Sets the completion of a variable of a resource template, which the same set may add.
    /// Replaces an earlier completion.
    ///
    /// # Errors
    /// See [`Changes`]. [`Changes::apply`] checks that the template has this variable.
    pub fn complete_template(
        &mut self,
        uri_template: &str,
        variable: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.handle.with_completions()?;
        self.edits.push((None, completion(CompletionKind::Template, uri_template, variable, complete)));
        Ok(())
    }

    /// Makes the changes and notifies the clients.
    ///
    /// # Errors
    /// On an error nothing has changed. [`crate::ErrorKind::Misuse`]: an added entry has the name
    /// of another one, or a completion belongs to no entry. [`crate::ErrorKind::Closed`]: the
    /// server has ended.
    pub fn apply(self) -> Result<(), Error> {
        let shared = self.handle.shared()?;
        let (lists, edits): (Vec<Option<Change>>, Vec<Edit>) = self.edits.into_iter().unzip();
        let changed = shared.catalog.change_all(edits)?;
        for list in [Change::Tools, Change::Resources, Change::Prompts] {
            if lists.iter().zip(&changed).any(|(edited, changed)| *changed && edited.as_ref() == Some(&list))
            {
                shared.notify(&list)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        list: Change,
        prepare: impl FnOnce(&Catalog) -> Result<Edit, Error>,
    ) -> Result<(), Error> {
        let shared = self.handle.shared()?;
        shared.catalog.check_announced(&list)?;
        self.edits.push((Some(list), prepare(&shared.catalog)?));
        Ok(())
    }

    fn remove(
        &mut self,
        list: Change,
        name: &str,
        remove: fn(&mut Registry, &str) -> bool,
    ) -> Result<(), Error> {
        let name = name.to_owned();
        self.add(list, |_| Ok(Box::new(move |registry| Ok(remove(registry, &name)))))
    }
}

/// Adds a tool whose handler runs on a worker.
pub(super) fn tool<A: ToolArguments, R: ToolResult>(
    catalog: &Catalog,
    tool: Tool,
    handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<Edit, Error> {
    let handler = ToolHandler::Pooled(Arc::new(handler::pooled::<A, R>(handler)));
    tool_of::<A, R>(catalog, tool, handler)
}

/// Adds a resource.
pub(super) fn resource<R: Into<ReadOutput>>(
    resource: Resource,
    read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<Edit, Error> {
    check_meta(&resource.uri, resource.meta.as_ref())?;
    check_uri(&resource.uri)?;
    let mime_type = resource.mime_type.clone();
    let read = Arc::new(move |ctx: &mut Context<'_>, uri: &str, _: &Variables| {
        read(ctx, uri).map(|output| Output::Read(output.into().complete(uri, mime_type.as_deref())))
    });
    Ok(added(ResourceEntry::new(resource, read)?, Registry::add_resource))
}

/// Adds a resource template.
pub(super) fn template<R: Into<ReadOutput>>(
    template: Template,
    read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
) -> Result<Edit, Error> {
    check_meta(template.uri.as_str(), template.meta.as_ref())?;
    if let Some(why) = template.uri.ambiguity() {
        let what = format!("ambiguous URI template {:?}: {why}", template.uri.as_str());
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let mime_type = template.mime_type.clone();
    let read = Arc::new(move |ctx: &mut Context<'_>, uri: &str, variables: &Variables| {
        read(ctx, uri, variables)
            .map(|output| Output::Read(output.into().complete(uri, mime_type.as_deref())))
    });
    Ok(added(TemplateEntry::new(template, read), Registry::add_template))
}

/// Adds a prompt.
pub(super) fn prompt(
    prompt: Prompt,
    fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
) -> Result<Edit, Error> {
    check_meta(&prompt.name, prompt.meta.as_ref())?;
    let fill =
        move |ctx: &mut Context<'_>, arguments: &Arguments<'_>| fill(ctx, arguments).map(Output::Prompt);
    Ok(added(PromptEntry::new(prompt, Arc::new(fill))?, Registry::add_prompt))
}

/// Sets the completion of an argument.
pub(super) fn completion(
    kind: CompletionKind,
    subject: &str,
    argument: &str,
    complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
) -> Edit {
    let complete =
        move |_: &mut Context<'_>, asked: &CompletionRequest<'_>| Ok(Output::Completion(complete(asked)));
    completed(kind, subject.to_owned(), argument.to_owned(), Arc::new(complete))
}

fn completed(kind: CompletionKind, subject: String, argument: String, complete: Arc<CompleteFn>) -> Edit {
    Box::new(move |registry| registry.add_completion(kind, &subject, &argument, complete).map(|()| true))
}

/// Adds a tool with this handler. Missing schemas are derived from its argument and result types.
pub(super) fn tool_of<A: ToolArguments, R: ToolResult>(
    catalog: &Catalog,
    mut tool: Tool,
    handler: ToolHandler,
) -> Result<Edit, Error> {
    if let Some(error) = A::definition_error().or_else(R::definition_error) {
        return Err(Error::new(ErrorKind::Invalid, format!("tool {:?}: {error}", tool.name)));
    }
    check_meta(&tool.name, tool.meta.as_ref())?;
    // Decoding a record already enforces its schema; every other schema needs a check.
    let compiler = catalog.compiler();
    let checks = Checks {
        input: compiler.as_deref().filter(|_| tool.input_schema.is_some() || !A::enforces_schema()),
        output: compiler.as_deref().filter(|_| tool.output_schema.is_some() || !R::fits_schema()),
    };
    tasks::check_handler(&tool, &handler)?;
    tool.input_schema = tool.input_schema.or_else(A::schema);
    tool.output_schema = tool.output_schema.or_else(R::schema);
    Ok(added(ToolEntry::new(tool, handler, checks)?, Registry::add_tool))
}

fn added<T: Send + 'static>(entry: T, add: fn(&mut Registry, T) -> Result<(), Error>) -> Edit {
    Box::new(move |registry| add(registry, entry).map(|()| true))
}

/// Rejects characters that RFC 3986 §2 does not allow in a URI. Some clients percent-encode them,
/// so these clients could list the resource but never read it.
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
    match meta.and_then(meta::first_error) {
        Some(flaw) => Err(Error::new(ErrorKind::Invalid, format!("the _meta of {name:?} {flaw}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use crate::model::catalog::Argument;
    use crate::{
        Completion, Context, ErrorKind, Handle, Prompt, PromptOutput, Resource, Server, Template, Tool,
        ToolError, json, memory,
    };

    const LONG: Duration = Duration::from_secs(20);

    fn server() -> Server {
        let mut server = Server::new("s", "1");
        server.tools_may_change().resources_may_change().prompts_may_change().completions_may_change();
        server
    }

    fn tools(handle: &Handle) -> Vec<String> {
        let shared = handle.shared().expect("a server");
        let registry = shared.catalog.registry();
        registry.tools.iter().map(|listed| listed.entry.tool.name.clone()).collect()
    }

    fn nothing(_: &mut Context<'_>, (): ()) -> Result<&'static str, ToolError> {
        Ok("")
    }

    #[test]
    fn a_set_that_cannot_be_applied_changes_nothing() {
        let mut server = server();
        for name in ["a", "b", "c"] {
            server.tool(Tool::new(name), nothing).expect("a tool");
        }
        let handle = server.handle();
        let mut changes = handle.changes();
        changes.remove_tool("a").expect("changes are announced");
        changes.add_tool(Tool::new("a"), nothing).expect("a tool");
        changes.add_tool(Tool::new("not a name"), nothing).expect_err("an invalid name");
        changes.add_tool(Tool::new("b"), nothing).expect("the set does not know the names");
        changes.add_tool(Tool::new("d"), nothing).expect("a tool");
        let error = changes.apply().expect_err("b is registered");
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Misuse, "\"b\" is already registered".into())
        );
        assert_eq!(tools(&handle), ["a", "b", "c"]);

        let mut changes = handle.changes();
        changes.complete_prompt("p", "x", |_| Completion::new([""; 0])).expect("completions are announced");
        changes.remove_tool("a").expect("changes are announced");
        assert_eq!(changes.apply().expect_err("there is no such prompt").kind(), ErrorKind::Misuse);
        assert_eq!(tools(&handle), ["a", "b", "c"]);

        let mut changes = handle.changes();
        changes.remove_tool("a").expect("changes are announced");
        changes.remove_tool("unknown").expect("changes are announced");
        changes.add_tool(Tool::new("a"), nothing).expect("a tool");
        changes.apply().expect("the name is free again");
        assert_eq!(tools(&handle), ["b", "c", "a"]);

        drop(server);
        assert_eq!(handle.changes().apply().expect_err("no server").kind(), ErrorKind::Closed);
        let unannounced = Server::new("s", "1");
        let error = unannounced.handle().changes().remove_tool("a").expect_err("not announced");
        assert_eq!(error.kind(), ErrorKind::Misuse);
    }

    #[test]
    fn readers_see_all_changes_of_a_set_or_none() {
        let server = server();
        let handle = server.handle();
        let sets = ["x", "y"].map(|set| (0..30).map(|n| format!("{set}{n}")).collect::<Vec<String>>());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let seen = tools(&handle);
                    assert!(seen.is_empty() || sets.contains(&seen), "{seen:?}");
                }
            });
            for round in 0..200 {
                let mut changes = handle.changes();
                sets[round % 2].iter().for_each(|name| changes.remove_tool(name).expect("a change"));
                for name in &sets[(round + 1) % 2] {
                    changes.add_tool(Tool::new(name.as_str()), nothing).expect("a tool");
                }
                changes.apply().expect("the names are free");
            }
            done.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn each_changed_list_is_notified_once() {
        let (link, mut client) = memory();
        let server = server();
        let handle = server.handle();
        let serving = thread::spawn(move || server.serve(link));
        let opening = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                             "clientInfo": {"name": "c", "version": "1"}});
        client.request("initialize", opening, LONG).expect("a response");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        // The response shows that the server has read the notification.
        client.request("ping", json!({}), LONG).expect("a response");

        let mut changes = handle.changes();
        for name in ["a", "b"] {
            changes.add_tool(Tool::new(name), nothing).expect("a tool");
            let uri = format!("r://{name}");
            changes.add_resource(Resource::new(&uri, name), |_, _| Ok("")).expect("a resource");
            let uri = format!("{uri}/{{x}}");
            let template = Template::new(&uri, name).expect("a template");
            changes.add_template(template, |_, _, _| Ok("")).expect("a template");
            let prompt = Prompt::new(name).argument(Argument::optional("x"));
            changes.add_prompt(prompt, |_, _| Ok(PromptOutput::new())).expect("a prompt");
            changes.complete_prompt(name, "x", |_| Completion::new(["done"])).expect("a completion");
            changes.complete_template(&uri, "x", |_| Completion::new(["done"])).expect("a completion");
        }
        changes.apply().expect("the names are free");
        let mut changes = handle.changes();
        changes.remove_prompt("a").expect("a change");
        changes.remove_tool("unknown").expect("a change");
        changes.remove_template("r://a/{x}").expect("a change");
        changes.apply().expect("removals succeed");
        handle.remove_tool("a").expect("the last change");
        // Notifications are sent in order.
        for list in ["tools", "resources", "prompts", "resources", "prompts", "tools"] {
            let message = client.receive(LONG).expect("a notification");
            assert!(message.contains(&format!("notifications/{list}/list_changed")), "{list}: {message}");
        }
        let argument =
            json!({"ref": {"type": "ref/prompt", "name": "b"}, "argument": {"name": "x", "value": ""}});
        let response = client.request("completion/complete", argument, LONG).expect("a response");
        assert!(response.as_str().contains("done"), "{response:?}");
        client.finish();
        serving.join().expect("no panic").expect("serving ends");
    }
}
