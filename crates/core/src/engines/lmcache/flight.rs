//! Requests in flight of LMCache, which hold nothing: their chunks may go meanwhile.
//!
//! Where it is a process of its own, a request is looked up and stored as it arrives, and its chunks are made the
//! youngest as it ends. In the engine's process one is looked up as it arrives and stored as its prompt has been
//! computed, which is when its first token comes; its end is nothing.

use super::held::HeldChunks;
use super::{ChunkRules, LmcacheCache, LmcacheMpRules, LmcacheRules};
use crate::engines::load::{Begun, LoadedCache};
use crate::request::event::RequestEvent;
use crate::stack::runs::{NONE, RunIndex};
use crate::units::EventTime;
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use serde::{Deserialize, Serialize};

/// The chunks of a request in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct FlyingChunks {
    /// Where they end; of a snapshot's no use.
    #[serde(skip)]
    tail: RunIndex,
    /// Their ids, in a snapshot alone.
    ids: Vec<u64>,
    /// How many they are.
    chunks: u32,
}

heap_bytes!(FlyingChunks { ids; tail, chunks });

impl FlyingChunks {
    /// Those of the request that was entered.
    fn of(held: &HeldChunks, chunks: u32) -> Self {
        Self { tail: held.tail(), ids: Vec::new(), chunks }
    }

    /// As a snapshot keeps them.
    fn saved(&self, held: &HeldChunks) -> Self {
        Self { ids: held.ids_to(self.tail, self.chunks), ..self.clone() }
    }

    /// Enters them again; whether they are sound.
    fn enter(&mut self, held: &mut HeldChunks) -> bool {
        let is_sound = self.ids.len() == self.chunks as usize;
        if is_sound {
            held.enter(PageIds::from_slice(&std::mem::take(&mut self.ids)));
            self.tail = if self.chunks == 0 { NONE } else { held.tail() };
        }
        is_sound
    }
}

/// A request in flight of the engine's own process, until it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct LmcacheRequest {
    chunks: FlyingChunks,
    /// How many of them were found.
    found: u32,
    is_stored: bool,
}

heap_bytes!(LmcacheRequest { chunks; found, is_stored });

impl LmcacheCache<LmcacheRules> {
    /// Stores the chunks of a request behind those that were found, unless they are.
    fn save_chunks(&mut self, request: &mut LmcacheRequest) {
        if !std::mem::replace(&mut request.is_stored, true) {
            self.held.return_to(request.chunks.tail);
            LmcacheRules::store(self, request.found, request.chunks.chunks);
            self.held.leave();
        }
    }
}

impl LoadedCache for LmcacheCache<LmcacheRules> {
    type Request = LmcacheRequest;
    type Saved = LmcacheRequest;

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<LmcacheRequest> {
        let (_, found, chunks) = self.look_up(event, 0);
        let hits = u64::from(found) * self.pages_per_chunk();
        let chunks = FlyingChunks::of(&self.held, chunks);
        let mut request = LmcacheRequest { chunks, found, is_stored: false };
        if event.output_tokens.is_none() {
            // Nobody knows when its first token came.
            self.save_chunks(&mut request);
        }
        Begun::Runs(request, hits)
    }

    fn next_token(&self, request: &LmcacheRequest) -> Option<u64> {
        (!request.is_stored).then_some(1)
    }

    fn grow(&mut self, request: &mut LmcacheRequest) -> bool {
        self.save_chunks(request);
        true
    }

    fn finish(&mut self, mut request: LmcacheRequest) {
        self.save_chunks(&mut request);
    }

    fn save(&self, request: &LmcacheRequest) -> LmcacheRequest {
        match request.is_stored {
            true => request.clone(),
            false => LmcacheRequest { chunks: request.chunks.saved(&self.held), ..request.clone() },
        }
    }

    fn rejoin(&mut self, mut saved: LmcacheRequest) -> Option<LmcacheRequest> {
        let is_sound = saved.found <= saved.chunks.chunks;
        (is_sound && (saved.is_stored || saved.chunks.enter(&mut self.held))).then_some(saved)
    }
}

impl LoadedCache for LmcacheCache<LmcacheMpRules> {
    type Request = FlyingChunks;
    type Saved = FlyingChunks;

    fn pass_time(&mut self, now: EventTime) {
        LmcacheMpRules::pass_time(self, now);
    }

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<FlyingChunks> {
        let (_, found, chunks) = self.look_up(event, 0);
        LmcacheMpRules::store(self, found, chunks);
        let hits = u64::from(found) * self.pages_per_chunk();
        Begun::Runs(FlyingChunks::of(&self.held, chunks), hits)
    }

    fn next_token(&self, _: &FlyingChunks) -> Option<u64> {
        None
    }

    fn grow(&mut self, _: &mut FlyingChunks) -> bool {
        true
    }

    fn finish(&mut self, request: FlyingChunks) {
        self.held.return_to(request.tail);
        self.held.refresh(0, request.chunks);
        self.held.leave();
    }

    fn save(&self, request: &FlyingChunks) -> FlyingChunks {
        request.saved(&self.held)
    }

    fn rejoin(&mut self, mut saved: FlyingChunks) -> Option<FlyingChunks> {
        saved.enter(&mut self.held).then_some(saved)
    }
}
