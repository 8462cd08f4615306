//! Methods of a client: lists, tools, resources, prompts, completion, subscriptions, and any other
//! method by name.

use std::time::Instant;

use crate::era::List;
use crate::era::client::{self as codec, OutgoingNotification};
use crate::era::decode;
use crate::era::outgoing::{CompleteParams, RequestKind, Subject, next_cursor, task_params};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Kind, ToJson, Value, Writer};
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::client_request::Root;
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::model::task::Task;
use crate::model::{Filter, Level};
use crate::rpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND};

use super::Client;
use super::call::input_error;
use super::connect::request as outgoing;
use super::connection::{Core, misbehaved};
use super::pending_call::CallTimeout;
use super::request::{Decode, InputRequired, Request};

/// One page of a list.
///
/// [`Client::tools`] and the methods for other lists read all pages. Read the pages one by one to
/// show the first entries early:
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::Client;
///
/// let client = Client::spawn(Command::new("large_server"))?;
/// let mut page = client.request_resources(None).wait()?;
/// loop {
///     for resource in &page.entries {
///         println!("{}", resource.uri);
///     }
///     let Some(next) = page.next else { break };
///     page = client.request_resources(Some(&next)).wait()?;
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, without invalid ones.
    pub entries: Vec<T>,
    /// Cursor of the next page. An empty string is a cursor.
    pub next: Option<String>,
    /// Size of the page's JSON text in bytes.
    pub(crate) bytes: usize,
}

