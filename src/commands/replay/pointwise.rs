//! What is reported of engines that are modelled a capacity at a time: the ceiling of their rules, and capacities that
//! were searched.

use super::output::ReplayResult;
use crate::present::terminal::{Column, Sheet, Terminal, capacity, percent, share_name, thousands};
use crate::replay::{BelowHits, SearchResult, SearchedCapacity};
use kvset_core::estimate::curve::share;
use kvset_core::units::ratio::Ratio;

impl ReplayResult {
    /// What the rules lose at any size, and what was searched.
    pub(super) fn pointwise(&self, terminal: &Terminal) -> String {
        let mut text = String::new();
        if let Some(ceiling) = &self.ceiling {
            let dense = ceiling.dense_retention_hit_rate.map(percent);
            let dense = dense.map(|rate| format!(" with dense retention       {rate}\n")).unwrap_or_default();
            text.push_str(&format!(
                "\nhit rate with unlimited capacity\n by these rules             {}\n{dense} if every layer were full   {}\n",
                percent(ceiling.these_rules_hit_rate),
                percent(ceiling.full_attention_hit_rate)
            ));
        }
        text.push_str(&self.tiers_below(terminal));
        self.searched.iter().for_each(|searched| text.push_str(&self.search_tables(searched, terminal)));
        text
    }

    /// Hit rates by tier, one row a capacity of the engine.
    fn tiers_below(&self, terminal: &Terminal) -> String {
        let Some(first) = self.capacities.first().filter(|point| !point.below.is_empty()) else {
            return String::new();
        };
        let mut columns = vec![Column::Text("capacity"), Column::Number(self.trace.engine.name())];
        columns.extend(first.below.iter().map(|tier| Column::Number(&tier.tier)));
        columns.push(Column::Number("together"));
        let mut sheet = Sheet::new(&columns);
        for result in self.capacities.iter().filter(|result| !result.below.is_empty()) {
            let own = result.point.prefix_hits.unwrap_or(0);
            let below = result.below.iter().map(|tier| tier.page_hits);
            let together = own + below.clone().sum::<u64>();
            let rates = std::iter::once(own).chain(below).chain([together]);
            let rates = rates.map(|hits| percent(share(hits, self.trace.page_accesses)));
            sheet.row(std::iter::once(result.point.label.clone().unwrap_or_default()).chain(rates));
        }
        format!(
            "\nhit rate by tier, of each what it held and no tier before it\n{}\nread from each tier and written to it\n{}",
            sheet.render(terminal),
            self.tier_traffic(&first.below).render(terminal)
        )
    }

    /// What is read from each of the `tiers` and written to it, one row a capacity of the engine.
    fn tier_traffic(&self, tiers: &[BelowHits]) -> Sheet {
        let names: Vec<_> = tiers.iter().flat_map(|below| below.traffic().map(|(name, _)| name)).collect();
        let mut columns = vec![Column::Text("capacity")];
        columns.extend(names.iter().map(|name| Column::Number(name)));
        let mut sheet = Sheet::new(&columns);
        for result in self.capacities.iter().filter(|result| !result.below.is_empty()) {
            let pages = result.below.iter().flat_map(BelowHits::traffic).map(|(_, pages)| pages);
            let sizes = pages.map(|pages| capacity(pages, self.trace.page_bytes));
            sheet.row(std::iter::once(result.point.label.clone().unwrap_or_default()).chain(sizes));
        }
        sheet
    }

    /// One table a target ratio.
    fn search_tables(&self, searched: &SearchResult, terminal: &Terminal) -> String {
        let mut targets: Vec<Ratio> = searched.required.iter().map(|entry| entry.target_ratio).collect();
        targets.dedup();
        let tables = targets.iter().map(|target| {
            let columns = [Column::Text("coverage"), Column::Number("enough"), Column::Number("too small")];
            let mut sheet = Sheet::new(&columns);
            for entry in searched.required.iter().filter(|entry| entry.target_ratio == *target) {
                sheet.row(self.search_row(entry));
            }
            format!(
                "\nrequired capacity by search, at target ratio {target}: the smallest of {} capacities tried, and the next \
                 smaller one\n{}",
                thousands(searched.tried),
                sheet.render(terminal)
            )
        });
        let text: String = tables.collect();
        let lost = searched.required.iter().filter_map(|entry| entry.too_small_although_larger_pages).max();
        match lost {
            None => text,
            Some(pages) => {
                let size = capacity(pages, self.trace.page_bytes);
                let note = format!(
                    "More memory lost hits: {size} was not enough where a smaller capacity was. What lies between two \
                     capacities tried is not known."
                );
                format!("{text}{}", terminal.paragraph(&note))
            }
        }
    }

    fn search_row(&self, entry: &SearchedCapacity) -> [String; 3] {
        let size = |pages: u64| capacity(pages, self.trace.page_bytes);
        let enough = entry.pages.map_or_else(|| "beyond bound".to_owned(), size);
        [share_name(entry.coverage), enough, entry.too_small_pages.map_or_else(|| "-".to_owned(), size)]
    }
}
