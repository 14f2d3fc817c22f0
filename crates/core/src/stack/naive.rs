//! The obvious model the core is tested against: a list of pages, most recent first, and random
//! chained workloads to run through it.

use crate::stack::Order;
use crate::units::pages::mix;
use proptest::prelude::*;

/// A page is its whole prefix.
pub(crate) type NaivePage = Vec<u64>;

/// An LRU stack as a plain list, one page at a time.
#[derive(Debug, Clone)]
pub(crate) struct NaiveStack {
    order: Order,
    /// Each page with the number of the request that touched it last, most recent first.
    pages: Vec<(NaivePage, u64)>,
    requests: u64,
}

/// What the list says about one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveRequest {
    /// Its pages in prefix order, each with the request that touched it last before, if any did.
    pub pages: Vec<(NaivePage, Option<u64>)>,
    /// Capacity needed for each page of the reusable prefix.
    pub needs: Vec<u64>,
}

impl NaiveStack {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, pages: Vec::new(), requests: 0 }
    }

    /// Distinct pages ever seen.
    pub(crate) fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn access(&mut self, ids: &[u64]) -> NaiveRequest {
        let mut request = NaiveRequest::default();
        let prefixes: Vec<NaivePage> = (1..=ids.len()).map(|end| ids[..end].to_vec()).collect();
        for page in &prefixes {
            // Leaf first, the whole request is looked up before any page moves.
            let found = match self.order {
                Order::RootFirst => self.touch(page),
                Order::LeafFirst => self.find(page),
            };
            request.pages.push((page.clone(), found.map(|(_, toucher)| toucher)));
            request.needs.extend(found.map(|(depth, _)| depth + 1));
        }
        if self.order == Order::LeafFirst {
            for page in prefixes.iter().rev() {
                self.touch(page);
            }
        }
        self.requests += 1;
        request
    }

    /// Pages above this one in the stack, and who touched it last.
    fn find(&self, page: &NaivePage) -> Option<(u64, u64)> {
        let depth = self.pages.iter().position(|(held, _)| held == page)?;
        Some((depth as u64, self.pages[depth].1))
    }

    fn touch(&mut self, page: &NaivePage) -> Option<(u64, u64)> {
        let found = self.find(page);
        self.pages.retain(|(held, _)| held != page);
        self.pages.insert(0, (page.clone(), self.requests));
        found
    }
}

/// Requests with prefix-chained ids: each keeps a part of an earlier one (all of it, some, none), then
/// grows; so prompts branch, are cut, return and grow again.
pub(crate) fn chained_requests(most: usize) -> impl Strategy<Value = Vec<Vec<u64>>> {
    let draw = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u64..5, 0u64..3);
    prop::collection::vec(draw, 1..most).prop_map(|draws| {
        let mut made: Vec<Vec<u64>> = vec![Vec::new()];
        for (base, keep, grow, branch) in draws {
            let base = &made[base.index(made.len())];
            let mut ids = base[..keep.index(base.len() + 1)].to_vec();
            for _ in 0..grow {
                ids.push(mix(ids.last().copied().unwrap_or(7) ^ (branch + 1)));
            }
            made.push(ids);
        }
        made.split_off(1)
    })
}
