//! The latest estimate of each pool and window as a table, with the history of its requirement.

use super::{Terminal, sparkline};
use crate::present::document::{Cell, ShownColumns, Table};
use crate::present::pool::{PoolReport, headline};
use crate::present::words;
use crate::present::words::{BY_TOKENS, capacity, integer, rate};
use kvset_core::estimate::{Estimate, Status};
use kvset_core::sizing::recommendation::{Recommendation, RecommendationStatus};
use kvset_core::sizing::tiers::Settled;
use kvset_core::units::PageBytes;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_settings::Provisioned;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// Coverages that are shown.
pub(super) const COVERAGES: [(u16, &str); 3] = [(950, "95 %"), (990, "99 %"), (999, "99.9 %")];
/// The coverage whose history is drawn.
const HISTORY_OF: Ratio = Ratio::per_mille(990);
/// Values of history kept and drawn.
const HISTORY: usize = 24;
/// Most rows kept; a pool beyond that is counted, not shown.
const MAX_ROWS: usize = 1000;

/// Columns that are left out where the terminal is too narrow, the first to go first.
const SPARE: [&str; 13] = [
    BY_TOKENS,
    "99 % so far",
    "accumulated",
    "in flight",
    "unlimited",
    "95 %",
    "99.9 %",
    "tiers",
    "saved per day",
    "behaves like",
    "requests",
    "99 % hits",
    "99 %",
];

/// The newest estimate of each pool and window.
#[derive(Debug, Default)]
pub struct EstimateTable {
    provisioned: Provisioned,
    rows: BTreeMap<(String, WindowKind), EstimateRow>,
    left_out: u64,
}

#[derive(Debug)]
struct EstimateRow {
    latest: Estimate,
    history: VecDeque<Option<f64>>,
}

impl EstimateTable {
    /// A table that compares with what pools hold today.
    pub fn comparing_with(provisioned: Provisioned) -> Self {
        Self { provisioned, ..Self::default() }
    }

    /// Takes an estimate in; the newest of a pool and window is shown.
    pub fn observe(&mut self, estimate: Estimate) {
        let key = (estimate.pool.clone(), estimate.window);
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let required = recommended_at(&estimate, HISTORY_OF).and_then(Recommendation::so_far);
        let row = self.rows.entry(key).or_insert_with(|| EstimateRow {
            latest: estimate.clone(),
            history: VecDeque::with_capacity(HISTORY),
        });
        if row.history.len() == HISTORY {
            row.history.pop_front();
        }
        row.history.push_back(required.map(|pages| pages as f64));
        row.latest = estimate;
    }

