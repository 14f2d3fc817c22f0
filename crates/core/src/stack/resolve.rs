//! The ids of a prefix that a compact event names by its last page and its length.

use super::flight::Flight;
use super::ids::{Place, ROOT};
use super::prefixes::{Found, Held, Prefixes};
use super::{Access, SegmentId, Stack};
use crate::request::event::KnownPrefix;
use crate::units::pages::Scope;

/// Why a pool cannot tell the ids of the prefix that a compact event names. Its pages and their order are as they
/// were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPrefix {
    /// The event was read without the one that brought these pages, or they were forgotten.
    #[error(
        "the pool holds no prefix of {pages} pages that ends with prefix_last_id: read the topic from an earlier \
         offset, or have the producer write full events more often (`prepare.compact_refresh`)"
    )]
    NotHeld {
        /// Length of the prefix.
        pages: u32,
    },
    /// One id stands under two prefixes of one length, so it is not chained.
    #[error(
        "the pool holds several prefixes of {pages} pages that end with prefix_last_id, so ids are not chained: \
         write full events"
    )]
    Ambiguous {
        /// Length of the prefix.
        pages: u32,
    },
    /// Ids of this pool were found not to be chained, so that none tells of those before it.
    #[error(
        "the event names its prefix by prefix_last_id, and ids of its pool are not chained (see chain_violations): \
         write full events"
    )]
    NotChained,
    /// A sample does not hold all ids.
    #[error(
        "the event names its prefix by prefix_last_id, and its pool follows a sample of the pages only: write full \
         events, or set `estimate.sample_rate` to 1"
    )]
    Sampled,
}

impl Stack {
    /// Writes the ids of a known prefix into `ids`, in place of what was there. Pages and their order stay.
    ///
    /// The first call walks the whole tree, to index it; the index is kept up to date from then on.
    ///
    /// # Errors
    /// [`UnknownPrefix`] where not exactly one prefix is meant.
    pub fn resolve(
        &mut self,
        scope: Scope,
        prefix: KnownPrefix,
        ids: &mut Vec<u64>,
    ) -> Result<(), UnknownPrefix> {
        if self.disproved {
            self.prefixes = None;
            return Err(UnknownPrefix::NotChained);
        }
        let held = Held { tree: &self.tree, slots: &self.slots, flight: self.flight.as_deref() };
        let prefixes = self.prefixes.get_or_insert_with(|| Box::new(Prefixes::of(held)));
        let pages = prefix.pages.get();
        match prefixes.find(held, scope, prefix.last_id, u64::from(pages)) {
            Found::None => Err(UnknownPrefix::NotHeld { pages }),
            Found::Several => Err(UnknownPrefix::Ambiguous { pages }),
            Found::One(page) => {
                ids.clear();
                ids.resize(pages as usize, 0);
                self.read_path(page, scope, ids);
                Ok(())
            }
        }
    }

    /// Writes the ids on the path that ends with a page, from its last segment upwards.
    fn read_path(&self, page: Place, scope: Scope, ids: &mut [u64]) {
        let (mut place, mut end) = (page, ids.len());
        while place.segment != ROOT {
            let mut at = end - place.pages as usize;
            end = at;
            for run in self.tree.ids_above(place) {
                bytemuck::cast_slice_mut(&mut ids[at..at + run.len()]).copy_from_slice(run.as_packed());
                at += run.len();
            }
            place = self.tree.place(place.segment);
        }
        if let Some(first) = ids.first_mut() {
            *first = scope.id_of_first_page(*first);
        }
    }

    /// Enters the pages that a request brought, which `tail` ends with.
    pub(super) fn index_new_pages(
        &mut self,
        flight: Option<&Flight>,
        tail: SegmentId,
        access: &Access<'_>,
        known: usize,
    ) {
        let Some(prefixes) = &mut self.prefixes else { return };
        let new = (access.pages.len() - known) as u32;
        if new > 0 {
            let held = Held { tree: &self.tree, slots: &self.slots, flight };
            let above = self.tree.len(tail) - new;
            prefixes.insert_below(held, Place { segment: tail, pages: above });
        }
    }

    /// Takes out the pages of a segment that are about to leave the tree: those below a place in it.
    pub(super) fn unindex_pages(&mut self, place: Place) {
        if let Some(prefixes) = &mut self.prefixes {
            let flight = self.flight.as_deref();
            prefixes.remove_below(Held { tree: &self.tree, slots: &self.slots, flight }, place);
        }
    }
}
