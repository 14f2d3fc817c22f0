//! `kvset config`: what operators see of a right and of a wrong configuration.

use crate::support::program::kvset;
use std::path::PathBuf;

/// A directory with a configuration file in it.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kvset.toml");
    std::fs::write(&path, text).expect("written");
    (directory, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What `config check` says on standard error, with its exit code.
fn check(contents: &str) -> (Option<i32>, String) {
    let (_directory, path) = file(contents);
    let output = kvset(&["config", "check", path.to_str().expect("UTF-8")]).output().expect("run");
    assert!(output.status.success() || output.stdout.is_empty());
    (output.status.code(), text(&output.stderr))
}

#[test]
fn the_default_is_valid_and_kept_in_the_repository() {
    let output = kvset(&["config", "default"]).assert().success().get_output().clone();
    let kept = std::fs::read_to_string("config/kvset.toml").expect("config/kvset.toml");
    assert_eq!(text(&output.stdout), kept);
    let output = kvset(&["config", "check", "config/kvset.toml"]).assert().success().get_output().clone();
    assert!(text(&output.stdout).starts_with("config/kvset.toml: valid, fingerprint "));
    assert!(output.stderr.is_empty());
}

#[test]
fn the_reference_in_the_documentation_is_what_the_types_say() {
    let output = kvset(&["config", "reference"]).assert().success().get_output().clone();
    let kept = std::fs::read_to_string("docs/configuration.md").expect("docs/configuration.md");
    let again = "cargo run -- config reference > docs/configuration.md";
    assert_eq!(text(&output.stdout), kept, "run: {again}");
}

#[test]
fn all_problems_are_named_with_exit_code_2() {
    let (code, said) = check("[estimate]\npage_sise = 3\nsample_rate = 7\n[http]\nlisten = \"x\"\n");
    assert_eq!(code, Some(2));
    for part in [
        "error: the configuration has 3 problems:",
        "estimate.page_sise: unknown key; did you mean `page_size`?",
        "estimate.sample_rate = 7: expected a decimal",
        "from 0.001 to 1",
        "http.listen = \"x\": expected an address",
        "kvset.toml)",
    ] {
        assert!(said.contains(part), "{part:?} is missing in:\n{said}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_located_without_its_text() {
    let (code, said) = check("[kafka.properties]\n\"sasl.password\" = \"hunter2\n");
    assert_eq!(code, Some(2));
    assert!(said.contains("not valid TOML at line 2"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn missing_and_unreadable_files_are_named() {
    let said = kvset(&["config", "check", "no/such/file.toml"]).assert().code(2).get_output().stderr.clone();
    let said = text(&said);
    assert!(said.contains("cannot read configuration file `no/such/file.toml`"), "{said}");
    assert_eq!(said.matches("os error 2").count(), 1, "said once: {said}");
    let (directory, _path) = file("");
    let path = directory.path().to_str().expect("UTF-8").to_owned();
    kvset(&["config", "check", &path]).assert().code(2);
    let (_directory, path) = file("");
    std::fs::write(&path, [0xff, 0xfe, 0x00]).expect("written");
    let said =
        kvset(&["config", "check", path.to_str().expect("UTF-8")]).assert().code(2).get_output().clone();
    assert!(text(&said.stderr).ends_with("save it as UTF-8\n"), "{}", text(&said.stderr));
}

#[test]
fn what_is_shown_is_in_effect_and_hides_secrets() {
    let (_directory, path) = file(
        "[estimate]\nengine = \"vllm\"\n[kafka.properties]\n\"sasl.password\" = \"hunter2\"\n\
         \"ssl.key.password\" = \"env:KEY_PASSWORD\"\n",
    );
    let output = kvset(&["config", "show"])
        .env("KVSET_CONFIG", &path)
        .env("KVSET__ESTIMATE__PAGE_SIZE", "16")
        .env("KVSET__KAFKA__PROPERTIES__SASL_OAUTHBEARER_CLIENT_SECRET", "hunter3")
        .env("KEY_PASSWORD", "hunter4")
        .assert()
        .success()
        .get_output()
        .clone();
    let shown = text(&output.stdout);
    assert!(shown.starts_with("# fingerprint "), "{shown}");
    assert!(shown.contains("engine = \"vllm\"\n") && shown.contains("page_size = 16\n"), "{shown}");
    assert!(shown.contains("\"ssl.key.password\" = \"env:KEY_PASSWORD\""), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
}

#[test]
fn the_environment_is_checked_like_the_file() {
    let assert = kvset(&["config", "show"]).env("KVSET__WORKERS__THREDS", "3").assert().code(2);
    let said = text(&assert.get_output().stderr);
    assert!(
        said.contains("workers.threds: unknown key; did you mean `threads`? (from the environment)"),
        "{said}"
    );
}

/// A misspelt property was valid, and `--config`, which every other command has, unknown.
#[test]
fn a_property_that_the_client_does_not_know_is_named() {
    let (code, said) = check("[kafka.properties]\n\"sesion.timeout.ms\" = 6000\n");
    assert_eq!(code, Some(2));
    assert!(said.contains("knows no property `sesion.timeout.ms`"), "{said}");
    let fine = "[kafka.properties]\n\"session.timeout.ms\" = \"env:SOMEWHERE_ELSE\"\n\"compression.type\" = \"zstd\"\n";
    assert_eq!(check(fine).0, Some(0));
    let (_directory, path) = file(fine);
    let path = path.to_str().expect("UTF-8");
    let output = kvset(&["config", "check", "--config", path]).assert().success().get_output().clone();
    assert!(text(&output.stdout).starts_with(&format!("{path}: valid")), "{}", text(&output.stdout));
}
