//! Which parts of a partition's state the store has, as the process that wrote them knows.

use super::contents::{Contents, PartExtent, PartHash, PartsFile};
use super::limits::PartsLimits;
use std::collections::{BTreeMap, HashMap};

/// The parts of a partition's last captures, and the files they lie in.
///
/// A process knows what it wrote itself: its first snapshot of a partition writes every part.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownParts {
    /// With the round in which the state had the part last.
    parts: HashMap<PartHash, (PartExtent, u32)>,
    files: BTreeMap<u32, FileUse>,
    /// Captures of whole states so far.
    round: u32,
    /// Captures since that found no room for all that was new.
    unfinished: u32,
}

/// What a file is still good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileUse {
    /// `None` while it is made.
    id: Option<PartsFile>,
    /// Bytes of parts written to it.
    bytes: u64,
    /// Bytes of parts that the state had at the last whole capture.
    live: u64,
    /// Its parts are written again, so that it can go.
    retired: bool,
}

impl KnownParts {
    /// Whether nothing is known, so that a small state may be written whole.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Forgets everything, as after a failed write: the next snapshot writes every part.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the parts of the newest file, which was captured and will not be written.
    pub fn take_back(&mut self) {
        if let Some((newest, _)) = self.files.pop_last() {
            self.parts.retain(|_, (known, _)| known.file != newest);
        }
    }

    /// Bytes of new parts that one capture may hold in memory. Where so many change between two captures that none
    /// of a long row has room for them, twice as many.
    pub(super) fn room(&self, limits: &PartsLimits) -> u64 {
        const ROW: u32 = 16;
        let stored: u64 = self.files.values().map(|file| file.live).sum();
        (limits.fresh_bytes + stored / 8).saturating_mul(1 << (self.unfinished / ROW).min(16))
    }

    /// The number of a new file.
    pub(super) fn begin_file(&mut self) -> u32 {
        let file = self.files.last_key_value().map_or(0, |(last, _)| last + 1);
        self.files.insert(file, FileUse { id: None, bytes: 0, live: 0, retired: false });
        file
    }

    /// Where a part lies that a file has which stays.
    pub(super) fn find(&mut self, hash: PartHash, bytes: u32) -> Option<PartExtent> {
        let (known, round) = self.parts.get_mut(&hash).filter(|(known, _)| known.bytes == bytes)?;
        let file = self.files.get(&known.file).filter(|file| !file.retired)?;
        debug_assert!(file.bytes > 0, "a file has its parts");
        *round = self.round;
        Some(*known)
    }

    /// A part was added to a file.
    pub(super) fn add(&mut self, extent: PartExtent) {
        self.parts.insert(extent.hash, (extent, self.round));
        if let Some(file) = self.files.get_mut(&extent.file) {
            file.bytes += u64::from(extent.bytes);
            file.live += u64::from(extent.bytes);
        }
    }

    /// The new file is made; one without parts never is.
    pub(super) fn end_file(&mut self, number: u32, id: Option<PartsFile>) {
        match (self.files.get_mut(&number), id) {
            (Some(file), Some(id)) => file.id = Some(id),
            _ => drop(self.files.remove(&number)),
        }
    }

    /// A capture ended before it had seen all of the state.
    pub(super) fn stop_short(&mut self) {
        self.unfinished += 1;
    }

    /// A capture has seen all of the state, whose parts are `extents`, by the numbers of the files. What it has no
    /// more is forgotten, and files that are worth it are retired.
    pub(super) fn finish(&mut self, mut extents: Vec<PartExtent>, limits: &PartsLimits) -> Contents {
        let round = self.round;
        self.parts.retain(|_, (_, last)| *last == round);
        self.files.values_mut().for_each(|file| file.live = 0);
        for (known, _) in self.parts.values() {
            if let Some(file) = self.files.get_mut(&known.file) {
                file.live += u64::from(known.bytes);
            }
        }
        self.files.retain(|_, file| file.live > 0);
        let files: Vec<PartsFile> = self.files.values().filter_map(|file| file.id).collect();
        let places: HashMap<u32, u32> = self.files.keys().copied().zip(0..).collect();
        extents.iter_mut().for_each(|extent| extent.file = places[&extent.file]);
        (self.round, self.unfinished) = (round + 1, 0);
        self.retire_files(limits);
        Contents { files, extents }
    }

    /// Retires files that hold little, until dead bytes and files are few enough or what is to be written again is
    /// half of what a capture has room for.
    fn retire_files(&mut self, limits: &PartsLimits) {
        let live: u64 = self.files.values().map(|file| file.live).sum();
        let mut dead: u64 = self.files.values().map(|file| file.bytes - file.live).sum();
        let mut room = self.room(limits) / 2;
        let mut count = self.files.len();
        let many = count > limits.files;
        let mut by_use: Vec<&mut FileUse> = self.files.values_mut().collect();
        match many {
            true => by_use.sort_by_key(|file| file.live),
            false => by_use.sort_by_key(|file| (u128::from(file.live) << 64) / u128::from(file.bytes.max(1))),
        }
        for file in by_use {
            let enough =
                if many { count <= limits.files / 2 } else { dead <= live / 2 + limits.fresh_bytes / 4 };
            let Some(left) = room.checked_sub(file.live).filter(|_| !enough) else { return };
            (room, count, dead, file.retired) = (left, count - 1, dead - (file.bytes - file.live), true);
        }
    }
}
