//! tinymcp: Model Context Protocol for places where tokio, Node and Python do not fit.
pub mod json;
pub mod record;
