//! Start of a call: runs an inline handler, or admits the call and turns it into a job for the
//! pool.

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
use crate::server::callers::observation;

/// Result of admission.
#[allow(clippy::large_enum_variant)] // OK because a job is moved once; a box would cost an allocation.
pub(crate) enum Started {
    /// The response is in [`Dispatcher::out`]. The document can be reused.
    Done((Box<Doc>, Encoded)),
    /// The call is in flight and needs a worker.
    Admitted(Job),
    /// The call is in flight. Another thread ends it.
    Parked,
    /// The call does not fit into the memory for calls in flight. Nothing was written.
    NoRoom(Job),
}

/// The error for a call that does not fit into the memory for calls in flight.
pub(crate) const BUSY: Fault = Fault::Internal("The server is busy: too many calls are in flight");

impl Dispatcher<dyn InlineTools> {
    /// Runs an inline handler, or admits a call for the pool.
    pub(crate) fn start(
        &mut self,
        mut call: PlannedCall,
        doc: Box<Doc>,
        sink: &Arc<dyn ReplySink>,
    ) -> Started {
        let observed = std::mem::take(&mut call.observed);
        let sink = observed.sink_or(sink);
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
            server: &self.core.info,
        };
        let result = match self.inline.tool(place) {
            _ if self.conn.is_taken(doc.at(call.query.id)) => CallResult::Fault(duplicate()),
            None => CallResult::Fault(Fault::Internal("Inline tools run only on the reader thread")),
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
                call::run_handler(&scope, &call.target, &mut call.responses, Some(handler))
            }
        };
        if matches!(&result, CallResult::Done(call::Output::Tool(output)) if output.is_error) {
            observation::tool_failed(&**sink);
        }
        let before = self.out.len();
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
        observation::response_sent(&**sink, encoded, self.out.len() - before);
        Started::Done((doc, encoded))
    }

    /// Adds a call to the calls in flight whose inline handler sent a request to the client or
    /// deferred the call.
    #[cold]
    fn park(&mut self, mut job: Job, result: CallResult) -> Started {
        job.accepted = Some(Instant::now());
        // Only running calls count against the memory for calls. Parked calls have their own bound.
        match self.conn.begin(&job, usize::MAX) {
            Ok(()) => {
                job.sink.expect_response();
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
            responses: call.responses,
            call: Arc::default(),
            accepted: None,
            must_not_block: false,
            permit: call.permit,
        }
    }

    /// Adds a call to the calls in flight, if it fits.
    pub(crate) fn admit(&mut self, mut job: Job) -> Started {
        job.accepted = Some(Instant::now());
        match self.conn.begin(&job, self.core.limits.in_flight_bytes) {
            Ok(()) => {
                job.sink.expect_response();
                Started::Admitted(job)
            }
            Err(EnterError::Duplicate) => Started::Done(self.refuse(job, &duplicate())),
            Err(EnterError::NoRoom) => Started::NoRoom(job),
        }
    }

    /// Rejects a planned call of a batch.
    #[cfg(feature = "http-server")]
    #[cold]
    pub(crate) fn reject_call(
        &mut self,
        call: PlannedCall,
        doc: Box<Doc>,
        sink: &Arc<dyn ReplySink>,
        fault: &Fault,
    ) -> Box<Doc> {
        let job = self.job(call, doc, sink);
        self.refuse(job, fault).0
    }

    /// Rejects a call that was not admitted.
    #[cold]
    pub(crate) fn refuse(&mut self, job: Job, fault: &Fault) -> (Box<Doc>, Encoded) {
        let before = self.out.len();
        let encoded = job.era.reply(&mut self.out, &job.reply_target(), Reply::Fault(fault));
        self.out.newline();
        observation::response_sent(&*job.sink, encoded, self.out.len() - before);
        (job.doc, encoded)
    }
}
