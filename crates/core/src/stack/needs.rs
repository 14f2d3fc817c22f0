//! A multiset of needs, exact, that stays cheap to change and to read however many there are.

use super::prefetch::{LINE, prefetch};
use crate::request::outcome::{BEYOND, Need};
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A need in 32 bits: tracked pages stay far below, so the largest value stands for [`BEYOND`].
const BEYOND_NARROW: u32 = u32::MAX;

/// Changes kept unsorted before they are merged, at the least.
const MIN_PENDING: usize = 256;

/// Changes kept unsorted a block: several for each, since a pass over a block costs the same for one as for all.
const PENDING_A_BLOCK: usize = 24;

/// Distinct needs a block holds at most: few enough that one more moves a kilobyte.
const MAX_BLOCK: usize = 128;

/// Distinct needs below which a block joins its neighbour, where that has room.
const MIN_BLOCK: usize = 16;

/// Distinct needs a block holds for each of its changes where these are few: each moves half of the block then, which
/// is less than to write all of it anew.
const FEW_CHANGES: usize = 8;

/// How many blocks ahead their needs are brought near: those of a large multiset lie nowhere near.
const BLOCKS_AHEAD: usize = 4;

/// A multiset of needs from which single needs can be taken out again.
///
/// Sorted blocks of distinct values with their counts, each with its totals, and the latest changes unsorted
/// alongside them. A change costs a push, and once two dozen a block have gathered, its share of sorting them and of
/// one pass over its block; reading a quantile costs a look at every block and one block. The memory is about 20
/// bytes a *distinct* need, pending changes included, so it is bounded by the tracked bound however many requests
/// a window sees.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "(Vec<u32>, Vec<u64>, Vec<NeedChange>)")]
pub struct Needs {
    blocks: Vec<Block>,
    pending: Vec<NeedChange>,
}

heap_bytes!(Needs { blocks, pending });

/// A need that came into the multiset (`1`) or left it (`-1`).
type NeedChange = (u32, i32);

/// Neighbouring needs, never none of them once all is consolidated.
#[derive(Debug, Clone, Default)]
struct Block {
    /// Distinct needs, ascending, and how often each occurs; counts are never 0.
    values: Vec<u32>,
    counts: Vec<u64>,
    /// Needs, and their sum.
    total: u64,
    sum: u128,
    /// No need of this block is less, and none of the blocks before it is as much. It lies beside the totals, so that
    /// to find a block reads no other one's needs.
    from: u32,
}

heap_bytes!(Block { values, counts; total, sum, from });

impl Block {
    fn of(values: &[u32], counts: &[u64]) -> Self {
        let products =
            values.iter().zip(counts).map(|(value, count)| u128::from(*value) * u128::from(*count));
        Self {
            total: counts.iter().fold(0, |total, count| count.saturating_add(total)),
            sum: products.sum(),
            from: values.first().copied().unwrap_or_default(),
            values: values.to_vec(),
            counts: counts.to_vec(),
        }
    }

    /// How many of its needs are at most this, and their sum.
    fn upto(&self, need: Need) -> (u64, u128) {
        let upto = self.values.partition_point(|value| widen(*value) <= need);
        let held =
            self.pairs().take(upto).map(|(value, count)| (count, u128::from(value) * u128::from(count)));
        held.fold((0, 0), |total, (count, sum)| (total.0 + count, total.1 + sum))
    }

    /// Has its needs and their counts brought near.
    fn prefetch(&self) {
        self.values.chunks(LINE / size_of::<u32>()).for_each(|line| prefetch(&line[0]));
        self.counts.chunks(LINE / size_of::<u64>()).for_each(|line| prefetch(&line[0]));
    }

    /// Takes in changes that ascend by need; `merged` is room for what comes of it. Few are made in place, many in
    /// one pass over the block and them.
    fn merge_changes(&mut self, changes: &[NeedChange], merged: &mut Vec<(u32, u64)>) {
        let by = |same: &[NeedChange]| (same[0].0, same.iter().map(|(_, by)| i64::from(*by)).sum());
        let by_need = changes.chunk_by(|a, b| a.0 == b.0).map(by);
        if changes.len() * FEW_CHANGES < self.values.len() {
            return by_need.for_each(|change| self.change(change));
        }
        merged.clear();
        merged.reserve(self.values.len() + changes.len());
        let mut held = 0;
        for (need, by) in by_need {
            while let Some(value) = self.values.get(held).filter(|value| **value < need) {
                merged.push((*value, self.counts[held]));
                held += 1;
            }
            let before = if self.values.get(held) == Some(&need) { self.counts[held] } else { 0 };
            held += usize::from(before > 0);
            let after = self.recount((need, before), by);
            if after > 0 {
                merged.push((need, after));
            }
        }
        merged.extend(self.values[held..].iter().copied().zip(self.counts[held..].iter().copied()));
        self.values.clear();
        self.counts.clear();
        self.values.extend(merged.iter().map(|(value, _)| *value));
        self.counts.extend(merged.iter().map(|(_, count)| *count));
    }

