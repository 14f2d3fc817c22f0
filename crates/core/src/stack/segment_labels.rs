//! The ids of all segments, in one arena.
//!
//! A label that grows is seldom the arena's last, so it lies in pieces. A walk knows where all pieces of a
//! label lie before it reads the first, so a processor fetches the next ones while it compares one, which it
//! could not if every piece had to say where the next one is.

use super::arena::Arena;
use super::prefetch::{LINE, prefetch};
use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::{PageIds, shared_near};
use std::ops::Range;

/// Where a segment's ids lie: in the arena, one after another or in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentLabel {
    /// First id in the arena; of a label in pieces, its first piece in the table.
    at: u32,
    /// Pieces; none where the label is whole.
    pieces: u32,
    /// Pages.
    len: u32,
}

impl SegmentLabel {
    /// No pages.
    pub(super) const EMPTY: Self = Self { at: 0, pieces: 0, len: 0 };

    /// A label of `len` ids that lie one after another from `start` on.
    pub(super) fn whole(start: u32, len: u32) -> Self {
        Self { at: start, pieces: 0, len }
    }

    pub(super) fn len(self) -> u32 {
        self.len
    }
}

/// Ids of a label that lie one after another.
#[derive(Debug, Clone, Copy)]
struct LabelPiece {
    /// First id in the arena.
    start: u32,
    /// Pages of the label above.
    above: u32,
}

flat!(LabelPiece);

/// The arena, and where the labels that lie in pieces have them.
#[derive(Debug, Default)]
pub(super) struct SegmentLabels {
    ids: Arena,
    /// Each label's pieces lie side by side, in a row of a power of two of them.
    pieces: Vec<LabelPiece>,
    /// Rows that are free, by the logarithm of their size, up to the largest that ever was.
    free: Vec<Vec<u32>>,
    /// Ids in the arena of no label.
    garbage: usize,
}

heap_bytes!(SegmentLabels { ids, pieces, free; garbage });

impl SegmentLabels {
    /// The arena of labels that are all whole.
    pub(super) fn of(ids: Arena, garbage: usize) -> Self {
        Self { ids, garbage, ..Self::default() }
    }

    /// All ids as they lie, those of no label too.
    pub(super) fn arena(&self) -> &Arena {
        &self.ids
    }

    /// Ids in the arena of no label.
    pub(super) fn garbage(&self) -> usize {
        self.garbage
    }

    /// Where a label's ids begin in the arena.
    pub(super) fn start(&self, label: SegmentLabel) -> u32 {
        if label.pieces == 0 { label.at } else { self.pieces[label.at as usize].start }
    }

