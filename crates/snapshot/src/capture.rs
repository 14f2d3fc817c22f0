//! A task's state as bytes, taken by the task's own thread between two records.
//!
//! A small state is captured whole. A large one is cut into parts, and of these the new ones are copied: the others are
//! known by their hashes, and lie where a capture before has put them ([`KnownParts`]).

use super::contents::{MAX_PART_BYTES, PARTS_MAGIC, PartExtent, PartHash, PartsFile};
use super::format::{InParts, StateBody};
use super::known::KnownParts;
use super::limits::PartsLimits;
use fastcdc::v2020::FastCDC;
use kvset_formats::position::NextOffset;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// Shortest run of bytes that is a part by itself: arrays are written in longer ones, at places of their own.
const PART_BYTES: usize = 4 << 10;

/// What stands between two arrays' runs up to this length goes with the second.
const SHORT: usize = 16;

/// Bytes between arrays that are gathered before they are cut where their content says.
const GATHERED: usize = 1 << 20;

/// Least, usual and most bytes of a part that is cut where its content says, so that what is inserted changes the
/// part it is inserted in.
const CUT_BYTES: [usize; 3] = [PART_BYTES, PART_BYTES * 4, PART_BYTES * 16];

/// The state could not be turned into bytes or back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A value in the state has no form in bytes.
    #[error("the state cannot be written as bytes: {0}; no snapshot is made, report this as a defect")]
    Encode(postcard::Error),
    /// The bytes are whole and hold another state than the one requested.
    #[error(
        "the snapshot's body is whole but is not the state this program keeps: {0}; run the program that wrote \
         it, or let the state be rebuilt from the log"
    )]
    Decode(postcard::Error),
    /// Bytes remain after the state.
    #[error(
        "the snapshot's body is whole but has {0} bytes after the state: run the program that wrote it, or let the \
         state be rebuilt from the log"
    )]
    Trailing(u64),
}

/// What captures of one partition hand on from one to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CaptureMemory {
    /// Memory that is used again; its contents are replaced.
    pub buffer: Vec<u8>,
    /// What the store has.
    pub known: KnownParts,
    /// How the state is cut.
    pub limits: PartsLimits,
}

/// Appends whole slices, up to a limit; what it is given to begin with decides whether memory is allocated meanwhile.
struct Buffer {
    bytes: Vec<u8>,
    limit: usize,
}

impl Flavor for Buffer {
    type Output = Vec<u8>;

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if data.len() > self.limit - self.bytes.len() {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        if self.bytes.len() == self.limit {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.bytes.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.bytes)
    }
}

/// Writes `state` into `buffer`, whose contents are replaced and whose memory is used again.
///
/// Give it the size of the last snapshot and a few per cent, so that it need not grow on the way.
///
/// # Errors
/// [`BodyError::Encode`].
pub fn capture<T: Serialize + ?Sized>(state: &T, mut buffer: Vec<u8>) -> Result<Vec<u8>, BodyError> {
    buffer.clear();
    let whole = Buffer { bytes: buffer, limit: usize::MAX };
    postcard::serialize_with_flavor(state, whole).map_err(BodyError::Encode)
}

/// Captures a state before `next_offset`: whole if it is small, else what is new of it.
///
/// Of the memory the buffer goes into the body. Once the body is known not to be written, tell what is known so
/// ([`KnownParts::take_back`], [`KnownParts::clear`]).
///
/// # Errors
/// [`BodyError::Encode`].
pub fn capture_body<T: Serialize + ?Sized>(
    state: &T,
    next_offset: NextOffset,
    memory: &mut CaptureMemory,
) -> Result<StateBody, BodyError> {
    let CaptureMemory { buffer, known, limits } = memory;
    let mut buffer = std::mem::take(buffer);
    buffer.clear();
    if known.is_empty() {
        let limit = usize::try_from(limits.whole_up_to).unwrap_or(usize::MAX);
        match postcard::serialize_with_flavor(state, Buffer { bytes: buffer, limit }) {
            Ok(whole) => return Ok(StateBody::Whole(whole)),
            Err(postcard::Error::SerializeBufferFull) => buffer = Vec::new(),
            Err(error) => return Err(BodyError::Encode(error)),
        }
    }
    let body = capture_parts(state, next_offset, buffer, known, limits)?;
    let has_shrunk = body.contents.is_some() && body.state_bytes <= limits.whole_up_to / 2;
    if has_shrunk {
        known.clear();
    }
    Ok(StateBody::InParts(body))
}

