//! Where a backfill begins and ends, as it is requested and as offsets.

use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_formats::time::{Numbers, TimeForm, WrittenTime, words};
use kvset_settings::Span;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A place in the log of any partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPlace {
    /// Before the record at this offset.
    Offset(NextOffset),
    /// Before the first record whose time stamp is not earlier; milliseconds since the Unix epoch.
    Moment(i64),
    /// Before the oldest record there is.
    Earliest,
    /// After the newest record there is.
    Latest,
    /// Where the live group goes on.
    Committed,
}

impl FromStr for LogPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.parse::<i64>().ok().filter(|number| *number >= 0);
        // What is a number is an offset, and no zone would be a guess.
        let moment = |text: &str| {
            let time = WrittenTime::of_text(text).time(Numbers::Dates).ok()?;
            (time.form == TimeForm::Date).then_some(time.moment.ms())
        };
        let place = match text {
            "earliest" => Some(Self::Earliest),
            "latest" => Some(Self::Latest),
            "committed" => Some(Self::Committed),
            text => match text.strip_prefix('@') {
                Some(milliseconds) => number(milliseconds).map(Self::Moment),
                None => number(text)
                    .map(|offset| Self::Offset(NextOffset(offset)))
                    .or_else(|| moment(text).map(Self::Moment)),
            },
        };
        place.ok_or_else(|| {
            format!(
                "`{text}` is no place in the log: write an offset like 1500, a time in UTC like \
                 2026-11-21T08:00:00Z, one in milliseconds like @1795248000000, `earliest`, `latest` or `committed`"
            )
        })
    }
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "{offset}"),
            Self::Moment(milliseconds) => write!(f, "@{milliseconds}"),
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Committed => f.write_str("committed"),
        }
    }
}

/// One place for all partitions, or one each for some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackfillPlaces {
    /// The same in every partition.
    Everywhere(LogPlace),
    /// In these partitions only.
    Each(BTreeMap<Partition, LogPlace>),
}

impl BackfillPlaces {
    /// The place in this partition, if there is one.
    pub fn of(&self, partition: Partition) -> Option<LogPlace> {
        match self {
            Self::Everywhere(place) => Some(*place),
            Self::Each(places) => places.get(&partition).copied(),
        }
    }

    /// The partitions that are named.
    pub fn named(&self) -> impl Iterator<Item = Partition> + '_ {
        let each = match self {
            Self::Everywhere(_) => None,
            Self::Each(places) => Some(places),
        };
        each.into_iter().flat_map(|places| places.keys().copied())
    }
}

impl FromStr for BackfillPlaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A time has colons too, but none after digits alone.
        let named = |entry: &str| -> Option<(Partition, String)> {
            let (partition, place) = entry.split_once(':')?;
            let partition = partition.parse().ok().filter(|number| *number >= 0)?;
            Some((Partition(partition), place.to_owned()))
        };
        if named(text).is_none() {
            return text.parse().map(Self::Everywhere);
        }
        let mut places = BTreeMap::new();
        for entry in text.split(',') {
            let (partition, place) = named(entry)
                .ok_or_else(|| format!("`{entry}` names no partition: write PARTITION:PLACE, like 3:1500"))?;
            if places.insert(partition, place.parse()?).is_some() {
                return Err(format!("partition {partition} is named twice"));
            }
        }
        Ok(Self::Each(places))
    }
}

impl fmt::Display for BackfillPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere(place) => place.fmt(f),
            Self::Each(places) => {
                let entries: Vec<_> =
                    places.iter().map(|(partition, place)| format!("{partition}:{place}")).collect();
                f.write_str(&entries.join(","))
            }
        }
    }
}

/// What warms the state up before the first record that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackfillWarmUp {
    /// Nothing.
    #[default]
    None,
    /// So many offsets of each partition.
    Offsets(u64),
    /// The records of this much event time.
    Time(Duration),
    /// Everything the log still holds.
    All,
}

