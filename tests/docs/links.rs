//! Links between the pages.

use super::{pages, root};
use std::path::Path;

/// The heading's anchor, as the sites that show Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The targets of the links of a page that stay in the repository.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://") && !target.contains(' ')).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut seen = 0;
    let schemas = ("schemas/page-ids.md".to_owned(), root().join("schemas/page-ids.md"));
    for (name, path) in pages().into_iter().chain([schemas]) {
        let text = std::fs::read_to_string(&path).expect("a page");
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let folder = path.parent().expect("a folder");
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{name}: {link} leads nowhere");
            assert!(heading.is_empty() || has_heading(&target, heading), "{name}: no heading for {link}");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} links were found");
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(page).expect("a page");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|found| found == wanted)
}
