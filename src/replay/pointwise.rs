//! What is reported of engines that are modelled a capacity at a time, as the sections of a report: what their rules
//! lose at any size, what tiers below find, and capacities that were searched.

use super::{BelowHits, Ceiling, Replay, SearchResult, SearchedCapacity};
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words;
use kvset_core::estimate::CapacityPoint;
use kvset_core::sizing::curve::share;

/// The sections, in the order shown; none of what was not requested.
pub(super) fn sections(replay: &Replay) -> Vec<Section> {
    let Some(whole) = &replay.whole else { return Vec::new() };
    let units = Units { page_accesses: whole.page_accesses, page_bytes: whole.page_bytes };
    let engine = replay.config.cache.profile.name();
    // A range is a section of the estimate.
    let draft_head = replay.ceiling.filter(|_| whole.draft_range.is_none());
    let draft_head = draft_head.and_then(|found| units.draft_head(found));
    let of_groups = replay.ceiling.filter(|_| !replay.config.cache.rules.attention.is_full());
    let ceiling = of_groups.map(|found| units.ceiling(found));
    let below = units.below(engine, &whole.capacities, &replay.below);
    let searched = replay.searched.as_ref().map(|searched| units.searched(searched));
    [draft_head, ceiling, below, searched].into_iter().flatten().collect()
}

/// What figures are reported in.
struct Units {
    page_accesses: u64,
    page_bytes: Option<u64>,
}

impl Units {
    fn size(&self, pages: u64) -> String {
        words::capacity(pages, self.page_bytes)
    }

    fn rate(&self, page_hits: u64) -> String {
        words::rate(share(page_hits, self.page_accesses))
    }

    fn rate_cell(&self, page_hits: u64) -> Cell {
        Cell::Rate(share(page_hits, self.page_accesses))
    }

    fn size_cell(&self, pages: u64) -> Cell {
        Cell::Pages(pages, self.page_bytes)
    }

    fn draft_head(&self, found: Ceiling) -> Option<Section> {
        let (without, [_, lost]) = (found.without_draft_head?, found.draft_head()?);
        let sentence = format!(
            "No capacity brings back the pages that hits lose to a head that drafts in the same cache: {} of page accesses. \
             With unlimited capacity {} hit, and {} without the head.",
            self.rate(lost),
            self.rate(found.these_rules),
            self.rate(without)
        );
        Some(Section::new("What the draft head costs in hits", [sentence], []))
    }

    fn ceiling(&self, found: Ceiling) -> Section {
        let rows = [
            ("by the rules modelled", Some(found.these_rules)),
            ("with dense retention", found.dense_retention),
            ("if every layer had full attention", Some(found.full_attention)),
        ];
        let mut table = Table::new("Hit rates with unlimited capacity", ["rules", "hit rate"]);
        let rows = rows.into_iter().filter_map(|(rules, hits)| Some((rules, hits?)));
        rows.for_each(|(rules, hits)| table.row([rules.into(), self.rate_cell(hits)]));
        let lost = found.full_attention.saturating_sub(found.these_rules);
        let sentence = match lost {
            0 => "With unlimited capacity the rules of windows and states lose nothing here.".to_owned(),
            _ => format!(
                "No capacity brings back what the rules of windows and states lose: {} of page accesses would hit if every \
                 layer had full attention, and do not.",
                self.rate(lost)
            ),
        };
        Section::new("What the model's layers cost in hits", [sentence], [table])
    }

    /// A row per capacity of the engine; `None` without tiers below.
    fn below(&self, engine: &str, capacities: &[CapacityPoint], below: &[Vec<BelowHits>]) -> Option<Section> {
        let first = below.first().filter(|tiers| !tiers.is_empty())?;
        let names = first.iter().map(|tier| tier.tier.as_str());
        let columns = ["capacity", engine].into_iter().chain(names).chain(["together"]);
        let mut table = Table::new("Hit rates by tier", columns);
        for (point, tiers) in capacities.iter().zip(below) {
            let own = point.prefix_hits.unwrap_or(0);
            let found = tiers.iter().map(|tier| tier.page_hits);
            let together = own + found.clone().sum::<u64>();
            let hits = std::iter::once(own).chain(found).chain([together]);
            let rates = hits.map(|hits| self.rate_cell(hits));
            table.row([Cell::named(point, self.page_bytes)].into_iter().chain(rates));
        }
        let counted = "A tier counts what it held and no tier before it.".to_owned();
        let sentences = [counted].into_iter().chain(first.iter().filter_map(BelowHits::of_groups));
        Some(Section::new("Tiers below", sentences, [table, self.traffic(capacities, below, first)]))
    }

    /// What is read from each of the `tiers` and written to it.
    fn traffic(&self, capacities: &[CapacityPoint], below: &[Vec<BelowHits>], tiers: &[BelowHits]) -> Table {
        let mut table = Table::new("Read from each tier and written to it", ["capacity"]);
        table.columns.extend(tiers.iter().flat_map(BelowHits::traffic).map(|(name, _)| name));
        for (point, tiers) in capacities.iter().zip(below) {
            let pages = tiers.iter().flat_map(BelowHits::traffic).map(|(_, pages)| self.size_cell(pages));
            table.row([Cell::named(point, self.page_bytes)].into_iter().chain(pages));
        }
        table
    }

    fn searched(&self, searched: &SearchResult) -> Section {
        let columns: Columns<'_, SearchedCapacity> = &[
            ("requests covered", &|entry| Cell::Text(words::share(entry.coverage))),
            ("target", &|entry| Cell::Share(entry.target_ratio)),
            ("enough", &|entry| Cell::within_bound(entry.pages, |pages| self.size_cell(pages))),
            ("too small", &|entry| Cell::known(entry.too_small_pages, |pages| self.size_cell(pages))),
        ];
        let tried = words::integer(searched.tried);
        let caption = format!("The smallest of {tried} capacities tried, and the next smaller one");
        let table = Table::of(caption, &searched.required, columns);
        let lost = searched.required.iter().filter_map(|entry| entry.too_small_although_larger_pages).max();
        let lost = lost.map(|pages| {
            let size = self.size(pages);
            format!("More memory lost hits: {size} was not enough where a smaller capacity was.")
        });
        let known = "What lies between two capacities tried is not known.".to_owned();
        Section::new("Required capacity by search", lost.into_iter().chain([known]), [table])
    }
}