    /// Takes in all changes of one need, in place.
    fn change(&mut self, (need, by): (u32, i64)) {
        let at = self.values.binary_search(&need);
        let before = at.map_or(0, |at| self.counts[at]);
        let after = self.recount((need, before), by);
        match at {
            Ok(at) if after > 0 => self.counts[at] = after,
            Ok(at) => {
                self.values.remove(at);
                self.counts.remove(at);
            }
            Err(at) if after > 0 => {
                self.values.insert(at, need);
                self.counts.insert(at, after);
            }
            Err(_) => {}
        }
    }

    /// How often a need occurs that occurred so often `before`; the totals follow.
    fn recount(&mut self, (need, before): (u32, u64), by: i64) -> u64 {
        debug_assert!(by >= 0 || before >= by.unsigned_abs(), "removed more often than put in");
        let after = before.saturating_add_signed(by);
        self.total = self.total.saturating_sub(before).saturating_add(after);
        let more = i128::from(need) * (i128::from(after) - i128::from(before));
        self.sum = self.sum.saturating_add_signed(more);
        after
    }

    fn is_misshapen(&self) -> bool {
        !(MIN_BLOCK..=MAX_BLOCK).contains(&self.values.len())
    }

    /// Takes in the block behind this one.
    fn append(&mut self, mut next: Self) {
        self.values.append(&mut next.values);
        self.counts.append(&mut next.counts);
        self.total += next.total;
        self.sum += next.sum;
    }

    /// Cut into blocks with room to grow.
    fn split(&self) -> impl Iterator<Item = Block> + '_ {
        let half = MAX_BLOCK / 2;
        self.values
            .chunks(half)
            .zip(self.counts.chunks(half))
            .map(|(values, counts)| Self::of(values, counts))
    }

    fn pairs(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().copied().zip(self.counts.iter().copied())
    }
}

/// How many of these blocks begin no later than `need`. Steps that double find it, since
/// changes come in order and the next one is seldom many blocks away.
fn leading(blocks: &[Block], need: u32) -> usize {
    let begins_before = |block: &Block| block.from <= need;
    let mut reach = 1;
    while blocks.get(reach - 1).is_some_and(begins_before) {
        reach *= 2;
    }
    let (from, to) = (reach / 2, reach.min(blocks.len()));
    from + blocks[from..to].partition_point(begins_before)
}

impl Needs {
    /// No needs.
    pub const EMPTY: Self = Self { blocks: Vec::new(), pending: Vec::new() };

    /// Puts a need in.
    pub fn insert(&mut self, need: Need) {
        self.change(narrow(need), 1);
    }

    /// Takes a need out that was put in before.
    pub fn remove(&mut self, need: Need) {
        self.change(narrow(need), -1);
    }

    /// Puts a need in so many times.
    pub fn insert_many(&mut self, need: Need, times: u32) {
        self.change(narrow(need), i32::try_from(times).unwrap_or(i32::MAX));
    }

    /// Takes a need out so many times.
    pub fn remove_many(&mut self, need: Need, times: u32) {
        self.change(narrow(need), -i32::try_from(times).unwrap_or(i32::MAX));
    }

    /// How many needs are at most `need`.
    pub fn count_upto(&self, need: Need) -> u64 {
        self.upto_each(&[need])[0].0
    }

