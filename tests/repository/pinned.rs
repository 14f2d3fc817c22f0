//! What others can move is named by what it is: actions by commit, images by digest.

use std::fs;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What follows the word at the start of each line of a file, wherever the line is indented to.
fn after(file: &Path, word: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned()).collect()
}

/// Whether these are so many lower-case hexadecimal digits.
fn is_hash(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether an image's name ends in a digest.
fn has_digest(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(name, digest)| name.contains(':') && is_hash(digest, 64))
}

/// A tag of an action can be moved to other code, as has happened to actions that many used.
#[test]
fn actions_are_named_by_commit_and_say_which_version_that_is() {
    let workflows = fs::read_dir(path(".github/workflows")).expect("workflows");
    let used: Vec<String> =
        workflows.flat_map(|file| after(&file.expect("a file").path(), "uses:")).collect();
    assert!(used.len() > 8, "{used:?}");
    for action in used {
        let (name, version) =
            action.split_once(" # v").unwrap_or_else(|| panic!("{action} names no version"));
        let commit = name.split_once('@').map_or("", |(_, commit)| commit);
        assert!(is_hash(commit, 40), "{action}: a tag is no commit");
        assert!(
            version.split('.').count() == 3 && version.starts_with(|c: char| c.is_ascii_digit()),
            "{action}"
        );
    }
}

#[test]
fn images_of_others_are_named_by_digest() {
    let dockerfile = after(&path("Dockerfile"), "FROM ");
    let bases = dockerfile.iter().filter_map(|line| line.split(' ').next()).filter(|base| *base != "scratch");
    let compose = after(&path("docker-compose.yml"), "image:");
    let others = compose.iter().map(String::as_str).filter(|image| !image.starts_with("kvset:"));
    let images: Vec<&str> = bases.chain(others).collect();
    assert!(images.len() >= 5, "{images:?}");
    for image in images {
        assert!(has_digest(image), "{image}");
    }
    assert!(after(&path("Dockerfile"), "# syntax=").is_empty(), "a frontend is an image, too");
}

#[test]
fn a_name_with_a_part_of_a_digest_or_without_a_tag_is_not_pinned() {
    let digest = "0123456789abcdef".repeat(4);
    assert!(has_digest(&format!("a/b:1@sha256:{digest}")));
    for image in [
        "a/b:1",
        "a/b:1@sha256:0123",
        &format!("a/b@sha256:{digest}"),
        &format!("a:1@sha256:{}", digest.to_uppercase()),
    ] {
        assert!(!has_digest(image), "{image}");
    }
}
