//! Recommended capacities of a run where requests computed pages again, with each capacity modelled by itself.
//!
//! The service sees a request once, and one pass is in doubt by the second copies that vLLM keeps of such pages. What a
//! backfill read can be read again: the records of these pools go to files beside the run's state, and are replayed
//! as `kvset replay` does, which models each capacity that it recommends.

use super::report::published;
use crate::present::document::{Cell, Table};
use crate::present::words;
use crate::replay::{Extras, Replay, ReplayOptions, SecondCopies, WarmUp, replay};
use anyhow::Context as _;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::sizing::recommendation::Recommendation;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::{RequestDecoder, RequestEncoding, encode_request};
use kvset_formats::position::{NextOffset, Partition};
use kvset_formats::trace::{Format, ReadOptions};
use kvset_kafka::kafka::reader::{ReadRecord, TopicReader};
use kvset_service::backfill::Backfill;
use kvset_service::shutdown::Shutdown;
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

/// Most pools that are read again: those that computed most pages again.
const MOST_POOLS: usize = 16;
/// Longest wait for one record.
const MOMENT: Duration = Duration::from_millis(200);
/// Most letters of a pool's name in a table.
const MOST_LETTERS: usize = 40;
/// How hard the records are compressed: they are read a few times, and go.
const COMPRESSION: i32 = 1;

/// Pools of a run that computed pages again.
#[derive(Debug, Default, Serialize)]
pub(super) struct Confirmed {
    /// Those of which each recommended capacity was modelled by itself.
    pools: Vec<ConfirmedPool>,
    /// Those whose estimates stay in doubt: their requests overlap, or there are too many pools.
    in_doubt: usize,
}

/// What a pool needs over all that counted, with each recommended capacity modelled by itself.
#[derive(Debug, Serialize)]
pub(super) struct ConfirmedPool {
    pool: String,
    partition: i32,
    requests: u64,
    second_copies: SecondCopies,
    recommended: Vec<Recommendation>,
    #[serde(skip)]
    page_bytes: Option<u64>,
}

/// Where a pool is.
type PoolPlace = (Partition, String);

/// Reads the pools again whose published estimates are in doubt by second copies. `None` if somebody asks to stop.
///
/// # Errors
/// The brokers, the folder of the run's state, or a record of the run's that is no estimate.
pub(super) fn confirmed(backfill: &Backfill, shutdown: &Shutdown) -> anyhow::Result<Option<Confirmed>> {
    let mut in_doubt = in_doubt(backfill)?;
    in_doubt.sort_by_key(|(_, pages)| Reverse(*pages));
    if in_doubt.is_empty() {
        return Ok(Some(Confirmed::default()));
    }
    let places = in_doubt.iter().take(MOST_POOLS).map(|(place, _)| place.clone());
    let Some(records) = PoolRecords::read(backfill, places, shutdown)? else { return Ok(None) };
    let mut pools = Vec::new();
    for (place, file) in &records.files {
        if shutdown.is_requested() {
            return Ok(None);
        }
        pools.extend(ConfirmedPool::of(place, replayed(backfill, place, file)?));
    }
    Ok(Some(Confirmed { in_doubt: in_doubt.len() - pools.len(), pools }))
}

/// The pools whose estimates are in doubt, with the most pages that one of these is in doubt by.
fn in_doubt(backfill: &Backfill) -> anyhow::Result<Vec<(PoolPlace, u64)>> {
    let mut found: BTreeMap<PoolPlace, u64> = BTreeMap::new();
    if backfill.plan.task.pools.any(|pool| pool.cache.has_copies_in_one_pass()) {
        published(backfill, &mut |estimate| {
            if estimate.recomputed_pages > 0 {
                let most = found.entry((Partition(estimate.partition), estimate.pool)).or_default();
                *most = estimate.recomputed_pages.max(*most);
            }
        })?;
    }
    Ok(found.into_iter().collect())
}

/// What a replay of a pool's records came to.
fn replayed(backfill: &Backfill, (_, pool): &PoolPlace, file: &PoolFile) -> anyhow::Result<Replay> {
    let config = backfill.plan.task.pools.of(pool);
    let options = ReplayOptions {
        traces: vec![file.path.clone()],
        read: ReadOptions { format: Format::Events, looks_at_fields: false, ..ReadOptions::default() },
        pool: PoolConfig {
            windows: vec![WindowKind::All],
            questions: Default::default(),
            tiers: Vec::new(),
            further_costs: Vec::new(),
            ..PoolConfig::clone(config)
        },
        warm_up: WarmUp::Requests(file.before),
        pool_name: None,
        // What cannot be used was refused by the run, too.
        skip_bad_rows: true,
        extras: Extras::default(),
        provisioned: None,
        threads: available_parallelism().map_or(1, usize::from),
    };
    replay(&options, None, &mut |_| {}).with_context(|| format!("replaying the records of pool {pool}"))
}

impl ConfirmedPool {
    /// None where one pass is all that is known.
    fn of((partition, pool): &PoolPlace, replay: Replay) -> Option<Self> {
        let second_copies = replay.second_copies.clone().filter(|copies| !copies.exact_pages.is_empty())?;
        let estimate = replay.estimate();
        Some(Self {
            pool: pool.clone(),
            partition: partition.0,
            requests: estimate.requests,
            recommended: estimate.recommended.clone(),
            page_bytes: estimate.page_bytes,
            second_copies,
        })
    }
}

