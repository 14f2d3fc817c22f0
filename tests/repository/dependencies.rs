//! Every dependency is pinned and carries a licence this project can ship with.
//!
//! The check reads what cargo already knows about the locked set, so it runs offline.

use std::collections::BTreeSet;
use std::process::Command;

/// The texts of a list of `deny.toml`, the one place that says what may be linked.
fn listed(section: &str, list: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml");
    let file: toml::Value = toml::from_str(&std::fs::read_to_string(path).expect("deny.toml")).expect("TOML");
    let entries = file[section][list].as_array().unwrap_or_else(|| panic!("{section}.{list} is no list"));
    entries.iter().map(|entry| entry.as_str().expect("a text").to_owned()).collect()
}

/// Whether an SPDX expression can be met with these licences only.
fn is_allowed(allowed: &[String], expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let is_listed = |licence: &str| allowed.iter().any(|allowed| allowed == licence.trim());
    expression.split(" AND ").all(|part| part.split(" OR ").any(is_listed))
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
    let allowed = listed("licenses", "allow");
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none given");
        assert!(
            is_allowed(&allowed, licence),
            "{} {} is under `{licence}`",
            package["name"],
            package["version"]
        );
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

/// Features only add, so that what the build with all of them lacks is in no other.
#[test]
fn no_combination_of_features_has_two_providers_of_tls() {
    let Some(all) = tree(&["--workspace", "--all-features"]) else { return };
    assert!(all.contains("rdkafka-sys") && all.contains("object_store") && all.contains("ureq"));
    assert!(all.contains("openssl-sys"));
    let banned: Vec<_> = listed("bans", "deny").into_iter().filter(|name| all.contains(name)).collect();
    assert!(banned.is_empty(), "openssl-sys is the one provider, and there are {banned:?} too");
}

#[test]
fn a_build_without_features_has_no_tls_no_tokenizer_and_no_object_store() {
    let Some(bare) = tree(&["--edges=normal,build", "--package=kvset"]) else { return };
    assert!(bare.contains("rdkafka-sys"));
    let asked_for = ["openssl-sys", "native-tls", "tokenizers", "onig", "object_store", "reqwest", "url"];
    for name in listed("bans", "deny").into_iter().chain(asked_for.map(str::to_owned)) {
        assert!(!bare.contains(&name), "{name} is compiled by default");
    }
}

#[test]
fn an_expression_is_met_only_by_allowed_licences() {
    let is_allowed = |expression| is_allowed(&listed("licenses", "allow"), expression);
    assert!(is_allowed("MIT OR GPL-3.0-only") && is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("LGPL-3.0-only") && !is_allowed("MIT AND GPL-2.0-only") && !is_allowed("none given"));
}
