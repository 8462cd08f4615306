//! A call that says the same as the one before it, but for its id and its arguments.
//!
//! Clients call one tool many times in a row. What such a frame means was found out with the first of
//! them: which era speaks, what is asked, which tool is meant. Where the parser tells that nothing
//! differs by which that was decided (see `json/alike.rs`), it is not found out again; that is a third
//! of a short call.
//!
//! What it does: remember what the last call asked for, mark the documents that ask for the same, and
//! compare. What it does not: anything for calls with answers to questions, in batches, or other than
//! of tools.
//!
//! # Invariants
//! - A document with the mark of what is remembered asks for just that, whoever has it meanwhile. Marks
//!   are never used twice.
//! - What is remembered belongs to the registry and to the session as they are: whatever replaces one of
//!   them forgets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::era::ServerEra;
use crate::json::{Doc, Free};
use crate::model::{Operation, Query};
use crate::rpc;
use crate::transport::Outlet;

use super::dispatch::{InlineTools, Reader};
use super::job::Work;
use super::registry::{Listed, ToolEntry};
use super::seal::Answers;

static LAST_MARK: AtomicU64 = AtomicU64::new(0);

/// What a call asked for.
pub(crate) struct Again {
    mark: u64,
    era: &'static dyn ServerEra,
    query: Query,
    tool: Arc<Listed<ToolEntry>>,
}

impl Again {
    /// Whether the text that a document still holds asked for this.
    pub(super) fn knows(&self, doc: &Doc) -> bool {
        self.mark == doc.mark()
    }

    /// What the next frame may say otherwise.
    pub(super) fn free(&self) -> Free {
        let inside = match self.query.operation {
            Operation::CallTool { arguments, .. } => arguments,
            _ => None,
        };
        Free { values: [Some(self.query.id), self.query.progress], inside, same: self.query.meta }
    }

    /// Whether the ids that the frame says otherwise are ids.
    fn names(&self, doc: &Doc) -> bool {
        let id = |node| rpc::is_id(doc.at(node));
        id(self.query.id) && self.query.progress.is_none_or(id)
    }
}

impl Reader<dyn InlineTools> {
    /// Remembers what a document asks for that is about to be run.
    pub(super) fn remember(
        &mut self,
        doc: &mut Doc,
        era: &'static dyn ServerEra,
        query: &Query,
        work: &Work,
        outlet: &Arc<dyn Outlet>,
    ) {
        let Work::Tool(tool) = work else { return };
        // The messages of a batch are parsed one by one.
        let single = Arc::ptr_eq(outlet, &self.conn.outlet);
        if !single || query.answers.is_some() || query.state.is_some() {
            return;
        }
        // The revision, which is part of the query, tells the era.
        let same = |again: &&Again| Arc::ptr_eq(&again.tool, tool) && again.query == *query;
        let mark = match self.again.as_ref().filter(same) {
            Some(again) => again.mark,
            None => {
                let mark = LAST_MARK.fetch_add(1, Ordering::Relaxed) + 1;
                self.again = Some(Again { mark, era, query: *query, tool: Arc::clone(tool) });
                mark
            }
        };
        doc.set_mark(mark);
    }

    /// Runs what is remembered with the arguments of this document. Gives it back unless a job keeps
    /// it.
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
