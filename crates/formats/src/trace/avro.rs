//! Avro object container files of request events: a recorded topic as a trace.

use super::carried::Carried;
use super::error::{RowError, TraceError};
use super::events::{EventFiler, UNNAMED_POOL};
use super::options::ReadOptions;
use super::records::{Filled, TraceSource};
use crate::codec::{ContainerReader, DecodeLimits};
use crate::record::fault::RowFault;
use crate::record::row::RowBatch;
use std::io::BufRead;
use std::sync::Arc;

/// A container file.
pub(super) struct Events {
    reader: ContainerReader<Box<dyn BufRead + Send>>,
    file: Arc<str>,
    filer: EventFiler,
}

impl Events {
    /// Reads the container's head.
    pub fn open(
        bytes: Box<dyn BufRead + Send>,
        file: &Arc<str>,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        let reader = ContainerReader::open(bytes, DecodeLimits::default(), UNNAMED_POOL);
        let reader = reader.map_err(|source| TraceError::Container { file: Arc::clone(file), source })?;
        Ok(Self { reader, file: Arc::clone(file), filer: EventFiler::new(options) })
    }
}

impl TraceSource for Events {
    fn fill(&mut self, batch: &mut RowBatch, carried: &mut Carried) -> Result<Filled, TraceError> {
        let number = self.reader.events() + 1;
        let event = self.reader.next_event();
        let event = event.map_err(|source| TraceError::Container { file: Arc::clone(&self.file), source })?;
        let Some(event) = event else { return Ok(Filled::End) };
        let filed =
            event.map_err(RowFault::from).and_then(|decoded| self.filer.file(&decoded, number, batch));
        carried.place(batch);
        Ok(match filed {
            Ok(()) => Filled::Requests,
            Err(fault) => Filled::Refused(RowError { file: Arc::clone(&self.file), line: number, fault }),
        })
    }
}
