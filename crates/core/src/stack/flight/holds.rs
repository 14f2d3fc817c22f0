//! Who holds the pages of one segment, and who touched them last.

use crate::units::heap::{flat, heap_bytes};
use std::collections::VecDeque;

/// Pages of a segment that one request was the last to touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentTouch {
    pub(super) begin: u32,
    pub(super) end: u32,
    pub(super) number: u64,
}

flat!(SegmentTouch);

/// The holders of a segment. The pages up to the deepest of them are held.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// How many requests in flight go how far: pages in ascending order.
    live: Vec<(u32, u32)>,
    /// Who touched the held pages last, the deepest first, as pages and the request's number: each goes less far than
    /// the one before and came later. One that has ended stays as long as others hold what it touched.
    touched: VecDeque<(u32, u64)>,
}

heap_bytes!(Holds { live, touched });

impl Holds {
    /// Pages held.
    pub(super) fn held(&self) -> u32 {
        self.live.last().map_or(0, |(pages, _)| *pages)
    }

    /// Adds the latest request, whose path goes so far.
    pub(super) fn hold(&mut self, pages: u32, number: u64) {
        self.count(pages);
        while self.touched.back().is_some_and(|(earlier, _)| *earlier <= pages) {
            self.touched.pop_back();
        }
        self.touched.push_back((pages, number));
    }

    /// Adds a request in flight without touching its pages.
    pub(super) fn count(&mut self, pages: u32) {
        match self.live.binary_search_by_key(&pages, |(pages, _)| *pages) {
            Ok(at) => self.live[at].1 += 1,
            Err(at) => self.live.insert(at, (pages, 1)),
        }
    }

    /// Takes out a request that went so far. What nobody holds then is appended to `released`, the deepest first.
    pub(super) fn end(&mut self, pages: u32, mut released: impl FnMut(SegmentTouch)) {
        let Ok(at) = self.live.binary_search_by_key(&pages, |(pages, _)| *pages) else { return };
        self.live[at].1 -= 1;
        if self.live[at].1 > 0 {
            return;
        }
        self.live.remove(at);
        let held = self.held();
        while let Some((end, number)) = self.touched.front().copied().filter(|(pages, _)| *pages > held) {
            let above = self.touched.get(1).map_or(0, |(pages, _)| *pages);
            released(SegmentTouch { begin: above.max(held), end, number });
            match above < held {
                true => self.touched[0].0 = held,
                false => drop(self.touched.pop_front()),
            }
        }
    }

    /// Who touched the first `pages` held pages last, the shallowest first.
    pub(super) fn touches(&self, pages: u32) -> impl Iterator<Item = SegmentTouch> + '_ {
        let mut begin = 0;
        self.touched.iter().rev().map_while(move |(reach, number)| {
            let touch = SegmentTouch { begin, end: pages.min(*reach), number: *number };
            begin = touch.end;
            (touch.begin < touch.end).then_some(touch)
        })
    }

    /// Up to which page, and the number of who touched it last, the deepest first.
    pub(super) fn touched(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.touched.iter().copied()
    }

    /// Adds one who touched pages later and went less far, as read from a snapshot; whether that is so.
    pub(super) fn push_touched(&mut self, pages: u32, number: u64) -> bool {
        let fits = self.touched.back().is_none_or(|last| last.0 > pages && last.1 < number);
        self.touched.push_back((pages, number));
        fits && pages > 0
    }

    /// Whether all that is held was touched, and nothing else.
    pub(super) fn is_sound(&self) -> bool {
        self.touched.front().map_or(0, |(pages, _)| *pages) == self.held()
    }

    /// Forgets everybody, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.live.clear();
        self.touched.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The last to touch each page, and how many hold it.
    #[derive(Default)]
    struct Model {
        last: Vec<Option<u64>>,
        holders: Vec<u32>,
    }

    proptest! {
        #[test]
        fn holds_equal_a_holder_and_a_toucher_kept_page_by_page(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 1u32..12, any::<bool>()), 0..80),
        ) {
            const PAGES: usize = 12;
            let mut holds = Holds::default();
            let mut model = Model { last: vec![None; PAGES], holders: vec![0; PAGES] };
            let mut live: Vec<u32> = Vec::new();
            for (number, (which, pages, ends)) in (0..).zip(steps) {
                if ends && !live.is_empty() {
                    let pages = live.swap_remove(which.index(live.len()));
                    let mut released = vec![None; PAGES];
                    holds.end(pages, |touch| {
                        released[touch.begin as usize..touch.end as usize].fill(Some(touch.number));
                    });
                    let mut expected = vec![None; PAGES];
                    let held = model.holders.iter_mut().zip(&mut model.last).take(pages as usize);
                    for (expected, (holders, last)) in expected.iter_mut().zip(held) {
                        *holders -= 1;
                        if *holders == 0 {
                            *expected = last.take();
                        }
                    }
                    prop_assert_eq!(released, expected);
                } else {
                    holds.hold(pages, number);
                    live.push(pages);
                    model.holders[..pages as usize].iter_mut().for_each(|holders| *holders += 1);
                    model.last[..pages as usize].fill(Some(number));
                }
                let mut touched = vec![None; PAGES];
                for touch in holds.touches(u32::MAX) {
                    touched[touch.begin as usize..touch.end as usize].fill(Some(touch.number));
                }
                prop_assert_eq!(&touched, &model.last);
                prop_assert!(holds.is_sound());
                prop_assert_eq!(holds.held(), live.iter().copied().max().unwrap_or(0));
            }
        }
    }
}
