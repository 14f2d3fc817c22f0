//! Whether the log still has what a state is rebuilt of.

use super::PartitionTask;

impl PartitionTask {
    /// Counts what the log still had of the records that a state is rebuilt of. Where that is far less than there are
    /// offsets, which transactions take up at most half of as a rule, the rest was compacted away or never committed:
    /// no pool's history is known to be whole.
    pub(super) fn note_rebuilt(&mut self, muted: bool) {
        /// Fewest offsets of which that can be said.
        const FEWEST: u64 = 100;
        /// Least share of the offsets that have a record, as its inverse.
        const SHARE: u64 = 4;
        let Some(records) = &mut self.rebuilt else { return };
        if muted {
            *records += 1;
            return;
        }
        let (records, offsets) = (*records, self.rebuilt_offsets);
        self.rebuilt = None;
        if offsets >= FEWEST && records.saturating_mul(SHARE) < offsets {
            self.pools.lose_history();
            self.counts.thin_rebuild = Some((records, offsets));
        }
    }
}