/// Owner of the argument to complete.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, CompletionTarget};
///
/// let client = Client::spawn(Command::new("weather_server"))?;
/// let prompt = CompletionTarget::Prompt("forecast");
/// // The user has chosen a country and has typed "Be" as the city.
/// let cities = client.complete(prompt, "city", "Be", &[("country", "de")])?;
/// println!("{}", cities.values.join(" "));
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionTarget<'a> {
    /// A prompt, by name.
    Prompt(&'a str),
    /// A resource template, by its text.
    Template(&'a str),
}

impl Client {
    /// Responds to input requests with the handlers of this client, for [`Request::resume`]. Calls
    /// them one after the other on this thread.
    ///
    /// # Errors
    /// [`ErrorKind::PeerMisbehaved`] for a request that is not valid or that no handler responds
    /// to; [`ErrorKind::Cancelled`] if a handler rejects one; [`ErrorKind::Invalid`] if its
    /// response does not match.
    pub fn input_responses(&self, input: &InputRequired) -> Result<Json, Error> {
        let core = self.core();
        let revision = core.server().revision;
        let mut w = Writer::new();
        w.begin_object();
        for (key, request) in core.input_requests(&input.requests, input_error)? {
            let reply = core.handlers.answer(&request).map_err(input_error)?;
            w.key(&key).json(&codec::encode_input_response(revision, &reply));
        }
        w.end_object();
        Ok(w.into_json())
    }

    /// Returns all tools. The list is empty if the server declares the capability but does not
    /// implement the method.
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::PeerIncompatible`] if the server does not declare the
    /// capability; [`ErrorKind::Limit`] when the list has more entries or pages than
    /// [`crate::Limits`] allow.
    pub fn tools(&self) -> Result<Vec<Tool>, Error> {
        self.all(List::Tools, self.core().page_of_tools())
    }

    /// Returns all resources.
    ///
    /// # Errors
    /// As [`Client::tools`].
    pub fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.all(List::Resources, page_of_resources)
    }

    /// Returns all resource templates.
    ///
    /// # Errors
    /// As [`Client::tools`].
    pub fn templates(&self) -> Result<Vec<Template>, Error> {
        self.all(List::Templates, page_of_templates)
    }

    /// Returns all prompts.
    ///
    /// # Errors
    /// As [`Client::tools`].
    pub fn prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.all(List::Prompts, page_of_prompts)
    }

    /// Prepares reading one page of tools: the first page, or the page at a cursor.
    pub fn request_tools(&self, cursor: Option<&str>) -> Request<Page<Tool>> {
        Request::new(self.core(), &RequestKind::List(List::Tools, cursor), self.core().page_of_tools())
    }

    /// Prepares reading one page of resources.
    pub fn request_resources(&self, cursor: Option<&str>) -> Request<Page<Resource>> {
        Request::new(self.core(), &RequestKind::List(List::Resources, cursor), page_of_resources)
    }

    /// Prepares reading one page of resource templates.
    pub fn request_templates(&self, cursor: Option<&str>) -> Request<Page<Template>> {
        Request::new(self.core(), &RequestKind::List(List::Templates, cursor), page_of_templates)
    }

    /// Prepares reading one page of prompts.
    pub fn request_prompts(&self, cursor: Option<&str>) -> Request<Page<Prompt>> {
        Request::new(self.core(), &RequestKind::List(List::Prompts, cursor), page_of_prompts)
    }

    /// Calls a tool. A tool that failed returns a result as well: see [`ToolOutput::is_error`].
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn call_tool(&self, name: &str, arguments: impl ToJson) -> Result<ToolOutput, Error> {
        self.request_tool(name, arguments).wait()
    }

    /// Prepares a tool call. The arguments are an object, or `null` for none.
    pub fn request_tool(&self, name: &str, arguments: impl ToJson) -> Request<ToolOutput> {
        let arguments = arguments.to_json();
        Request::new(self.core(), &RequestKind::CallTool(name, &arguments), decode::tool_output)
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn read_resource(&self, uri: &str) -> Result<ReadOutput, Error> {
        self.request_read(uri).wait()
    }

    /// Prepares reading a resource.
    pub fn request_read(&self, uri: &str) -> Request<ReadOutput> {
        Request::new(self.core(), &RequestKind::Read(uri), decode::read_output)
    }

    /// Gets a prompt.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn prompt(&self, name: &str, arguments: &[(&str, &str)]) -> Result<PromptOutput, Error> {
        self.request_prompt(name, arguments).wait()
    }

    /// Prepares getting a prompt.
    pub fn request_prompt(&self, name: &str, arguments: &[(&str, &str)]) -> Request<PromptOutput> {
        Request::new(self.core(), &RequestKind::Prompt(name, arguments), decode::prompt_output)
    }

    /// Completes an argument, given its beginning and the values of other arguments.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn complete(
        &self,
        about: CompletionTarget<'_>,
        argument: &str,
        typed: &str,
        settled: &[(&str, &str)],
    ) -> Result<Completion, Error> {
        self.request_completion(about, argument, typed, settled).wait()
    }

    /// Prepares a completion: see [`Client::complete`].
    pub fn request_completion(
        &self,
        about: CompletionTarget<'_>,
        argument: &str,
        typed: &str,
        settled: &[(&str, &str)],
    ) -> Request<Completion> {
        let completing = CompleteParams {
            subject: match about {
                CompletionTarget::Prompt(name) => Subject::Prompt(name),
                CompletionTarget::Template(text) => Subject::Template(text),
            },
            argument: (argument, typed),
            settled,
            revision: self.core().server().revision,
        };
        Request::new(self.core(), &RequestKind::Complete(&completing), decode::completion)
    }

    /// Sends a request of any method. The parameters are an object, or `null` for none. Returns the
    /// result as JSON.
    ///
    /// Their `_meta` is merged with that of the protocol. It must not have a name with a reserved
    /// prefix (see [`ToolOutput::meta`]) or a `progressToken` (see [`Request::on_progress`]).
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::Invalid`] for parameters that are not an object, have a
    /// duplicate name at any depth, or have an invalid `_meta`.
    pub fn request(&self, method: &str, params: impl ToJson) -> Result<Json, Error> {
        self.request_method(method, params).wait()
    }

    /// Prepares a request of any method.
    pub fn request_method(&self, method: &str, params: impl ToJson) -> Request<Json> {
        let params = params.to_json();
        Request::new(self.core(), &RequestKind::Other(method, &params), |result| Some(result.to_json()))
    }

    /// Returns the state of a task that the server created for a call ([`Request::as_task`]).
    /// [`Client::follow_task`] waits for its result.
    ///
    /// # Errors
    /// As [`Request::wait`]; an error of the server if it has no such task.
    pub fn task(&self, id: &str) -> Result<Task, Error> {
        let params = task_params(id, None);
        Request::new(self.core(), &RequestKind::Other("tasks/get", &params), decode::task).wait()
    }

    /// Checks that the server responds: by `ping` in a session, by a discovery request otherwise.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn ping(&self) -> Result<(), Error> {
        let want = if self.core().era().sessions() { RequestKind::Ping } else { RequestKind::Describe };
        Request::new(self.core(), &want, |_| Some(())).wait()
    }

    /// Subscribes to updates of a resource, which [`super::ClientBuilder::on_change`] handles.
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::PeerIncompatible`] when the server does not report it.
    pub fn subscribe(&self, uri: &str) -> Result<(), Error> {
        let core = self.core();
        core.declared("resources/subscribe")?;
        let most = core.limits.subscriptions;
        let mut full = false;
        let changed = core.subscriptions.set_filter(|wanted| {
            if !wanted.uris.iter().any(|u| u == uri) {
                full = wanted.uris.len() >= most;
                if !full {
                    wanted.uris.push(uri.to_owned());
                }
            }
        });
        if full {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("{most} resources are subscribed already, see `Limits::subscriptions`"),
            ));
        }
        if !changed {
            return Ok(());
        }
        let subscribed = if core.era().sessions() {
            core.ask_once(&outgoing(&RequestKind::Subscribe(uri))?)
        } else {
            core.listen().and_then(|filter| match filter.uris.iter().any(|u| u == uri) {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::PeerIncompatible,
                    "the server does not send updates of this resource",
                )),
            })
        };
        if subscribed.is_err() {
            core.subscriptions.set_filter(|wanted| wanted.uris.retain(|u| u != uri));
        }
        subscribed
    }

    /// Unsubscribes from updates of a resource.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        let core = self.core();
        if !core.subscriptions.set_filter(|wanted| wanted.uris.retain(|u| u != uri)) {
            return Ok(());
        }
        if core.era().sessions() {
            return core.ask_once(&outgoing(&RequestKind::Unsubscribe(uri))?);
        }
        core.listen().map(|_: Filter| ())
    }

    /// Requests log entries from this level on, which [`super::ClientBuilder::on_log`] handles.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn set_log_level(&self, level: Level) -> Result<(), Error> {
        self.core().set_level(level)
    }

    /// Replaces the folders that the server may work in.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`] if [`super::ClientBuilder::roots`] was not called.
    pub fn set_roots(&self, roots: impl IntoIterator<Item = Root>) -> Result<(), Error> {
        if !self.core().handlers.change_roots(roots.into_iter().collect()) {
            return Err(Error::new(
                ErrorKind::Misuse,
                "no roots were declared; set them with `ClientBuilder::roots`",
            ));
        }
        self.core().notify(OutgoingNotification::RootsListChanged);
        Ok(())
    }

    fn all<T>(&self, list: List, decode: Decode<Page<T>>) -> Result<Vec<T>, Error> {
        collect(self.core(), list, decode, None)
    }
}

