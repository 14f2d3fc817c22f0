//! A request in flight over Mooncake's store: its pages are looked up as it arrives, and those that are missing put
//! as its prompt has been computed: after a step of the engine, or after two where pages were found, which are loaded
//! in the first. A step takes as long as a token. The store knows no end of a request.

use super::MooncakeCache;
use crate::engines::load::{Begun, LoadedCache};
use crate::request::event::RequestEvent;
use crate::stack::runs::{NONE, RunIndex};
use crate::units::EventTime;
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use serde::{Deserialize, Serialize};

/// A request in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct MooncakeRequest {
    /// Where its pages end until they are put; of a snapshot's no use.
    #[serde(skip)]
    tail: RunIndex,
    /// Their ids, in a snapshot alone.
    ids: Vec<u64>,
    /// How many they are; none once they are put.
    pages: u32,
    /// Steps until then.
    steps: u8,
}

heap_bytes!(MooncakeRequest { ids; tail, pages, steps });

impl MooncakeCache {
    /// Puts the pages of a request, unless they are.
    fn save_pages(&mut self, request: &mut MooncakeRequest) {
        let pages = std::mem::take(&mut request.pages);
        if pages == 0 {
            return;
        }
        let now = self.arrive(self.now, pages);
        let mut path = std::mem::take(&mut self.path);
        self.tree.path_to(request.tail, &mut path);
        let (_, missing) = self.look_up(&path, (0, pages), now);
        self.put_all(missing, now);
        self.tree.release(&path);
        self.path = path;
    }
}

impl LoadedCache for MooncakeCache {
    type Request = MooncakeRequest;
    type Saved = MooncakeRequest;

    fn pass_time(&mut self, now: EventTime) {
        self.now = now;
    }

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<MooncakeRequest> {
        self.take_ids(event);
        let pages = self.ids.len() as u32;
        let now = self.arrive(self.now, pages);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(PageIds::from_slice(&self.ids), &mut path);
        let (found, _) = self.look_up(&path, (0, pages), now);
        let tail = path.last().copied().unwrap_or(NONE);
        self.path = path;
        let mut request = MooncakeRequest { tail, ids: Vec::new(), pages, steps: 1 + u8::from(found > 0) };
        if event.output_tokens.is_none() {
            // Nobody knows how long a step takes.
            self.save_pages(&mut request);
        }
        Begun::Runs(request, u64::from(found))
    }

    fn next_token(&self, request: &MooncakeRequest) -> Option<u64> {
        (request.pages > 0).then_some(u64::from(request.steps))
    }

    fn grow(&mut self, request: &mut MooncakeRequest) -> bool {
        self.save_pages(request);
        true
    }

    fn finish(&mut self, mut request: MooncakeRequest) {
        self.save_pages(&mut request);
    }

    fn save(&self, request: &MooncakeRequest) -> MooncakeRequest {
        let mut path = Vec::new();
        if request.pages > 0 {
            self.tree.path_to(request.tail, &mut path);
        }
        MooncakeRequest { ids: self.tree.ids_of(&path, request.pages as usize), ..request.clone() }
    }

    fn rejoin(&mut self, mut saved: MooncakeRequest) -> Option<MooncakeRequest> {
        if saved.ids.len() != saved.pages as usize {
            return None;
        }
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(PageIds::from_slice(&std::mem::take(&mut saved.ids)), &mut path);
        saved.tail = path.last().copied().unwrap_or(NONE);
        self.path = path;
        Some(saved)
    }
}
