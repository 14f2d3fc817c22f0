//! Hits by the hour of their last use, the minute in which they are found, and the size that they need.

use super::{HOUR_MS, MINUTE_MS, MINUTES, WARM_PERCENT};
use kvset_core::questions::worth::PrefillRate;
use kvset_core::request::outcome::{Outcome, Run};

/// Most hours from the first to the last request: ten years.
const MOST_HOURS: i64 = 10 * 366 * 24;

/// Most counts that are kept.
const MOST_COUNTS: usize = 1 << 23;

/// Counts of one minute that are kept before equal ones are added up.
const MOST_OPEN: usize = 1 << 16;

/// The log is too long, or too large, to count restarts of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyRestarts {
    /// It has too many hours.
    #[error(
        "--restarts counts every full hour from the first to the last request, and these are more than ten years apart: \
         correct the times that are wrong, or leave --restarts out"
    )]
    Hours,
    /// It has too many counts.
    #[error(
        "--restarts keeps more than {MOST_COUNTS} counts of this log: name fewer --capacities, or take a part of it"
    )]
    Counts,
}

/// A request and what it found in the stack.
#[derive(Debug, Clone, Copy)]
pub struct FoundPages<'a> {
    /// When it came, in milliseconds.
    pub arrival_ms: i64,
    /// Its number in its pool: what [`Run::last_touched_by`] refers to.
    pub number: u64,
    /// Whether it counts, or only warms the cache.
    pub counted: bool,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// What it found.
    pub outcome: &'a Outcome,
}

/// An hour in which requests came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hour {
    /// Hours since the times began to count.
    pub(super) hour: i64,
    /// Number of its first request.
    first: u64,
}

/// Tokens of hits in one minute, with one hour of last use and one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinuteHits {
    /// Since the start of the first hour.
    pub(super) minute: u32,
    /// Place of the hour in which they were used last.
    pub(super) used: u32,
    /// Place of the smallest size that has them.
    pub(super) size: u32,
    pub(super) tokens: u64,
    /// What computing them takes; zero where no rate is known.
    pub(super) nanoseconds: u64,
}

/// Hits that a restart may lose.
#[derive(Debug, Clone)]
pub struct RestartsTally {
    rate: Option<PrefillRate>,
    page_tokens: u64,
    /// In pages, ascending.
    sizes: Vec<u64>,
    hours: Vec<Hour>,
    /// Minute of the latest request, and of the first that counts.
    now: u32,
    since: Option<u32>,
    /// Those of the present minute, of which so many differ.
    open: Vec<MinuteHits>,
    different: usize,
    found: Vec<MinuteHits>,
}

impl RestartsTally {
    /// Nothing yet, of pages of so many tokens, at these sizes in pages.
    pub fn new(rate: Option<PrefillRate>, page_tokens: u64, mut sizes: Vec<u64>) -> Self {
        sizes.sort_unstable();
        sizes.dedup();
        Self {
            rate,
            page_tokens,
            sizes,
            hours: Vec::new(),
            now: 0,
            since: None,
            open: Vec::new(),
            different: 0,
            found: Vec::new(),
        }
    }

    /// Adds a request; one that came before the one before it counts as if it had come with that.
    ///
    /// # Errors
    /// [`TooManyRestarts`].
    pub fn add(&mut self, request: FoundPages<'_>) -> Result<(), TooManyRestarts> {
        self.pass_time(request.arrival_ms, request.number)?;
        if !request.counted {
            return Ok(());
        }
        self.since.get_or_insert(self.now);
        // What was touched in this hour no restart at a full hour takes away.
        let first = self.hours.last().map_or(0, |hour| hour.first);
        let mut above = 0;
        for run in &request.outcome.runs {
            if run.last_touched_by < first {
                self.add_run(run, above, request.prompt_tokens);
            }
            above += u64::from(run.pages);
        }
        if self.open.len() >= MOST_OPEN + 2 * self.different {
            self.sum_up();
        }
        Ok(())
    }

    /// Adds a run with so many pages of the prompt before it.
    fn add_run(&mut self, run: &Run, above: u64, prompt: u64) {
        let used = self.hours.partition_point(|hour| hour.first <= run.last_touched_by).saturating_sub(1);
        let token = |page: u64| (page * self.page_tokens).min(prompt);
        let mut hits = 0;
        for size in self.sizes.partition_point(|pages| *pages < run.need)..self.sizes.len() {
            let more = u64::from(run.hits_at(self.sizes[size]));
            if more > hits {
                let (from, end) = (token(above + hits), token(above + more));
                self.open.push(MinuteHits {
                    minute: self.now,
                    used: used as u32,
                    size: size as u32,
                    tokens: end - from,
                    nanoseconds: self.rate.as_ref().map_or(0, |rate| nanoseconds(rate.seconds(from, end))),
                });
                hits = more;
            }
            if hits == u64::from(run.pages) {
                break;
            }
        }
    }

    fn pass_time(&mut self, arrival_ms: i64, number: u64) -> Result<(), TooManyRestarts> {
        let hour = arrival_ms.div_euclid(HOUR_MS);
        let Some(last) = self.hours.last().map(|hour| hour.hour) else {
            self.hours.push(Hour { hour, first: number });
            self.now = self.minute_of(arrival_ms);
            return Ok(());
        };
        if hour.saturating_sub(self.hours[0].hour) > MOST_HOURS {
            return Err(TooManyRestarts::Hours);
        }
        if hour > last {
            self.hours.push(Hour { hour, first: number });
        }
        let now = self.minute_of(arrival_ms);
        if now > self.now {
            self.close_minute();
            self.now = now;
        }
        if self.found.len() > MOST_COUNTS { Err(TooManyRestarts::Counts) } else { Ok(()) }
    }

