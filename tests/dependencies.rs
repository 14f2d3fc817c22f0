//! Every dependency is pinned and carries a licence this project can ship with.
//!
//! The check reads what cargo already knows about the locked set, so it runs offline.

use std::process::Command;

/// Licences an Apache-2.0 program can link statically.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met with allowed licences only.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    expression.split(" AND ").all(|part| part.split(" OR ").any(|licence| ALLOWED.contains(&licence.trim())))
}

#[test]
fn every_licence_in_the_locked_set_is_allowed() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--all-features"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    if !output.status.success() {
        println!("skipped: cargo metadata needs crates this machine has not fetched");
        return;
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 50, "the metadata lists the whole set");
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none given");
        assert!(is_allowed(licence), "{} {} is under `{licence}`", package["name"], package["version"]);
    }
}

#[test]
fn an_expression_is_met_only_by_allowed_licences() {
    assert!(is_allowed("MIT OR GPL-3.0-only") && is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("LGPL-3.0-only") && !is_allowed("MIT AND GPL-2.0-only") && !is_allowed("none given"));
}
