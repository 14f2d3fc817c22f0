//! What HiCache adds to the tree: nodes that the host holds, alone or alongside the device.

use super::host::WritePolicy;
use super::node::{NONE, NodeIndex};
use super::tree::SglangTree;

impl SglangTree {
    /// Keeps the node that is matched from being evicted from the host, while room is made to load back what the host
    /// has of it and above.
    pub(super) fn pin_on_host(&mut self, index: NodeIndex) {
        (self.host.pinned, self.host.kept) = (index, index);
        let stamp = self.node(index).stamp;
        self.host.leaves.remove(&stamp);
    }

    /// Unlocks the node kept on the host.
    pub(super) fn unpin_on_host(&mut self) {
        let pinned = std::mem::replace(&mut self.host.pinned, NONE);
        if pinned != NONE {
            self.offer(pinned);
        }
    }

    /// Says how many insertions have passed a node.
    pub(super) fn set_insertions(&mut self, index: NodeIndex, insertions: u8) {
        self.nodes[index as usize].insertions = insertions;
    }

    /// Copies a node to the host, which has room for it.
    pub(super) fn back_up(&mut self, index: NodeIndex) {
        let node = &mut self.nodes[index as usize];
        node.on_host = true;
        self.host.pages += node.pages();
        self.host.written += node.pages();
    }

    /// Drops a leaf of the device that the host holds as well.
    pub(super) fn demote(&mut self, index: NodeIndex) {
        self.withhold(index);
        let node = &mut self.nodes[index as usize];
        node.on_device = false;
        let parent = node.parent;
        self.pages -= node.pages();
        self.drop_other(index);
        self.nodes[parent as usize].device_children -= 1;
        self.offer(index);
        self.offer(parent);
    }

    /// Brings a node that only the host holds to the device; what is above it is there.
    pub(super) fn promote(&mut self, index: NodeIndex) {
        self.withhold(index);
        let node = &mut self.nodes[index as usize];
        node.on_device = true;
        let parent = node.parent;
        self.pages += node.pages();
        self.withhold(parent);
        self.nodes[parent as usize].device_children += 1;
        self.offer(index);
    }

    /// The pool alongside gives up what it has of a node on the device; what the host has of it may go from now on.
    pub(super) fn drop_other(&mut self, index: NodeIndex) {
        self.auxiliary.drop(index);
        self.host.auxiliary.list(index);
    }

    /// The pool alongside holds so many pages of a node on the device, so that the host keeps what it has of it.
    pub(super) fn hold_other(&mut self, index: NodeIndex, pages: u64) {
        self.host.auxiliary.unlist(index);
        self.auxiliary.hold(index, pages);
    }

    /// Brings those nodes of a path to the device that only the host holds. Copies take until the next step, so the
    /// host's stay so long, and what it has of the path's last node.
    pub(super) fn load(&mut self, path: &[NodeIndex]) {
        for &index in path {
            if !self.node(index).on_device {
                self.promote(index);
                self.nodes[index as usize].loading = true;
                self.host.loading.push(index);
            }
        }
    }

    /// The next step of the scheduler: copies to either side are done, so what they read and wrote may go.
    pub(super) fn next_step(&mut self) {
        self.host.step += 1;
        self.host.kept = NONE;
        while let Some(index) = self.host.loading.pop() {
            self.nodes[index as usize].loading = false;
            self.note_duplicate(index);
        }
        while let Some(index) = self.host.locked.pop() {
            self.unlock_last_window(index);
        }
    }

    /// An insertion enters a node: where only the host holds it, the device does as well then, with the request's own
    /// pages.
    pub(super) fn enter(&mut self, index: NodeIndex) {
        if !self.node(index).on_device {
            self.promote(index);
            self.note_duplicate(index);
        }
    }

    /// Evicts leaves from the host, the oldest first and each whole, until so many pages are free alongside those that
    /// were; gives how many.
    pub(super) fn evict_from_host(&mut self, pages: u64) -> u64 {
        let mut freed = 0;
        while freed < pages
            && let Some((_, &oldest)) = self.host.leaves.first_key_value()
        {
            freed += self.node(oldest).pages();
            self.remove(oldest);
        }
        freed
    }

    /// Write-back counts nodes that are on both sides: gives such a one a place in their order, unless it has one.
    pub(super) fn note_duplicate(&mut self, index: NodeIndex) {
        let node = &mut self.nodes[index as usize];
        let is_counted = self.host.write == Some(WritePolicy::WriteBack) && node.is_on_both();
        if !is_counted || node.duplicate > 0 {
            return;
        }
        self.host.sequence += 1;
        node.duplicate = self.host.sequence;
        self.host.duplicates.insert(node.duplicate, index);
    }

    /// Takes a node's place in that order away.
    pub(super) fn forget_duplicate(&mut self, index: NodeIndex) {
        let place = std::mem::take(&mut self.nodes[index as usize].duplicate);
        if place > 0 {
            self.host.duplicates.remove(&place);
        }
    }

    /// Drops the host's copies of nodes on both sides, in their order, until so many pages are free alongside those
    /// that were; gives how many. Leaves that the device may evict next, which would then be without a copy, come
    /// last.
    pub(super) fn drop_duplicates(&mut self, pages: u64) -> u64 {
        let (mut freed, mut passed) = (0, Vec::new());
        for spares_leaves in [true, false] {
            for (place, &index) in &self.host.duplicates {
                if freed >= pages {
                    break;
                }
                let node = &mut self.nodes[index as usize];
                let is_spared = spares_leaves && self.evictable.contains_key(&node.stamp);
                if !node.on_device || !node.on_host {
                    passed.push((*place, index));
                } else if !node.loading && !is_spared && index != self.host.kept {
                    node.on_host = false;
                    freed += node.pages();
                    passed.push((*place, index));
                }
            }
        }
        for (place, index) in passed {
            self.host.duplicates.remove(&place);
            self.nodes[index as usize].duplicate = 0;
        }
        self.host.pages -= freed;
        freed
    }

    /// The last place given in the order of duplicates.
    pub(super) fn sequence(&self) -> u64 {
        self.host.sequence
    }

    /// Puts a node of a tree that is put together again where it was: one that has no children yet.
    pub(super) fn restore_node(&mut self, index: NodeIndex, on_device: bool, on_host: bool, duplicate: u64) {
        if on_host {
            self.back_up(index);
        }
        if !on_device {
            self.demote(index);
        }
        if duplicate > 0 {
            self.nodes[index as usize].duplicate = duplicate;
            self.host.duplicates.insert(duplicate, index);
            self.host.sequence = self.host.sequence.max(duplicate);
        }
    }

    /// Moves the order of duplicates on to this place.
    pub(super) fn set_sequence(&mut self, sequence: u64) {
        self.host.sequence = self.host.sequence.max(sequence);
    }
}