    /// Whether nothing was taken in.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, pools in the order of their names.
    pub fn render(&self, terminal: &Terminal) -> String {
        let any = |is_so: fn(&Estimate) -> bool| self.rows.values().any(|row| is_so(&row.latest));
        let compared = self.rows.keys().any(|(pool, _)| self.provisioned.of(pool).is_some());
        let [low, mid, high] = COVERAGES;
        let of_99 = |row: &EstimateRow, of: fn(&Recommendation) -> Option<f64>| {
            Cell::known(recommended_at(&row.latest, HISTORY_OF).and_then(of), Cell::Rate)
        };
        let columns: ShownColumns<'_, EstimateRow> = &[
            (true, "pool", &|row| row.latest.pool.clone().into()),
            (true, "window", &|row| window(&row.latest).into()),
            (compared, "needed of provisioned", &|row| Cell::known(self.comparison(&row.latest), Cell::Text)),
            (true, "requests", &|row| Cell::Count(row.latest.requests)),
            (true, low.1, &|row| row.needed(low.0)),
            (true, mid.1, &|row| row.needed(mid.0)),
            (true, high.1, &|row| row.needed(high.0)),
            (true, "in flight", &EstimateRow::in_flight),
            (true, "accumulated", &|row| row.size(row.latest.accumulated_pages)),
            (true, "99 % hits", &|row| of_99(row, |found| found.hit_rate)),
            (true, BY_TOKENS, &|row| of_99(row, |found| found.hit_rate_tokens)),
            (true, "unlimited", &|row| Cell::Rate(row.latest.theoretical.prefix_hit_rate)),
            (true, BY_TOKENS, &|row| Cell::known(row.latest.theoretical.hit_rate_tokens, Cell::Rate)),
            (true, "99 % so far", &|row| sparkline(&Vec::from(row.history.clone()), HISTORY).into()),
            (any(|latest| latest.plan.is_some()), "tiers", &|row| {
                Cell::known(recommended(&row.latest), Cell::Text)
            }),
            (any(|latest| latest.measured.is_some()), "behaves like", &|row| {
                Cell::known(behaves_like(&row.latest), Cell::Text)
            }),
            (any(|latest| saved_a_day(latest).is_some()), "saved per day", &|row| {
                Cell::known(saved_a_day(&row.latest), Cell::Figure)
            }),
        ];
        let table = Table::of_shown("The latest estimates", self.rows.values(), columns).spare(&SPARE);
        let mut text = super::table(&table, terminal);
        if self.rows.values().any(|row| still_moving(&row.latest)) {
            text += &terminal.paragraph("* not converged: the requirement still moves from step to step");
        }
        if self.rows.values().any(|row| has_too_few(&row.latest)) {
            text += &terminal.paragraph("( ) required so far, by too few requests to recommend it");
        }
        for ((pool, window), row) in self.rows.iter().filter(|(_, row)| row.latest.late_records > 0) {
            text += &terminal.paragraph(&format!(
                "! {} records of {pool} came too late for {window} since the start: raise estimate.max_lateness, or mend \
                 the clock of whoever is ahead",
                integer(row.latest.late_records)
            ));
        }
        if self.left_out > 0 {
            text.push_str(&format!("{} estimates of further pools are not shown\n", integer(self.left_out)));
        }
        text
    }

    /// `29.2 GiB of 500 GiB`, and whether that is enough; `None` where one of them is not known.
    fn comparison(&self, estimate: &Estimate) -> Option<String> {
        let page_bytes = estimate.page_bytes;
        let held = self.provisioned.of(&estimate.pool)?.pages(page_bytes.map(PageBytes))?;
        let needed = estimate.recommendation()?.to_hold()?;
        let verdict = if needed > held.0 { "too small" } else { "enough" };
        Some(format!("{} of {}, {verdict}", capacity(needed, page_bytes), capacity(held.0, page_bytes)))
    }
}

/// What the provisioned cache saves a day, else the recommended one: in money, or in accelerator-hours where no price
/// is known.
fn saved_a_day(estimate: &Estimate) -> Option<String> {
    let worth = estimate.worth.as_ref()?;
    let at = worth.provisioned.or(worth.recommended)?;
    let hours =
        || Some(words::hours(worth.without_cache.accelerator_hours_a_day? - at.accelerator_hours_a_day?));
    at.saved_a_day.map(words::money).or_else(|| Some(format!("{} h", hours()?)))
}

/// The answer of an estimate in words, against what its pool holds today.
pub fn answer_in_words(estimate: &Estimate, provisioned: &Provisioned) -> String {
    let held = provisioned.of(&estimate.pool).cloned();
    let headline = headline(&PoolReport { provisioned: held, ..PoolReport::of(Cow::Borrowed(estimate)) });
    format!("{}: {}", estimate.pool, headline.opening().collect::<Vec<_>>().join(" "))
}

/// The capacity that the cache in use behaves like, of each replica, with the share of requests that agree: `12.1 GiB
/// (99.2 %)`; `None` where no request tells it.
fn behaves_like(estimate: &Estimate) -> Option<String> {
    let effective = estimate.measured.as_ref()?.effective_capacity?;
    let size = capacity(effective.pages_from, estimate.page_bytes);
    Some(format!("{size} ({})", rate(effective.agreement)))
}

/// The recommended size of each tier in one line; `None` where no tiers are configured.
pub fn recommended(estimate: &Estimate) -> Option<String> {
    let tiers = estimate.plan.as_ref()?.tiers.iter().map(|tier| {
        let have = &tier.recommended;
        let size = match (have.bytes, have.pages) {
            (Some(in_bytes), _) => capacity(in_bytes, Some(1)),
            (None, Some(pages)) => capacity(pages, None),
            (None, None) => Cell::Unknown.text(),
        };
        format!("{} {size}", tier.name)
    });
    Some(tiers.collect::<Vec<_>>().join(" + "))
}

/// Marks a requirement that still moves; nothing while too few windows were seen to tell.
fn trend_mark(found: &Recommendation) -> &'static str {
    let moves = found.convergence == Settled::NotConverged && found.growth_per_window.is_some();
    if moves { "*" } else { "" }
}

