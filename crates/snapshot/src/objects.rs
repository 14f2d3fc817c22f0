//! Snapshots in an object store that hosts share, so that a partition can move between them:
//! `{prefix}/{group}/{topic}/{partition}/{next_offset:020}`, and alongside those of large states what they are made of,
//! `{next_offset:020}-{digest:016x}.parts`.
//!
//! An object appears whole or not at all, so there is no protocol of names here. A mounted directory
//! (`file:` address) is as durable as its mount; nothing is synced there.

use super::assembled::OpenParts;
use super::contents::PartsFile;
use super::format::{FormatError, InParts, MAX_HEADER_BYTES, Snapshot, StateBody, decode_header};
use super::names::{format_offset, parse_offset};
use super::store::{
    Generation, MAX_LISTED, MAX_SET_ASIDE, SafeGeneration, SnapshotStore, StoreError, lost, surplus,
};
use super::stream::{ByteSource, ReadError, Verified, read_contents, read_header};
use super::window::RangeWindow;
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::PartitionId;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, WriteMultipart};
use std::collections::BTreeSet;
use std::future::Future;
use std::io::{self, Cursor};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Added to the name of an object that was set aside.
const SET_ASIDE: &str = ".corrupt";

/// What names of parts end in.
const PARTS: &str = ".parts";

/// Longest time one operation may take, its retries included.
const DEADLINE: Duration = Duration::from_secs(600);

/// Bytes of an upload handed over at once.
const PART_BYTES: usize = 5 << 20;

/// Parts of one upload under way at once.
const PARTS_AT_ONCE: usize = 4;

/// A snapshot store over any object store.
#[derive(Debug)]
pub struct ObjectSnapshots {
    client: Arc<StoreClient>,
    root: Path,
    generations: usize,
}

/// Whoever asks the object store.
#[derive(Debug)]
struct StoreClient {
    objects: Arc<dyn ObjectStore>,
    /// Address for people, without what a query may hide.
    address: String,
    /// Its own, so that callers need none and may have one.
    runtime: Runtime,
}

/// The address of an object store is not one that can be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// It is no address.
    #[error(
        "the snapshot store's address is no URL: {0}; write one such as `s3://bucket/prefix` or `file:///mnt/state`"
    )]
    Address(url::ParseError),
    /// The store cannot be opened.
    #[error(
        "the snapshot store {address} cannot be opened: {reason}; check the address and the cloud's settings in the \
         environment"
    )]
    Store {
        /// The address, without its query.
        address: String,
        /// What the store says.
        reason: String,
    },
    /// The consumer group cannot be part of a name.
    #[error(
        "the consumer group cannot be part of an object's name: {0}; use letters, digits, dots and hyphens"
    )]
    Group(object_store::path::Error),
    /// The system gives no thread.
    #[error("starting the snapshot store's thread failed: {0}; raise the limit on threads")]
    Thread(io::Error),
}

impl ObjectSnapshots {
    /// Opens the store at an address such as `s3://bucket/prefix`, with `options` by the names the
    /// `object_store` crate gives them. `generations` are kept a partition.
    ///
    /// # Errors
    /// [`StoreOpenError`].
    pub fn open(
        address: &str,
        options: &[(String, String)],
        group: &str,
        generations: NonZeroUsize,
    ) -> Result<Self, StoreOpenError> {
        let url = url::Url::parse(address).map_err(StoreOpenError::Address)?;
        let (objects, prefix) =
            super::clouds::open(&url, options).map_err(|error| StoreOpenError::Store {
                address: without_queries(address),
                reason: without_queries(&error.to_string()),
            })?;
        Self::new(objects.into(), &without_queries(address), &prefix, group, generations)
    }

