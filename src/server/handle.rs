//! Handle: registration, and changes while a server runs.

use std::sync::{Arc, Weak};

use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput};
use crate::model::uri_template::Variables;
use crate::model::{Change, CompletionKind, Level};

use super::changes::{self, Changes};
use super::context::Context;
use super::handler::{ToolArguments, ToolResult};
use super::redact;
use super::registry::catalog::{Catalog, Edit};
use super::registry::{Arguments, CompletionRequest, Registry};
use super::serve::state::Shared;
use super::tool_error::ToolError;

/// Changes what a server offers while it runs, from any thread.
///
/// Adding and removing entries notifies the clients. [`Handle::changes`] makes many changes
/// at once. Changes must be announced before serving, with
/// [`Server::tools_may_change`](crate::Server::tools_may_change) and similar methods.
///
/// ```
/// use std::thread;
/// use tinymcp::{Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tools_may_change();
/// let handle = server.handle();
/// let watcher = thread::spawn(move || {
///     // A camera was plugged in.
///     handle.add_tool(Tool::new("photo"), |_, ()| Ok("a photo"))?;
///     // The program ends: `serve_stdio` returns.
///     handle.stop();
///     Ok::<(), tinymcp::Error>(())
/// });
/// # watcher.join().expect("no panic")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    /// Weak, so that a handler may keep a handle without keeping its own server alive.
    pub(super) shared: Weak<Shared>,
}

