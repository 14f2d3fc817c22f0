//! What is in a store, for people and scripts: `kvset snapshot list | inspect | verify`.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use kvset_core::units::Bytes;
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use kvset_pipeline::gaps::OffsetGap;
use kvset_snapshot::format::Header;
use kvset_snapshot::store::{Generation, SnapshotStore, StoreError};
use kvset_snapshot::stream::{ReadError, Verified};
use serde::Serialize;
use std::fmt;

/// What is known of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Whose state it is.
    pub partition: PartitionId,
    /// Every record before this offset is in the state.
    pub next_offset: i64,
    /// Where it lies.
    pub place: String,
    /// What it says of itself, where that is sound.
    pub header: Option<HeaderDescription>,
    /// What is wrong with it, as far as was looked.
    pub problem: Option<String>,
    /// What is known to be right alongside the header; `None` where no more was looked at, or found right.
    pub verified: Option<InventoryDepth>,
    /// Offsets that could not be read and are not in the state, where it was looked into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_offsets: Vec<String>,
}

/// How far a snapshot was looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InventoryDepth {
    /// Every byte matches its checksum.
    Checksums,
    /// Every byte matches its checksum, and the bytes are a state.
    State,
}

/// A sound header's facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeaderDescription {
    /// The file's format version.
    pub version: u32,
    /// Bytes of the snapshot's own file.
    pub file_bytes: u64,
    /// Bytes of the state.
    pub state_bytes: u64,
    /// Whether the state lies in files of parts, and the snapshot's own file lists them.
    pub in_parts: bool,
    /// Bytes of the file behind its header: the state, or the list of its parts.
    pub body_bytes: u64,
    /// Their xxh3-64, 16 hexadecimal digits.
    pub body_checksum: String,
    /// The configuration the state was made under, 16 hexadecimal digits.
    pub fingerprint: String,
    /// The last record in the state; `None` when it has seen none.
    pub last_record: Option<LastRecordDescription>,
}

/// The last record in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRecordDescription {
    /// The record's own offset.
    pub offset: i64,
    /// The broker's time stamp, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Hash of key and payload, 16 hexadecimal digits.
    pub digest: String,
}

impl From<&Header> for HeaderDescription {
    fn from(header: &Header) -> Self {
        let last_record = header.fact.last_record.map(|record| LastRecordDescription {
            offset: record.offset.0,
            timestamp_ms: record.timestamp_ms,
            digest: format!("{:016x}", record.digest),
        });
        Self {
            version: header.version,
            file_bytes: header.file_bytes(),
            state_bytes: header.state_bytes,
            in_parts: header.is_in_parts,
            body_bytes: header.body_bytes,
            body_checksum: format!("{:016x}", header.body_checksum),
            fingerprint: header.fact.fingerprint.to_string(),
            last_record,
        }
    }
}

fn describe(partition: &PartitionId, generation: &Generation) -> Description {
    Description {
        partition: partition.clone(),
        next_offset: generation.next_offset.0,
        place: generation.place.clone(),
        header: generation.header.as_ref().ok().map(HeaderDescription::from),
        problem: generation.header.as_ref().err().map(StoreError::to_string),
        verified: None,
        passed_offsets: Vec::new(),
    }
}

/// Looks into a snapshot whose file's checksums match, as far as the caller can: it knows which type the state is.
/// Gives how far, and the offsets that could not be read and are not in the state.
pub type CheckBody<'a> = &'a dyn Fn(Verified) -> Result<(InventoryDepth, Vec<OffsetGap>), ReadError>;

/// Generations, in order of partition and the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// What was found.
    pub snapshots: Vec<Description>,
}

impl Inventory {
    /// Whether nothing is wrong with any of them, as far as was looked.
    pub fn is_sound(&self) -> bool {
        self.unsound() == 0
    }

    fn unsound(&self) -> usize {
        self.snapshots.iter().filter(|snapshot| snapshot.problem.is_some()).count()
    }
}

/// All generations of one partition or of all, by their headers.
///
/// # Errors
/// [`StoreError`] when the store cannot be listed.
pub fn list(store: &dyn SnapshotStore, only: Option<&PartitionId>) -> Result<Inventory, StoreError> {
    let partitions = match only {
        Some(partition) => vec![partition.clone()],
        None => store.partitions()?,
    };
    let mut snapshots = Vec::new();
    for partition in partitions {
        let generations = store.list(&partition)?;
        snapshots.extend(generations.iter().map(|generation| describe(&partition, generation)));
    }
    Ok(Inventory { snapshots })
}

/// The generations with every byte read, and bodies looked into.
///
/// # Errors
/// [`StoreError`] when the store cannot be listed; what is wrong with a generation stands in it.
pub fn verify(
    store: &dyn SnapshotStore,
    only: Option<&PartitionId>,
    check_body: CheckBody<'_>,
) -> Result<Inventory, StoreError> {
    let mut inventory = list(store, only)?;
    for snapshot in inventory.snapshots.iter_mut().filter(|snapshot| snapshot.problem.is_none()) {
        look_into(store, snapshot, check_body);
    }
    Ok(inventory)
}

