//! `kvset skip`: offsets that cannot be read, or are not to be, noted with the group's committed offset.

use crate::cli::Failure;
use crate::cli::args::SkipArgs;
use crate::commands::serving::require_topics;
use crate::present::words::integer;
use crate::telemetry::logging;
use anyhow::{Context as _, anyhow};
use kvset_formats::position::{LogRange, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::offsets::{NotedOffset, Offsets};
use kvset_kafka::kafka::topics::{FIRST_ANSWER, Topics};
use kvset_kafka::kafka::unreadable::gap_at;
use kvset_pipeline::gaps::{OffsetGap, OffsetGaps};
use kvset_pipeline::publish::FailureKind;
use kvset_service::plan::connection;
use kvset_settings::Settings;
use std::time::{Duration, Instant};

/// Time between two attempts while the group still has members.
const AGAIN: Duration = Duration::from_secs(2);

/// The log that is passed over, and whose note it is.
struct SkippedLog<'a> {
    connection: &'a Connection,
    topic: &'a str,
    group: &'a str,
    partition: Partition,
    /// How long the brokers' troubles, and members that are about to leave, are waited for.
    retry_for: Duration,
}

/// Runs `kvset skip`.
pub fn run(args: &SkipArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    if !args.prepare {
        let instead =
            "nothing there is unreadable for good; mend, move or remove the file that `kvset run` names";
        require_topics(&settings, "skip", instead)?;
    }
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let connection = connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?;
    let (topic, group) = match args.prepare {
        true => (&settings.prepare.topic, &settings.prepare.group),
        false => (&settings.input.topic, &settings.kafka.group),
    };
    let log = SkippedLog {
        connection: &connection,
        topic: topic.as_str(),
        group,
        partition: Partition(args.partition),
        retry_for: settings.kafka.retry_for.as_duration(),
    };
    Ok(skip(&log, args.offset, args.to, args.dry_run)?)
}

fn skip(log: &SkippedLog<'_>, offset: i64, to: Option<i64>, dry_run: bool) -> anyhow::Result<()> {
    let SkippedLog { connection, topic, group, partition, retry_for } = *log;
    let topics = Topics::new(connection, retry_for.min(FIRST_ANSWER))?;
    let partitions = topics.require(topic, "input.topic", "`kvset produce --create-topics`")?;
    anyhow::ensure!(
        i64::from(partition.0) < i64::from(partitions.get()),
        "topic `{topic}` has no partition {partition}: it has 0 to {}",
        partitions.get() - 1
    );
    let offsets = Offsets::open(connection, group, topic)?;
    let range = offsets.log_range(partition, FIRST_ANSWER)?;
    anyhow::ensure!(
        (range.start.0..range.end.0).contains(&offset),
        "{topic}/{partition} holds offsets {} to {}, not {offset}",
        range.start,
        range.end.0.saturating_sub(1)
    );
    let (gap, why) = match to {
        Some(to) => (OffsetGap::new(offset, to)?, "to be passed"),
        None => (gap_at(connection, topic, partition, offset, range)?, "unreadable"),
    };
    anyhow::ensure!(gap.end <= range.end.0, "{topic}/{partition} ends at offset {}", range.end);
    let lost = integer((gap.end - gap.start).unsigned_abs());
    if dry_run {
        println!("offsets {gap} of {topic}/{partition} are {why} ({lost} offsets); nothing was noted");
        return Ok(());
    }
    note(log, &offsets, range, gap)?;
    println!(
        "group {group} passes offsets {gap} of {topic}/{partition} from now on ({lost} offsets, which are {why}); start it \
         again"
    );
    Ok(())
}

/// Adds the gap to those noted with the committed offset; where nothing is committed, with the start of the log, from
/// which the group then begins.
fn note(log: &SkippedLog<'_>, offsets: &Offsets, range: LogRange, gap: OffsetGap) -> anyhow::Result<()> {
    let found = offsets.noted(&[log.partition], FIRST_ANSWER)?;
    let found = found.into_iter().find_map(|(_, noted)| noted);
    let (next, note) =
        found.map_or_else(|| (range.start, String::new()), |NotedOffset { next, note }| (next, note));
    let mut gaps: OffsetGaps = note.parse().with_context(|| format!("group `{}`", log.group))?;
    gaps.insert(gap);
    let noted = NotedOffset { next, note: gaps.note()? };
    commit(log, offsets, &noted).map_err(|failure| {
        anyhow!("{failure}: stop every instance of group `{}`, and wait until its session ended", log.group)
    })
}

/// Commits once the group has no members any more.
fn commit(log: &SkippedLog<'_>, offsets: &Offsets, noted: &NotedOffset) -> Result<(), KafkaFailure> {
    let begin = Instant::now();
    loop {
        match offsets.commit(log.partition, noted) {
            Err(failure)
                if matches!(failure.kind, FailureKind::Abortable | FailureKind::Transient)
                    && begin.elapsed() < log.retry_for =>
            {
                eprintln!("group {} still has members: waiting for them to leave", log.group);
                std::thread::sleep(AGAIN);
            }
            committed => return committed,
        }
    }
}