/// Whether a requirement that is shown carries the mark.
fn still_moving(estimate: &Estimate) -> bool {
    let shown = COVERAGES.iter().filter_map(|(at, _)| recommended_at(estimate, Ratio::per_mille(*at)));
    shown.into_iter().any(|found| !trend_mark(found).is_empty())
}

/// Whether a requirement that is shown is none to act on.
fn has_too_few(estimate: &Estimate) -> bool {
    let shown = COVERAGES.iter().filter_map(|(at, _)| recommended_at(estimate, Ratio::per_mille(*at)));
    shown.into_iter().any(|found| found.status == RecommendationStatus::TooFew)
}

impl EstimateRow {
    fn size(&self, pages: u64) -> Cell {
        Cell::Pages(pages, self.latest.page_bytes)
    }

    /// The capacity recommended at a coverage.
    fn needed(&self, thousandths: u16) -> Cell {
        let found = recommended_at(&self.latest, Ratio::per_mille(thousandths));
        Cell::figure(found, |found| marked(found, self.latest.page_bytes))
    }

    fn in_flight(&self) -> Cell {
        let found = self.latest.in_flight.as_ref();
        Cell::known(found, |found| Cell::within_bound(found.max_pages, |pages| self.size(pages)))
    }
}

/// A recommended capacity, marked where it still moves.
pub(super) fn marked(found: &Recommendation, page_bytes: Option<u64>) -> String {
    Cell::recommended(found, page_bytes).text() + trend_mark(found)
}

/// The window, marked where it is the one to act on, and where it is not the last word.
pub fn window(estimate: &Estimate) -> String {
    let act_on = if estimate.act_on { " (act on)" } else { "" };
    let open = if estimate.status == Status::Provisional { " (open)" } else { "" };
    let cold = if estimate.warm_up { " (warm-up)" } else { "" };
    format!("{}{act_on}{open}{cold}", estimate.window)
}