    /// How many needs are at most each of these, which ascend, and their sum. All is looked through once, what is
    /// pending as it lies: that costs less than to merge it, if few ask before more is pending.
    pub fn upto_each(&self, needs: &[Need]) -> Vec<(u64, u128)> {
        let mut pending = vec![(0_i64, 0_i128); needs.len() + 1];
        for (value, by) in &self.pending {
            let step = &mut pending[needs.partition_point(|need| *need < widen(*value))];
            *step = (step.0 + i64::from(*by), step.1 + i128::from(*value) * i128::from(*by));
        }
        let (mut whole, mut held, mut changed) = (0, (0, 0), (0, 0));
        let upto = |(need, step): (&Need, (i64, i128))| {
            let begun = self.blocks[whole..].partition_point(|block| widen(block.from) <= *need);
            let last = whole + begun.saturating_sub(1);
            for block in &self.blocks[whole..last] {
                held = (held.0 + block.total, held.1 + block.sum);
            }
            whole = last;
            let inside = self.blocks.get(last).map_or((0, 0), |block| block.upto(*need));
            changed = (changed.0 + step.0, changed.1 + step.1);
            let count = (held.0 + inside.0).saturating_add_signed(changed.0);
            (count, (held.1 + inside.1).saturating_add_signed(changed.1))
        };
        needs.iter().zip(pending).map(upto).collect()
    }

    /// Puts a need in so many times, or takes it out, and leaves the pass over the blocks to the caller, who says
    /// when with [`Needs::consolidate`].
    pub fn defer(&mut self, need: Need, by: i32) {
        self.pending.push((narrow(need), by));
    }

    /// Changes that no pass has merged.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn change(&mut self, need: u32, by: i32) {
        self.pending.push((need, by));
        if self.pending.len() >= MIN_PENDING.max(PENDING_A_BLOCK * self.blocks.len()) {
            self.consolidate();
        }
    }

    /// Merges the pending changes into the blocks.
    pub fn consolidate(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable_by_key(|(need, _)| *need);
        if self.blocks.is_empty() {
            self.blocks.reserve_exact(1);
            self.blocks.push(Block::default());
        }
        let (parts, mut merged) = (self.by_block(&pending), Vec::new());
        for (number, (at, changes)) in parts.iter().enumerate() {
            if let Some((ahead, _)) = parts.get(number + BLOCKS_AHEAD) {
                self.blocks[*ahead].prefetch();
            }
            self.blocks[*at].merge_changes(changes, &mut merged);
        }
        if self.blocks.iter().any(Block::is_misshapen) {
            self.reshape();
        }
        // A pool of few requests reads more often than it gathers many.
        if pending.len() >= MIN_PENDING {
            pending.clear();
            self.pending = pending;
        }
    }

    /// Changes that ascend by need, a part for each block that has any, with the block's place.
    fn by_block<'a>(&self, mut changes: &'a [NeedChange]) -> Vec<(usize, &'a [NeedChange])> {
        let (mut at, mut parts) = (0, Vec::with_capacity(changes.len().min(self.blocks.len())));
        while let Some((need, _)) = changes.first() {
            at += leading(&self.blocks[at + 1..], *need);
            let next = self.blocks.get(at + 1);
            let own =
                changes.iter().take_while(|(need, _)| next.is_none_or(|next| *need < next.from)).count();
            let (own, others) = changes.split_at(own);
            parts.push((at, own));
            changes = others;
        }
        parts
    }

    /// Cuts blocks that have grown too large, joins those that have become too small.
    fn reshape(&mut self) {
        let mut shaped: Vec<Block> = Vec::with_capacity(self.blocks.len());
        for block in std::mem::take(&mut self.blocks) {
            let len = block.values.len();
            match shaped.last_mut() {
                _ if len == 0 => {}
                Some(last)
                    if len.min(last.values.len()) < MIN_BLOCK && last.values.len() + len <= MAX_BLOCK =>
                {
                    last.append(block);
                }
                _ if len > MAX_BLOCK => shaped.extend(block.split()),
                _ => shaped.push(block),
            }
        }
        self.blocks = shaped;
    }

    /// Whether this, read back from a snapshot, can be counted together, and nothing is taken out more often
    /// than it was put in.
    pub fn is_sound(&self) -> bool {
        let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
        for (need, by) in &self.pending {
            *changes.entry(*need).or_default() += i64::from(*by);
        }
        let total = self.pairs().try_fold(0_u64, |total, (_, count)| total.checked_add(count));
        total.is_some_and(is_countable)
            && changes.iter().all(|(need, by)| *by >= 0 || self.count_of(*need) >= by.unsigned_abs())
    }

    /// How often a need occurs, what is pending left out.
    fn count_of(&self, need: u32) -> u64 {
        let further =
            self.blocks.partition_point(|block| block.values.last().is_some_and(|last| *last < need));
        let Some(block) = self.blocks.get(further) else { return 0 };
        block.values.binary_search(&need).map_or(0, |at| block.counts[at])
    }

    /// How many different needs there are, those that are pending counted each.
    pub fn distinct(&self) -> usize {
        self.pending.len() + self.blocks.iter().map(|block| block.values.len()).sum::<usize>()
    }

    /// The same with every need divided by two and rounded down; [`BEYOND`] stays.
    pub fn halved(&self) -> Needs {
        let (mut values, mut counts): (Vec<u32>, Vec<u64>) = (Vec::new(), Vec::new());
        for (value, count) in self.consolidated().pairs() {
            let half = if value == BEYOND_NARROW { value } else { value / 2 };
            match counts.last_mut() {
                Some(last) if values.last() == Some(&half) => *last += count,
                _ => {
                    values.push(half);
                    counts.push(count);
                }
            }
        }
        Needs { blocks: Block { values, counts, ..Block::default() }.split().collect(), pending: Vec::new() }
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.pending.is_empty()
    }

    /// The union of several multisets, with nothing pending.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Needs>) -> Needs {
        let mut union = Self::joined(parts);
        union.consolidate();
        union
    }

    /// The union of several multisets, with what is pending of each.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Needs>) -> Needs {
        let (mut all, mut pending): (Vec<(u32, u64)>, Vec<NeedChange>) = Default::default();
        for part in parts {
            all.extend(part.pairs());
            pending.extend_from_slice(&part.pending);
        }
        // Of runs in order, which a stable sort merges.
        all.sort_by_key(|(value, _)| *value);
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            values.push(same[0].0);
            counts.push(same.iter().map(|(_, count)| count).sum());
        }
        Needs { blocks: Block { values, counts, ..Block::default() }.split().collect(), pending }
    }

    /// The same multiset with nothing pending; copies only where something is.
    pub(crate) fn consolidated(&self) -> Cow<'_, Needs> {
        if self.pending.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.consolidate();
        Cow::Owned(copy)
    }

    /// For every block, how many needs it and those before it hold; nothing must be pending.
    pub(crate) fn ranks(&self) -> Vec<u64> {
        let mut upto = 0;
        let rank = |block: &Block| {
            upto += block.total;
            upto
        };
        self.blocks.iter().map(rank).collect()
    }

    /// The need at `rank`, counted from 1, by the [`Needs::ranks`] of this; [`BEYOND`] where there are fewer.
    pub(crate) fn ranked(&self, rank: u64, ranks: &[u64]) -> Need {
        let block = ranks.partition_point(|upto| *upto < rank);
        let mut left = rank - block.checked_sub(1).map_or(0, |before| ranks[before]);
        for (value, count) in self.blocks.get(block).into_iter().flat_map(Block::pairs) {
            match left.checked_sub(count) {
                None | Some(0) => return widen(value),
                Some(rest) => left = rest,
            }
        }
        BEYOND
    }

    /// The sum of all needs, which must not lie beyond the bound; nothing must be pending.
    pub(crate) fn sum(&self) -> u128 {
        self.blocks.iter().map(|block| block.sum).sum()
    }

    /// The largest need; nothing must be pending.
    pub(crate) fn max(&self) -> Option<Need> {
        self.blocks.last().and_then(|block| block.values.last()).map(|largest| widen(*largest))
    }

    /// Every distinct need, ascending, with how often it occurs; nothing must be pending.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Need, u64)> + '_ {
        self.pairs().map(|(value, count)| (widen(value), count))
    }

    fn pairs(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.blocks.iter().flat_map(Block::pairs)
    }
}