    /// The pieces of a label but the first: where each begins, and how many pages lie above.
    pub(super) fn later_pieces(&self, label: SegmentLabel) -> impl Iterator<Item = (u32, u32)> + '_ {
        let later = if label.pieces == 0 { &[] } else { &self.pieces(label)[1..] };
        later.iter().map(|piece| (piece.start, piece.above))
    }

    /// The pieces of a label.
    #[inline]
    fn pieces(&self, label: SegmentLabel) -> &[LabelPiece] {
        &self.pieces[label.at as usize..][..label.pieces as usize]
    }

    /// The id at a page of a label.
    #[inline]
    pub(super) fn id(&self, label: SegmentLabel, page: u32) -> u64 {
        debug_assert!(page < label.len, "a page of the label");
        self.ids.id(self.place(label, page))
    }

    /// Has the first and the last id of a label brought near. A function by itself, so that the way of segments with
    /// one page, which do without, is short.
    #[inline(never)]
    pub(super) fn prefetch_ends(&self, label: SegmentLabel) {
        self.ids.prefetch(self.place(label, 0));
        self.ids.prefetch(self.place(label, label.len - 1));
    }

    /// Has the id at a page of a label brought near.
    pub(super) fn prefetch(&self, label: SegmentLabel, page: u32) {
        self.ids.prefetch(self.place(label, page));
    }

    /// Has what says where the last pages of a label lie brought near: where requests leave it, mostly.
    pub(super) fn prefetch_pieces(&self, label: SegmentLabel) {
        /// Of labels with more pieces than these hold, some of the search for one is waited for.
        const LINES: usize = 4;
        if label.pieces > 0 {
            let lines = self.pieces(label).rchunks(LINE / size_of::<LabelPiece>());
            lines.take(LINES).for_each(|line| prefetch(&line[0]));
        }
    }

    /// Where an id lies in the arena.
    #[inline]
    fn place(&self, label: SegmentLabel, page: u32) -> u32 {
        if label.pieces == 0 {
            return label.at + page;
        }
        let pieces = self.pieces(label);
        let further = pieces.partition_point(|piece| piece.above <= page);
        let piece = pieces[further - 1];
        piece.start + (page - piece.above)
    }

    /// The ids of a label from a page on, in as many runs as they lie in.
    pub(super) fn runs(&self, label: SegmentLabel, from: u32) -> impl Iterator<Item = PageIds<'_>> + Clone {
        self.spans(label, from).flat_map(|(start, len)| self.ids.runs(start, len))
    }

    /// Where the ids of a label from a page on lie: from where on, and how many.
    #[inline]
    fn spans(&self, label: SegmentLabel, from: u32) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let whole = (label.pieces == 0 && from < label.len).then(|| (label.at + from, label.len - from));
        let pieces = if label.pieces == 0 || from == label.len { &[][..] } else { self.pieces(label) };
        let pieces = &pieces[pieces.partition_point(|piece| piece.above <= from).saturating_sub(1)..];
        let spans = pieces.iter().enumerate().filter_map(move |(index, piece)| {
            let end = pieces.get(index + 1).map_or(label.len, |next| next.above);
            let begin = from.max(piece.above);
            (begin < end).then(|| (piece.start + (begin - piece.above), end - begin))
        });
        whole.into_iter().chain(spans)
    }

    /// Whether there are so few that a processor has them in its caches anyway.
    #[inline]
    pub(super) fn are_near(&self) -> bool {
        /// 4 MiB of ids. Tests take all labels to be far.
        const FEW: usize = if cfg!(test) { 1 } else { 1 << 19 };
        self.ids.len() < FEW
    }

    /// How many pages from `from` on a label shares with `ids`.
    #[inline]
    pub(super) fn common_prefix(&self, label: SegmentLabel, from: u32, ids: PageIds<'_>) -> usize {
        let mut shared = 0;
        for (start, len) in self.spans(label, from) {
            let here = self.ids.common_prefix(start, len, ids.from(shared));
            shared += here;
            if here < len as usize {
                break;
            }
        }
        shared
    }

    /// The same where ids are chained, by reading a few of them ([`shared_near`]).
    #[inline]
    pub(super) fn common_chained_prefix(
        &self,
        label: SegmentLabel,
        from: u32,
        ids: PageIds<'_>,
        guess: usize,
    ) -> usize {
        let length = ids.len().min((label.len - from) as usize);
        shared_near(guess, length, |page| ids.get(page) == Some(self.id(label, from + page as u32)))
    }

    /// A new label at the arena's end.
    pub(super) fn add(&mut self, first: u64, rest: PageIds<'_>) -> SegmentLabel {
        SegmentLabel::whole(self.push(first, rest), rest.len() as u32 + 1)
    }

    /// Adds ids below a label's last one.
    pub(super) fn lengthen(&mut self, label: &mut SegmentLabel, first: u64, rest: PageIds<'_>) {
        let start = self.push(first, rest);
        let goes_on = label.len > 0 && self.place(*label, label.len - 1) + 1 == start;
        if !goes_on {
            self.add_piece(label, LabelPiece { start, above: label.len });
        }
        label.len += rest.len() as u32 + 1;
    }

    /// Has a label go on with ids that lie in the arena already.
    pub(super) fn lengthen_by(&mut self, label: &mut SegmentLabel, start: u32, pages: u32) {
        self.add_piece(label, LabelPiece { start, above: label.len });
        label.len += pages;
    }

    /// Appends ids to the arena; returns where they begin.
    fn push(&mut self, first: u64, rest: PageIds<'_>) -> u32 {
        let start = self.ids.len() as u32;
        self.ids.push(first);
        self.ids.extend(rest);
        start
    }

    fn add_piece(&mut self, label: &mut SegmentLabel, piece: LabelPiece) {
        let count = label.pieces as usize;
        if count == 0 {
            let row = self.take_row(1);
            self.pieces[row as usize] = LabelPiece { start: label.at, above: 0 };
            (label.at, label.pieces) = (row, 1);
        } else if count > 1 && count.is_power_of_two() {
            let row = self.take_row(count.ilog2() + 1);
            self.pieces.copy_within(label.at as usize..label.at as usize + count, row as usize);
            self.free_row(count.ilog2(), label.at);
            label.at = row;
        }
        self.pieces[(label.at + label.pieces) as usize] = piece;
        label.pieces += 1;
    }

    /// Lets go of a row.
    fn free_row(&mut self, size: u32, row: u32) {
        let size = size as usize;
        if self.free.len() <= size {
            self.free.resize_with(size + 1, Vec::new);
        }
        self.free[size].push(row);
    }

    /// A row of two to the power of `size` pieces.
    fn take_row(&mut self, size: u32) -> u32 {
        if let Some(row) = self.free.get_mut(size as usize).and_then(Vec::pop) {
            return row;
        }
        let (row, more) = (self.pieces.len(), 1 << size);
        if self.pieces.capacity() - row < more {
            self.pieces.reserve_exact(more.max(row / 8).max(row.min(64)));
        }
        self.pieces.resize(row + more, LabelPiece { start: 0, above: 0 });
        row as u32
    }

    /// Cuts a label off after `len` pages.
    pub(super) fn truncate(&mut self, label: &mut SegmentLabel, len: u32) {
        self.garbage += (label.len - len) as usize;
        label.len = len;
        if label.pieces == 0 {
            return;
        }
        let size = row_size(label.pieces);
        let kept = self.pieces(*label).partition_point(|piece| piece.above < len) as u32;
        if kept == 0 {
            self.free_row(size, label.at);
            *label = SegmentLabel::EMPTY;
        } else {
            self.shrink_row(label, kept);
        }
    }

    /// Lets go of all pieces but the first `kept`, and of the room that a shorter row has no use for.
    fn shrink_row(&mut self, label: &mut SegmentLabel, kept: u32) {
        let (mut size, needed) = (row_size(label.pieces), row_size(kept));
        label.pieces = kept;
        while size > needed {
            size -= 1;
            self.free_row(size, label.at + (1 << size));
        }
    }

    /// Whether so much of the arena is garbage that collecting it pays, so that each removed page pays for
    /// moving at most sixteen kept ones, and for half a label or two pieces in the sorting.
    pub(super) fn is_worth_collecting(&self, labels: usize) -> bool {
        self.garbage >= self.ids.len() / 16 + 2 * labels + self.pieces.len() / 2 + 4096
    }

    /// Closes the gaps between the ids of these labels, which are all there are.
    pub(super) fn collect_garbage<'a>(&mut self, labels: impl Iterator<Item = &'a mut SegmentLabel>) {
        let mut whole: Vec<&mut SegmentLabel> = Vec::new();
        let mut runs: Vec<(Range<u32>, LabelHolder)> = Vec::new();
        for label in labels.filter(|label| label.len > 0) {
            if label.pieces == 0 {
                runs.push((label.at..label.at + label.len, LabelHolder::Label(whole.len() as u32)));
                whole.push(label);
                continue;
            }
            let pieces = self.pieces(*label);
            let ends = pieces[1..].iter().map(|next| next.above).chain([label.len]);
            runs.extend((label.at..).zip(pieces).zip(ends).map(|((index, piece), end)| {
                (piece.start..piece.start + (end - piece.above), LabelHolder::Piece(index))
            }));
        }
        runs.sort_unstable_by_key(|(ids, _)| ids.start);
        let mut end = 0;
        for (ids, holder) in runs {
            let len = ids.end - ids.start;
            self.ids.move_earlier(ids.start, len, end);
            match holder {
                LabelHolder::Label(index) => whole[index as usize].at = end,
                LabelHolder::Piece(index) => self.pieces[index as usize].start = end,
            }
            end += len;
        }
        self.ids.truncate(end);
        self.garbage = 0;
    }
}