impl FromStr for BackfillWarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let offsets = text.parse().ok().map(Self::Offsets);
        let time = || text.parse::<Span>().ok().map(|span| Self::Time(span.as_duration()));
        offsets.or_else(time).ok_or_else(|| {
            format!("`{text}` is neither a number of records, nor a span of event time like 2h, nor `all`")
        })
    }
}

impl fmt::Display for BackfillWarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Offsets(offsets) => write!(f, "{offsets}"),
            Self::Time(time) => write!(f, "{}", words(*time)),
            Self::All => f.write_str("all"),
        }
    }
}

/// Why nothing can be read between two places.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Retention has deleted what was requested.
    #[error(
        "--from {offset}: that is no longer in partition {partition}, whose log begins at {start}; begin there \
         with --from earliest, or name places partition by partition (0:{start},...)"
    )]
    BelowStart {
        /// The partition.
        partition: Partition,
        /// The offset requested.
        offset: NextOffset,
        /// The oldest there is.
        start: NextOffset,
    },
    /// The log does not reach so far.
    #[error(
        "{option} {offset}: that is past the end {end} of partition {partition}; name places partition by \
         partition ({partition}:{end},...), or a moment ({option} @MILLISECONDS)"
    )]
    PastEnd {
        /// `--from` or `--to`.
        option: &'static str,
        /// The partition.
        partition: Partition,
        /// The offset requested.
        offset: NextOffset,
        /// Where the log ends.
        end: NextOffset,
    },
    /// The live group has not been there yet.
    #[error("{option} committed: the live group has no committed offset of partition {partition}")]
    NothingCommitted {
        /// `--from` or `--to`.
        option: &'static str,
        /// The partition.
        partition: Partition,
    },
    /// The end comes first.
    #[error("--from is after --to in partition {partition}: offset {from} is after offset {to}")]
    Backwards {
        /// The partition.
        partition: Partition,
        /// First offset.
        from: NextOffset,
        /// End.
        to: NextOffset,
    },
    /// There is no such partition.
    #[error("there is no partition {partition}: topic `{topic}` has partitions 0 to {last}")]
    NoSuchPartition {
        /// The partition requested.
        partition: Partition,
        /// The topic.
        topic: String,
        /// Its last partition.
        last: i64,
    },
    /// The end of a partition that is not read.
    #[error("--to names partition {0}, but --from does not: name it there too, or leave it out")]
    NotBegun(Partition),
    /// Nothing to do.
    #[error("there is no record between --from {from} and --to {to} in topic `{topic}`")]
    Empty {
        /// As requested.
        from: String,
        /// As requested.
        to: String,
        /// The topic.
        topic: String,
    },
}

/// What is known of a place in one partition, as far as it depends on it.
#[derive(Debug, Clone, Copy)]
pub struct PlaceContext {
    /// What the log holds.
    pub log: LogRange,
    /// The first offset at or after the moment requested, if there is one.
    pub moment: Option<NextOffset>,
    /// The live group's committed offset.
    pub committed: Option<NextOffset>,
}

impl LogPlace {
    fn offset(self, known: &PlaceContext) -> Option<NextOffset> {
        match self {
            Self::Offset(offset) => Some(offset),
            Self::Moment(_) => Some(known.moment.unwrap_or(known.log.end).min(known.log.end)),
            Self::Earliest => Some(known.log.start),
            Self::Latest => Some(known.log.end),
            Self::Committed => known.committed,
        }
    }
}