    /// A store over `objects`, below `prefix`.
    ///
    /// # Errors
    /// [`StoreOpenError::Group`], [`StoreOpenError::Thread`].
    pub fn new(
        objects: Arc<dyn ObjectStore>,
        address: &str,
        prefix: &Path,
        group: &str,
        generations: NonZeroUsize,
    ) -> Result<Self, StoreOpenError> {
        let group = Path::parse(group).map_err(StoreOpenError::Group)?;
        let root = Path::from_iter(prefix.parts().chain(group.parts()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kvset-objects")
            .enable_all()
            .build()
            .map_err(StoreOpenError::Thread)?;
        let client = Arc::new(StoreClient { objects, address: address.to_owned(), runtime });
        Ok(Self { client, root, generations: generations.get() })
    }

    fn directory(&self, partition: &PartitionId) -> Path {
        self.root.clone().join(partition.topic()).join(partition.partition().to_string())
    }

    fn path(&self, partition: &PartitionId, next_offset: NextOffset) -> Path {
        self.directory(partition).join(format_offset(next_offset))
    }

    fn aside(&self, partition: &PartitionId, next_offset: NextOffset) -> Path {
        self.directory(partition).join(format!("{}{SET_ASIDE}", format_offset(next_offset)))
    }

    fn parts_path(&self, partition: &PartitionId, file: &PartsFile) -> Path {
        self.directory(partition).join(format!("{file}{PARTS}"))
    }

    fn place(&self, path: &Path) -> String {
        format!("{path} in {}", self.client.address)
    }

    /// Runs one operation to its end, whatever runtime the caller is on.
    fn run<T: Send + 'static, W>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(Arc<dyn ObjectStore>, Path) -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let result = self.client.run(path, work);
        result.map_err(|cause| StoreError::Io { operation, place: self.place(path), cause })
    }

    /// Writes an object.
    fn put(&self, path: &Path, object: Vec<u8>) -> Result<u64, StoreError> {
        let bytes = object.len() as u64;
        self.run("writing", path, async move |objects, path| {
            let mut upload = WriteMultipart::new(objects.put_multipart(&path).await?);
            for part in object.chunks(PART_BYTES) {
                upload.wait_for_capacity(PARTS_AT_ONCE).await?;
                upload.write(part);
            }
            upload.finish().await
        })?;
        Ok(bytes)
    }

    /// An object, whole.
    fn get(&self, path: &Path) -> Result<impl ByteSource + use<>, StoreError> {
        let object =
            self.run("reading", path, async |objects, path| objects.get(&path).await?.bytes().await)?;
        Ok(Cursor::new(object))
    }

    /// The parts of a partition that are there.
    fn parts_files(&self, partition: &PartitionId) -> Result<BTreeSet<PartsFile>, StoreError> {
        let listing = self.run("listing", &self.directory(partition), async |objects, path| {
            objects.list_with_delimiter(Some(&path)).await
        })?;
        let parts_of =
            |object: &ObjectMeta| PartsFile::parse(object.location.filename()?.strip_suffix(PARTS)?);
        Ok(listing.objects.iter().filter_map(parts_of).collect())
    }

    /// The parts that a snapshot names; none of one that is of no use to anyone.
    fn referred_to(&self, path: &Path, size: u64) -> Result<Vec<PartsFile>, StoreError> {
        let head = self.head(path, size)?;
        match decode_header(&head, size) {
            Ok(header) if header.is_in_parts => {}
            _ => return Ok(Vec::new()),
        }
        let mut object = self.get(path)?;
        let contents = read_header(&mut object).and_then(|header| read_contents(&mut object, &header));
        match contents {
            Ok(contents) => Ok(contents.files),
            Err(error) if error.is_corrupt() => Ok(Vec::new()),
            Err(cause) => Err(StoreError::Snapshot { place: self.place(path), cause }),
        }
    }

    /// Opens parts of a partition.
    fn open_parts(&self, partition: &PartitionId) -> OpenParts {
        let (client, directory) = (Arc::clone(&self.client), self.directory(partition));
        Box::new(move |file| {
            let path = directory.clone().join(format!("{file}{PARTS}"));
            let found = client.run(&path, async |objects, path| objects.head(&path).await)?;
            let client = Arc::clone(&client);
            let read = move |range: Range<u64>| {
                client.run(&path, async move |objects, path| {
                    Ok(objects.get_range(&path, range).await?.to_vec())
                })
            };
            Ok(Box::new(RangeWindow::over(read, found.size)) as Box<dyn ByteSource>)
        })
    }

    /// The objects directly below a partition whose names are an offset and `suffix`, ascending.
    fn objects(
        &self,
        partition: &PartitionId,
        suffix: &str,
    ) -> Result<Vec<(NextOffset, ObjectMeta)>, StoreError> {
        let listing = self.run("listing", &self.directory(partition), async |objects, path| {
            objects.list_with_delimiter(Some(&path)).await
        })?;
        let offset_of = |object: &ObjectMeta| parse_offset(object.location.filename()?.strip_suffix(suffix)?);
        let named = listing.objects.into_iter().filter_map(|object| Some((offset_of(&object)?, object)));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by_key(|(offset, _)| *offset);
        Ok(named)
    }

    /// The last parts of the names directly below `path` that have more below them.
    fn branches(&self, path: &Path) -> Result<Vec<(String, Path)>, StoreError> {
        let listing =
            self.run("listing", path, async |objects, path| objects.list_with_delimiter(Some(&path)).await)?;
        let named = listing.common_prefixes.into_iter();
        Ok(named.filter_map(|path| Some((path.filename()?.to_owned(), path))).collect())
    }

    fn delete(&self, path: &Path) -> Result<(), StoreError> {
        self.run("removing", path, async |objects, path| objects.delete(&path).await)
    }

    fn generation(&self, partition: &PartitionId, next_offset: NextOffset, size: u64) -> Generation {
        let path = self.path(partition, next_offset);
        let header = self.head(&path, size).and_then(|head| {
            let header = decode_header(&head, size).map_err(|error| self.snapshot_error(&path, error))?;
            let in_place = header.require_place(partition, next_offset);
            in_place.map_err(|error| self.snapshot_error(&path, error))?;
            Ok(header)
        });
        Generation { next_offset, place: self.place(&path), header }
    }

    fn head(&self, path: &Path, size: u64) -> Result<Vec<u8>, StoreError> {
        // Stores refuse an empty range.
        if size == 0 {
            return Ok(Vec::new());
        }
        let head = 0..size.min(MAX_HEADER_BYTES as u64);
        self.run("reading", path, async move |objects, path| {
            Ok(objects.get_range(&path, head).await?.to_vec())
        })
    }

    fn snapshot_error(&self, path: &Path, error: FormatError) -> StoreError {
        StoreError::Snapshot { place: self.place(path), cause: ReadError::Format(error) }
    }

    fn prune(&self, partition: &PartitionId, saved: NextOffset) -> Result<(), StoreError> {
        let offsets: Vec<_> = self.objects(partition, "")?.into_iter().map(|(offset, _)| offset).collect();
        surplus(&offsets, saved, self.generations)
            .try_for_each(|offset| self.delete(&self.path(partition, offset)))?;
        self.remove_unused(partition)
    }

    /// Removes parts that no generation refers to.
    fn remove_unused(&self, partition: &PartitionId) -> Result<(), StoreError> {
        let mut unused = self.parts_files(partition)?;
        if unused.is_empty() {
            return Ok(());
        }
        for (offset, object) in self.objects(partition, "")? {
            for file in self.referred_to(&self.path(partition, offset), object.size)? {
                unused.remove(&file);
            }
        }
        unused.iter().try_for_each(|file| self.delete(&self.parts_path(partition, file)))
    }
}

impl StoreClient {
    /// Runs one operation to its end, whatever runtime the caller is on.
    fn run<T: Send + 'static, W>(
        &self,
        path: &Path,
        work: impl FnOnce(Arc<dyn ObjectStore>, Path) -> W,
    ) -> io::Result<T>
    where
        W: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let (send, receive) = mpsc::sync_channel(1);
        let work = work(Arc::clone(&self.objects), path.clone());
        let task = self.runtime.spawn(async move {
            // Nobody receives only when the deadline passed.
            let _ = send.send(work.await);
        });
        let result = receive.recv_timeout(DEADLINE).map_err(|_| {
            task.abort();
            io::Error::from(io::ErrorKind::TimedOut)
        });
        result.and_then(|done| done.map_err(|error| system_error(&error)))
    }
}

