//! The jackknife: the log replayed without each tenth of its families.

use super::{FamilyLog, requirements_only};
use crate::replay::{ReplayError, ReplayOptions, parallel};
use kvset_core::estimate::Estimate;
use kvset_core::families::certainty::{Certainty, FigureStanding, GROUPS, Interval, group, standard_error};
use kvset_core::request::outcome::{BEYOND, Need};
use kvset_core::sizing::recommendation::{Recommendation, by_target};

/// Sizes by target ratio and coverage.
pub(super) type Sizes = Vec<Vec<Option<u64>>>;

/// What an estimate requires.
pub(super) fn required(estimate: &Estimate) -> Sizes {
    let of_target = |required: &kvset_core::estimate::RequiredCapacity| {
        required.coverage.iter().map(|found| found.pages).collect()
    };
    estimate.required.iter().map(of_target).collect()
}

/// What it recommends.
pub(super) fn recommended(estimate: &Estimate) -> Sizes {
    let of_target = |entries: &[Recommendation]| entries.iter().map(Recommendation::so_far).collect();
    by_target(&estimate.recommended).map(of_target).collect()
}

/// One size of several.
pub(super) fn size_at(sizes: &Sizes, target: usize, at: usize) -> Option<u64> {
    sizes.get(target)?.get(at).copied().flatten()
}

/// How certain the figures of a log are, as far as it has what that takes. At most eleven replays.
///
/// # Errors
/// [`ReplayError`] of a replay.
pub fn certainty(log: &FamilyLog, options: &ReplayOptions) -> Result<Certainty, ReplayError> {
    let mut found = log.unreplayed();
    let stripped = requirements_only(options);
    let groups: Vec<Option<u64>> = match found.status.is_usable() {
        true => std::iter::once(None).chain((0..GROUPS).map(Some)).collect(),
        false => vec![None],
    };
    let replayed = parallel::map(options.threads, &groups, |left_out| replayed(log, &stripped, *left_out));
    let mut replayed = replayed.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let Some(own) = replayed.next() else { return Ok(found) };
    let without: Vec<GroupFigures> = replayed.collect();
    let intervals = |of: &dyn Fn(&GroupFigures) -> &Sizes| -> Vec<Vec<Interval>> {
        let entry = |target: usize, at: usize| {
            let sizes: Vec<_> = without.iter().map(|found| size_at(of(found), target, at)).collect();
            let above = own.above.get(target).and_then(|above| above.get(at)).copied().unwrap_or(0);
            let interval = Interval {
                low: None,
                high: None,
                standard_error: standard_error(&sizes),
                conversations_above: above,
                standing: FigureStanding::of(above, found.status),
            };
            interval.around(size_at(of(&own), target, at))
        };
        let target = |(target, sizes): (usize, &Vec<Option<u64>>)| {
            (0..sizes.len()).map(|at| entry(target, at)).collect()
        };
        of(&own).iter().enumerate().map(target).collect()
    };
    (found.required, found.recommended) =
        (intervals(&|found| &found.required), intervals(&|found| &found.recommended));
    Ok(found)
}

/// What a replay comes to.
#[derive(Default)]
struct GroupFigures {
    required: Sizes,
    recommended: Sizes,
    /// Families above each requirement; of the whole log only.
    above: Vec<Vec<u64>>,
}

/// The log without one group, or the whole of it.
fn replayed(
    log: &FamilyLog,
    options: &ReplayOptions,
    left_out: Option<u64>,
) -> Result<GroupFigures, ReplayError> {
    let rows = log.part(|key| Some(group(key)) != left_out);
    let ratios = options.pool.cache.measured_ratios();
    // By target ratio, the most that a request of each family needs.
    let mut most: Vec<Vec<Need>> = vec![vec![0; log.families().count()]; ratios.len()];
    let mut note = |at: &super::Occurrence, feed: &super::LogFeed| {
        let Some((outcome, _)) = feed.pool().and_then(|pool| pool.last_request()) else { return };
        let (family, reusable) = (log.families().of_request(at.request as usize), outcome.reusable_prefix());
        for (most, ratio) in most.iter_mut().zip(ratios) {
            most[family] = most[family].max(outcome.need_of_prefix(ratio.ceil_of(reusable)));
        }
    };
    let feed = match left_out {
        None => log.feed(options, &rows, &mut note)?,
        Some(_) => log.feed(options, &rows, &mut |_, _| {})?,
    };
    let Some(estimate) = feed.estimate() else { return Ok(GroupFigures::default()) };
    let (required, recommended) = (required(&estimate), recommended(&estimate));
    let cache = &options.pool.cache;
    let is_above = |need: Need, pages: u64| need == BEYOND || cache.nominal_pages(need) > pages;
    let above = |(most, sizes): (&Vec<Need>, &Vec<Option<u64>>)| {
        let of = |pages: &Option<u64>| {
            pages.map_or(0, |pages| most.iter().filter(|need| is_above(**need, pages)).count() as u64)
        };
        sizes.iter().map(of).collect()
    };
    let above = most.iter().zip(&required).map(above).collect();
    Ok(GroupFigures { required, recommended, above })
}
