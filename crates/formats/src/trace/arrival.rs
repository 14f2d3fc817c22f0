//! Requests in the order in which they came.
//!
//! Gateways and engines write a request's line when it ends, so a long request stands behind short ones that came
//! later. Where a trace does so, its requests are held back, and the one that came first is let go of when they take
//! more than a bounded number of bytes: exact for any trace that fits, and for any larger one whose disorder does. A
//! request that came before one that was let go of is refused, never passed on out of order. Of two that came at the
//! same moment the one that stands first in the trace goes first, unless their file is newest first from end to end:
//! then it is turned round as a whole.

use super::timeline::OrderOfFile;
use crate::record::fault::RowFault;
use crate::record::row::{Draft, RowBatch, StatedTimes};
use crate::time::Moment;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

/// Page ids after which requests let go of are passed on together.
const IDS_AT_ONCE: usize = 1 << 14;
/// The same for requests.
const REQUESTS_AT_ONCE: usize = 256;

/// Holds requests back.
pub(super) struct HoldBack {
    requests: BinaryHeap<Reverse<WaitingRequest>>,
    /// Those of the file at hand that state no moment, before the first that does.
    unstated: Vec<WaitingRequest>,
    bytes: usize,
    /// The most bytes that are held back.
    limit: usize,
    /// When the last request that was let go of came; nothing where what follows does not compare with it.
    released: Option<Moment>,
    /// Requests taken so far.
    taken: u64,
    /// How the files stand whose requests are held back, the last one at its end.
    orders: Vec<(Arc<str>, OrderOfFile)>,
}

impl HoldBack {
    pub fn new(limit: usize) -> Self {
        Self {
            requests: BinaryHeap::new(),
            unstated: Vec::new(),
            bytes: 0,
            limit,
            released: None,
            taken: 0,
            orders: Vec::new(),
        }
    }

    /// Takes the requests out of `batch`, which are of `file`; leaves the refused rows, those that came too late among
    /// them. `is_stated`: some row of the file has stated a moment.
    pub fn take(&mut self, batch: &mut RowBatch, file: &Arc<str>, is_stated: bool) {
        let drafts = std::mem::take(&mut batch.drafts);
        if self.orders.last().is_none_or(|(of, _)| of != file) {
            self.orders.push((Arc::clone(file), OrderOfFile::default()));
        }
        batch.refused.iter_mut().for_each(|row| row.after = 0);
        for draft in &drafts {
            if let (Some((_, order)), StatedTimes::At { .. }) = (self.orders.last_mut(), draft.when) {
                order.note(draft.moment);
            }
            if let Some(released) = self.released.filter(|released| draft.moment < *released) {
                let late_ms = released.since(draft.moment).as_millis();
                let fault = RowFault::OutOfOrder { late_ms, limit: self.limit };
                batch.refused.push(crate::record::row::RefusedRow { after: 0, line: draft.line, fault });
                continue;
            }
            let held = WaitingRequest::of(draft, batch, file, self.taken);
            (self.taken, self.bytes) = (self.taken + 1, self.bytes + held.bytes());
            match draft.when {
                StatedTimes::Unstated if !is_stated => self.unstated.push(held),
                _ => {
                    self.date_unstated(held.draft.moment);
                    self.requests.push(Reverse(held));
                }
            }
        }
        batch.ids.clear();
        batch.text.clear();
    }

    /// Those that state no moment came no later than the first that does.
    fn date_unstated(&mut self, moment: Moment) {
        for mut held in self.unstated.drain(..) {
            held.draft.moment = moment;
            self.requests.push(Reverse(held));
        }
    }

    /// Whether requests have to be let go of before others are taken.
    pub fn is_full(&self) -> bool {
        self.bytes > self.limit
    }

