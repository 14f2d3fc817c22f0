//! Every dependency is pinned and carries a licence this project can ship with.
//!
//! The check reads what cargo already knows about the locked set, so it runs offline.

use std::collections::BTreeSet;
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

/// The names of the crates that cargo's tree lists with these arguments; none where this machine has not
/// fetched them.
fn tree(arguments: &[&str]) -> Option<BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix=none", "--format={p}"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    if !output.status.success() {
        println!("skipped: cargo tree needs crates this machine has not fetched");
        return None;
    }
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    Some(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// Libraries that speak TLS or bring its ciphers.
const TLS: [&str; 8] =
    ["aws-lc-rs", "aws-lc-sys", "boring-sys", "mbedtls", "openssl-sys", "ring", "rustls", "wolfssl-sys"];

/// Features only add, so that what the build with all of them lacks is in no other.
#[test]
fn no_combination_of_features_has_two_providers_of_tls() {
    let Some(all) = tree(&["--workspace", "--all-features"]) else { return };
    assert!(all.contains("rdkafka-sys") && all.contains("object_store") && all.contains("ureq"));
    let providers: Vec<_> = TLS.into_iter().filter(|name| all.contains(*name)).collect();
    assert_eq!(providers, ["openssl-sys"]);
}

#[test]
fn a_build_without_features_has_no_tls_no_tokenizer_and_no_object_store() {
    let Some(bare) = tree(&["--edges=normal,build", "--package=kvset"]) else { return };
    assert!(bare.contains("rdkafka-sys"));
    for name in TLS.into_iter().chain(["native-tls", "tokenizers", "onig", "object_store", "reqwest", "url"])
    {
        assert!(!bare.contains(name), "{name} is compiled by default");
    }
}

#[test]
fn an_expression_is_met_only_by_allowed_licences() {
    assert!(is_allowed("MIT OR GPL-3.0-only") && is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("LGPL-3.0-only") && !is_allowed("MIT AND GPL-2.0-only") && !is_allowed("none given"));
}