/// Who says where ids begin that lie one after another.
enum LabelHolder {
    Label(u32),
    Piece(u32),
}

/// The logarithm of the size of a row of so many pieces: the smallest has two.
fn row_size(pieces: u32) -> u32 {
    pieces.next_power_of_two().ilog2().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(labels: &SegmentLabels, label: SegmentLabel, from: u32) -> Vec<u64> {
        labels.runs(label, from).flat_map(PageIds::iter).collect()
    }

    /// What every label should read as, and that the arena holds nothing else but garbage.
    fn equals(labels: &SegmentLabels, kept: &[(SegmentLabel, Vec<u64>)]) -> Result<(), TestCaseError> {
        for (label, expected) in kept {
            prop_assert_eq!(label.len() as usize, expected.len());
            for from in [0, label.len() / 2, label.len()] {
                prop_assert_eq!(&ids(labels, *label, from), &expected[from as usize..]);
            }
            for (page, id) in (0..).zip(expected) {
                prop_assert_eq!(labels.id(*label, page), *id);
            }
        }
        let pages: usize = kept.iter().map(|(_, ids)| ids.len()).sum();
        prop_assert_eq!(labels.ids.len() - labels.garbage, pages);
        Ok(())
    }

    proptest! {
        #[test]
        fn labels_equal_a_list_of_ids_each(
            steps in prop::collection::vec((0usize..8, 0u8..8, 1u32..40), 0..120),
        ) {
            let mut labels = SegmentLabels::default();
            let mut kept: Vec<(SegmentLabel, Vec<u64>)> = vec![(SegmentLabel::EMPTY, Vec::new()); 8];
            let mut next = 0;
            for (which, action, pages) in steps {
                let (label, model) = &mut kept[which];
                let new: Vec<u64> = (next..next + u64::from(pages)).collect();
                next += u64::from(pages);
                match action {
                    0 => labels.collect_garbage(kept.iter_mut().map(|(label, _)| label)),
                    1 | 2 => {
                        let len = label.len().saturating_sub(pages);
                        labels.truncate(label, len);
                        model.truncate(len as usize);
                    }
                    _ if label.len() == 0 => {
                        *label = labels.add(new[0], PageIds::from_slice(&new[1..]));
                        *model = new;
                    }
                    _ => {
                        labels.lengthen(label, new[0], PageIds::from_slice(&new[1..]));
                        model.extend(new);
                    }
                }
                equals(&labels, &kept)?;
            }
        }

        #[test]
        fn a_label_in_pieces_compares_as_its_ids_do(
            lengths in prop::collection::vec(1usize..50, 1..12), from in 0u32..20, shared in 0usize..300, guess in 0usize..300,
        ) {
            let mut labels = SegmentLabels::default();
            let (mut label, mut all) = (SegmentLabel::EMPTY, Vec::new());
            for length in lengths {
                let new: Vec<u64> = (0..length as u64).map(|page| page + 1000 * all.len() as u64).collect();
                labels.lengthen(&mut label, new[0], PageIds::from_slice(&new[1..]));
                labels.add(0, PageIds::EMPTY);
                all.extend(new);
            }
            let from = from.min(label.len());
            let mut request = all[from as usize..].to_vec();
            if let Some(id) = request.get_mut(shared) {
                *id = u64::MAX;
            }
            let expected = shared.min(request.len());
            prop_assert_eq!(labels.common_prefix(label, from, PageIds::from_slice(&request)), expected);
            request.truncate(expected);
            request.extend([u64::MAX; 30]);
            prop_assert_eq!(labels.common_chained_prefix(label, from, PageIds::from_slice(&request), guess), expected);
        }
    }

    #[test]
    fn rows_of_pieces_are_used_again() {
        let mut labels = SegmentLabels::default();
        let mut kept = [SegmentLabel::EMPTY; 4];
        for round in 0..1000 {
            let label = &mut kept[round % 4];
            match round / 4 % 50 {
                0 => labels.truncate(label, 0),
                _ => labels.lengthen(label, 1, PageIds::EMPTY),
            }
        }
        assert!(
            labels.pieces.len() <= 4 * 2 * 64,
            "{} pieces for 4 labels of at most 49",
            labels.pieces.len()
        );
    }
}
