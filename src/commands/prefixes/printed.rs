//! The result of `kvset prefixes` for people.

use crate::prefixes::{PrefixFamily, PrefixFindings};
use crate::present::document::{Cell, Columns, Table};
use crate::present::terminal::{self, Terminal};
use crate::present::words::{integer, rate};
use kvset_core::sizing::curve::share;

/// The answer in words, then a table.
pub(super) fn render(found: &PrefixFindings, terminal: &Terminal) -> String {
    let mut text: String = sentences(found).iter().map(|line| terminal.paragraph(line)).collect();
    if found.families.is_empty() {
        return text;
    }
    let rate = |hits: Option<u64>| Cell::known(hits, |hits| Cell::Rate(share(hits, found.page_accesses)));
    let columns: Columns<'_, PrefixFamily> = &[
        ("requests", &|family| Cell::Count(family.requests)),
        ("pages before", &|family| Cell::Count(family.pages_before)),
        ("token", &|family| Cell::Count(family.parts_at.token)),
        ("part", &|family| Cell::known(family.parts_at.part.clone(), Cell::Text)),
        ("what", &|family| Cell::known(family.parts_at.kind, |kind| kind.name().into())),
        ("pages behind", &|family| Cell::known(family.pages_behind, Cell::Count)),
        ("hit rate", &|family| rate(family.hit_pages)),
        ("if mended", &|family| rate(family.hit_pages_if_mended)),
    ];
    let table = Table::of("Where requests that begin alike part", &found.families, columns);
    text.push_str(&format!("\n{}", terminal::captioned(&table, terminal)));
    for family in &found.families {
        if let Some([one, other]) = &family.texts {
            let part = family.parts_at.part.as_deref().unwrap_or("prompt");
            text.push_str(&format!("\n{part}: {one:?} and {other:?}\n"));
        }
    }
    text
}

fn sentences(found: &PrefixFindings) -> Vec<String> {
    if found.requests == 0 {
        return vec!["The trace has no request, so no prompts part: look into the trace.".to_owned()];
    }
    let mut all: Vec<String> = found
        .families
        .iter()
        .filter(|family| family.gain() > 0)
        .take(3)
        .map(|family| sentence(family, found))
        .collect();
    if all.is_empty() {
        all.push(match found.can_compare {
            true => "No place was found at which prompts part and that could be mended: what requests share \
                     stands in front."
                .to_owned(),
            false => "Each page id stands for all before it, so what follows a parting cannot be compared: give \
                      token ids, or bodies with --model. These are the largest beginnings that requests share."
                .to_owned(),
        });
    }
    if found.requests_below_a_page > 0 {
        all.push(format!(
            "{} of {} prompts are shorter than a page, so no cache finds any of them.",
            integer(found.requests_below_a_page),
            integer(found.requests)
        ));
    }
    all
}

/// "40 requests part at page 3 in `system`, characters 10 to 15, which looks like a time; if that stood at the end,
/// hits would rise from 41.00 % to 78.00 %."
fn sentence(family: &PrefixFamily, found: &PrefixFindings) -> String {
    let rate_of = |hits: Option<u64>| rate(share(hits.unwrap_or(0), found.page_accesses));
    let at = &family.parts_at;
    let characters = |(from, end): (usize, usize)| match end > from {
        true => format!(", characters {} to {}", integer(from as u64 + 1), integer(end as u64)),
        false => format!(", before character {}", integer(from as u64 + 1)),
    };
    let part = at.part.as_ref().map_or_else(String::new, |part| {
        format!(", in {part}{}", at.characters.map_or_else(String::new, characters))
    });
    let kind = at.kind.map_or_else(String::new, |kind| format!(" ({})", kind.describe()));
    let mended = match at.kind {
        Some(crate::prefixes::PartingKind::Order) => "in one order",
        _ => "at the end of the prompt",
    };
    format!(
        "{} requests part at token {} (page {}){part}{kind}; {} pages behind that were there before. With what differs \
         {mended}, hits {} from {} to {}.",
        integer(family.requests),
        integer(at.token),
        integer(at.page),
        family.pages_behind.map_or_else(|| "unknown".to_owned(), integer),
        if family.gain() >= 0 { "rise" } else { "fall" },
        rate_of(family.hit_pages),
        rate_of(family.hit_pages_if_mended),
    )
}
