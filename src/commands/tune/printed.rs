//! The result of `kvset tune` for people.

use crate::commands::replicas::{COSTS, cost_cells, replicas_table};
use crate::present::document::{Cell, Table};
use crate::present::pool::times;
use crate::present::questions::draft_range::NOTE;
use crate::present::terminal::{self, Terminal};
use crate::present::words::{capacity, integer, rate, rate_or_dash};
use crate::tune::{Base, ChangeResult, TuneResult};

/// Most changes that are shown in the table.
const MOST_ROWS: usize = 30;

/// The answer in words, then the changes.
pub(super) fn render(result: &TuneResult, terminal: &Terminal) -> String {
    let mut text: String = sentences(result).iter().map(|line| terminal.paragraph(line)).collect();
    let possible: Vec<&ChangeResult> =
        result.changes.iter().filter(|tried| tried.impossible.is_none()).collect();
    if !possible.is_empty() {
        text.push_str(&shown("Single changes, the best first", &possible, terminal));
    }
    let pairs: Vec<&ChangeResult> = result.pairs.iter().collect();
    if !pairs.is_empty() {
        text.push_str(&shown("Pairs that are better than any single change", &pairs, terminal));
    }
    text.push_str(&replicas(result, terminal));
    for tried in &result.changes {
        if let Some(why) = &tried.impossible {
            text.push_str(&terminal.paragraph(&format!("not possible: {}: {why}", tried.change)));
        }
    }
    text
}

/// A replica less, as many as there are, and one more.
fn replicas(result: &TuneResult, terminal: &Terminal) -> String {
    if result.replicas.is_empty() {
        return String::new();
    }
    let page_bytes = result.base.capacity_bytes.map(|bytes| bytes / result.base.capacity_pages.max(1));
    let caption = "Replicas behind the present router, each with the memory that it has";
    let table = replicas_table(caption.to_owned(), &result.replicas, page_bytes);
    format!("\n{}", terminal::captioned(&table, terminal))
}

fn shown(caption: &str, tried: &[&ChangeResult], terminal: &Terminal) -> String {
    let costs = tried.iter().any(|tried| tried.cost.is_some());
    let factors = tried.first().map(|tried| tried.at_traffic.as_slice()).unwrap_or_default();
    let at_traffic: Vec<String> = factors.iter().map(|at| format!("at {} x", at.factor)).collect();
    let columns = ["change", "points"].into_iter().chain(at_traffic.iter().map(String::as_str));
    let columns = columns.chain(["hit pages", "hit tokens", "figures", "memory"]);
    let columns = columns.chain(costs.then_some(COSTS).into_iter().flatten());
    let spare = ["memory", "hit pages", "memory a day", "figures"];
    let mut table = Table::new(caption, columns).spare(&spare);
    for tried in tried.iter().take(MOST_ROWS) {
        let points =
            |points: Option<f64>| Cell::known(points, |points| Cell::Figure(format!("{points:+.2}")));
        let begin = [tried.change.clone().into(), points(tried.points)];
        let begin = begin.into_iter().chain(tried.at_traffic.iter().map(|at| points(at.points)));
        let cells = [
            Cell::known(tried.hit_pages, Cell::Count),
            Cell::known(tried.hit_tokens, Cell::Count),
            exactness(tried).into(),
            if tried.costs_memory { "more" } else { "" }.into(),
        ];
        table.row(begin.chain(cells).chain(costs.then(|| cost_cells(tried.cost)).into_iter().flatten()));
    }
    format!("\n{}", terminal::captioned(&table, terminal))
}

fn exactness(tried: &ChangeResult) -> &'static str {
    match tried.exactness {
        crate::tune::Exactness::Exact => "exact",
        crate::tune::Exactness::Pointwise => "pointwise",
        crate::tune::Exactness::Approximate => "approximate",
    }
}

/// What holds under other traffic: the present configuration, the best change of now, and the best one then.
fn at_traffic(result: &TuneResult, place: usize) -> String {
    let base = &result.base.at_traffic[place];
    let points = |tried: &ChangeResult| tried.at_traffic.get(place)?.points;
    let gains = |points: f64| format!("{points:+.2} points");
    let now = result.changes.first().filter(|best| best.points.is_some_and(|points| points > 0.0));
    let holds = now.and_then(|best| Some(format!(", `{}` {}", best.change, gains(points(best)?))));
    let all = result.changes.iter().filter_map(|tried| Some((tried, points(tried)?)));
    let then = all.reduce(|best, other| if other.1 > best.1 { other } else { best });
    let other =
        then.filter(|(best, points)| *points > 0.0 && now.is_none_or(|now| now.change != best.change));
    let other =
        other.map(|(best, points)| format!("; the best is `{}` then, {}", best.change, gains(points)));
    format!(
        "At {} it finds {} of the tokens{}{}.",
        times(base.factor),
        rate_or_dash(base.hit_rate_tokens),
        holds.unwrap_or_default(),
        other.unwrap_or_default()
    )
}

fn sentences(result: &TuneResult) -> Vec<String> {
    let Base { engine, capacity_pages, hit_rate_tokens, requests, page_size, .. } = &result.base;
    let page_bytes = result.base.capacity_bytes.map(|bytes| bytes / (*capacity_pages).max(1));
    let now = format!(
        "{engine} with {} finds {} of the tokens of {} requests at {page_size} tokens per page.",
        capacity(*capacity_pages, page_bytes),
        rate(*hit_rate_tokens),
        integer(*requests)
    );
    let gains = |tried: &&ChangeResult| tried.points.is_some_and(|points| points > 0.0);
    let free = result.changes.iter().filter(gains).find(|tried| !tried.costs_memory);
    let paid = result.changes.iter().filter(gains).find(|tried| tried.costs_memory);
    let points = |tried: &ChangeResult| tried.points.unwrap_or(0.0);
    let best = match (free, paid) {
        (None, None) => "No change that was tried finds more.".to_owned(),
        (Some(free), None) => format!("`{}` finds {:.2} points more.", free.change, points(free)),
        (None, Some(paid)) => format!(
            "At the same memory nothing finds more; with more, `{}` finds {:.2} points more.",
            paid.change,
            points(paid)
        ),
        (Some(free), Some(paid)) => format!(
            "At the same memory, `{}` finds {:.2} points more; with more memory, `{}` {:.2} points.",
            free.change,
            points(free),
            paid.change,
            points(paid)
        ),
    };
    let range = result.base.hit_pages_at_most.map(|most| {
        let Base { hit_pages, .. } = result.base;
        format!("These are {} to {} pages: {NOTE}.", integer(hit_pages), integer(most))
    });
    let of_traffic = (0..result.base.at_traffic.len()).map(|place| at_traffic(result, place));
    [now, best].into_iter().chain(of_traffic).chain(range).collect()
}