    /// The minute of a moment not before the first hour.
    fn minute_of(&self, arrival_ms: i64) -> u32 {
        let start = self.hours[0].hour * HOUR_MS;
        u32::try_from((arrival_ms.saturating_sub(start)).div_euclid(MINUTE_MS)).unwrap_or(0)
    }

    /// Adds up counts of one minute that differ in nothing else.
    fn sum_up(&mut self) {
        self.open.sort_by_key(|found| (found.used, found.size));
        self.open.dedup_by(|next, kept| {
            let is_same = (next.used, next.size) == (kept.used, kept.size);
            if is_same {
                kept.tokens += next.tokens;
                kept.nanoseconds += next.nanoseconds;
            }
            is_same
        });
        self.different = self.open.len();
    }

    fn close_minute(&mut self) {
        self.sum_up();
        self.found.append(&mut self.open);
        self.different = 0;
    }

    /// Ends counting.
    pub(super) fn finish(mut self) -> Counted {
        self.close_minute();
        Counted { hours: self.hours, since: self.since, now: self.now, found: self.found, sizes: self.sizes }
    }

    /// Whether computing takes a known time.
    pub(super) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }
}

/// All that was counted.
#[derive(Debug)]
pub(super) struct Counted {
    /// Ascending.
    hours: Vec<Hour>,
    since: Option<u32>,
    now: u32,
    /// In the order of their minutes.
    found: Vec<MinuteHits>,
    pub(super) sizes: Vec<u64>,
}

/// What a restart at a full hour loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// Hours since the times began to count.
    pub(super) hour: i64,
    pub(super) tokens: u64,
    pub(super) nanoseconds: u64,
    /// Minutes until the cache is warm; absent where nothing is lost.
    pub(super) warm_minutes: Option<u32>,
}

/// What a restart before the requests of an hour loses.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    tokens: u64,
    nanoseconds: u64,
    /// The minute behind which the cache is warm.
    warm: Option<u32>,
}

impl Counted {
    /// What restarts lose at the size in this place: one at every full hour after the first request that counts, up to
    /// the last request.
    pub(super) fn lost(&self, size: usize) -> Vec<Lost> {
        let (Some(since), Some(start)) = (self.since, self.hours.first().map(|hour| hour.hour)) else {
            return Vec::new();
        };
        let is_found = |found: &&MinuteHits| found.size as usize <= size;
        let found: Vec<MinuteHits> = self.found.iter().filter(is_found).copied().collect();
        let totals = self.totals(&found);
        let of = |at: u32| {
            let hour = start + i64::from(at);
            // Between two hours that had requests a restart loses what one right before the later hour does.
            let place = self.hours.partition_point(|known| known.hour < hour);
            let Total { tokens, nanoseconds, warm } = totals.get(place).copied().unwrap_or_default();
            Lost { hour, tokens, nanoseconds, warm_minutes: warm.map(|end| end + 1 - at * MINUTES) }
        };
        (since / MINUTES + 1..=self.now / MINUTES).map(of).collect()
    }

    /// The place of the hour that a minute is in.
    fn place(&self, minute: u32) -> usize {
        let hour = self.hours[0].hour + i64::from(minute / MINUTES);
        self.hours.partition_point(|known| known.hour <= hour) - 1
    }

    /// What is lost of all these by a restart before each of the hours that had requests.
    fn totals(&self, found: &[MinuteHits]) -> Vec<Total> {
        // What is found in one hour and was used last in an earlier one is lost by each restart between: it enters behind
        // the hour of its use, and leaves behind the hour in which it is found.
        let mut enter = vec![(0_u64, 0_u64); self.hours.len() + 1];
        let mut leave = enter.clone();
        for found in found {
            for (sums, place) in [(&mut enter, found.used as usize), (&mut leave, self.place(found.minute))] {
                let sum = &mut sums[place + 1];
                *sum = (sum.0 + found.tokens, sum.1 + found.nanoseconds);
            }
        }
        let (mut tokens, mut nanoseconds, mut begin) = (0, 0, 0);
        let mut totals = Vec::with_capacity(self.hours.len());
        for (place, hour) in self.hours.iter().enumerate() {
            tokens = tokens + enter[place].0 - leave[place].0;
            nanoseconds = nanoseconds + enter[place].1 - leave[place].1;
            let minute = (hour.hour - self.hours[0].hour) as u32 * MINUTES;
            begin += found[begin..].partition_point(|found| found.minute < minute);
            let warm = warm(&found[begin..], place as u32, tokens);
            totals.push(Total { tokens, nanoseconds, warm });
        }
        totals
    }
}

/// The minute in which so much is lost of these tokens that the cache is warm, of what was used before the hour in this
/// place.
fn warm(later: &[MinuteHits], place: u32, tokens: u64) -> Option<u32> {
    let enough = |lost: u64| u128::from(lost) * 100 >= u128::from(tokens) * u128::from(WARM_PERCENT);
    let mut lost = 0;
    for found in later.iter().filter(|found| found.used < place && tokens > 0) {
        lost += found.tokens;
        if enough(lost) {
            return Some(found.minute);
        }
    }
    None
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