/// The offsets between two places of a partition: what counts, without the warm-up.
///
/// # Errors
/// [`RangeError`] where the log does not hold them.
pub fn between(
    partition: Partition,
    (from, near_from): (LogPlace, &PlaceContext),
    (to, near_to): (LogPlace, &PlaceContext),
) -> Result<(NextOffset, NextOffset), RangeError> {
    let log = near_from.log;
    let found = |option, place: LogPlace, known| {
        let offset = place.offset(known).ok_or(RangeError::NothingCommitted { option, partition })?;
        match offset > log.end {
            true => Err(RangeError::PastEnd { option, partition, offset, end: log.end }),
            false => Ok(offset),
        }
    };
    let (from, to) = (found("--from", from, near_from)?, found("--to", to, near_to)?);
    if from > to {
        return Err(RangeError::Backwards { partition, from, to });
    }
    if from < log.start {
        return Err(RangeError::BelowStart { partition, offset: from, start: log.start });
    }
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Partition = Partition(3);

    fn known(log: (i64, i64)) -> PlaceContext {
        let log = LogRange { start: NextOffset(log.0), end: NextOffset(log.1) };
        PlaceContext { log, moment: None, committed: None }
    }

    #[test]
    fn places_are_read_as_they_are_shown() {
        for text in ["1500", "@1795248000000", "earliest", "latest", "committed", "0:5,3:latest"] {
            let places: BackfillPlaces = text.parse().expect("a place");
            assert_eq!(places.to_string(), text);
        }
        let time: BackfillPlaces = "2026-11-21T08:00:00.250Z".parse().expect("a time");
        assert_eq!(time, BackfillPlaces::Everywhere(LogPlace::Moment(1_795_248_000_250)));
        let each: BackfillPlaces = "3:2026-11-21T08:00:00Z".parse().expect("a time of one partition");
        assert_eq!(each.of(P), Some(LogPlace::Moment(1_795_248_000_000)));
        assert_eq!((each.of(Partition(0)), each.named().collect::<Vec<_>>()), (None, vec![P]));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "-1",
            "1.5",
            "Earliest",
            "@",
            "@-5",
            "yesterday",
            "2026-11-21",
            "0:5,7",
            "0:5,0:6",
            "0:",
            "-1:5",
        ] {
            assert!(text.parse::<BackfillPlaces>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_warm_up_is_a_count_a_span_or_everything() {
        let hours = BackfillWarmUp::Time(Duration::from_secs(7200));
        for (text, expected) in [
            ("0", BackfillWarmUp::Offsets(0)),
            ("500", BackfillWarmUp::Offsets(500)),
            ("2h", hours),
            ("all", BackfillWarmUp::All),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        assert!("20%".parse::<BackfillWarmUp>().is_err() && "".parse::<BackfillWarmUp>().is_err());
    }

    #[test]
    fn only_what_the_log_holds_is_read() {
        use LogPlace::{Committed, Earliest, Latest, Moment};
        let at = |offset| LogPlace::Offset(NextOffset(offset));
        let log = known((100, 200));
        let committed = PlaceContext { committed: Some(NextOffset(150)), ..log };
        let moment = PlaceContext { moment: Some(NextOffset(120)), ..log };
        let range = |from: (LogPlace, &PlaceContext), to: (LogPlace, &PlaceContext)| {
            between(P, from, to).map(|(from, to)| (from.0, to.0))
        };
        assert_eq!(range((Earliest, &log), (Latest, &log)), Ok((100, 200)));
        assert_eq!(range((Moment(7), &moment), (Committed, &committed)), Ok((120, 150)));
        assert_eq!(range((Moment(7), &log), (Latest, &log)), Ok((200, 200)), "no record is so late");
        assert_eq!(range((at(100), &log), (at(200), &log)), Ok((100, 200)));
        let offset = NextOffset;
        let (partition, start, end) = (P, offset(100), offset(200));
        assert_eq!(
            range((at(99), &log), (Latest, &log)),
            Err(RangeError::BelowStart { partition, offset: offset(99), start })
        );
        assert_eq!(
            range((Earliest, &log), (at(201), &log)),
            Err(RangeError::PastEnd { option: "--to", partition, offset: offset(201), end })
        );
        assert_eq!(
            range((at(150), &log), (at(149), &log)),
            Err(RangeError::Backwards { partition, from: offset(150), to: offset(149) })
        );
        assert_eq!(
            range((Committed, &log), (Latest, &log)),
            Err(RangeError::NothingCommitted { option: "--from", partition })
        );
    }
}
