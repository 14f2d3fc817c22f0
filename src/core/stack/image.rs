//! A stack as a snapshot keeps it: the arrays as they are. What can be computed from them (suffix
//! sums, the edge index, the chain index) is computed again, so that it cannot disagree.

use super::{Ghosts, Stack, StackConfig, chain::ChainIndex, slots::Slots, tree::ROOT, tree::Tree};
use serde::{Deserialize, Serialize, Serializer};

#[derive(Serialize)]
struct ImageRef<'a> {
    config: StackConfig,
    tree: &'a Tree,
    slots: &'a Slots,
    ghosts: &'a Ghosts,
    requests: u64,
    accumulated: u64,
}

/// The owned form; [`Stack`] is made from it only when it is whole.
#[derive(Deserialize)]
pub(super) struct Image {
    config: StackConfig,
    tree: Tree,
    slots: Slots,
    ghosts: Ghosts,
    requests: u64,
    accumulated: u64,
}

impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { config, tree, slots, ghosts, requests, accumulated, .. } = self;
        let image =
            ImageRef { config: *config, tree, slots, ghosts, requests: *requests, accumulated: *accumulated };
        image.serialize(serializer)
    }
}

/// The arrays contradict one another: the bytes are not those of a stack.
#[derive(Debug, thiserror::Error)]
#[error("the stack's arrays do not fit together: {0}")]
pub(super) struct Inconsistent(&'static str);

impl TryFrom<Image> for Stack {
    type Error = Inconsistent;

    fn try_from(image: Image) -> Result<Self, Inconsistent> {
        let Image { config, mut tree, slots, ghosts, requests, accumulated } = image;
        if !tree.is_sound(slots.len()) || !slots.is_sound(tree.table_len()) {
            return Err(Inconsistent("the tree is none, or a slot lies outside of it"));
        }
        if !stretches_fit(&tree, &slots) {
            return Err(Inconsistent("the slots do not own the nodes"));
        }
        tree.rebuild_index();
        let mut chain = ChainIndex::new(config.chain_check);
        for (node, slot, label) in tree.edges() {
            let scope = slots.scope(slot);
            match tree.parent(node) {
                ROOT => chain.restore_path_start(scope, label),
                _ => chain.restore(scope, label),
            }
        }
        Ok(Self {
            config,
            tree,
            slots,
            chain,
            ghosts,
            requests,
            accumulated,
            path: Vec::new(),
            stretches: Vec::new(),
        })
    }
}

/// Whether every slot that owns pages owns a line of nodes, from its tail upwards, with no more pages than
/// it counts, and every node lies on such a line.
fn stretches_fit(tree: &Tree, slots: &Slots) -> bool {
    let mut left = tree.node_count() - 1;
    for slot in slots.owners() {
        let (mut node, mut pages) = (slots.tail(slot), 0);
        // A tail that was taken over, and its place once it is free, has the number of a newer slot.
        if node != ROOT && tree.slot(node) < slot {
            return false;
        }
        while node != ROOT && tree.slot(node) == slot {
            let label = tree.pages(node);
            // A line that leads back to itself ends here, for it runs out of nodes.
            if label == 0 || left == 0 {
                return false;
            }
            left -= 1;
            pages += u64::from(label);
            node = tree.parent(node);
        }
        if pages > slots.weight(slot) {
            return false;
        }
    }
    left == 0
}
