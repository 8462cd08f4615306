//! Trace context of a request: the `traceparent` of its `_meta`.
//!
//! Sources: MCP 2026-07-28 basic/index (`_meta`, reserved names), W3C Trace Context.

use std::fmt;

/// Identifiers of the trace and of the caller's span, from `traceparent` in the `_meta` of a
/// request (W3C Trace Context).
///
/// ```
/// use tinymcp::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent = TraceParent::parse(text).expect("a valid traceparent");
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// assert!(TraceParent::parse("00-0-0-01").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace, 16 bytes, not zero.
    pub trace_id: u128,
    /// The span of the caller, 8 bytes, not zero.
    pub parent_id: u64,
    /// The flags; bit 0: the caller records the trace.
    pub flags: u8,
}

impl TraceParent {
    /// Reads `version-trace-parent-flags` in lower-case hexadecimal digits (Trace Context,
    /// traceparent header). A later version may add fields after another hyphen. `None` for a text
    /// of another form.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let hex = |part: &&str| {
                part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            };
            parts.next().filter(hex)
        };
        let (version, trace, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let known = if version == "00" { parts.next().is_none() } else { version != "ff" };
        let read = TraceParent {
            trace_id: u128::from_str_radix(trace, 16).ok()?,
            parent_id: u64::from_str_radix(parent, 16).ok()?,
            flags: u8::from_str_radix(flags, 16).ok()?,
        };
        (known && read.trace_id != 0 && read.parent_id != 0).then_some(read)
    }

    /// Returns whether the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }
}

impl fmt::Display for TraceParent {
    /// Writes the form of version 00.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}
