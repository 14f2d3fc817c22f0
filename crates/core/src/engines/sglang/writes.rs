//! When nodes are written to the host and evicted from either side, by SGLang's policies.

use super::auxiliary::Auxiliary;
use super::host::WritePolicy;
use super::node::{NodeIndex, ROOT};
use super::tree::SglangTree;

impl SglangTree {
    /// Evicts a leaf of the device: what the host holds stays there, and with write-back the host gets it now where
    /// it has room.
    pub(super) fn evict_leaf(&mut self, leaf: NodeIndex) {
        if !self.node(leaf).on_host && self.host.write == Some(WritePolicy::WriteBack) {
            self.write(leaf);
        }
        if self.node(leaf).on_host {
            self.demote(leaf);
        } else {
            self.remove_below(leaf);
            self.remove(leaf);
        }
    }

    /// Makes room in the pool alongside with a node: a leaf goes whole, of another one what this pool has of it. With
    /// write-back the host gets that now, where it has nothing of the node and has room.
    pub(super) fn evict_other(&mut self, index: NodeIndex) {
        if self.is_evictable(index) {
            return self.evict_leaf(index);
        }
        let is_alone = !self.node(index).on_host && !self.host.auxiliary.holds(index);
        if is_alone && self.host.write == Some(WritePolicy::WriteBack) {
            let pages = self.unwritten(index).iter().map(|part| self.auxiliary.pages_of(*part)).sum();
            self.make_other_room_on_host(pages);
            self.write(index);
        }
        self.drop_other(index);
    }

    /// An insertion passes a node that ends after `end` pages, of which so many were counted when the request
    /// inserted them before.
    pub(super) fn pass(&mut self, index: NodeIndex, end: u64, inserted: u64) {
        let enough = self.host.write.and_then(WritePolicy::insertions);
        let Some(enough) = enough.filter(|_| index != ROOT && end > inserted) else { return };
        let node = &mut self.nodes[index as usize];
        node.insertions = node.insertions.saturating_add(1).min(enough);
        if node.insertions >= enough && !node.on_host {
            self.write_with_those_above(index);
        }
    }

    /// An insertion ends at a node that was there: where the host has it, what the pool alongside got since is
    /// written as well.
    pub(super) fn write_what_is_new(&mut self, index: NodeIndex) {
        let is_due = self.host.write.and_then(WritePolicy::insertions).is_some();
        let node = self.node(index);
        if is_due && node.on_host && node.written != self.host.step && !self.unwritten(index).is_empty() {
            self.write(index);
        }
    }

    /// Writes a node to the host, and before it the nodes above that are not there, as far as there is room.
    fn write_with_those_above(&mut self, index: NodeIndex) {
        let mut chain = std::mem::take(&mut self.host.chain);
        let mut next = index;
        while next != ROOT && !self.node(next).on_host {
            chain.push(next);
            next = self.node(next).parent;
        }
        while let Some(index) = chain.pop()
            && self.write(index)
        {}
        chain.clear();
        self.host.chain = chain;
    }

    /// Writes what the host lacks of a node, and what it lacks of the window that ends with it; all of that where
    /// there is room, or nothing. What was evicted for it is gone all the same.
    fn write(&mut self, index: NodeIndex) -> bool {
        let node = self.node(index);
        let (is_there, pages) = (node.on_host, node.pages());
        if !is_there && !self.make_room_on_host(pages) {
            return false;
        }
        let parts = self.unwritten(index);
        if !self.make_other_room_on_host(parts.iter().map(|part| self.auxiliary.pages_of(*part)).sum()) {
            return false;
        }
        if !is_there {
            self.back_up(index);
        }
        for &part in &parts {
            self.host.auxiliary.hold_apart(part, self.auxiliary.pages_of(part));
        }
        self.end_write(index, &parts);
        true
    }

    /// With write-back a copy is waited for; else what it reads stays until the next step.
    fn end_write(&mut self, index: NodeIndex, parts: &[NodeIndex]) {
        if self.host.write == Some(WritePolicy::WriteBack) {
            // Those above first.
            parts.iter().rev().filter(|part| **part != index).for_each(|part| self.note_again(*part));
            return self.note_again(index);
        }
        for &part in parts.iter().chain([&index]) {
            self.nodes[part as usize].written = self.host.step;
        }
        if self.auxiliary.pages() > 0 {
            self.lock_last_window(index);
            self.host.locked.push(index);
        }
    }