fn look_into(store: &dyn SnapshotStore, snapshot: &mut Description, check_body: CheckBody<'_>) {
    let check = || {
        let verified = store.load(&snapshot.partition, NextOffset(snapshot.next_offset))?;
        let in_place = |cause| StoreError::Snapshot { place: snapshot.place.clone(), cause };
        check_body(verified).map_err(in_place)
    };
    match check() {
        Ok((depth, passed_offsets)) => {
            snapshot.verified = Some(depth);
            snapshot.passed_offsets = passed_offsets.iter().map(OffsetGap::to_string).collect();
        }
        Err(error) => snapshot.problem = Some(error.to_string()),
    }
}

/// One generation, or the newest, with every byte read; `None` where there is none such.
///
/// # Errors
/// [`StoreError`] when the store cannot be listed.
pub fn inspect(
    store: &dyn SnapshotStore,
    partition: &PartitionId,
    next_offset: Option<NextOffset>,
    check_body: CheckBody<'_>,
) -> Result<Option<Description>, StoreError> {
    let generations = store.list(partition)?;
    let is_meant = |found: &&Generation| next_offset.is_none_or(|meant| meant == found.next_offset);
    Ok(generations.iter().find(is_meant).map(|generation| {
        let mut description = describe(partition, generation);
        if description.problem.is_none() {
            look_into(store, &mut description, check_body);
        }
        description
    }))
}

/// A check that decodes the body as a `T` and throws it away.
///
/// # Errors
/// [`ReadError`], most often that the body is another state.
pub fn decodes_as<T: serde::de::DeserializeOwned>(
    verified: Verified,
) -> Result<(InventoryDepth, Vec<OffsetGap>), ReadError> {
    verified.restore::<T>().map(|_| (InventoryDepth::State, Vec::new()))
}

impl Description {
    /// One or two words for a table.
    fn verdict(&self) -> &'static str {
        match (&self.problem, self.verified) {
            (Some(_), _) => "unsound",
            (None, None) => "sound header",
            (None, Some(InventoryDepth::Checksums)) => "sound checksums",
            (None, Some(InventoryDepth::State)) => "sound",
        }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "partition      {}", self.partition)?;
        writeln!(f, "next offset    {}", self.next_offset)?;
        writeln!(f, "place          {}", self.place)?;
        if let Some(header) = &self.header {
            write!(f, "{header}")?;
        }
        writeln!(f, "state          {}", self.problem.as_deref().unwrap_or(self.verdict()))?;
        match self.passed_offsets.join(", ") {
            none if none.is_empty() => Ok(()),
            passed => writeln!(f, "passed         offsets {passed}, which could not be read"),
        }
    }
}

impl fmt::Display for HeaderDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "format         version {}", self.version)?;
        writeln!(f, "file           {} bytes ({})", self.file_bytes, Bytes(self.file_bytes))?;
        let kept = if self.in_parts { ", in files of parts" } else { "" };
        writeln!(f, "state bytes    {} ({}){kept}", self.state_bytes, Bytes(self.state_bytes))?;
        writeln!(f, "body           {} bytes, xxh3-64 {}", self.body_bytes, self.body_checksum)?;
        writeln!(f, "fingerprint    {}", self.fingerprint)?;
        match &self.last_record {
            Some(LastRecordDescription { offset, timestamp_ms, digest }) => {
                writeln!(f, "last record    offset {offset}, time stamp {timestamp_ms} ms, digest {digest}")
            }
            None => writeln!(f, "last record    none"),
        }
    }
}

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STYLE: TableStyle =
            TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
        if self.snapshots.is_empty() {
            return writeln!(f, "no snapshots");
        }
        let mut table = Table::new();
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.load_style(STYLE).set_header(["partition", "next offset", "size", "fingerprint", "state"]);
        for snapshot in &self.snapshots {
            let header = snapshot.header.as_ref();
            let size = header.map_or_else(|| "-".to_owned(), |header| Bytes(header.state_bytes).to_string());
            table.add_row([
                Cell::new(&snapshot.partition),
                number(snapshot.next_offset.to_string()),
                number(size),
                Cell::new(header.map_or("-", |header| &header.fingerprint)),
                Cell::new(snapshot.verdict()),
            ]);
        }
        table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))?;
        let unsound = self.snapshots.iter().filter_map(|snapshot| snapshot.problem.as_ref());
        unsound.clone().try_for_each(|problem| writeln!(f, "\n{problem}"))?;
        let noun = if self.snapshots.len() == 1 { "snapshot" } else { "snapshots" };
        writeln!(f, "\n{} {noun}, {} unsound", self.snapshots.len(), self.unsound())
    }
}
