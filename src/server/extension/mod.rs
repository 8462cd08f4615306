//! Extensions of a server: declared ids with settings, methods, and notifications.
//!
//! Extensions are registered before serving: [`Server::extension`] declares one, [`Server::method`]
//! and [`Server::notification`] register its messages. A call of a method is a call like that of a
//! tool: it runs on a worker, has a deadline, can be cancelled, and may ask the user.
//!
//! Without the feature `extensions`, `without.rs` takes the place of this module.
//!
//! # Invariant
//! Methods of the protocol take precedence: the dispatcher uses this table for unknown methods
//! only.

mod apps;

use std::sync::Arc;

use crate::era::extension::ServerMembers;
use crate::era::{Params, extension};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, ToJson, Value, Writer};
use crate::model::Session;
use crate::pool::guard;
use crate::rpc;

use super::Server;
use super::call::{Output, no_arguments};
use super::context::Context;
use super::handle::Handle;
use super::handler::ToolArguments;
use super::tool_error::ToolError;

/// Runs a method on its parameters.
#[derive(Clone)]
pub(crate) struct Method(Arc<MethodFn>);

type MethodFn = dyn Fn(&mut Context<'_>, Option<Value<'_>>) -> Result<Output, ToolError> + Send + Sync;

impl Method {
    pub(crate) fn new(
        run: impl Fn(&mut Context<'_>, Option<Value<'_>>) -> Result<Output, ToolError> + Send + Sync + 'static,
    ) -> Method {
        Method(Arc::new(run))
    }

    pub(crate) fn run(&self, ctx: &mut Context<'_>, params: Option<Value<'_>>) -> Result<Output, ToolError> {
        (self.0)(ctx, params)
    }
}

type NotificationFn = dyn Fn(&Notification<'_>) + Send + Sync;

/// A notification of a client, for [`Server::notification`].
///
/// ```
/// use tinymcp::Server;
///
/// let mut server = Server::new("board", "1.0.0");
/// server.notification("notifications/com.example/reset", |sent| {
///     let reason = sent.params.get("reason").and_then(|reason| reason.as_str());
///     tinymcp::stderr::write(format!("reset: {}\n", reason.unwrap_or("unknown")));
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Notification<'n> {
    /// Its parameters, an empty object if it has none.
    pub params: Value<'n>,
    /// The authenticated principal of the sender, as [`Context::principal`].
    pub principal: Option<&'n str>,
}

/// Registered extensions.
#[derive(Default)]
pub(crate) struct Extensions {
    declared: Vec<(String, Json)>,
    methods: Vec<(String, Method)>,
    notifications: Vec<(String, Box<NotificationFn>)>,
}

impl Extensions {
    /// Returns the members that the extensions add to the capabilities.
    pub(crate) fn members(&self) -> ServerMembers {
        ServerMembers::new(&self.declared)
    }

    /// Returns the handler of a method.
    pub(crate) fn method(&self, method: &str) -> Option<Method> {
        self.methods.iter().find(|(name, _)| name == method).map(|(_, run)| run.clone())
    }

    /// Calls the handler of a notification, if there is one.
    pub(crate) fn notified(&self, sent: &rpc::Notification<'_>, principal: Option<&str>) {
        if let Some((_, handler)) = self.notifications.iter().find(|(name, _)| name == sent.method) {
            let params = match sent.params {
                Some(params) => params,
                None => no_arguments(),
            };
            // OK to ignore: the panic was reported, and a notification has no response.
            let _ = guard(|| handler(&Notification { params, principal }));
        }
    }

    /// Stores the declarations of a client that opens a session.
    pub(crate) fn open_session(&self, session: &mut Session, params: &Params<'_>) {
        session.extensions = extension::of_session(params, &self.declared);
    }

    /// Returns the settings with which a client declares an extension that this server has: in the
    /// `_meta` of the request, or in the declarations of its session.
    pub(crate) fn of_client(
        &self,
        id: &str,
        meta: Option<Value<'_>>,
        session: &dyn Fn() -> Option<Json>,
    ) -> Option<Json> {
        if !self.declared.iter().any(|(known, _)| known == id) {
            return None;
        }
        match meta {
            Some(meta) => extension::of_request(meta, id),
            None => session()?.to_doc().root().get(id).map(Value::to_json),
        }
    }
}

/// Extensions of the protocol.
impl Server {
    /// Declares an extension, such as `com.example/board`, with its settings: an object, often
    /// empty.
    ///
    /// A handler checks whether the client declares it too, by [`Context::client_extension`] or
    /// [`Context::require_extension`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the id is not `vendor/name`, or the settings are not an object.
    /// [`ErrorKind::Misuse`]: the extension is already declared.
    pub fn extension(&mut self, id: &str, settings: impl ToJson) -> Result<&mut Server, Error> {
        let settings = settings.to_json();
        extension::check(id, &settings).map_err(|why| Error::new(ErrorKind::Invalid, why))?;
        let declared = &mut self.extensions_mut().declared;
        if declared.iter().any(|(known, _)| known == id) {
            return Err(duplicate(id));
        }
        declared.push((id.to_owned(), settings));
        Ok(self)
    }

