//! Truncation of long results: the text is cut, and the rest is a resource for a limited time.
//!
//! # Invariants
//! - A text is cut between two characters, and the result states the cut.
//! - A URI has 128 random bits. A lookup compares it with the URIs of all texts, so its duration
//!   reveals nothing.
//! - A text can only be read by the principal and in the HTTP session of the call that stored it.
//! - The number of texts and their bytes are bounded: the oldest text is removed first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::model::catalog::{Resource, Template};
use crate::model::content::{Content, ReadOutput, ResourceContents, ToolOutput};
use crate::sync::lock;

use super::Server;
use super::context::Context;
use super::tool_error::ToolError;

/// URI without the id.
const PREFIX: &str = "overflow:///";

/// Cuts results that are too long for a client, and keeps the rest as a resource that the client
/// may read. Clones share the texts.
///
/// A client reads the rest with `resources/read`, until its [`Overflow::lifetime`] has passed or
/// newer texts replace it. The URI is unguessable. If the call had an authenticated principal, only
/// that principal can read the rest, and in the session protocol over HTTP only the same session.
///
/// ```
/// use tinymcp::{Overflow, Server, Tool};
///
/// let mut server = Server::new("logs", "1.0.0");
/// let overflow = Overflow::new(&mut server)?;
/// server.tool(Tool::new("log"), move |ctx, ()| {
///     let lines = "the board restarts\n".repeat(10_000);
///     Ok(overflow.cut(ctx, lines, 4096))
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Overflow {
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    lifetime: Duration,
    max_texts: usize,
    max_bytes: usize,
    texts: VecDeque<Text>,
    bytes: usize,
}

/// Caller of a request: its principal, and its session over HTTP.
type Owner = (Option<Box<str>>, Option<u64>);

struct Text {
    id: u128,
    owner: Owner,
    text: Arc<str>,
    until: Instant,
}

impl Overflow {
    /// Adds the resources to a server, as the template `overflow:///{id}`. By default a text is
    /// kept for 10 minutes, and there are at most 64 texts of 4 MiB together.
    ///
    /// # Errors
    /// As with [`Server::template`]. A server can have these resources only once.
    pub fn new(server: &mut Server) -> Result<Overflow, Error> {
        let kept = Kept {
            lifetime: Duration::from_secs(600),
            max_texts: 64,
            max_bytes: 4 << 20,
            texts: VecDeque::new(),
            bytes: 0,
        };
        let kept = Arc::new(Mutex::new(kept));
        let template = Template::new("overflow:///{id}", "rest of a result")?
            .description("The rest of a result that was cut. The result has the URI.")
            .mime_type("text/plain");
        let texts = Arc::clone(&kept);
        server.template(template, move |ctx, uri, _| -> Result<ReadOutput, ToolError> {
            match lock(&texts).find(uri, &ctx.owner(), Instant::now()) {
                Some(text) => Ok(ResourceContents::text(uri, &*text).mime_type("text/plain").into()),
                None => Err(ToolError::not_found(uri)),
            }
        })?;
        Ok(Overflow { kept })
    }

    /// Sets the time for which texts are kept.
    #[must_use]
    pub fn lifetime(self, time: Duration) -> Overflow {
        lock(&self.kept).lifetime = time;
        self
    }

    /// Sets the largest number of texts and their bytes in total. Beyond these, the oldest texts
    /// are removed.
    #[must_use]
    pub fn capacity(self, texts: usize, bytes: usize) -> Overflow {
        {
            let mut kept = lock(&self.kept);
            (kept.max_texts, kept.max_bytes) = (texts, bytes);
        }
        self
    }

    /// Returns a result with a text of at most `max_bytes` bytes. If the text is longer, the result
    /// contains its beginning, a sentence that states the cut, and a link to the rest.
    ///
    /// A rest that is larger than the capacity is dropped, and the sentence states this.
    pub fn cut(&self, ctx: &Context<'_>, text: impl Into<String>, max_bytes: usize) -> ToolOutput {
        self.cut_for(ctx.owner(), text.into(), max_bytes)
    }

    fn cut_for(&self, owner: Owner, text: String, max_bytes: usize) -> ToolOutput {
        if text.len() <= max_bytes {
            return ToolOutput::text(text);
        }
        let at = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (first, rest) = text.split_at(at);
        let cut = format!("[The result was cut after {at} of {} bytes.", text.len());
        match lock(&self.kept).keep(owner, rest, Instant::now()) {
            Some((uri, time)) => {
                let note = format!("{cut} The rest is the resource {uri}, for {} s.]", time.as_secs());
                let link = Resource::new(uri, "rest of the result").mime_type("text/plain");
                ToolOutput::text(first)
                    .content(Content::text(note))
                    .content(Content::resource_link(link.size(rest.len() as u64)))
            }
            None => ToolOutput::text(first)
                .content(Content::text(format!("{cut} The rest was too large to be kept.]"))),
        }
    }
}

