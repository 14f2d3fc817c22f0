//! A stack as a snapshot keeps it: the arrays as they are. What can be computed from them (suffix
//! sums, the index of children, the chain index) is computed again, so that it cannot disagree.

use super::arrays::Arrays;
use super::flight::{FlightImage, scope_of};
use super::ids::{Place, ROOT};
use super::{Ghosts, Stack, StackConfig, chain::ChainIndex, slots::Slots};
use crate::units::pages::PageIds;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

/// What is written and read back; [`Stack`] is made from it only when it is whole.
#[derive(Serialize, Deserialize)]
pub(super) struct StackImage<T = Arrays, S = Slots, G = Ghosts, F = FlightImage> {
    config: StackConfig,
    tree: T,
    slots: S,
    ghosts: G,
    requests: u64,
    accumulated: u64,
    /// Requests in flight, where those are followed.
    flight: Option<F>,
}

impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_merging() {
            return Err(S::Error::custom("a range of requests is being merged into the stack"));
        }
        let Self { config, tree, slots, ghosts, requests, accumulated, .. } = self;
        let (config, requests, accumulated) = (*config, *requests, *accumulated);
        let flight = self.flight.as_deref();
        StackImage { config, tree, slots, ghosts, requests, accumulated, flight }.serialize(serializer)
    }
}

/// The arrays contradict one another: the bytes are not those of a stack.
const INCONSISTENT: &str = "the stack's arrays do not fit together";

impl TryFrom<StackImage> for Stack {
    type Error = &'static str;

    fn try_from(image: StackImage) -> Result<Self, &'static str> {
        let StackImage { config, tree, slots, ghosts, requests, accumulated, flight } = image;
        let is_in_order = flight.is_some() || slots.are_in_order();
        if !slots.is_sound(tree.table_len()) || !tree.are_sound(&slots, flight.is_some()) || !is_in_order {
            return Err(INCONSISTENT);
        }
        let tree = tree.build();
        let flight = match flight {
            None => None,
            Some(image) => Some(Box::new(image.build(&tree, &slots, requests).ok_or(INCONSISTENT)?)),
        };
        let mut chain = ChainIndex::new(config.chain_check);
        for (id, segment) in tree.segments() {
            let scope = scope_of(id, &tree, &slots, flight.as_deref());
            let ids = tree.ids_below(Place { segment: id, pages: 0 }).flat_map(PageIds::iter);
            match segment.parent {
                ROOT => chain.restore_path_start(scope, ids),
                _ => chain.restore(scope, ids),
            }
        }
        let (path, slot_runs) = (Vec::new(), Vec::new());
        let (disproved, merging) = (false, None);
        Ok(Self {
            config,
            tree,
            slots,
            chain,
            ghosts,
            requests,
            accumulated,
            disproved,
            merging,
            flight,
            path,
            slot_runs,
            copies: 0,
        })
    }
}
