//! What a cache is worth, as it is reported.

use super::tally::WorthTally;
use crate::questions::costs::{PrefillRate, Prices};
use crate::units::ratio::{Ratio, percentile};
use serde::{Deserialize, Serialize};

/// A GiB.
const GIB: f64 = (1_u64 << 30) as f64;

const SECONDS_AN_HOUR: f64 = 3600.0;

const MS_A_DAY: f64 = 86_400_000.0;

/// A tier below the cache, at every capacity of that.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierWorth {
    /// The tier, as it was written.
    pub tier: String,
    /// How large it is, where that is known in bytes.
    pub bytes: Option<u64>,
    /// Bytes loaded from it in a second. Without it loading is counted as taking no time.
    pub bandwidth: Option<u64>,
    /// Of a GiB of it for an hour. Without it the tier is counted as free.
    pub gib_hour: Option<f64>,
}

impl TierWorth {
    /// What these cost a day, as far as their prices are known.
    pub fn memory_a_day(tiers: &[Self]) -> f64 {
        tiers.iter().filter_map(|tier| Some(Prices::memory_a_day(tier.bytes?, tier.gib_hour?))).sum()
    }
}

/// Time to the first token, without queueing: to load what tiers below have, and to compute what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeToFirstToken {
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// Of a hundred requests 95 are not slower.
    pub p95_ms: f64,
    /// Of a hundred requests 99 are not slower.
    pub p99_ms: f64,
}

/// One size of the cache. Figures a day are absent where the requests span no time, money without its price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorthAt {
    /// The size; absent of unlimited capacity.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Prefill of all requests.
    pub accelerator_hours: f64,
    /// The same a day.
    pub accelerator_hours_a_day: Option<f64>,
    /// What that costs a day.
    pub money_a_day: Option<f64>,
    /// What is saved a day, compared with no cache.
    pub saved_a_day: Option<f64>,
    /// What the cache itself costs a day, tiers below included.
    pub memory_a_day: Option<f64>,
    /// What a GiB of the step from the next smaller size earns a day.
    pub step_earns_a_gib_day: Option<f64>,
    /// What a GiB of the step to the next larger size would earn a day.
    pub next_step_earns_a_gib_day: Option<f64>,
    /// Time to the first token.
    pub time_to_first_token: TimeToFirstToken,
}

/// What a cache is worth that covers a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoverageWorth {
    /// The share of the requests, as the name of a percentile (`p99`).
    #[serde(with = "percentile")]
    pub coverage: Ratio,
    /// The smallest size counted at that is as large as what is recommended for it; absent where none is.
    pub worth: Option<WorthAt>,
}

/// What a cache is worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorthEstimate {
    /// Tokens that a worker computes a second, as given.
    pub prefill_rate: String,
    /// Prices, as given.
    pub prices: Prices,
    /// Days from the first to the last request.
    pub days: f64,
    /// Without a cache.
    pub without_cache: WorthAt,
    /// With one that evicts nothing.
    pub unlimited: WorthAt,
    /// At each capacity of the curve within the tracked bound, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<WorthAt>,
    /// At what is provisioned; absent where that is not known, or not counted at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<WorthAt>,
    /// The smallest of these that is as large as what is recommended.
    pub recommended: Option<WorthAt>,
    /// The same for each coverage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverages: Vec<CoverageWorth>,
    /// That of these which saves the most beyond its own price: the next step costs more than it earns.
    pub best: Option<WorthAt>,
}

/// What turns a tally into an estimate.
#[derive(Debug, Clone, Copy)]
pub struct WorthBasis<'a> {
    /// The rate that the tally was made at.
    pub rate: &'a PrefillRate,
    /// What is paid.
    pub prices: Prices,
    /// What tiers below the cache cost a day.
    pub below_a_day: f64,
    /// Whether the first size counted at is what is provisioned, ahead of those of the curve.
    pub has_own_column: bool,
    /// What is provisioned, in pages and bytes.
    pub provisioned: Option<(u64, Option<u64>)>,
    /// The capacities of the curve that were counted at, ascending, in pages and bytes.
    pub sizes: &'a [(u64, Option<u64>)],
    /// What is recommended, in pages.
    pub recommended: Option<u64>,
    /// What is recommended for each coverage, in pages.
    pub coverages: &'a [(Ratio, Option<u64>)],
}

/// Column of the tally without a cache, and of unlimited capacity.
const WITHOUT_CACHE: usize = 0;
const UNLIMITED: usize = 1;

