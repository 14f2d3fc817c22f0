//! A reader whose bytes somebody looks at as they pass.

use std::io::{self, Read};

/// Shows `watch` what is read of `input`.
pub(crate) struct Watched<R, W> {
    pub input: R,
    pub watch: W,
}

impl<R: Read, W: FnMut(&[u8])> Read for Watched<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        (self.watch)(&buffer[..count]);
        Ok(count)
    }
}
