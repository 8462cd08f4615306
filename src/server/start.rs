//! From a request that a handler must answer to that handler: here, on the thread that reads, or as
//! a job for the pool.
//!
//! It decides where a handler runs and sees to it that nothing waits for one that may be slow. It
//! reads no messages and calls no handler of the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::{Reply, ServerEra, To};
use crate::json::Doc;
use crate::model::Query;
use crate::transport::Outlet;

use super::dispatch::{InlineTools, Reader};
use super::flight::{Refusal, Running};
use super::job::{self, Conclusion, Exchange, Job, Work};
use super::operation::duplicate;
use super::registry::ToolHandler;
use super::seal::Answers;

/// Answers wait no longer than this for later ones while inline handlers run.
const BATCH_TIME: Duration = Duration::from_millis(1);

/// A job to be run by the thread that reads.
pub(crate) struct Quick {
    pub job: Job,
    /// To be entered among the calls in flight if it is not over soon.
    pub running: Option<Running>,
}

impl Reader<dyn InlineTools> {
    /// Takes a job back that the caller does not run.
    pub(crate) fn put(&mut self, quick: Quick) {
        if let Some(running) = quick.running {
            self.conn.adopt(running);
        }
        self.jobs.push(quick.job);
    }

    /// Takes the outcome of a job that the caller has run.
    pub(crate) fn conclude(&mut self, quick: Quick, conclusion: Conclusion) {
        let job = quick.job;
        let reply = match &conclusion {
            Conclusion::Done(outcome) => outcome.reply(&job.conn),
            Conclusion::Fault(fault) => Reply::Fault(fault),
            _ => {
                if let Some(running) = quick.running {
                    self.conn.adopt(running);
                }
                return job.settle(conclusion);
            }
        };
        job.era.reply(&mut self.out, &job.to(), reply);
        self.out.newline();
        self.doc = Some(job.doc);
    }

    /// Runs a handler here, or makes a job of it.
    pub(super) fn start(
        &mut self,
        doc: Box<Doc>,
        outlet: &Arc<dyn Outlet>,
        era: &'static dyn ServerEra,
        query: Query,
        work: Work,
        mut answers: Answers,
    ) -> Option<Box<Doc>> {
        let inline = match &work {
            Work::Tool(entry) => match entry.entry.handler {
                ToolHandler::Inline(place) => Some((place, &entry.entry.pace)),
                ToolHandler::Pooled(_) => None,
            },
            _ => None,
        };
        let mut watch = None;
        let mut deadline = None;
        if let Some((_, pace)) = inline {
            if self.conn.is_taken(doc.at(query.id)) {
                let to =
                    To { id: doc.at(query.id).raw(), revision: query.peer.revision, card: &self.core.card };
                era.reply(&mut self.out, &to, Reply::Fault(&duplicate()));
                self.out.newline();
                return Some(doc);
            }
            // Calls that came before need not wait for this one, nor answers for long.
            self.submit();
            let now = Instant::now();
            let waiting = self.first_waiting.filter(|_| !self.out.is_empty());
            let late = waiting.is_some_and(|since| now > since + BATCH_TIME);
            if late {
                // Most likely it was the one that ran last that took so long: another, or this very one.
                match &self.last_inline {
                    Some(Work::Tool(entry)) => entry.entry.pace.suspend(),
                    _ => pace.suspend(),
                }
            }
            if late || !pace.is_quick() {
                self.send();
            }
            if self.out.is_empty() {
                self.first_waiting = Some(now);
            }
            // Reading the clock once more is for those that have to win trust.
            watch = (!pace.is_quick()).then_some(now);
            let time = self.core.limits.handler_deadline;
            deadline = (!time.is_zero()).then(|| now + time);
        }
        if let Some(handler) = inline.and_then(|(place, _)| self.inline.tool(place)) {
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
            if let (Some(started), Some((_, pace))) = (watch, inline) {
                pace.note(started.elapsed());
            }
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
            self.last_inline = Some(work);
            return Some(doc);
        }
        let quick = self.runs_here
            && Arc::ptr_eq(outlet, &self.conn.outlet)
            && matches!(&work, Work::Tool(entry) if entry.entry.pace.is_quick());
        let mut job = self.job(doc, outlet, era, query, work, answers);
        if quick {
            job.accepted = Some(Instant::now());
            if let Ok(running) = self.conn.admit(&job) {
                self.here = Some(Quick { job, running });
                return None;
            }
        }
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
            #[cfg(feature = "hub")]
            posts: false,
        }
    }

    /// Enters a job among the calls in flight and passes it on. Gives its document back if it does
    /// not keep it.
    pub(super) fn accept(
        &mut self,
        mut job: Job,
        pass: impl FnOnce(&mut Reader<dyn InlineTools>, Job),
    ) -> Option<Box<Doc>> {
        job.accepted = Some(Instant::now());
        let mut entered = self.conn.begin(&job);
        if entered == Err(Refusal::NoRoom) && self.waits {
            self.flush();
            self.conn.wait_for_room(&job);
            job.accepted = Some(Instant::now());
            entered = self.conn.begin(&job);
        }
        match entered {
            Ok(()) => {
                job.outlet.expect();
                pass(self, job);
                None
            }
            Err(refusal) => {
                self.crowded = refusal == Refusal::NoRoom;
                job.era.reply(&mut self.out, &job.to(), Reply::Fault(&duplicate()));
                self.out.newline();
                Some(job.doc)
            }
        }
    }
}
