//! Logs, spans and model configurations in the shapes that gateways, engines and SDKs write, with what the program
//! makes of each: `tests/fixtures/cases` has a file of cases a kind, and the inputs that they name.
//!
//! `KVSET_CASES=K05` runs one kind or one case, `KVSET_CASES_DIR` another folder of cases.
#![cfg(feature = "tokenize")]

mod advice;
mod elsewhere;
mod expectation;
mod kinds;
mod members;
mod table;

use expectation::{Expectation, Seen};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One case: what is run, and what must hold of what it prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    kind: String,
    /// What is right, and why.
    why: String,
    /// Inputs, relative to the folder; `{f}` or `{f0}` is the first in `command`.
    #[serde(default)]
    files: Vec<String>,
    command: Vec<String>,
    /// Settings as `KVSET__SECTION__KEY`, where a configuration file would stand.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// A chat template; `{model}` is then a folder of it with the tokenizer of `{chatml}`.
    template: Option<String>,
    expect: Expectation,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Case {
    /// What the names in braces stand for; `scratch` is the folder that the command runs in.
    fn places(&self, folder: &Path, scratch: &Path) -> Vec<(String, String)> {
        let shown = |path: &Path| path.display().to_string();
        let chatml = repository().join("tests/fixtures/tokenize/chatml");
        let mut places =
            vec![("{chatml}".to_owned(), shown(&chatml)), ("{scratch}".to_owned(), shown(scratch))];
        for (number, file) in self.files.iter().enumerate() {
            let path = shown(&folder.join(file));
            if number == 0 {
                places.push(("{f}".to_owned(), path.clone()));
            }
            places.push((format!("{{f{number}}}"), path));
        }
        if let Some(template) = &self.template {
            let model = scratch.join("model");
            fs::create_dir(&model).expect("a folder for the model");
            for name in ["tokenizer.json", "tokenizer_config.json"] {
                fs::copy(chatml.join(name), model.join(name)).expect("a file of the model");
            }
            fs::copy(folder.join(template), model.join("chat_template.jinja")).expect("the template");
            places.push(("{model}".to_owned(), shown(&model)));
        }
        places
    }

    /// Runs the command, and says what it printed.
    fn run(&self, folder: &Path) -> Seen {
        let scratch = tempfile::tempdir().expect("a folder to run in");
        let places = self.places(folder, scratch.path());
        let put =
            |text: &str| places.iter().fold(text.to_owned(), |text, (name, path)| text.replace(name, path));
        let kept = std::env::vars().filter(|(name, _)| !name.starts_with("KVSET_"));
        let done = Command::new(env!("CARGO_BIN_EXE_kvset"))
            .args(self.command.iter().map(|argument| put(argument)))
            .current_dir(scratch.path())
            .env_clear()
            .envs(kept)
            .envs(self.env.iter().map(|(name, value)| (name, put(value))))
            .stdin(Stdio::null())
            .output()
            .expect("the program runs");
        // What a file is called must not answer for what is said of it.
        let hidden = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            places.iter().filter(|(name, _)| name != "{chatml}").fold(text, |text, (name, path)| {
                text.replace(path, if name.starts_with("{f") { "FILE" } else { "DIR" })
            })
        };
        Seen::new(done.status.code(), hidden(&done.stdout), hidden(&done.stderr))
    }
}

/// The cases of every file of the folder, in the order of the files' names.
fn cases(folder: &Path) -> Vec<Case> {
    let files = fs::read_dir(folder).expect("the folder of cases");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a readable entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file of cases");
        for (number, line) in text.lines().enumerate() {
            let case = serde_json::from_str(line);
            cases.push(
                case.unwrap_or_else(|error| panic!("{}, line {}: {error}", file.display(), number + 1)),
            );
        }
    }
    cases
}

/// The folder of the repository's own cases, or the one that the environment names.
fn folder() -> PathBuf {
    let own = repository().join("tests/fixtures/cases");
    std::env::var_os("KVSET_CASES_DIR").map_or(own, PathBuf::from)
}

#[test]
fn every_case_holds() {
    let folder = folder();
    let only = std::env::var("KVSET_CASES").ok();
    let mut cases = cases(&folder);
    cases.retain(|case| only.as_ref().is_none_or(|only| *only == case.id || *only == case.kind));
    assert!(!cases.is_empty(), "no cases");
    let mut ids: Vec<_> = cases.iter().map(|case| case.id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "two cases have one name");
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let missed = case.expect.missed(&case.run(&folder));
            (!missed.is_empty()).then(|| format!("{}: {}\n    ({})", case.id, missed.join("\n  "), case.why))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} do not hold:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// `KVSET_WRITE_DOCS=1` writes the page.
#[test]
fn the_page_of_all_cases_says_what_the_program_says() {
    if std::env::var_os("KVSET_CASES_DIR").is_some() {
        return;
    }
    let folder = folder();
    let all: Vec<(Case, Seen)> = cases(&folder)
        .into_iter()
        .map(|case| (case.run(&folder), case))
        .map(|(seen, case)| (case, seen))
        .collect();
    assert!(all.iter().all(|(case, _)| table::names(&case.kind)), "a kind has no place on the page");
    let (path, page) = (repository().join("docs/inputs.md"), table::page(&all));
    if std::env::var_os("KVSET_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("a page that can be written");
    }
    let written = fs::read_to_string(&path).expect("docs/inputs.md");
    let differs = page.lines().zip(written.lines().chain(std::iter::repeat(""))).find(|(is, was)| is != was);
    assert!(
        page == written,
        "docs/inputs.md is not what the program says; KVSET_WRITE_DOCS=1 cargo test --all-features --test cases \
         writes it: {differs:?}"
    );
}
