//! A task's state as bytes, taken by the task's own thread between two records.

use postcard::ser_flavors::Flavor;
use serde::Serialize;

/// The state could not be turned into bytes or back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A value in the state has no form in bytes.
    #[error("the state cannot be written as bytes: {0}; no snapshot is made, report this as a defect")]
    Encode(postcard::Error),
    /// The bytes are whole and hold another state than the one asked for.
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

/// Appends whole slices; what it is given to begin with decides whether memory is allocated meanwhile.
struct Buffer(Vec<u8>);

impl Flavor for Buffer {
    type Output = Vec<u8>;

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
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
    postcard::serialize_with_flavor(state, Buffer(buffer)).map_err(BodyError::Encode)
}
