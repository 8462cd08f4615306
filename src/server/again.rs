//! A call that says the same as the one before it, but for its id and its arguments.
//!
//! Clients call one tool many times in a row. What such a frame means was found out with the first of
//! them: which era speaks, what is asked, which tool is meant. Where the parser tells that nothing
//! differs by which that was decided (see `json/alike.rs`), it is not found out again; that is a third
//! of a short call.
//!
//! What it does: remember what the last frame asked for, and compare. What it does not: anything for
//! calls with answers to questions, in batches, or other than of tools; or keep a document.
//!
//! # Invariants
//! - What is remembered belongs to the frame that [`Reader::doc`](super::dispatch::Reader) holds, to the
//!   registry and to the session as they are: whatever replaces one of them forgets it.

use std::sync::Arc;

use crate::era::ServerEra;
use crate::json::{Doc, Free};
use crate::model::{Operation, Query};
use crate::rpc;
use crate::transport::Outlet;

use super::dispatch::{InlineTools, Reader};
use super::job::Work;
use super::registry::{Listed, ToolEntry, ToolHandler};
use super::seal::Answers;

/// What a frame asked for.
pub(crate) struct Again {
    era: &'static dyn ServerEra,
    query: Query,
    tool: Arc<Listed<ToolEntry>>,
}

impl Again {
    /// What the next frame may say otherwise.
    pub(super) fn free(&self) -> Free {
        let inside = match self.query.operation {
            Operation::CallTool { arguments, .. } => arguments,
            _ => None,
        };
        Free { values: [Some(self.query.id), self.query.progress], inside }
    }

    /// Whether the ids that the frame says otherwise are ids.
    fn names(&self, doc: &Doc) -> bool {
        let id = |node| rpc::is_id(doc.at(node));
        id(self.query.id) && self.query.progress.is_none_or(id)
    }
}

impl Reader<dyn InlineTools> {
    /// Remembers what a frame asked for that is about to be run.
    pub(super) fn remember(
        &mut self,
        era: &'static dyn ServerEra,
        query: &Query,
        work: &Work,
        outlet: &Arc<dyn Outlet>,
    ) {
        let Work::Tool(tool) = work else { return };
        let here = match tool.entry.handler {
            ToolHandler::Inline(_) => true,
            ToolHandler::Pooled(_) => self.runs_here && tool.entry.pace.is_quick(),
        };
        // Elsewhere the document goes along, and those of batches are not kept.
        let stays = here && Arc::ptr_eq(outlet, &self.conn.outlet);
        if stays && query.answers.is_none() && query.state.is_none() {
            self.again = Some(Again { era, query: *query, tool: Arc::clone(tool) });
        }
    }

    /// Runs what the last frame asked for with the arguments of this one. Gives the document back
    /// unless a job keeps it.
    pub(super) fn once_more(&mut self, doc: Box<Doc>) -> Option<Box<Doc>> {
        let Some(again) = self.again.as_ref().filter(|again| again.names(&doc)) else {
            return self.document(doc);
        };
        let (era, query) = (again.era, again.query);
        let work = tool_work(&again.tool, &mut self.last_inline);
        let Some(outlet) = self.outlet.take() else { return Some(doc) };
        let doc = self.start(doc, &outlet, era, query, work, Answers::new());
        self.outlet = Some(outlet);
        doc
    }
}

/// A tool to be run. Mostly it is the one that ran last: its reference is taken over then, not counted
/// anew.
pub(super) fn tool_work(tool: &Arc<Listed<ToolEntry>>, last: &mut Option<Work>) -> Work {
    match last.take() {
        Some(Work::Tool(ran)) if Arc::ptr_eq(&ran, tool) => Work::Tool(ran),
        ran => {
            *last = ran;
            Work::Tool(Arc::clone(tool))
        }
    }
}