/// Reads all pages of a list; with `uncached` bypasses the cache and uses that timeout. Fails if a
/// cursor is repeated, or if there are too many pages, entries or bytes (requirement PAG-06).
fn collect<T>(
    core: &std::sync::Arc<Core>,
    list: List,
    decode: Decode<Page<T>>,
    uncached: Option<CallTimeout>,
) -> Result<Vec<T>, Error> {
    let limits = &core.limits;
    let limit = |what| Err(Error::new(ErrorKind::Limit, format!("the list exceeds the limit of {what}")));
    let started = Instant::now();
    let mut bytes = 0;
    let mut all: Vec<T> = Vec::new();
    let mut cursor: Option<String> = None;
    let mut restarted = false;
    for _ in 0..limits.client.list_pages {
        // All pages share one timeout, because the caller sees one call.
        let timeout = uncached.map_or(limits.client.call_timeout, |t| t.timeout);
        let left = timeout.saturating_sub(started.elapsed());
        let request = Request::new(core, &RequestKind::List(list, cursor.as_deref()), decode).timeout(left);
        let request = if uncached.is_some() { request.bypass_cache() } else { request };
        let page = match request.wait() {
            // The server has rejected a cursor of a cached page: start again without the cache
            // (server/utilities/caching).
            Err(error) if error.code() == Some(INVALID_PARAMS) && cursor.is_some() && !restarted => {
                (restarted, cursor, bytes) = (true, None, 0);
                all.clear();
                core.cache.forget_list(list);
                continue;
            }
            // A server may declare `resources` and have no templates.
            Err(error) if error.code() == Some(METHOD_NOT_FOUND) && cursor.is_none() => return Ok(Vec::new()),
            page => page?,
        };
        if all.len() + page.entries.len() > limits.client.list_entries {
            return limit("entries");
        }
        bytes += page.bytes;
        if bytes > limits.client.list_bytes {
            return limit("bytes");
        }
        all.extend(page.entries);
        match page.next {
            None => return Ok(all),
            Some(next) if cursor.as_ref() == Some(&next) => {
                return Err(misbehaved("the server repeats the cursor of a list"));
            }
            next => cursor = next,
        }
    }
    limit("pages")
}

impl Core {
    /// Reads the list of tools again, without the cache.
    pub(super) fn refresh_tools(self: &std::sync::Arc<Self>, timeout: CallTimeout) -> Result<(), Error> {
        collect(self, List::Tools, self.page_of_tools(), Some(timeout)).map(|_| ())
    }

    /// Returns the decoder of a page of tools.
    fn page_of_tools(&self) -> Decode<Page<Tool>> {
        #[cfg(feature = "http-client")]
        if self.sends_header_params() {
            return |result| {
                page(result, "tools", |tool| {
                    decode::tool(tool).filter(|_| super::header_params::params_of(tool).is_ok())
                })
            };
        }
        page_of_tools
    }
}

fn page<T>(result: Value<'_>, name: &str, read: fn(Value<'_>) -> Option<T>) -> Option<Page<T>> {
    let entries = result.get(name).filter(|l| l.kind() == Kind::Array)?;
    let entries = entries.items().filter_map(read).collect();
    Some(Page { entries, next: next_cursor(result), bytes: result.raw().len() })
}

fn page_of_tools(result: Value<'_>) -> Option<Page<Tool>> {
    page(result, "tools", decode::tool)
}

fn page_of_resources(result: Value<'_>) -> Option<Page<Resource>> {
    page(result, "resources", decode::resource)
}

fn page_of_templates(result: Value<'_>) -> Option<Page<Template>> {
    page(result, "resourceTemplates", decode::template)
}

fn page_of_prompts(result: Value<'_>) -> Option<Page<Prompt>> {
    page(result, "prompts", decode::prompt)
}
