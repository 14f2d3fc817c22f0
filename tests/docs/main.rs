//! Every command block of the README and of docs/ is run, in the order in which a reader meets them, those of pages
//! without a broker by a reader of their own;
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

use blocks::{Block, Manner, blocks_of};
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

/// The blocks of every page.
fn blocks() -> Vec<Vec<Block>> {
    pages().into_iter().map(|(name, path)| blocks_of(&path, &name)).collect()
}

/// Whether a page needs a broker for any of its blocks.
fn needs_broker(page: &[Block]) -> bool {
    page.iter().any(|block| matches!(&block.manner, Manner::Run(needs) if needs.kafka))
}

/// Runs what the blocks of these pages show, as one reader would.
fn read(pages: &[Vec<Block>], mut session: Session) {
    for page in pages {
        for block in page {
            match &block.manner {
                Manner::Skip(reason) => println!("not run: {}: {reason}", block.place),
                Manner::Ci(step) => assert_ci_runs(step, &block.place),
                Manner::Run(_) => session.take(block),
            }
        }
        session.end_page();
    }
}

// Two readers: one waits for brokers and package indexes while the other computes.

#[test]
fn every_command_block_of_pages_with_a_broker_runs() {
    let pages: Vec<_> = blocks().into_iter().filter(|page| needs_broker(page)).collect();
    let brokers = Broker::real().map(|broker| broker.connection.brokers);
    read(&pages, Session::begin("broker", brokers));
}

#[test]
fn every_command_block_of_pages_without_a_broker_runs() {
    let pages: Vec<_> = blocks().into_iter().filter(|page| !needs_broker(page)).collect();
    read(&pages, Session::begin("offline", None));
}

#[test]
fn few_command_blocks_go_unrun() {
    let (mut skipped, mut run) = (Vec::new(), 0);
    for block in blocks().into_iter().flatten() {
        match block.manner {
            Manner::Skip(reason) => {
                assert!(reason.len() > 10, "{}: say why it is not run", block.place);
                skipped.push(block.place);
            }
            Manner::Ci(_) => {}
            Manner::Run(_) => run += 1,
        }
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