impl Handle {
    /// Starts an empty set of changes, which clients see all at once.
    pub fn changes(&self) -> Changes {
        Changes::new(self)
    }

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
        self.add(&Change::Tools, |catalog| changes::tool(catalog, tool, handler))
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
        self.add(&Change::Resources, |_| changes::resource(resource, read))
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
        self.add(&Change::Resources, |_| changes::template(template, read))
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
        self.add(&Change::Prompts, |_| changes::prompt(prompt, fill))
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
        let shared = self.with_completions()?;
        let edit = changes::completion(CompletionKind::Prompt, prompt, argument, complete);
        shared.catalog.change(edit).map(drop)
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
        let shared = self.with_completions()?;
        let edit = changes::completion(CompletionKind::Template, uri_template, variable, complete);
        shared.catalog.change(edit).map(drop)
    }

    /// Notifies the subscribers of this resource that its contents changed. Having no subscriber is
    /// not an error, and neither is a call before serving starts. Never blocks on a client that
    /// does not read. The page [serve](crate::manual::serve) has an example.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Closed`]: serving has ended. A thread that watches a resource can use
    /// this as the end of its loop: `while handle.resource_updated(uri).is_ok() { … }`.
    /// [`crate::ErrorKind::Misuse`]: resource updates were not announced with
    /// [`Server::resource_updates`](crate::Server::resource_updates).
    pub fn resource_updated(&self, uri: &str) -> Result<(), Error> {
        self.shared()?.notify(&Change::ResourceUpdated(uri.to_owned()))
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

    /// Returns the state of a server that has announced completions.
    pub(super) fn with_completions(&self) -> Result<Arc<Shared>, Error> {
        let shared = self.shared()?;
        if !shared.catalog.capabilities().completions {
            let why = "completions were not announced to clients: call Server::completions_may_change first";
            return Err(Error::new(ErrorKind::Misuse, why));
        }
        Ok(shared)
    }

    fn add(
        &self,
        change: &Change,
        prepare: impl FnOnce(&Catalog) -> Result<Edit, Error>,
    ) -> Result<(), Error> {
        let shared = self.shared()?;
        shared.catalog.check_announced(change)?;
        shared.catalog.change(prepare(&shared.catalog)?)?;
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
        shared.catalog.check_announced(change)?;
        let changed = shared.catalog.change(edit);
        if changed {
            shared.notify(change)?;
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use crate::json::Value;
    use crate::record::Violation;
    use crate::{
        Argument, Completion, Context, Handle, Prompt, PromptOutput, Resource, SchemaCheck, SchemaCompiler,
        Server, Template, Tool, ToolError, json,
    };

    fn server() -> Server {
        let mut server = Server::new("s", "1");
        server.tools_may_change().resources_may_change().prompts_may_change().completions_may_change();
        server
    }

    /// Runs `run` on another thread. Fails if it does not end.
    fn ends<R: Send + 'static>(what: &str, run: impl FnOnce() -> R + Send + 'static) -> R {
        let (done, result) = mpsc::channel();
        std::thread::spawn(move || done.send(run()));
        result.recv_timeout(Duration::from_secs(20)).expect(what)
    }

    /// Part of a handler that uses the handle when it is dropped.
    struct CallsBack(Handle, mpsc::Sender<()>);

    impl Drop for CallsBack {
        fn drop(&mut self) {
            let removed = self.0.remove_tool("of this handler");
            assert_eq!(removed.ok(), Some(false));
            // OK to ignore: the test is over.
            let _ = self.1.send(());
        }
    }

    /// Adds an entry whose handler holds `part`.
    type Add = fn(&Handle, &str, CallsBack) -> Result<(), crate::Error>;

    #[test]
    fn a_dropped_handler_may_use_the_handle() {
        let tool: Add = |handle, name, part| {
            handle.add_tool(Tool::new(name), move |_, ()| {
                let _ = &part;
                Ok("")
            })
        };
        let resource: Add = |handle, name, part| {
            handle.add_resource(Resource::new(name, "r"), move |_, _| {
                let _ = &part;
                Ok("")
            })
        };
        let template: Add = |handle, name, part| {
            handle.add_template(Template::new(name, "t").expect("a template"), move |_, _, _| {
                let _ = &part;
                Ok("")
            })
        };
        let prompt: Add = |handle, name, part| {
            handle.add_prompt(Prompt::new(name), move |_, _| {
                let _ = &part;
                Ok(PromptOutput::new())
            })
        };
        type Remove = fn(&Handle, &str) -> Result<bool, crate::Error>;
        let kinds: [(&str, &str, Add, Remove); 4] = [
            ("t", "not a name", tool, Handle::remove_tool),
            ("r://r", "no scheme", resource, Handle::remove_resource),
            ("t://{a}", "t://{a}{b}", template, Handle::remove_template),
            ("p", "", prompt, Handle::remove_prompt),
        ];
        for (name, invalid, add, remove) in kinds {
            let server = server();
            let handle = server.handle();
            let (dropped, drops) = mpsc::channel();
            ends(name, move || {
                let part = || CallsBack(handle.clone(), dropped.clone());
                add(&handle, name, part()).expect("the name is free");
                add(&handle, name, part()).expect_err("the name is taken");
                add(&handle, invalid, part()).expect_err("the name is invalid");
                assert_eq!(remove(&handle, name).ok(), Some(true));
            });
            assert_eq!(drops.iter().count(), 3, "{name}");
        }
    }

    #[test]
    fn a_dropped_completion_may_use_the_handle() {
        let mut server = server();
        server
            .prompt(Prompt::new("p").argument(Argument::optional("a")), |_, _| Ok(PromptOutput::new()))
            .expect("a prompt");
        let handle = server.handle();
        let (dropped, drops) = mpsc::channel();
        ends("completions", move || {
            for argument in ["a", "a", "unknown"] {
                let part = CallsBack(handle.clone(), dropped.clone());
                let added = handle.complete_prompt("p", argument, move |_| {
                    let _ = &part;
                    Completion::new([""; 0])
                });
                assert_eq!(added.is_ok(), argument == "a");
            }
            assert_eq!(handle.remove_prompt("p").ok(), Some(true));
        });
        assert_eq!(drops.iter().count(), 3);
    }

    /// Compiler that adds a tool while it compiles the schema of another one.
    struct Adds(Handle);

    impl SchemaCompiler for Adds {
        fn compile(&self, schema: Value<'_>) -> Result<Arc<dyn SchemaCheck>, String> {
            if schema.get("title").is_some() {
                let added = self.0.add_tool(Tool::new("second"), |_, ()| Ok(""));
                added.map_err(|error| error.to_string())?;
            }
            Ok(Arc::new(Anything))
        }
    }

    impl Drop for Adds {
        fn drop(&mut self) {
            // OK to ignore: the last one is dropped with the server.
            let _ = self.0.add_tool(Tool::new("third"), |_, ()| Ok(""));
        }
    }

    struct Anything;

    impl SchemaCheck for Anything {
        fn check(&self, _: Value<'_>) -> Result<(), Violation> {
            Ok(())
        }
    }

    #[test]
    fn a_schema_compiler_may_use_the_handle() {
        let mut server = server();
        let handle = server.handle();
        ends("compile", move || {
            server.schema_compiler(Arc::new(Adds(server.handle())));
            let tool = Tool::new("first").input_schema(json!({"type": "object", "title": "first"}));
            server.tool(tool, |_, _: crate::json::Json| Ok("")).expect("both tools are added");
            server.schema_compiler(Arc::new(Adds(server.handle())));
            for name in ["first", "second", "third"] {
                assert_eq!(handle.remove_tool(name).ok(), Some(true), "{name}");
            }
        });
    }

    #[test]
    fn an_invalid_uri_is_rejected_at_registration() {
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
            ("users/me", "missing scheme (RFC 3986 §3)"),
            ("1a:b", "missing scheme (RFC 3986 §3)"),
            ("", "missing scheme (RFC 3986 §3)"),
        ] {
            assert_eq!(register(uri), Some(format!("invalid URI {uri:?}: {why}")));
        }
    }

    #[test]
    fn an_invalid_meta_is_rejected_at_registration() {
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
