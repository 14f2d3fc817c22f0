//! Spans of requests within one another: an SDK's, a gateway's and an engine's may tell of the same one.

use super::content::{has_content, parts};
use super::item::LoggedItem;
use crate::codec::DecodeError;
use std::collections::{HashMap, HashSet};

/// Most spans around one that are looked at.
const MOST_AROUND: usize = 64;

type Read = Result<LoggedItem, DecodeError>;

/// The items of requests, each once: of spans within one another the innermost that holds what was said.
pub(super) fn innermost(mut items: Vec<Read>, may_be_request: fn(&Read) -> bool) -> Vec<Read> {
    let by_id: HashMap<Vec<u8>, usize> = items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| Some((item.as_ref().ok()?.id.clone(), index)))
        .filter(|(id, _)| !id.is_empty())
        .collect();
    let (mut repeated, mut around) = (HashSet::new(), Vec::new());
    for (index, read) in items.iter().enumerate().filter(|(_, read)| may_be_request(read)) {
        let Ok(item) = read else { continue };
        for outer in outer_spans(&items, &by_id, item) {
            let Ok(other) = &items[outer] else { continue };
            around.extend(parts(other).map(|part| (index, part.to_owned())));
            if outer != index && may_be_request(&items[outer]) {
                match (has_content(item), has_content(other)) {
                    (true, _) => repeated.insert(outer),
                    (false, true) => repeated.insert(index),
                    (false, false) => false,
                };
            }
        }
    }
    for (index, part) in around {
        if let Ok(item) = &mut items[index] {
            item.around.push(part);
        }
    }
    let kept = items.into_iter().enumerate().filter(|(index, _)| !repeated.contains(index));
    kept.map(|(_, item)| item).filter(may_be_request).collect()
}

/// The spans around one, from the nearest, as far as they are in the record.
fn outer_spans<'a>(
    items: &'a [Read],
    by_id: &'a HashMap<Vec<u8>, usize>,
    item: &'a LoggedItem,
) -> impl Iterator<Item = usize> + 'a {
    let parent = |item: &LoggedItem| by_id.get(&item.parent).copied();
    let next = move |outer: &usize| items[*outer].as_ref().ok().and_then(parent);
    std::iter::successors(parent(item), next).take(MOST_AROUND)
}
