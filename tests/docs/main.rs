//! Every command block of the README and of docs/ is run, in the order in which a reader meets them;
//! every link leads somewhere; the example programs do what their pages say.

mod blocks;
mod examples;
// Each test program uses its part of what they share.
#[allow(dead_code)]
#[path = "../kafka_support/mod.rs"]
mod kafka_support;
mod links;
#[path = "../python_support/mod.rs"]
mod python_support;
mod session;

use blocks::{Manner, blocks_of};
use kafka_support::Broker;
use session::Session;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most blocks that may go unrun, over all pages.
const MOST_SKIPPED: usize = 9;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages as docs/README.md lists them, then the README, which repeats what they show.
pub fn pages() -> Vec<(String, PathBuf)> {
    let index = std::fs::read_to_string(root().join("docs/README.md")).expect("docs/README.md");
    let named =
        index.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](")?.1.split_once(')'));
    let mut names: Vec<String> = named.map(|(page, _)| format!("docs/{page}")).collect();
    names.extend(["docs/README.md".to_owned(), "README.md".to_owned()]);
    names.into_iter().map(|name| (name.clone(), root().join(name))).collect()
}

#[test]
fn the_index_lists_every_page() {
    let listed: BTreeSet<_> = pages().into_iter().map(|(_, path)| path).collect();
    let folders =
        ["docs", "docs/engines"].map(|folder| std::fs::read_dir(root().join(folder)).expect(folder));
    for entry in folders.into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        assert!(!is_page || listed.contains(&path), "docs/README.md does not list {}", path.display());
    }
}

#[test]
fn every_command_block_runs() {
    let brokers = Broker::real().map(|broker| broker.connection.brokers);
    let mut session = Session::begin(brokers);
    let (mut skipped, mut run) = (Vec::new(), 0);
    for (name, path) in pages() {
        for block in blocks_of(&path, &name) {
            match &block.manner {
                Manner::Skip(reason) => {
                    assert!(reason.len() > 10, "{}: say why it is not run", block.place);
                    println!("not run: {}: {reason}", block.place);
                    skipped.push(block.place);
                }
                Manner::Ci(step) => assert_ci_runs(step, &block.place),
                Manner::Run(_) => {
                    session.take(&block);
                    run += 1;
                }
            }
        }
        session.end_page();
    }
    assert!(run > 20, "only {run} blocks were found");
    assert!(skipped.len() <= MOST_SKIPPED, "too many blocks are not run: {skipped:?}");
}

/// Asserts that `.ci/run` takes this block from the README and runs it.
fn assert_ci_runs(step: &str, place: &str) {
    let script = std::fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
    let (taken, run) = (format!("{step}_command=$(readme_command {step})"), format!("\"${step}_command\""));
    assert!(script.contains(&taken) && script.contains(&run), "{place}: .ci/run has no step `{step}`");
}
