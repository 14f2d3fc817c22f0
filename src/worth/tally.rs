//! Prefill time of the requests of a log, by capacity.

use super::rate::PrefillRate;

/// Most times that are kept for quantiles.
const MOST_TIMES: usize = 1 << 27;

/// There are too many requests and capacities for exact quantiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--prefill-rate keeps the time of each request at each capacity, and these are more than {MOST_TIMES}: name fewer \
     --capacities"
)]
pub struct WorthTooLarge;

/// What a request finds at one capacity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FoundTokens {
    /// Tokens of its prompt that are not computed.
    pub tokens: u64,
    /// Seconds that loading those takes which lie in tiers below.
    pub load_seconds: f64,
}

/// Seconds of prefill, by capacity.
#[derive(Debug, Clone)]
pub struct WorthTally {
    rate: PrefillRate,
    /// Without a cache, with one of unlimited capacity, then by capacity.
    columns: Vec<Column>,
    requests: u64,
    /// The first and the last arrival, in milliseconds.
    span: Option<(i64, i64)>,
}

#[derive(Debug, Clone, Default)]
struct Column {
    /// Of computing.
    seconds: f64,
    /// Of each request, to load and to compute.
    times: Vec<f32>,
}

impl WorthTally {
    /// Nothing yet.
    pub fn new(rate: PrefillRate) -> Self {
        Self { rate, columns: Vec::new(), requests: 0, span: None }
    }

    /// The rate that it goes by.
    pub fn rate(&self) -> &PrefillRate {
        &self.rate
    }

    /// Requests that were added.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// From the first to the last arrival, in milliseconds.
    pub fn span_ms(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last.saturating_sub(first).max(0).unsigned_abs())
    }

    /// Adds a request with a prompt of so many tokens, of which unlimited capacity has so many, and each capacity those found.
    ///
    /// # Errors
    /// [`WorthTooLarge`].
    pub fn add(
        &mut self,
        arrival_ms: i64,
        prompt: u64,
        unlimited: u64,
        found: impl Iterator<Item = FoundTokens>,
    ) -> Result<(), WorthTooLarge> {
        self.requests += 1;
        let (first, last) = self.span.unwrap_or((arrival_ms, arrival_ms));
        self.span = Some((first.min(arrival_ms), last.max(arrival_ms)));
        let on_device = |tokens| FoundTokens { tokens, load_seconds: 0.0 };
        let ends = [0, unlimited].map(on_device).into_iter();
        for (at, FoundTokens { tokens, load_seconds }) in ends.chain(found).enumerate() {
            if self.columns.len() <= at {
                self.columns.push(Column::default());
            }
            let seconds = self.rate.seconds(tokens.min(prompt), prompt);
            let column = &mut self.columns[at];
            column.seconds += seconds;
            column.times.push((load_seconds + seconds) as f32);
        }
        match self.columns.len().saturating_mul(self.requests as usize) > MOST_TIMES {
            true => Err(WorthTooLarge),
            false => Ok(()),
        }
    }

    /// Seconds of all requests, without a cache, then unlimited, then by capacity.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.columns.iter().map(|column| column.seconds)
    }

    /// The times of a column that these thousandths of its requests do not exceed: the smallest such, in seconds.
    pub fn quantiles<const N: usize>(&self, column: usize, per_mille: [u64; N]) -> [f64; N] {
        let mut times = self.columns.get(column).map(|column| column.times.clone()).unwrap_or_default();
        times.sort_by(f32::total_cmp);
        per_mille.map(|share| {
            let rank = (share * times.len() as u64).div_ceil(1000).max(1) as usize;
            times.get(rank - 1).copied().map_or(0.0, f64::from)
        })
    }
}
