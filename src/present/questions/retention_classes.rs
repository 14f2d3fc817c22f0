//! What each retention class holds and finds.

use super::sizes::size;
use crate::present::document::{Cell, Section, Table};
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
    let sentence = "A class is how long, or how preferably, requests ask their cache to keep their pages. The cache is modelled \
                    without classes.";
    Some(Section { title: "Retention classes".to_owned(), sentences: vec![sentence.to_owned()], tables })
}

fn table(classes: &[RetentionClassEstimate], place: usize) -> Table {
    let at = |class: &RetentionClassEstimate| class.sizes[place];
    let all: f64 = classes.iter().map(|class| at(class).page_milliseconds as f64).sum();
    let columns = ["class", "requests", "page accesses", "hit rate", "without limit", "held since the start"];
    let RetentionClassAt { pages, bytes, provisioned, recommended, .. } = at(&classes[0]);
    let mut table =
        Table::new(size(pages, bytes, (provisioned, recommended)), columns).spare(&["page accesses"]);
    for class in classes {
        let found = at(class);
        let held = found.page_milliseconds as f64;
        table.row([
            name(class).into(),
            Cell::Count(class.requests),
            Cell::Count(class.page_accesses),
            Cell::Rate(share(found.page_hits, class.page_accesses)),
            Cell::Rate(share(class.page_hits, class.page_accesses)),
            Cell::known((all > 0.0).then(|| held / all), Cell::Rate),
        ]);
    }
    table
}

fn name(class: &RetentionClassEstimate) -> String {
    match (class.classes, &class.class) {
        (Some(count), _) => counted(count, "other class", "other classes"),
        (None, Some(name)) => short_name(name, MOST_NAME),
        (None, None) => "no class named".to_owned(),
    }
}
