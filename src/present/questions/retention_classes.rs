//! What each retention class holds and finds.

use super::sizes::size;
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{counted, short_name};
use kvset_core::questions::retention_classes::{RetentionClassAt, RetentionClassEstimate};
use kvset_core::sizing::curve::share;

/// Most characters of a class's name.
const MOST_NAME: usize = 24;

/// The classes of a window, a table a size; none where no size is reported.
pub(super) fn section(classes: &[RetentionClassEstimate]) -> Option<Section> {
    let sizes = classes.iter().map(|class| class.sizes.len()).min()?;
    let tables: Vec<Table> = (0..sizes).map(|place| table(classes, place)).collect();
    tables.first()?;
    let sentence = "A retention class says for how long, or with which priority, requests ask for their pages to be kept. \
                    The figures are those of a cache that ignores classes.";
    Some(Section::new("Retention classes", [sentence.to_owned()], tables))
}

fn table(classes: &[RetentionClassEstimate], place: usize) -> Table {
    let at = |class: &RetentionClassEstimate| class.sizes[place];
    let all: f64 = classes.iter().map(|class| at(class).page_milliseconds as f64).sum();
    let held = |class: &RetentionClassEstimate| at(class).page_milliseconds as f64 / all;
    let columns: Columns<'_, RetentionClassEstimate> = &[
        ("class", &|class| name(class).into()),
        ("requests", &|class| Cell::Count(class.requests)),
        ("page accesses", &|class| Cell::Count(class.page_accesses)),
        ("hit rate", &|class| Cell::Rate(share(at(class).page_hits, class.page_accesses))),
        ("without limit", &|class| Cell::Rate(share(class.page_hits, class.page_accesses))),
        ("held since the start", &|class| Cell::known((all > 0.0).then(|| held(class)), Cell::Rate)),
    ];
    let RetentionClassAt { pages, bytes, provisioned, recommended, .. } = at(&classes[0]);
    let caption = size(pages, bytes, (provisioned, recommended));
    Table::of(caption, classes, columns).spare(&["page accesses"])
}

fn name(class: &RetentionClassEstimate) -> String {
    match (class.classes, &class.class) {
        (Some(count), _) => counted(count, "other class", "other classes"),
        (None, Some(name)) => short_name(name, MOST_NAME),
        (None, None) => "no class named".to_owned(),
    }
}
