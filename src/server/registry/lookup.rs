//! Lookup of entries by the names in requests. A hidden entry counts as absent.

use std::sync::Arc;

use crate::model::uri_template::Variables;
use crate::model::{CompletionKind, Fault};
use crate::server::callers::View;

use super::{CompleteEntry, CompleteFn, Describe, ReadFn, Registry, Row, Table, TemplateEntry};

impl<T: Describe> Table<T> {
    /// Returns the visible entry with this name.
    pub(crate) fn shown(&self, name: &str, view: View<'_>) -> Option<&Arc<Row<T>>> {
        self.find(name).filter(|found| view.shows(&found.entry))
    }

    /// Returns at most `max` entries registered after `sequence`, and whether more follow.
    pub(crate) fn page(&self, sequence: u64, max: usize) -> (&[Arc<Row<T>>], bool) {
        let start = self.entries.partition_point(|e| e.sequence <= sequence);
        let rest = self.entries.get(start..).unwrap_or_default();
        (rest.get(..max).unwrap_or(rest), rest.len() > max)
    }

    /// As [`Table::page`], for visible entries.
    #[inline]
    pub(crate) fn shown_page(&self, sequence: u64, max: usize, view: View<'_>) -> (Vec<Arc<Row<T>>>, bool) {
        let (rest, _) = self.page(sequence, usize::MAX);
        let mut shown = rest.iter().filter(|listed| view.shows(&listed.entry));
        (shown.by_ref().take(max).cloned().collect(), shown.next().is_some())
    }
}

impl Registry {
    /// Returns the completion of an argument, if it has one.
    ///
    /// # Errors
    /// There is no such prompt or template, or it has no such argument
    /// (server/utilities/completion, error handling; requirement CMP-04).
    pub(crate) fn completion(
        &self,
        kind: CompletionKind,
        subject: &str,
        argument: &str,
        view: View<'_>,
    ) -> Result<Option<&Arc<CompleteFn>>, Fault> {
        let found = match kind {
            CompletionKind::Prompt => self
                .prompts
                .shown(subject, view)
                .map(|p| (subject, p.entry.prompt.arguments.iter().any(|a| a.name == argument))),
            // A client may name the template, or a URI that the template produces.
            CompletionKind::Template => match self.template_for(subject, view) {
                // Some clients extract the variables from the template together with an operator,
                // such as `+path`. That is not reported as an error.
                Some(t) => Some(t.entry.template.uri.as_str()).map(|uri| (uri, uri.contains(argument))),
                None => self.resources.shown(subject, view).map(|_| (subject, true)),
            },
        };
        let refusal = match found {
            None => format!("Nothing to complete: {subject}"),
            Some((subject, false)) => format!("{subject} has no argument {argument:?}"),
            Some((subject, true)) => {
                let matches =
                    |c: &&CompleteEntry| c.kind == kind && c.subject == subject && c.argument == argument;
                return Ok(self.completions.iter().find(matches).map(|c| &c.complete));
            }
        };
        Err(Fault::InvalidParams(refusal.into()))
    }

    fn template_for(&self, subject: &str, view: View<'_>) -> Option<&Arc<Row<TemplateEntry>>> {
        self.templates.shown(subject, view).or_else(|| {
            self.templates.iter().find(|t| t.entry.matches(subject).is_some() && view.shows(&t.entry))
        })
    }

    /// Returns the reader of a URI: that of a visible resource, or of the first visible template
    /// that matches.
    pub(crate) fn reader(&self, uri: &str, view: View<'_>) -> Option<(Arc<ReadFn>, Variables)> {
        if let Some(found) = self.resources.shown(uri, view) {
            return Some((Arc::clone(&found.entry.read), Variables::default()));
        }
        self.templates.iter().find_map(|t| {
            let variables = t.entry.matches(uri).filter(|_| view.shows(&t.entry))?;
            Some((Arc::clone(&t.entry.read), variables))
        })
    }
}