    /// Lets requests go, those that came first, as long as more are held back than may be, or until there are none
    /// where nothing follows that compares with them. They are of one file, whose name this gives; nothing where none
    /// is let go.
    pub fn release(&mut self, batch: &mut RowBatch, is_end: bool) -> Option<Arc<str>> {
        // Where none states a moment, there is nothing to wait for.
        if is_end || (self.is_full() && self.requests.is_empty()) {
            let moment = self.unstated.first().map(|held| held.draft.moment);
            moment.into_iter().for_each(|moment| self.date_unstated(moment));
        }
        let mut file: Option<Arc<str>> = None;
        while is_end || self.is_full() {
            let is_other =
                |held: &Reverse<WaitingRequest>| file.as_ref().is_some_and(|file| *file != held.0.file);
            if batch.ids.len() >= IDS_AT_ONCE
                || batch.drafts.len() >= REQUESTS_AT_ONCE
                || self.requests.peek().is_none_or(is_other)
            {
                break;
            }
            for held in self.next_at_once() {
                self.bytes -= held.bytes();
                self.released = Some(held.draft.moment);
                file = Some(held.release(batch));
            }
        }
        if is_end && self.requests.is_empty() {
            self.released = None;
            self.orders.clear();
        }
        file
    }

    /// The request that goes next, and of a file that is newest first those of the same moment, the last one first.
    fn next_at_once(&mut self) -> Vec<WaitingRequest> {
        let Some(Reverse(first)) = self.requests.pop() else { return Vec::new() };
        let (moment, file) = (first.draft.moment, Arc::clone(&first.file));
        let is_tied = |requests: &BinaryHeap<Reverse<WaitingRequest>>| {
            let next = requests.peek();
            next.is_some_and(|Reverse(next)| next.draft.moment == moment && next.file == file)
        };
        let mut next = vec![first];
        let falls = || self.orders.iter().any(|(of, order)| *of == file && order.falls());
        if is_tied(&self.requests) && falls() {
            while is_tied(&self.requests) {
                next.extend(self.requests.pop().map(|Reverse(tied)| tied));
            }
        }
        next.reverse();
        next
    }
}

/// A request held back, with its own copy of its ids and names.
struct WaitingRequest {
    draft: Draft,
    ids: Box<[u64]>,
    text: Box<str>,
    file: Arc<str>,
    /// Its place in the trace.
    number: u64,
}

impl WaitingRequest {
    /// A copy of a request of `batch`.
    fn of(draft: &Draft, batch: &RowBatch, file: &Arc<str>, number: u64) -> Self {
        let mut ids = Vec::with_capacity(draft.ids.len() + draft.output_ids.len());
        let mut copied = |range: &Range<usize>| {
            let start = ids.len();
            ids.extend_from_slice(&batch.ids[range.clone()]);
            start..ids.len()
        };
        let [ids_of, output_ids, tokens_behind] =
            [&draft.ids, &draft.output_ids, &draft.tokens_behind].map(&mut copied);
        let mut text = String::new();
        let draft = Draft { ids: ids_of, output_ids, tokens_behind, ..draft.clone() };
        let draft = draft.with_names(|name| {
            let start = text.len();
            text.push_str(&batch.text[name]);
            start..text.len()
        });
        Self { draft, ids: ids.into(), text: text.into(), file: Arc::clone(file), number }
    }

    /// Puts the request behind what `batch` holds; returns its file.
    fn release(self, batch: &mut RowBatch) -> Arc<str> {
        let (ids_start, text_start) = (batch.ids.len(), batch.text.len());
        batch.ids.extend_from_slice(&self.ids);
        batch.text.push_str(&self.text);
        let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
        let draft = Draft {
            ids: moved(self.draft.ids.clone(), ids_start),
            output_ids: moved(self.draft.output_ids.clone(), ids_start),
            tokens_behind: moved(self.draft.tokens_behind.clone(), ids_start),
            ..self.draft
        };
        batch.drafts.push(draft.with_names(|name| moved(name, text_start)));
        self.file
    }

    /// Memory the request takes, in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.ids) + self.text.len()
    }

    fn order(&self) -> (Moment, u64) {
        (self.draft.moment, self.number)
    }
}

impl PartialEq for WaitingRequest {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for WaitingRequest {}

impl PartialOrd for WaitingRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WaitingRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}
