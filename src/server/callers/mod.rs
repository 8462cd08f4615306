//! Functions and limits of the program for the requests of each caller.
//!
//! | module | feature | contents |
//! |---|---|---|
//! | `observation` | `observe` | sinks of observed requests |
//! | `middleware` | `observe` | functions around the handlers of tools |
//! | `over_http` | `http-server` | facts about the HTTP request of a caller |
//! | `visibility` | `visibility` | entries that a caller sees |
//! | `call_limits` | `rate-limits` | rate and concurrency of the calls of each caller |
//!
//! In a build without the feature, `unobserved`, `all_visible` and `unlimited` take the place of
//! these modules. They do nothing, and the compiler drops them.

#[cfg(feature = "rate-limits")]
pub(crate) mod call_limits;
#[cfg(not(feature = "rate-limits"))]
#[path = "unlimited.rs"]
pub(crate) mod call_limits;
#[cfg(feature = "observe")]
pub(crate) mod middleware;
#[cfg(feature = "observe")]
pub(crate) mod observation;
#[cfg(not(feature = "observe"))]
#[path = "unobserved.rs"]
pub(crate) mod observation;
#[cfg(feature = "http-server")]
mod over_http;
#[cfg(feature = "visibility")]
pub(crate) mod visibility;
#[cfg(not(feature = "visibility"))]
#[path = "all_visible.rs"]
pub(crate) mod visibility;

#[cfg(feature = "rate-limits")]
pub use self::call_limits::CallLimit;
#[cfg(feature = "observe")]
pub use self::middleware::{NextHandler, ToolCall, ToolReply};
pub(crate) use self::visibility::View;
#[cfg(feature = "visibility")]
pub use self::visibility::{Caller, CatalogEntry};

/// Functions and limits of the program: empty without the features.
#[derive(Default)]
pub(crate) struct CallerRules {
    #[cfg(feature = "observe")]
    pub observers: crate::observe::Observers,
    /// The first one is the outermost.
    #[cfg(feature = "observe")]
    pub middleware: Vec<Box<middleware::Middleware>>,
    /// Decides which entries a caller sees.
    #[cfg(feature = "visibility")]
    pub visible: Option<Box<visibility::Visible>>,
    #[cfg(feature = "rate-limits")]
    pub limiter: Option<std::sync::Arc<call_limits::Limiter>>,
}