/// The recommended capacity at a coverage and the first target ratio.
pub fn recommended_at(estimate: &Estimate, at: Ratio) -> Option<&Recommendation> {
    estimate.recommendations().iter().find(|found| found.coverage == at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::engines::config::CacheConfig;
    use kvset_core::estimate::config::PoolConfig;
    use kvset_core::pool::{Arrival, Pool};
    use kvset_core::request::event::{CachedTokens, RequestEvent};
    use kvset_core::units::pages::PageIds;
    use kvset_core::units::{EventTime, Offset, PageSize};

    /// The estimates of a pool that saw the same three pages a few times.
    fn estimates(pool: &str, kv_bytes_per_token: Option<f64>, tiers: &[&str]) -> Vec<Estimate> {
        let tiers = tiers.iter().map(|tier| tier.parse().expect("a tier")).collect();
        estimates_of(
            pool,
            PoolConfig {
                cache: CacheConfig { kv_bytes_per_token, ..CacheConfig::default() },
                tiers,
                ..PoolConfig::default()
            },
        )
    }

    fn estimates_of(pool: &str, config: PoolConfig) -> Vec<Estimate> {
        let page_size = PageSize::new(64);
        let config = PoolConfig {
            cache: CacheConfig { page_size, ..config.cache },
            windows: vec![WindowKind::All],
            min_requests: 1,
            ..config
        };
        let mut pool = Pool::new(pool, 0, std::sync::Arc::new(config)).expect("a pool");
        for offset in 0..4 {
            let event = RequestEvent {
                event_time: EventTime(offset),
                page_ids: PageIds::from_slice(&[1, 2, 3]),
                duration_ms: Some(2),
                output_tokens: Some(3 * 64),
                cached_tokens: CachedTokens::Stated(if offset == 0 { 0 } else { 3 * 64 }),
                ..RequestEvent::default()
            };
            let arrival = Arrival { offset: Offset(offset), counted: true, watermark: None };
            pool.observe(&event, arrival).expect("accepted");
        }
        let mut found = Vec::new();
        pool.finish(Offset(4), &mut found);
        found
    }

    #[test]
    fn the_newest_estimate_of_a_pool_is_shown_with_its_history() {
        let mut table = EstimateTable::default();
        assert!(table.is_empty());
        let first = estimates("b", None, &[]).into_iter().chain(estimates("a", Some(16_384.0), &[]));
        first.chain(estimates("b", None, &[])).for_each(|estimate| table.observe(estimate));
        let text = table.render(&Terminal::default());
        let rows: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(
            rows[0].starts_with("a ") && rows[0].contains("9.00 MiB") && rows[0].ends_with('█'),
            "{text}"
        );
        assert!(rows[1].starts_with("b ") && rows[1].contains(" 9 pages"), "with room: {text}");
        assert!(rows[1].contains(" 6 pages "), "one other request holds its prompt and outputs: {text}");
        assert!(rows[1].contains("75.00 %") && rows[1].ends_with("██"), "{text}");
    }

    #[test]
    fn recommended_sizes_have_a_column_where_tiers_are_planned() {
        let mut table = EstimateTable::default();
        table.observe(estimates("a", None, &[]).remove(0));
        assert!(!table.render(&Terminal::default()).contains("recommended"));
        table.observe(estimates("b", Some(16_384.0), &["hbm:0.9:10MiB", "dram:1:4p"]).remove(0));
        let text = table.render(&Terminal::default());
        let rows: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert!(rows[0].ends_with('–') && rows[1].ends_with("hbm 10.0 MiB + dram 0 B"), "{text}");
    }

    #[test]
    fn the_cache_in_use_has_a_column_where_its_hits_are_compared() {
        let mut table = EstimateTable::default();
        table.observe(estimates("a", None, &[]).remove(0));
        assert!(!table.render(&Terminal::default()).contains("behaves like"));
        let mut config = PoolConfig::default();
        config.questions.measured = true;
        table.observe(estimates_of("b", config).remove(0));
        let text = table.render(&Terminal::default());
        let rows: Vec<_> = text.lines().skip(2).map(str::trim).collect();
        assert!(rows[0].ends_with('–') && rows[1].ends_with("3 pages (100.00 %)"), "{text}");
    }

    #[test]
    fn a_requirement_that_still_moves_is_marked_and_the_mark_explained() {
        let mut table = EstimateTable::default();
        let mut moving = estimates("a", None, &[]).remove(0);
        moving.recommended[3].growth_per_window = Some(0.2);
        table.observe(moving);
        let text = table.render(&Terminal::default());
        assert!(text.contains("9 pages*") && text.contains("* not converged: "), "{text}");
    }

    #[test]
    fn rows_fit_80_columns_with_every_cell_whole_and_needed_against_provisioned() {
        let mut settings = kvset_settings::Settings::default();
        settings.estimate.questions.provisioned = "10MiB".parse().ok();
        let mut table = EstimateTable::comparing_with(settings.provisioned());
        for pool in ["coding/eu", "agents/us-west"] {
            (0..30).for_each(|_| table.observe(estimates(pool, Some(16_384.0), &[]).remove(0)));
        }
        for width in [70, 80, 120] {
            let text = table.render(&Terminal { width: Some(width), colour: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(text.contains("9.00 MiB of 10.0 MiB, enough"), "{text}");
        }
        let all = table.render(&Terminal::default());
        assert!(all.contains("99 % so far") && all.contains("accumulated"), "{all}");
    }

    #[test]
    fn long_names_and_remarks_fit_70_columns() {
        let mut settings = kvset_settings::Settings::default();
        settings.estimate.questions.provisioned = "10MiB".parse().ok();
        let mut table = EstimateTable::comparing_with(settings.provisioned());
        let mut estimate =
            estimates("deepseek-v3/eu/agents and chats of the team", Some(16_384.0), &[]).remove(0);
        (estimate.act_on, estimate.warm_up, estimate.late_records) = (true, true, 12);
        estimate.recommended[3].growth_per_window = Some(0.2);
        table.observe(estimate);
        for width in [70, 80, 100] {
            let text = table.render(&Terminal { width: Some(width), colour: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            let whole = ["deepseek-v3/eu/agents", "enough", "12 records of", "(warm-up)"];
            assert!(whole.iter().all(|part| text.contains(part)), "{text}");
        }
    }

    #[test]
    fn pools_beyond_the_last_row_are_counted() {
        let mut table = EstimateTable::default();
        let one = estimates("", None, &[]).remove(0);
        for number in 0..=MAX_ROWS {
            table.observe(Estimate { pool: format!("{number:05}"), ..one.clone() });
        }
        assert!(
            table.render(&Terminal::default()).ends_with("\n1 estimates of further pools are not shown\n")
        );
    }
}
