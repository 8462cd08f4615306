//! Start of a call: inline handlers run here, calls for the pool are admitted and become jobs.

use std::sync::Arc;
use std::time::Instant;

use crate::era::{Encoded, Reply, ReplyTarget};
use crate::json::Doc;
use crate::model::Fault;
use crate::transport::ReplySink;

use super::methods::duplicate;
use super::{Dispatcher, InlineTools, PlannedCall};
use crate::server::call::in_flight::EnterError;
use crate::server::call::{self, CallResult, CallScope, Job};

/// Result of admission.
#[allow(clippy::large_enum_variant)] // OK because a job is moved once; a box would cost an allocation.
pub(crate) enum Started {
    /// Its response is in [`Dispatcher::out`]. The document can be reused.
    Done((Box<Doc>, Encoded)),
    /// It is in flight and needs a worker.
    Admitted(Job),
    /// It is in flight; another thread ends it.
    Parked,
    /// It does not fit into the memory for calls in flight. Nothing was written.
    NoRoom(Job),
}

/// The error for a call that does not fit into the memory for calls in flight.
pub(crate) const BUSY: Fault = Fault::Internal("The server is busy: too many calls are in flight");

impl Dispatcher<dyn InlineTools> {
    /// Runs an inline handler, or admits a call for the pool.
    pub(crate) fn start(&mut self, call: PlannedCall, doc: Box<Doc>, sink: &Arc<dyn ReplySink>) -> Started {
        match call.target.inline() {
            Some(place) => self.run_inline(place, call, doc, sink),
            None => {
                let job = self.job(call, doc, sink);
                self.admit(job)
            }
        }
    }

    fn run_inline(
        &mut self,
        place: usize,
        mut call: PlannedCall,
        doc: Box<Doc>,
        sink: &Arc<dyn ReplySink>,
    ) -> Started {
        let to = ReplyTarget {
            id: doc.at(call.query.id).raw(),
            revision: call.query.peer.revision,
            card: &self.core.card,
        };
        let result = match self.inline.tool(place) {
            _ if self.conn.is_taken(doc.at(call.query.id)) => CallResult::Fault(duplicate()),
            None => CallResult::Fault(Fault::Internal("The tool can run only on the thread that serves")),
            Some(handler) => {
                let scope = CallScope {
                    conn: &self.conn,
                    sink: &**sink,
                    era: call.era,
                    doc: &doc,
                    query: &call.query,
                    call: None,
                    deadline: self.core.deadline(),
                };
                call::conclude(&scope, &call.target, &mut call.answers, Some(handler))
            }
        };
        let reply = match &result {
            CallResult::Done(outcome) => outcome.reply(&self.conn),
            CallResult::Fault(fault) => Reply::Fault(fault),
            _ => {
                let job = self.job(call, doc, sink);
                return self.park(job, result);
            }
        };
        let encoded = call.era.reply(&mut self.out, &to, reply);
        self.out.newline();
        Started::Done((doc, encoded))
    }

    /// Enters a call whose inline handler sent a request to the client or deferred the call.
    #[cold]
    fn park(&mut self, mut job: Job, result: CallResult) -> Started {
        job.accepted = Some(Instant::now());
        // Only running calls count against the memory for calls; parking has a bound of its own.
        match self.conn.begin(&job, usize::MAX) {
            Ok(()) => {
                job.sink.expect();
                job.settle(result);
                Started::Parked
            }
            Err(_) => Started::Done(self.refuse(job, &duplicate())),
        }
    }

    fn job(&self, call: PlannedCall, doc: Box<Doc>, sink: &Arc<dyn ReplySink>) -> Job {
        Job {
            conn: Arc::clone(&self.conn),
            sink: Arc::clone(sink),
            era: call.era,
            doc,
            query: call.query,
            target: call.target,
            answers: call.answers,
            call: Arc::default(),
            accepted: None,
            posts: false,
        }
    }

    /// Adds a call to the calls in flight, if it fits.
    pub(crate) fn admit(&mut self, mut job: Job) -> Started {
        job.accepted = Some(Instant::now());
        match self.conn.begin(&job, self.core.limits.in_flight_bytes) {
            Ok(()) => {
                job.sink.expect();
                Started::Admitted(job)
            }
            Err(EnterError::Duplicate) => Started::Done(self.refuse(job, &duplicate())),
            Err(EnterError::NoRoom) => Started::NoRoom(job),
        }
    }

    /// Rejects a call that was not admitted.
    #[cold]
    pub(crate) fn refuse(&mut self, job: Job, fault: &Fault) -> (Box<Doc>, Encoded) {
        let encoded = job.era.reply(&mut self.out, &job.to(), Reply::Fault(fault));
        self.out.newline();
        (job.doc, encoded)
    }
}
