//! The hit-rate curve: how many accesses each configured capacity would have served.

use crate::sizing::figures::CapacityPoint;
pub use crate::sizing::prompts::{PromptTokens, share};
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};

/// The capacities of one pool, in pages, ascending, and which of them can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve {
    /// As they are labelled, and in pages.
    points: Vec<(Option<String>, PageCount)>,
    thresholds: Vec<u64>,
    /// Each threshold was modelled on its own and has its own count; else a page is counted at the smallest one that
    /// serves it, for larger ones serve it too.
    is_pointwise: bool,
    sample_rate: Ratio,
    page_bytes: Option<PageBytes>,
}

/// What the hits of a curve are shares of, in followed pages and in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accesses {
    /// All prompt pages accessed.
    pub all: u64,
    /// Those of the reusable prefixes: hits with unlimited capacity.
    pub reusable: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
}

impl Default for Curve {
    /// A curve without capacities.
    fn default() -> Self {
        Self::new(&[], None, PageCount(0), Ratio::ONE)
    }
}

impl Curve {
    /// Places the capacities among followed pages: at sample rate `p`, a cache that keeps `C` pages filled
    /// holds what `floor(C * p)` followed pages can tell. Capacities beyond `bound` followed pages cannot be known.
    ///
    /// A capacity in bytes has no place where a page's bytes are unknown, and is left out; the pool's
    /// configuration check refuses that combination.
    pub fn new(
        specs: &[CapacitySpec],
        page_bytes: Option<PageBytes>,
        bound: PageCount,
        sample_rate: Ratio,
    ) -> Self {
        let place = |spec: &CapacitySpec| spec.pages(page_bytes).map(|pages| (spec.label.clone(), pages));
        let mut points: Vec<_> = specs.iter().filter_map(place).collect();
        points.sort_by_key(|(_, pages)| *pages);
        let followed = points.iter().map(|(_, pages)| sample_rate.share_of(pages.0));
        let thresholds = followed.take_while(|pages| *pages <= bound.0).collect();
        Self { points, thresholds, is_pointwise: false, sample_rate, page_bytes }
    }

    /// The same capacities, each modelled on its own or not.
    pub fn modelled_pointwise(self, is_pointwise: bool) -> Self {
        Self { is_pointwise, ..self }
    }

    /// The capacities that can be known, in followed pages, ascending; those beyond the bound are the
    /// points that have none.
    pub fn thresholds(&self) -> &[u64] {
        &self.thresholds
    }

    /// The capacities in pages, ascending, those beyond the bound too.
    pub fn capacities(&self) -> impl Iterator<Item = PageCount> + '_ {
        self.points.iter().map(|(_, pages)| *pages)
    }

    /// Number of capacities, those beyond the bound too.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is no capacity.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The first `told` capacities of the curve over a window. `hits[i]` counts followed pages that are hits at
    /// threshold `i` and, unless the curve is pointwise, at no smaller one; those behind its end count none.
    pub fn points(&self, hits: &[u64], accesses: Accesses, told: usize) -> Vec<CapacityPoint> {
        let mut total = 0;
        let cumulated = hits.iter().chain(std::iter::repeat(&0)).map(|hits| {
            total = if self.is_pointwise { *hits } else { total + hits };
            Some(total)
        });
        let beyond = std::iter::repeat(None);
        let served = cumulated.take(self.thresholds.len()).chain(beyond);
        self.points
            .iter()
            .take(told)
            .zip(served)
            .map(|(point, hits)| self.point(point, hits, accesses))
            .collect()
    }

    /// How many of the capacities there is something to say about: up to the first that holds `distinct` pages and
    /// finds all that larger ones find.
    pub fn telling_points(&self, hits: &[u64], distinct: PageCount) -> usize {
        let rising = match self.is_pointwise {
            false => hits.iter().rposition(|hits| *hits > 0).map_or(0, |last| last + 1),
            true => self.points.len(),
        };
        let holding = self.points.partition_point(|(_, pages)| *pages < distinct) + 1;
        holding.max(rising).min(self.points.len())
    }

    fn point(
        &self,
        (label, pages): &(Option<String>, PageCount),
        hits: Option<u64>,
        accesses: Accesses,
    ) -> CapacityPoint {
        // Needs never decrease along a prefix, so page hits and prefix hits are the same pages.
        let scaled = hits.map(|hits| self.sample_rate.whole_of(hits));
        let rate = hits.map(|hits| share(hits, accesses.all));
        CapacityPoint {
            label: label.clone(),
            pages: pages.0,
            bytes: self.page_bytes.map(|page| pages.bytes(page).0),
            page_hits: scaled,
            prefix_hits: scaled,
            page_hit_rate: rate,
            // A cache that forgets can, now and then, keep what one that does not would not have.
            reuse_hit_rate: hits.map(|hits| share(hits, accesses.reusable).min(1.0)),
            prefix_hit_rate: rate,
            hit_rate_tokens: scaled.map(|hits| accesses.prompts.hit_rate(hits)),
            relative_prefill_throughput: hits.and_then(|hits| prefill_throughput(hits, accesses.all)),
            beyond_bound: hits.is_none(),
            optimal_page_hits: None,
            eviction_age_ms: None,
        }
    }
}