/// Captures what is new of a state, as much as there is room for.
fn capture_parts<T: Serialize + ?Sized>(
    state: &T,
    next_offset: NextOffset,
    buffer: Vec<u8>,
    known: &mut KnownParts,
    limits: &PartsLimits,
) -> Result<InParts, BodyError> {
    let is_first = known.is_empty();
    let mut cutter = Cutter::new(known, buffer, limits);
    let result = postcard::serialize_with_flavor(state, &mut cutter);
    let Cutter { fresh, extents, file, is_full, state_bytes, .. } = cutter;
    let is_new = fresh.len() > PARTS_MAGIC.len();
    let id = is_new.then(|| PartsFile { next_offset, digest: xxh3_64(&fresh) });
    known.end_file(file, id);
    let contents = match result {
        Ok(()) => Some(known.finish(extents, limits)),
        Err(postcard::Error::SerializeBufferFull) if is_full => {
            known.stop_short();
            None
        }
        Err(error) => {
            known.clear();
            return Err(BodyError::Encode(error));
        }
    };
    Ok(InParts { fresh, file: id, is_first, contents, state_bytes })
}

/// Cuts a state's bytes into parts as they come.
struct Cutter<'a> {
    known: &'a mut KnownParts,
    /// The new file.
    fresh: Vec<u8>,
    file: u32,
    /// Most bytes of it.
    room: u64,
    is_full: bool,
    /// All parts so far.
    extents: Vec<PartExtent>,
    /// Bytes between arrays that are not cut yet.
    gathered: Vec<u8>,
    state_bytes: u64,
}

impl<'a> Cutter<'a> {
    fn new(known: &'a mut KnownParts, mut fresh: Vec<u8>, limits: &PartsLimits) -> Self {
        let (room, file) = (known.room(limits), known.begin_file());
        fresh.clear();
        fresh.extend(PARTS_MAGIC);
        let (extents, gathered) = (Vec::new(), Vec::new());
        Self { known, fresh, file, room, is_full: false, extents, gathered, state_bytes: 0 }
    }

    /// Bytes that come at once.
    fn take(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.state_bytes += bytes.len() as u64;
        if bytes.len() >= PART_BYTES {
            return bytes.chunks(MAX_PART_BYTES - SHORT).try_for_each(|part| self.take_part(part));
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED { self.cut(false) } else { Ok(()) }
    }

    /// A run of an array, which is a part with the little that stands before it.
    fn take_part(&mut self, part: &[u8]) -> postcard::Result<()> {
        if self.gathered.len() > SHORT {
            self.cut(true)?;
        }
        if self.gathered.is_empty() {
            return self.place(part);
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.extend_from_slice(part);
        let placed = self.place(&gathered);
        gathered.clear();
        self.gathered = gathered;
        placed
    }

    /// Cuts what was gathered where its content says; the last of it may go on.
    fn cut(&mut self, is_all: bool) -> postcard::Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let [least, usual, most] = CUT_BYTES;
        let mut done = 0;
        for cut in FastCDC::new(&gathered, least, usual, most) {
            let end = cut.offset + cut.length;
            if end == gathered.len() && !is_all {
                break;
            }
            self.place(&gathered[cut.offset..end])?;
            done = end;
        }
        gathered.drain(..done);
        self.gathered = gathered;
        Ok(())
    }

    /// A part: where it lies, or will.
    fn place(&mut self, part: &[u8]) -> postcard::Result<()> {
        let (hash, bytes) = (PartHash::of(part), part.len() as u32);
        if let Some(extent) = self.known.find(hash, bytes) {
            self.extents.push(extent);
            return Ok(());
        }
        let at = self.fresh.len() as u64;
        if at > PARTS_MAGIC.len() as u64 && at + u64::from(bytes) > self.room {
            self.is_full = true;
            return Err(postcard::Error::SerializeBufferFull);
        }
        if self.fresh.capacity() - self.fresh.len() < part.len() {
            // A vector would take twice as much as it has; less than half as much again, and most would be copied often.
            self.fresh.reserve_exact(part.len().max(self.fresh.len() / 2));
        }
        self.fresh.extend_from_slice(part);
        let extent = PartExtent { file: self.file, at, bytes, hash };
        self.known.add(extent);
        self.extents.push(extent);
        Ok(())
    }
}

impl Flavor for &mut Cutter<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.take(data)
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.take(&[byte])
    }

    fn finalize(self) -> postcard::Result<()> {
        self.cut(true)
    }
}
