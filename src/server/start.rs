//! From a request that a handler must answer to that handler: here, on the thread that reads, or as
//! a job for the pool.
//!
//! It decides where a handler runs and sees to it that nothing waits for one that may be slow. It
//! reads no messages and calls no handler of the pool.

use std::sync::Arc;
use std::time::Instant;

use crate::era::{Reply, ServerEra, To};
use crate::json::Doc;
use crate::model::{Fault, Query};
use crate::transport::Outlet;

use super::dispatch::{Handled, InlineTools, Reader};
use super::flight::Refusal;
use super::job::{self, Conclusion, Exchange, Job, Work};
use super::operation::duplicate;
use super::registry::ToolHandler;
use super::seal::Answers;

impl Reader<dyn InlineTools> {
    /// Runs a handler here, or makes a job of it.
    pub(super) fn start(
        &mut self,
        doc: Box<Doc>,
        outlet: &Arc<dyn Outlet>,
        era: &'static dyn ServerEra,
        query: Query,
        work: Work,
        mut answers: Answers,
    ) -> Handled {
        let inline = match &work {
            Work::Tool(entry) => match entry.entry.handler {
                ToolHandler::Inline(place) => Some(place),
                ToolHandler::Pooled(_) => None,
            },
            _ => None,
        };
        let mut deadline = None;
        if inline.is_some() {
            if self.conn.is_taken(doc.at(query.id)) {
                let to =
                    To { id: doc.at(query.id).raw(), revision: query.peer.revision, card: &self.core.card };
                era.reply(&mut self.out, &to, Reply::Fault(&duplicate()));
                self.out.newline();
                return Handled::Done(doc);
            }
            // Earlier calls and answers must not wait for this handler.
            self.flush();
            deadline = self.core.deadline();
        }
        if let Some(handler) = inline.and_then(|place| self.inline.tool(place)) {
            let exchange = Exchange {
                conn: &self.conn,
                outlet: &**outlet,
                era,
                doc: &doc,
                query: &query,
                call: None,
                deadline,
            };
            let conclusion = job::conclude(&exchange, &work, &mut answers, Some(handler));
            let to = To { id: doc.at(query.id).raw(), revision: query.peer.revision, card: &self.core.card };
            match &conclusion {
                Conclusion::Done(outcome) => era.reply(&mut self.out, &to, outcome.reply(&self.conn)),
                Conclusion::Fault(fault) => era.reply(&mut self.out, &to, Reply::Fault(fault)),
                _ => {
                    let job = self.job(doc, outlet, era, query, work, answers);
                    return self.accept(job, |_, job| {
                        job.settle(conclusion);
                    });
                }
            }
            self.out.newline();
            return Handled::Done(doc);
        }
        let job = self.job(doc, outlet, era, query, work, answers);
        self.accept(job, |reader, job| reader.jobs.push(job))
    }

    fn job(
        &self,
        doc: Box<Doc>,
        outlet: &Arc<dyn Outlet>,
        era: &'static dyn ServerEra,
        query: Query,
        work: Work,
        answers: Answers,
    ) -> Job {
        Job {
            conn: Arc::clone(&self.conn),
            outlet: Arc::clone(outlet),
            era,
            doc,
            query,
            work,
            answers,
            call: Arc::default(),
            accepted: None,
            posts: false,
        }
    }

    /// Admits a call, waiting for room if this thread may, and passes its job on.
    pub(super) fn accept(
        &mut self,
        mut job: Job,
        pass: impl FnOnce(&mut Reader<dyn InlineTools>, Job),
    ) -> Handled {
        job.accepted = Some(Instant::now());
        let mut admitted = self.conn.begin(&job);
        if admitted == Err(Refusal::NoRoom) && self.waits {
            self.flush();
            self.conn.wait_for_room(&job);
            job.accepted = Some(Instant::now());
            admitted = self.conn.begin(&job);
        }
        match admitted {
            Ok(()) => {
                job.outlet.expect();
                pass(self, job);
                Handled::Accepted
            }
            Err(Refusal::Duplicate) => Handled::Done(self.reject(job, &duplicate())),
            Err(Refusal::NoRoom) => Handled::NoRoom(Box::new(job)),
        }
    }

    /// Answers a call that was not admitted with an error. Returns its document.
    #[cold]
    pub(super) fn reject(&mut self, job: Job, fault: &Fault) -> Box<Doc> {
        job.era.reply(&mut self.out, &job.to(), Reply::Fault(fault));
        self.out.newline();
        job.doc
    }
}