/// `1/(1-r)` at the hit rate `r = hits/accesses` (paper, equation 1); `None` at `r = 1`.
pub fn prefill_throughput(hits: u64, accesses: u64) -> Option<f64> {
    match (hits, accesses.saturating_sub(hits)) {
        (0, _) => Some(1.0),
        (_, 0) => None,
        (_, computed) => Some(accesses as f64 / computed as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PageSize;

    fn specs(texts: &[&str]) -> Vec<CapacitySpec> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    fn accesses(all: u64, reusable: u64) -> Accesses {
        let prompts = PromptTokens::of(all, 3, PageSize::new(4).expect("not zero"));
        Accesses { all, reusable, prompts }
    }

    #[test]
    fn capacities_are_sorted_by_pages_whatever_their_units() {
        let curve = Curve::new(
            &specs(&["1KiB", "3p", "5p", "9p", "100B"]),
            Some(PageBytes(256)),
            PageCount(5),
            Ratio::ONE,
        );
        assert_eq!(curve.thresholds(), [0, 3, 4, 5]);
        let points = curve.points(&[0, 2, 1, 0], accesses(8, 4), 9);
        let labels: Vec<_> = points.iter().map(|point| point.label.as_deref().unwrap_or("")).collect();
        assert_eq!(labels, ["100B", "3p", "1KiB", "5p", "9p"]);
        let hits: Vec<_> = points.iter().map(|point| point.page_hits).collect();
        assert_eq!(hits, [Some(0), Some(2), Some(3), Some(3), None]);
        assert_eq!((points[2].page_hit_rate, points[2].reuse_hit_rate), (Some(0.375), Some(0.75)));
        assert_eq!(points[2].relative_prefill_throughput, Some(1.6));
        assert!(points[4].beyond_bound && points[4].prefix_hit_rate.is_none());
        assert_eq!(points[4].bytes, Some(9 * 256));
    }

    #[test]
    fn a_sampled_curve_counts_in_whole_pages() {
        let rate = "0.1".parse().expect("a share");
        let curve = Curve::new(&specs(&["100p", "109p", "110p", "500p"]), None, PageCount(20), rate);
        assert_eq!(curve.thresholds(), [10, 10, 11]);
        let points = curve.points(&[7, 0, 1], accesses(16, 16), 9);
        assert_eq!(points[0].page_hits, Some(70));
        assert_eq!(points[1].page_hits, Some(70));
        assert_eq!((points[2].page_hits, points[2].page_hit_rate), (Some(80), Some(0.5)));
        assert!(points[3].beyond_bound);
    }

    #[test]
    fn a_pointwise_curve_may_fall() {
        let curve = Curve::new(&specs(&["1p", "2p", "9p"]), None, PageCount(5), Ratio::ONE);
        let points = curve.modelled_pointwise(true).points(&[3, 1], accesses(4, 4), 9);
        let hits: Vec<_> = points.iter().map(|point| point.page_hits).collect();
        assert_eq!(hits, [Some(3), Some(1), None]);
    }

    #[test]
    fn a_curve_is_told_up_to_where_everything_is_held_and_found() {
        let grid = ["1p", "2p", "4p", "8p", "16p"];
        let curve = Curve::new(&specs(&grid), None, PageCount(9), Ratio::ONE);
        let told = |hits: &[u64], distinct| curve.telling_points(hits, PageCount(distinct));
        assert_eq!((told(&[], 0), told(&[], 1), told(&[0, 0], 3), told(&[5, 0], 4)), (1, 1, 3, 3));
        assert_eq!(told(&[0, 0, 0, 2], 4), 4, "an engine that needs a page more to find all");
        assert_eq!((told(&[1], 16), told(&[1], 99)), (5, 5), "beyond the bound too, and no further");
        assert_eq!(curve.modelled_pointwise(true).telling_points(&[], PageCount(1)), 5, "each its own");
    }

    #[test]
    fn bytes_have_no_place_without_the_bytes_of_a_page() {
        let curve = Curve::new(&specs(&["1GiB", "2p"]), None, PageCount(9), Ratio::ONE);
        assert_eq!(curve.thresholds(), [2]);
    }

    #[test]
    fn throughput_has_no_number_where_everything_hits() {
        assert_eq!(prefill_throughput(5, 5), None);
        assert_eq!(prefill_throughput(0, 0), Some(1.0));
        assert_eq!(prefill_throughput(3, 4), Some(4.0));
    }
}