    /// Write-back counts a node anew that is on both sides, or no longer.
    fn note_again(&mut self, index: NodeIndex) {
        match self.node(index).is_on_both() {
            true => self.note_duplicate(index),
            false => self.forget_duplicate(index),
        }
    }

    /// The nodes whose part of the pool alongside belongs to a prompt that ends with `tip`: those of the last window,
    /// the last of them first, or the one with the state.
    pub(super) fn last_window(&self, tip: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        let (mut index, mut covered) = (tip, 0);
        // A state is that of one node.
        let window = self.auxiliary.window().unwrap_or(1);
        std::iter::from_fn(move || {
            let next = index;
            if next == ROOT || covered >= window {
                return None;
            }
            covered += self.node(next).pages();
            index = self.node(next).parent;
            Some(next)
        })
    }

    /// Locks them in the pool alongside.
    pub(super) fn lock_last_window(&mut self, tip: NodeIndex) {
        self.each_of_last_window(tip, Auxiliary::lock);
    }

    /// Unlocks them once.
    pub(super) fn unlock_last_window(&mut self, tip: NodeIndex) {
        self.each_of_last_window(tip, Auxiliary::unlock);
    }

    fn each_of_last_window(&mut self, tip: NodeIndex, act: fn(&mut Auxiliary, NodeIndex)) {
        let mut nodes = std::mem::take(&mut self.host.window);
        nodes.extend(self.last_window(tip));
        nodes.drain(..).for_each(|index| act(&mut self.auxiliary, index));
        self.host.window = nodes;
    }

    /// Those of them that the host lacks of the pool alongside, up to where neither side has any, or a copy is on its
    /// way.
    fn unwritten(&self, index: NodeIndex) -> Vec<NodeIndex> {
        let of = |side: &Auxiliary, part: &NodeIndex| side.holds(*part);
        let (device, host) = (&self.auxiliary, &self.host.auxiliary);
        let is_on_its_way = |part: &NodeIndex| self.node(*part).written == self.host.step;
        let nodes = self.last_window(index);
        let nodes = nodes.take_while(|part| device.window().is_none() || !is_on_its_way(part));
        let nodes = nodes.take_while(|part| of(device, part) || of(host, part));
        nodes.filter(|part| of(device, part) && !of(host, part)).collect()
    }

    /// Evicts from the host until so many pages are free; `false` where it cannot hold them, and what could be
    /// evicted is gone all the same.
    fn make_room_on_host(&mut self, pages: u64) -> bool {
        let short = (self.host.pages + pages).saturating_sub(self.host.room);
        if short == 0 {
            return true;
        }
        let mut freed = 0;
        if self.host.write == Some(WritePolicy::WriteBack) {
            freed += self.drop_duplicates(short);
        }
        freed += self.evict_from_host(short.saturating_sub(freed));
        freed >= short
    }

    /// The same of its pool alongside, which gives up as many pages as are wanted where fewer are free: leaves whole,
    /// of other nodes what this pool has of them, the oldest first.
    fn make_other_room_on_host(&mut self, pages: u64) -> bool {
        let is_free = |tree: &Self| tree.host.auxiliary.pages() + pages <= tree.host.other_room;
        if is_free(self) {
            return true;
        }
        let mut freed = 0;
        while freed < pages
            && let Some(oldest) = self.host.auxiliary.oldest_unlocked(None)
        {
            freed += self.host.auxiliary.pages_of(oldest);
            match self.host.leaves.get(&self.node(oldest).stamp) == Some(&oldest) {
                true => self.remove(oldest),
                false => self.host.auxiliary.drop(oldest),
            }
        }
        is_free(self)
    }

    /// Removes what is below a node, which only the host holds.
    fn remove_below(&mut self, node: NodeIndex) {
        if self.node(node).children == 0 {
            return;
        }
        let mut below: Vec<(usize, NodeIndex)> = Vec::new();
        for (index, _) in self.occupied() {
            let (mut depth, mut at) = (0, index);
            while !self.node(at).on_device {
                (depth, at) = (depth + 1, self.node(at).parent);
            }
            if at == node && depth > 0 {
                below.push((depth, index));
            }
        }
        below.sort_unstable();
        below.into_iter().rev().for_each(|(_, index)| self.remove(index));
    }
}
