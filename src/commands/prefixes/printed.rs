//! The result of `kvset prefixes` for people.

use crate::prefixes::{Family, Findings};
use crate::present::terminal::{Column, Sheet, Terminal, percent, thousands};
use kvset_core::estimate::curve::share;

/// The answer in words, then a table.
pub(super) fn render(found: &Findings, terminal: &Terminal) -> String {
    let mut text: String = sentences(found).iter().map(|line| terminal.paragraph(line)).collect();
    if found.families.is_empty() {
        return text;
    }
    let mut sheet = Sheet::new(&[
        Column::Number("requests"),
        Column::Number("pages before"),
        Column::Number("token"),
        Column::Text("part"),
        Column::Text("what"),
        Column::Number("pages behind"),
        Column::Number("hit rate"),
        Column::Number("if mended"),
    ]);
    for family in &found.families {
        let rate = |hits: Option<u64>| {
            hits.map_or_else(|| "-".to_owned(), |hits| percent(share(hits, found.page_accesses)))
        };
        sheet.row([
            thousands(family.requests),
            thousands(family.pages_before),
            thousands(family.parts_at.token),
            family.parts_at.part.clone().unwrap_or_else(|| "-".to_owned()),
            family.parts_at.kind.map_or("-", |kind| kind.name()).to_owned(),
            family.pages_behind.map_or_else(|| "-".to_owned(), thousands),
            rate(family.hit_pages),
            rate(family.hit_pages_if_mended),
        ]);
    }
    text.push_str(&format!("\nwhere requests that begin alike part\n{}", sheet.render(terminal)));
    for family in &found.families {
        if let Some([one, other]) = &family.texts {
            let part = family.parts_at.part.as_deref().unwrap_or("prompt");
            text.push_str(&format!("\n{part}: {one:?} and {other:?}\n"));
        }
    }
    text
}

fn sentences(found: &Findings) -> Vec<String> {
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
            false => "The page ids tell of all before them, so what stands behind a parting cannot be compared: give \
                      token ids, or bodies with --model. These are the largest beginnings that requests share."
                .to_owned(),
        });
    }
    if found.requests_below_a_page > 0 {
        all.push(format!(
            "{} of {} prompts are shorter than a page, so no cache finds any of them.",
            thousands(found.requests_below_a_page),
            thousands(found.requests)
        ));
    }
    all
}

/// "40 requests part at page 3 in `system`, characters 10 to 15, which looks like a time; if that stood at the end, hits
/// would rise from 41.00 % to 78.00 %."
fn sentence(family: &Family, found: &Findings) -> String {
    let rate = |hits: Option<u64>| percent(share(hits.unwrap_or(0), found.page_accesses));
    let at = &family.parts_at;
    let characters = |(from, end): (usize, usize)| match end > from {
        true => format!(", characters {} to {}", thousands(from as u64 + 1), thousands(end as u64)),
        false => format!(", before character {}", thousands(from as u64 + 1)),
    };
    let part = at.part.as_ref().map_or_else(String::new, |part| {
        format!(", in {part}{}", at.characters.map_or_else(String::new, characters))
    });
    let kind = at.kind.map_or_else(String::new, |kind| format!(" ({})", kind.describe()));
    let mended = match at.kind {
        Some(crate::prefixes::Kind::Order) => "in one order",
        _ => "at the end of the prompt",
    };
    format!(
        "{} requests part at token {} (page {}){part}{kind}; {} pages behind that were there before. With what differs \
         {mended}, hits {} from {} to {}.",
        thousands(family.requests),
        thousands(at.token),
        thousands(at.page),
        family.pages_behind.map_or_else(|| "unknown".to_owned(), thousands),
        if family.gain() >= 0 { "rise" } else { "fall" },
        rate(family.hit_pages),
        rate(family.hit_pages_if_mended),
    )
}