impl Confirmed {
    /// The pools as a table; nothing where there are none.
    pub(super) fn table(&self) -> Option<Table> {
        let columns = ["pool", "target", "requests covered", "recommended", "moved up by at most"];
        let mut table =
            Table::new("Recommended over all that counted, each capacity modelled by itself", columns);
        for pool in &self.pools {
            for entry in &pool.recommended {
                table.row([
                    Cell::Text(words::short_name(&pool.pool, MOST_LETTERS)),
                    Cell::Share(entry.target_ratio),
                    Cell::Share(entry.coverage),
                    Cell::recommended(entry, pool.page_bytes),
                    Cell::Pages(pool.second_copies.moved_up_pages, pool.page_bytes),
                ]);
            }
        }
        (!self.pools.is_empty()).then_some(table)
    }

    /// The pools for the list of what a report is of.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let of = |pool: &ConfirmedPool| {
            let sizes = pool.recommended.iter().map(|entry| {
                let size = Cell::recommended(entry, pool.page_bytes).text();
                format!(
                    "{size} for {} at target {}",
                    words::share(entry.coverage),
                    words::share(entry.target_ratio)
                )
            });
            let sizes: Vec<String> = sizes.collect();
            (format!("Pool {}, each capacity modelled by itself", pool.pool), sizes.join("; "))
        };
        let in_words = self.in_words().map(|text| ("Second copies".to_owned(), text));
        self.pools.iter().map(of).chain(in_words).collect()
    }

    /// What became of pools that computed pages again; nothing where none did.
    pub(super) fn in_words(&self) -> Option<String> {
        let pools = |count: usize| words::counted(count as u64, "pool", "pools");
        let all = self.pools.len() + self.in_doubt;
        let left = match self.in_doubt {
            0 => String::new(),
            left => format!(
                " {} no capacity modelled by itself: their requests overlap, or more than {MOST_POOLS} pools are in doubt.",
                if left == 1 { "1 pool has".to_owned() } else { format!("{} have", pools(left)) }
            ),
        };
        (all > 0).then(|| {
            format!(
                "{} computed pages again, of which vLLM keeps both copies: published estimates are of one pass, in doubt \
                 by their recomputed_pages.{left}",
                pools(all)
            )
        })
    }
}

/// Records of some pools in files that go with it.
struct PoolRecords {
    folder: PathBuf,
    files: BTreeMap<PoolPlace, PoolFile>,
}

/// The records of one pool, one event a line.
struct PoolFile {
    path: PathBuf,
    writer: Option<zstd::Encoder<'static, File>>,
    /// Those that only warm the state up, at its beginning.
    before: u64,
}

impl PoolRecords {
    /// Reads these pools' records of the run's range. `None` if somebody asks to stop.
    fn read(
        backfill: &Backfill,
        pools: impl Iterator<Item = PoolPlace>,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Option<Self>> {
        let mut records = Self::create(backfill.settings.state.directory.join("confirming"), pools)?;
        let plan = &backfill.plan;
        let ranges = backfill.offset_ranges.iter();
        let wanted = ranges.map(|(partition, range)| (*partition, range.begin..range.end)).collect();
        let topic = plan.task.topic.as_str();
        let mut reader = TopicReader::between(&plan.stream.connection, topic, &wanted)?;
        let mut decoder = plan.task.decoder();
        let mut line = Vec::new();
        while !reader.at_end() {
            if shutdown.is_requested() {
                return Ok(None);
            }
            let Some(record) = reader.next(MOMENT)? else { continue };
            let partition = Partition(record.partition);
            let next = NextOffset(record.offset);
            let range = backfill.offset_ranges.get(&partition).filter(|range| next < range.end);
            if let Some(range) = range {
                records.take(&record, next < range.count_from, &mut decoder, &mut line)?;
            }
        }
        records.files.values_mut().try_for_each(PoolFile::finish)?;
        Ok(Some(records))
    }

    /// Empty files in this folder.
    fn create(folder: PathBuf, pools: impl Iterator<Item = PoolPlace>) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        let mut records = Self { folder, files: BTreeMap::new() };
        for (number, place) in pools.enumerate() {
            let file = PoolFile::create(records.folder.join(format!("{number}.jsonl.zst")))?;
            records.files.insert(place, file);
        }
        Ok(records)
    }

    /// Writes the record of a pool that is wanted. The run had a record refused that cannot be decoded.
    fn take(
        &mut self,
        record: &ReadRecord,
        is_before: bool,
        decoder: &mut RequestDecoder,
        line: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let payload = record.payload();
        decoder.look_up(payload).map_err(|error| anyhow::anyhow!("{error}"))?;
        let Ok(decoded) = decoder.decode(record.key.as_deref(), payload) else { return Ok(()) };
        let place = (Partition(record.partition), decoded.pool.into_owned());
        let Some(file) = self.files.get_mut(&place) else { return Ok(()) };
        let mut message = decoder.read(payload)?;
        message.pool = Some(Cow::Borrowed(&place.1));
        line.clear();
        encode_request(&message, RequestEncoding::Json, line)?;
        line.push(b'\n');
        file.add(line, is_before)
    }
}

impl Drop for PoolRecords {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("`{}` is left: {error}", self.folder.display());
        }
    }
}

impl PoolFile {
    fn create(path: PathBuf) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write `{}`", path.display());
        let file = File::create(&path).with_context(cannot)?;
        let writer = Some(zstd::Encoder::new(file, COMPRESSION).with_context(cannot)?);
        Ok(Self { path, writer, before: 0 })
    }

    fn add(&mut self, line: &[u8], is_before: bool) -> anyhow::Result<()> {
        self.before += u64::from(is_before);
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write_all(line).with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.finish().with_context(|| format!("cannot write `{}`", self.path.display()))?;
        Ok(())
    }
}
