//! What is not compiled in is said in plain words, with the command that installs it.

use crate::support::program::kvset;
use kvset::service::plan::features::built;
use std::path::Path;

/// Whether this build has the feature of this name.
fn has(feature: &str) -> bool {
    built().any(|built| built.name() == feature)
}

/// The words for a missing feature.
fn absence(feature: &str) -> String {
    format!(
        "this kvset was built without the feature `{feature}`; install it with `cargo install --locked --path . \
         --features {feature}`"
    )
}

/// Runs the program and gives what it says on standard error, after checking its exit code.
fn complaint(args: &[&str], code: i32) -> String {
    let output = kvset(args).assert().code(code);
    String::from_utf8(output.get_output().stderr.clone()).expect("UTF-8")
}

fn write(directory: &Path, text: &str) -> String {
    let path = directory.join("kvset.toml");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_configuration_that_asks_for_more_than_the_build_has_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for (text, setting, feature) in [
        ("[state]\nshared = \"s3://bucket/x?key=SECRET\"", "state.shared", "object-store-s3"),
        ("[state]\nshared = \"gs://bucket/SECRET\"", "state.shared", "object-store-gcs"),
        ("[state]\nshared = \"az://bucket/SECRET\"", "state.shared", "object-store-azure"),
        ("[state]\nshared = \"file:///mnt/SECRET\"", "state.shared", "object-store"),
        ("[schema_registry]\nurl = \"https://registry:8081\"", "schema_registry.url", "tls"),
        (
            "[schema_registry]\nurl = \"http://registry:8081\"\nca_file = \"x\"",
            "schema_registry.ca_file",
            "tls",
        ),
        ("[kafka.properties]\n\"security.protocol\" = \"SASL_SSL\"", "security.protocol", "tls"),
        ("[kafka.properties]\n\"sasl.mechanism\" = \"SCRAM-SHA-512\"", "sasl.mechanism", "tls"),
        ("[kafka.properties]\n\"sasl.mechanisms\" = \"OAUTHBEARER\"", "sasl.mechanisms", "tls"),
        ("[prepare]\nmodels = [\"models/llama\"]", "prepare.models", "tokenize"),
        ("[prepare]\nformat = \"openai\"", "prepare.format", "tokenize"),
    ] {
        let file = write(directory.path(), text);
        let check = ["config", "check", file.as_str()];
        if has(feature) {
            kvset(&check).assert().success();
            continue;
        }
        let said = complaint(&check, 2);
        assert!(said.contains(setting) && said.contains(&absence(feature)), "{text}: {said}");
        assert!(!said.contains("SECRET"), "{said}");
    }
}

#[test]
fn a_command_that_lacks_what_its_settings_ask_for_says_so_before_it_connects() {
    let directory = tempfile::tempdir().expect("a directory");
    for (text, command, feature) in [
        ("[kafka.properties]\n\"security.protocol\" = \"SSL\"", &["watch"][..], "tls"),
        ("[kafka.properties]\n\"sasl.mechanism\" = \"SCRAM-SHA-256\"", &["run"][..], "tls"),
        ("[schema_registry]\nurl = \"https://127.0.0.1:1\"", &["run"][..], "tls"),
        ("[state]\nshared = \"s3://bucket/x\"", &["snapshot", "list", "--shared"][..], "object-store-s3"),
        ("[prepare]\nmodels = [\"models/llama\"]", &["prepare"][..], "tokenize"),
    ] {
        if has(feature) {
            continue;
        }
        let file = write(directory.path(), text);
        let args: Vec<_> = command.iter().copied().chain(["--config", file.as_str()]).collect();
        let said = complaint(&args, 2);
        assert!(said.contains(&absence(feature)), "{args:?}: {said}");
    }
}

#[test]
fn options_and_traces_for_a_tokenizer_stay_and_say_what_they_take() {
    let help = kvset(&["replay", "--help"]).assert().success();
    let help = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
    assert!(help.contains("--model <DIR>"), "{help}");
    if has("tokenize") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("chats.jsonl");
    std::fs::write(&trace, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"SECRET\"}]}\n")
        .expect("written");
    let trace = trace.to_str().expect("UTF-8");
    for (args, code) in [
        (&["replay", "--model", "models/llama", trace][..], 2),
        (&["replay", "--format", "openai", trace][..], 1),
        (&["replay", trace][..], 1),
    ] {
        let said = complaint(args, code);
        assert!(said.contains(&absence("tokenize")), "{args:?}: {said}");
        assert!(!said.contains("SECRET"), "{said}");
    }
}

#[test]
fn the_long_version_names_what_the_build_has() {
    let output = kvset(&["--version"]).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.starts_with(concat!("kvset ", env!("CARGO_PKG_VERSION"), "\nfeatures: ")), "{text}");
    for feature in ["tokenize", "tls", "object-store", "object-store-s3"] {
        let listed = text.lines().nth(1).expect("features").split([' ', ',']).any(|name| name == feature);
        assert_eq!(listed, has(feature), "{text}");
    }
    assert_eq!(text.contains("TLS: OpenSSL"), has("tls"), "{text}");
}