impl WorthBasis<'_> {
    /// What the tally comes to; `None` of no requests.
    pub fn estimate(&self, tally: &WorthTally) -> Option<WorthEstimate> {
        if tally.requests() == 0 {
            return None;
        }
        let columns = self.columns(tally);
        let own = usize::from(self.has_own_column);
        let mut without_cache = *columns.get(WITHOUT_CACHE)?;
        without_cache.memory_a_day = self.prices.gib_hour.map(|_| 0.0);
        let mut capacities: Vec<WorthAt> = columns.iter().skip(2 + own).copied().collect();
        let sizes = capacities.clone();
        capacities.iter_mut().for_each(|point| fill_steps(&sizes, point));
        fill_steps(&sizes, &mut without_cache);
        let mut provisioned = capacities
            .iter()
            .find(|point| self.provisioned.is_some_and(|(pages, _)| point.pages == Some(pages)))
            .copied();
        if provisioned.is_none() && self.provisioned.is_some() && self.has_own_column {
            provisioned = columns.get(2).copied();
            provisioned.iter_mut().for_each(|point| fill_steps(&sizes, point));
        }
        let enough = |pages: Option<u64>| {
            let pages = pages?;
            capacities.iter().find(|point| point.pages.is_some_and(|own| own >= pages)).copied()
        };
        let covering = |(coverage, pages): &(Ratio, Option<u64>)| CoverageWorth {
            coverage: *coverage,
            worth: enough(*pages),
        };
        Some(WorthEstimate {
            prefill_rate: self.rate.to_string(),
            prices: self.prices,
            days: days(tally),
            without_cache,
            unlimited: *columns.get(UNLIMITED)?,
            provisioned,
            recommended: enough(self.recommended),
            coverages: self.coverages.iter().map(covering).collect(),
            best: best(&capacities),
            capacities,
        })
    }

    /// One entry a column, without what its neighbours say of it.
    fn columns(&self, tally: &WorthTally) -> Vec<WorthAt> {
        let own = self.has_own_column.then_some(self.provisioned);
        let curve = self.sizes.iter().map(|size| Some(*size));
        let sizes = [Some((0, Some(0))), None].into_iter().chain(own).chain(curve);
        let shares = [500, 950, 990].map(Ratio::per_mille);
        let columns = tally.seconds().zip(tally.quantiles(&shares));
        let mut without: Option<f64> = None;
        let mut at = |size: Option<(u64, Option<u64>)>, seconds: f64, quantiles: &[f64]| {
            let hours = seconds / SECONDS_AN_HOUR;
            let hours_a_day = Some(days(tally)).filter(|days| *days > 0.0).map(|days| hours / days);
            let money = hours_a_day.zip(self.prices.accelerator_hour).map(|(hours, price)| hours * price);
            without = without.or(money);
            let bytes = size.and_then(|(_, bytes)| bytes);
            let memory = bytes.zip(self.prices.gib_hour);
            let ms = |at: usize| quantiles.get(at).copied().unwrap_or(0.0);
            WorthAt {
                pages: size.map(|(pages, _)| pages),
                bytes,
                accelerator_hours: hours,
                accelerator_hours_a_day: hours_a_day,
                money_a_day: money,
                saved_a_day: without.zip(money).map(|(without, with)| without - with),
                memory_a_day: memory
                    .map(|(bytes, price)| Prices::memory_a_day(bytes, price) + self.below_a_day),
                step_earns_a_gib_day: None,
                next_step_earns_a_gib_day: None,
                time_to_first_token: TimeToFirstToken { p50_ms: ms(0), p95_ms: ms(1), p99_ms: ms(2) },
            }
        };
        sizes.zip(columns).map(|(size, (seconds, quantiles))| at(size, seconds, &quantiles)).collect()
    }
}

/// Days from the first to the last request.
fn days(tally: &WorthTally) -> f64 {
    tally.span_ms() as f64 / MS_A_DAY
}

/// Fills in the steps to and from a size, which need not be one of these.
fn fill_steps(sizes: &[WorthAt], point: &mut WorthAt) {
    let smaller = sizes.partition_point(|size| size.pages < point.pages);
    let larger = sizes.partition_point(|size| size.pages <= point.pages);
    let nothing = (0.0, 0);
    let before = smaller.checked_sub(1).map_or(Some(nothing), |at| saved_and_bytes(&sizes[at]));
    let own = saved_and_bytes(point);
    let next = sizes.get(larger).and_then(saved_and_bytes);
    let earns = |from: Option<(f64, u64)>, to: Option<(f64, u64)>| {
        let ((less, from), (more, to)) = (from?, to?);
        let gib = to.saturating_sub(from) as f64 / GIB;
        (gib > 0.0).then(|| (more - less) / gib)
    };
    point.step_earns_a_gib_day = earns(before, own);
    point.next_step_earns_a_gib_day = earns(own, next);
}

fn saved_and_bytes(point: &WorthAt) -> Option<(f64, u64)> {
    point.saved_a_day.zip(point.bytes)
}

/// The first size that saves the most beyond its own price, where one saves more than it costs.
fn best(capacities: &[WorthAt]) -> Option<WorthAt> {
    let mut best: Option<(f64, WorthAt)> = None;
    for point in capacities {
        let net = point.saved_a_day.zip(point.memory_a_day).map(|(saved, costs)| saved - costs);
        if let Some(net) = net.filter(|net| *net > 0.0 && best.is_none_or(|(most, _)| *net > most)) {
            best = Some((net, *point));
        }
    }
    best.map(|(_, point)| point)
}