    /// Registers a method of an extension, such as `com.example/blink`.
    ///
    /// The handler runs on a worker and gets the parameters without their `_meta`, which
    /// [`Context::meta`] returns. Their type is a [`record!`](crate::record!) type,
    /// [`Json`](crate::json::Json), or `()` for none. The result is a JSON object.
    ///
    /// ```
    /// # use tinymcp::{Server, json};
    /// tinymcp::record! {
    ///     struct Blink { times: u32 }
    /// }
    ///
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// # let mut server = Server::new("board", "1");
    /// server
    ///     .extension("com.example/board", json!({}))?
    ///     .method("com.example/blink", |ctx, blink: Blink| {
    ///         ctx.require_extension("com.example/board")?;
    ///         Ok(json!({"blinked": blink.times}))
    ///     })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`]: the method is already registered, or one of the protocol.
    pub fn method<A, R>(
        &mut self,
        name: &str,
        handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error>
    where
        A: ToolArguments,
        R: ToJson,
    {
        let run = move |ctx: &mut Context<'_>, params: Option<Value<'_>>| {
            let params = extension::arguments(params);
            match A::read(params.root()) {
                Ok(arguments) => handler(ctx, arguments).and_then(|result| method_result(&result.to_json())),
                Err(fault) => Err(ToolError::fault(extension::bad_arguments(&fault.message, &fault.path))),
            }
        };
        let table = self.extensions_mut();
        if extension::is_core_method(name) || table.methods.iter().any(|(known, _)| known == name) {
            return Err(duplicate(name));
        }
        table.methods.push((name.to_owned(), Method::new(run)));
        Ok(self)
    }

    /// Registers a handler for a notification of an extension.
    ///
    /// It runs on the reader thread, so it must not block. Over HTTP this thread serves all
    /// clients.
    ///
    /// # Errors
    /// As with [`Server::method`].
    pub fn notification(
        &mut self,
        name: &str,
        handler: impl Fn(&Notification<'_>) + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        let table = self.extensions_mut();
        if extension::is_core_method(name) || table.notifications.iter().any(|(known, _)| known == name) {
            return Err(duplicate(name));
        }
        table.notifications.push((name.to_owned(), Box::new(handler)));
        Ok(self)
    }

    fn extensions_mut(&mut self) -> &mut Extensions {
        self.extensions.get_or_insert_default()
    }
}

/// Extensions of the protocol.
impl Context<'_> {
    /// Returns the settings with which the client declares an extension, an object. `None` if the
    /// client or this server ([`Server::extension`]) does not declare it.
    pub fn client_extension(&self, id: &str) -> Option<Json> {
        self.host.client_extension(id, self.query.meta.map(|meta| self.doc.at(meta)))
    }

    /// As [`Context::client_extension`], for a handler that cannot work without the extension.
    ///
    /// # Errors
    /// The client does not declare the extension. Return the error with `?`: the client then gets a
    /// protocol error that names the extension.
    pub fn require_extension(&self, id: &str) -> Result<Json, ToolError> {
        self.client_extension(id)
            .ok_or_else(|| ToolError::fault(extension::missing(id, self.era.request_mode())))
    }

    /// Sends a notification of an extension to the client, before the response. The parameters are
    /// an object. A task sends it to the same place as log entries ([`Context::log`]).
    pub fn notify(&self, method: &str, params: impl ToJson) {
        if !self.stopped() {
            let mut w = Writer::new();
            extension::notification(&mut w, method, &params.to_json());
            self.sink.send(w.as_bytes());
        }
    }
}

impl Handle {
    /// Sends a notification of an extension to every open session. Clients of the stateless
    /// protocol do not get it, because their notifications belong to a request
    /// ([`Context::notify`]). The notification is dropped for a client that does not read.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: serving has ended.
    pub fn notify(&self, method: &str, params: impl ToJson) -> Result<(), Error> {
        let mut w = Writer::new();
        extension::notification(&mut w, method, &params.to_json());
        for connection in self.shared()?.connections() {
            connection.send_to_session(w.as_bytes());
        }
        Ok(())
    }
}

/// Returns the result of a method.
fn method_result(result: &Json) -> Result<Output, ToolError> {
    let result = extension::MethodResult::new(result).map_err(ToolError::fault)?;
    Ok(Output::Raw(Box::new(result)))
}

fn duplicate(name: &str) -> Error {
    Error::new(ErrorKind::Misuse, format!("{name:?} is already registered, or part of the protocol"))
}