impl Kept {
    /// Stores a text. Returns its URI and lifetime, or `None` if it is too large.
    fn keep(&mut self, owner: Owner, text: &str, now: Instant) -> Option<(String, Duration)> {
        if text.len() > self.max_bytes || self.max_texts == 0 {
            return None;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let id = u128::from_ne_bytes(id);
        // A lifetime beyond the range of the clock is limited to 136 years.
        let until = now.checked_add(self.lifetime).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        self.expire(now);
        while self.texts.len() >= self.max_texts || self.bytes + text.len() > self.max_bytes {
            let Some(oldest) = self.texts.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
        self.bytes += text.len();
        self.texts.push_back(Text { id, owner, text: text.into(), until });
        Some((format!("{PREFIX}{id:032x}"), self.lifetime))
    }

    fn find(&mut self, uri: &str, owner: &Owner, now: Instant) -> Option<Arc<str>> {
        self.expire(now);
        let digits = uri.strip_prefix(PREFIX).filter(|digits| digits.len() == 32)?;
        let id = u128::from_str_radix(digits, 16).ok()?;
        let mut found = None;
        for text in &self.texts {
            if text.id == id {
                found = Some(text);
            }
        }
        found.filter(|text| text.owner == *owner).map(|text| Arc::clone(&text.text))
    }

    fn expire(&mut self, now: Instant) {
        // The lifetime may have been changed, so the texts are not sorted by their ends.
        self.texts.retain(|text| text.until > now);
        self.bytes = self.texts.iter().map(|text| text.text.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn overflow() -> Overflow {
        Overflow::new(&mut Server::new("a", "1")).unwrap()
    }

    fn uri(output: &ToolOutput) -> Option<String> {
        let texts = output.texts();
        let rest = texts.split_once(PREFIX)?.1;
        Some(format!("{PREFIX}{}", &rest[..32]))
    }

    fn rest(overflow: &Overflow, uri: &str, owner: &Owner) -> Option<String> {
        lock(&overflow.kept).find(uri, owner, Instant::now()).map(|text| text.to_string())
    }

    #[test]
    fn texts_are_cut_between_characters_and_nothing_is_lost() {
        let overflow = overflow();
        let text = "aé世界😀";
        for max in 0..=text.len() {
            let output = overflow.cut_for(Owner::default(), text.to_owned(), max);
            let Some(uri) = uri(&output) else {
                assert_eq!((output.texts().as_str(), max), (text, text.len()));
                continue;
            };
            let rest = rest(&overflow, &uri, &Owner::default()).unwrap();
            let first = text.strip_suffix(&*rest).unwrap();
            assert!(output.texts().starts_with(first) && first.len() <= max && first.len() + 4 > max);
        }
    }

    #[test]
    fn a_text_is_read_by_its_owner_only() {
        let overflow = overflow();
        let owner = |principal: Option<&str>, session| (principal.map(Box::from), session);
        let owners =
            [owner(None, None), owner(Some("a"), None), owner(None, Some(1)), owner(Some("a"), Some(1))];
        for one in &owners {
            let uri = uri(&overflow.cut_for(one.clone(), "ab".into(), 1)).unwrap();
            for other in &owners {
                assert_eq!(rest(&overflow, &uri, other).is_some(), one == other);
            }
            for wrong in [&uri[..uri.len() - 1], &uri.to_uppercase(), "overflow:///", &format!("{uri}0")] {
                assert_eq!(rest(&overflow, wrong, one), None);
            }
        }
    }

    #[test]
    fn texts_are_bounded_in_number_bytes_and_time() {
        let overflow = overflow().capacity(3, 100);
        let keep = |bytes: usize| overflow.cut_for(Owner::default(), "x".repeat(bytes), 0);
        let has = |output: &ToolOutput| rest(&overflow, &uri(output).unwrap(), &Owner::default()).is_some();
        let kept = [10, 10, 10, 10].map(keep);
        assert_eq!(kept.each_ref().map(has), [false, true, true, true]);
        let large = keep(81);
        assert!(!has(&kept[2]) && has(&kept[3]) && has(&large));
        let dropped = keep(101);
        assert!(uri(&dropped).is_none() && dropped.texts().contains("too large"));
        assert!(has(&large), "a text that is too large takes the place of no other");
        assert!(
            !overflow
                .clone()
                .lifetime(Duration::MAX)
                .cut_for(Owner::default(), "ab".into(), 1)
                .texts()
                .is_empty()
        );
        let late = Instant::now() + Duration::from_secs(601);
        assert!(lock(&overflow.kept).find(&uri(&large).unwrap(), &Owner::default(), late).is_none());
    }
}