/// The store's error with its kind; addresses lose their queries, where credentials may stand.
fn system_error(error: &object_store::Error) -> io::Error {
    use object_store::Error;
    let kind = match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, without_queries(&error.to_string()))
}

/// Cuts every word at its first `?`.
fn without_queries(text: &str) -> String {
    let cut = |word| str::split(word, '?').next().unwrap_or_default();
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

impl SnapshotStore for ObjectSnapshots {
    fn partitions(&self) -> Result<Vec<PartitionId>, StoreError> {
        let mut partitions = Vec::new();
        for (topic, path) in self.branches(&self.root)? {
            let numbers = self.branches(&path)?.into_iter().filter_map(|(number, _)| number.parse().ok());
            partitions.extend(numbers.filter_map(|number| PartitionId::new(&topic, number).ok()));
        }
        partitions.sort_unstable();
        Ok(partitions)
    }

    fn list(&self, partition: &PartitionId) -> Result<Vec<Generation>, StoreError> {
        let newest = self.objects(partition, "")?.into_iter().rev().take(MAX_LISTED);
        Ok(newest.map(|(offset, object)| self.generation(partition, offset, object.size)).collect())
    }

    fn load(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<Verified, StoreError> {
        let path = self.path(partition, next_offset);
        let (object, open) = (self.get(&path)?, self.open_parts(partition));
        let verified = Verified::read(Box::new(object), open).and_then(|verified| {
            verified.header().require_place(partition, next_offset)?;
            Ok(verified)
        });
        verified.map_err(|cause| StoreError::Snapshot { place: self.place(&path), cause })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<SafeGeneration, StoreError> {
        let partition = &snapshot.partition;
        let path = self.path(partition, snapshot.fact.next_offset);
        let place = self.place(&path);
        if matches!(&snapshot.body, StateBody::InParts(parts) if parts.is_first) {
            // What was written ahead of a snapshot that never came about would keep its room for ever.
            self.remove_unused(partition)?;
        }
        let mut bytes = 0;
        if let StateBody::InParts(InParts { fresh, file: Some(file), .. }) = &snapshot.body {
            bytes += self.put(&self.parts_path(partition, file), fresh.clone())?;
        }
        if !snapshot.body.is_complete() {
            return Ok(SafeGeneration { place, bytes, not_removed: None });
        }
        if let StateBody::InParts(InParts { contents: Some(contents), .. }) = &snapshot.body
            && let Some(file) = lost(contents, &self.parts_files(partition)?)
        {
            return Err(StoreError::PartsLost { place, file });
        }
        let file = snapshot.file().map_err(|error| self.snapshot_error(&path, error))?;
        bytes += self.put(&path, file)?;
        let not_removed = self.prune(partition, snapshot.fact.next_offset).err();
        Ok(SafeGeneration { place, bytes, not_removed })
    }

    fn set_aside(&self, partition: &PartitionId, next_offset: NextOffset) -> Result<(), StoreError> {
        let aside = self.aside(partition, next_offset);
        self.run("setting aside", &self.path(partition, next_offset), async move |objects, path| {
            objects.rename(&path, &aside).await
        })?;
        let kept = self.objects(partition, SET_ASIDE)?;
        let oldest = &kept[..kept.len().saturating_sub(MAX_SET_ASIDE)];
        oldest.iter().try_for_each(|(offset, _)| self.delete(&self.aside(partition, *offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_an_addresss_query_is_never_repeated() {
        let error = object_store::Error::Generic {
            store: "azure",
            source: "GET https://account.example/c/x?sig=SECRET&se=1 failed: no route".into(),
        };
        let said = system_error(&error).to_string();
        assert!(
            said.contains("https://account.example/c/x failed: no route") && !said.contains("SECRET"),
            "{said}"
        );
        let refused = ObjectSnapshots::open("nothing://a/b?key=SECRET", &[], "g", NonZeroUsize::MIN);
        let said = refused.expect_err("no such scheme").to_string();
        assert!(said.contains("nothing://a/b") && !said.contains("SECRET"), "{said}");
    }
}
