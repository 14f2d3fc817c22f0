//! A request in flight of LMCache's process: looked up and stored as it arrives, its chunks made the youngest as it ends. It holds
//! nothing: its chunks may go meanwhile.

use super::LmcacheMpCache;
use crate::engines::load::{Begun, LoadedCache};
use crate::request::event::RequestEvent;
use crate::stack::runs::{NONE, NodeIndex};
use crate::units::EventTime;
use serde::{Deserialize, Serialize};

/// A request in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct LmcacheMpRequest {
    /// Where its chunks end; of a snapshot's no use.
    #[serde(skip)]
    tail: NodeIndex,
    /// Their ids, in a snapshot alone.
    ids: Vec<u64>,
    /// How many they are.
    chunks: u32,
}

impl LoadedCache for LmcacheMpCache {
    type Request = LmcacheMpRequest;
    type Saved = LmcacheMpRequest;

    fn pass_time(&mut self, now: EventTime) {
        self.look_up_to(now);
    }

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<LmcacheMpRequest> {
        let (_, found, chunks) = self.store(event, 0);
        let tail = self.held.tail();
        let hits = u64::from(found) * self.pages_per_chunk();
        Begun::Runs(LmcacheMpRequest { tail, ids: Vec::new(), chunks }, hits)
    }

    fn next_token(&self, _: &LmcacheMpRequest) -> Option<u64> {
        None
    }

    fn grow(&mut self, _: &mut LmcacheMpRequest) -> bool {
        true
    }

    fn finish(&mut self, request: LmcacheMpRequest) {
        self.held.return_to(request.tail);
        self.held.refresh(0, request.chunks);
        self.held.leave();
    }

    fn preempt(&mut self, _: &mut LmcacheMpRequest, _: u64) {}

    fn stored(&self, _: &LmcacheMpRequest) -> (u64, u64) {
        (0, 0)
    }

    fn resume(&mut self, _: &mut LmcacheMpRequest) -> bool {
        true
    }

    fn abandon(&mut self, request: LmcacheMpRequest) {
        self.finish(request);
    }

    fn save(&self, request: &LmcacheMpRequest) -> LmcacheMpRequest {
        LmcacheMpRequest { ids: self.held.ids_to(request.tail, request.chunks), ..request.clone() }
    }

    fn rejoin(&mut self, mut saved: LmcacheMpRequest) -> Option<LmcacheMpRequest> {
        if saved.ids.len() != saved.chunks as usize {
            return None;
        }
        self.held.enter(&std::mem::take(&mut saved.ids));
        saved.tail = if saved.chunks == 0 { NONE } else { self.held.tail() };
        Some(saved)
    }
}