impl PartialEq for Needs {
    /// Whether they hold the same and wait for the same, however it is cut into blocks.
    fn eq(&self, other: &Self) -> bool {
        self.pending == other.pending && self.pairs().eq(other.pairs())
    }
}

impl Eq for Needs {}

/// A snapshot keeps one sorted list, by its values and their counts, and what is pending.
impl Serialize for Needs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (values, counts): (Vec<u32>, Vec<u64>) = self.pairs().unzip();
        (values, counts, &self.pending).serialize(serializer)
    }
}

impl TryFrom<(Vec<u32>, Vec<u64>, Vec<NeedChange>)> for Needs {
    type Error = &'static str;

    fn try_from(
        (values, counts, pending): (Vec<u32>, Vec<u64>, Vec<NeedChange>),
    ) -> Result<Self, &'static str> {
        if values.len() != counts.len() || !values.is_sorted_by(|one, next| one < next) {
            return Err("needs are not distinct and in order, each with its count");
        }
        let blocks = Block { values, counts, ..Block::default() }.split().collect();
        Ok(Self { blocks, pending })
    }
}

fn narrow(need: Need) -> u32 {
    u32::try_from(need).unwrap_or(BEYOND_NARROW)
}

fn widen(need: u32) -> Need {
    if need == BEYOND_NARROW { BEYOND } else { Need::from(need) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::heap::HeapBytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_equal_a_sorted_list(
            steps in prop::collection::vec((0u64..3000, 1u32..4, any::<bool>()), 0..3000),
            mut reads in prop::collection::vec(0u64..3100, 1..5),
        ) {
            let (mut needs, mut model) = (Needs::default(), BTreeMap::<u64, u64>::new());
            for (need, times, takes_out) in steps {
                let held = model.entry(need).or_default();
                if takes_out {
                    let times = times.min(*held as u32);
                    needs.remove_many(need, times);
                    *held -= u64::from(times);
                } else {
                    needs.insert_many(need, times);
                    *held += u64::from(times);
                }
            }
            model.retain(|_, count| *count > 0);
            reads.sort_unstable();
            for (read, told) in reads.iter().zip(needs.upto_each(&reads)) {
                let upto = || model.range(..=read).map(|(need, count)| (*need, *count));
                let count = upto().map(|(_, count)| count).sum::<u64>();
                prop_assert_eq!(told, (count, upto().map(|(need, count)| u128::from(need * count)).sum()));
                prop_assert_eq!(needs.count_upto(*read), count);
            }
            needs.consolidate();
            prop_assert!(needs.steps().eq(model.iter().map(|(need, count)| (*need, *count))));
            prop_assert_eq!(needs.sum(), model.iter().map(|(need, count)| u128::from(need * count)).sum::<u128>());
            prop_assert!(needs.blocks.iter().all(|block| (1..=MAX_BLOCK).contains(&block.values.len())));
            let small = needs.blocks.windows(2).filter(|two| {
                two.iter().map(|block| block.values.len()).sum::<usize>() < MIN_BLOCK
            });
            prop_assert_eq!(small.count(), 0, "no two neighbours that would fit the smallest block");
            let bytes = postcard::to_allocvec(&needs).expect("memory");
            prop_assert_eq!(postcard::from_bytes::<Needs>(&bytes).expect("what was written"), needs);
        }
    }

    #[test]
    fn lists_that_are_no_multiset_are_refused() {
        let refused = |values: &[u32], counts: &[u64]| {
            let flat = (values, counts, &[] as &[NeedChange]);
            let bytes = postcard::to_allocvec(&flat).expect("memory");
            postcard::from_bytes::<Needs>(&bytes).is_err()
        };
        assert!(refused(&[1, 1], &[1, 1]) && refused(&[2, 1], &[1, 1]) && refused(&[1, 2], &[1]));
        assert!(!refused(&[1, 2], &[1, 1]));
    }

    #[test]
    fn what_is_taken_out_must_have_been_put_in() {
        let is_sound = |pending: &[NeedChange]| {
            let (values, counts): (Vec<u32>, Vec<u64>) =
                ((0..300).map(|need| 2 * need).collect(), vec![2; 300]);
            let bytes = postcard::to_allocvec(&(values, counts, pending));
            postcard::from_bytes::<Needs>(&bytes.expect("memory")).expect("in order").is_sound()
        };
        assert!(is_sound(&[]) && is_sound(&[(0, -2), (598, -1)]) && is_sound(&[(9, 1), (9, -1)]));
        assert!(!is_sound(&[(598, -3)]) && !is_sound(&[(9, -1)]) && !is_sound(&[(700, -1)]));
    }

    #[test]
    fn memory_follows_distinct_needs_not_requests() {
        let mut needs = Needs::default();
        (0..1_000_000u64).for_each(|request| needs.insert(request % 1000));
        assert!(needs.heap_bytes() < 64 * 1024, "{} bytes", needs.heap_bytes());
    }

    /// A window over the last requests, whose needs rise: blocks that run empty leave nothing behind.
    #[test]
    fn memory_follows_the_needs_held_not_those_that_passed() {
        let mut needs = Needs::default();
        for request in 0..200_000u64 {
            needs.insert(crate::units::pages::mix(request) % 1000 + request);
            if let Some(old) = request.checked_sub(3000) {
                needs.remove(crate::units::pages::mix(old) % 1000 + old);
            }
        }
        assert!(needs.heap_bytes() < 3000 * 40, "{} bytes", needs.heap_bytes());
    }
}
