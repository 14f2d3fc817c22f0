//! A stack as a snapshot keeps it: the arrays as they are. What can be computed from them (suffix
//! sums, the index of children, the chain index) is computed again, so that it cannot disagree.

use super::arrays::{Arrays, ArraysV1, ArraysV2};
use super::flight::{FlightImage, scope_of};
use super::ids::{Place, ROOT};
use super::{ChainCheck, ChainPolicy, PageCount};
use super::{Ghosts, Order, Stack, StackConfig, chain::ChainIndex, slots::Slots};
use crate::units::pages::PageIds;
use serde::ser::{Error as _, SerializeTupleVariant};
use serde::{Deserialize, Serialize, Serializer};

/// Places of the variants of [`StackImage`] that are written: the newest, and the one before where no requests are followed
/// while they are in flight.
const V3: u32 = 3;
const V4: u32 = 4;

/// What is read back; [`Stack`] is made from it only when it is whole.
///
/// A stack of format version 1 began with its order, which was 0 or 1.
#[derive(Deserialize)]
pub(super) enum StackImage {
    V1RootFirst(ImageParts<ArraysV1, UnorderedConfig>),
    V1LeafFirst(ImageParts<ArraysV1, UnorderedConfig>),
    V2(ImageParts<ArraysV2>),
    V3(ImageParts<Arrays>),
    V4(ImageParts<Arrays>, FlightImage),
}

/// A configuration of format version 1, but for the order: the fields of [`StackConfig`] after it.
type UnorderedConfig = (PageCount, ChainCheck, ChainPolicy);

#[derive(Serialize, Deserialize)]
pub(super) struct ImageParts<T, C = StackConfig, S = Slots, G = Ghosts> {
    config: C,
    tree: T,
    slots: S,
    ghosts: G,
    requests: u64,
    accumulated: u64,
}

impl<T: Into<Arrays>, C> ImageParts<T, C> {
    fn into_newest(self, configured: impl FnOnce(C) -> StackConfig) -> ImageParts<Arrays> {
        let Self { config, tree, slots, ghosts, requests, accumulated } = self;
        let config = configured(config);
        ImageParts { config, tree: tree.into(), slots, ghosts, requests, accumulated }
    }
}

/// The configuration of a stack of format version 1, which began with its order.
fn ordered(order: Order) -> impl FnOnce(UnorderedConfig) -> StackConfig {
    move |(max_tracked_pages, chain_check, chain_policy)| StackConfig {
        order,
        max_tracked_pages,
        chain_check,
        chain_policy,
    }
}

impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_merging() {
            return Err(S::Error::custom("a range of requests is being merged into the stack"));
        }
        let Self { config, tree, slots, ghosts, requests, accumulated, .. } = self;
        let (config, requests, accumulated) = (*config, *requests, *accumulated);
        let parts = ImageParts { config, tree, slots, ghosts, requests, accumulated };
        let Some(flight) = &self.flight else {
            return serializer.serialize_newtype_variant("StackImage", V3, "V3", &parts);
        };
        let mut image = serializer.serialize_tuple_variant("StackImage", V4, "V4", 2)?;
        image.serialize_field(&parts)?;
        image.serialize_field(flight)?;
        image.end()
    }
}

/// The arrays contradict one another: the bytes are not those of a stack.
const INCONSISTENT: &str = "the stack's arrays do not fit together";

impl TryFrom<StackImage> for Stack {
    type Error = &'static str;

    fn try_from(image: StackImage) -> Result<Self, &'static str> {
        let (parts, flight) = match image {
            StackImage::V1RootFirst(image) => (image.into_newest(ordered(Order::RootFirst)), None),
            StackImage::V1LeafFirst(image) => (image.into_newest(ordered(Order::LeafFirst)), None),
            StackImage::V2(parts) => (parts.into_newest(|config| config), None),
            StackImage::V3(parts) => (parts, None),
            StackImage::V4(parts, flight) => (parts, Some(flight)),
        };
        let ImageParts { config, tree, slots, ghosts, requests, accumulated } = parts;
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
