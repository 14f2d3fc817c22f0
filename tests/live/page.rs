//! The page in a real browser: opens, updates without a reload, both themes, by keyboard, no errors.
//!
//! Needs Chromium, Node and npm; screenshots are left in `target/tmp/browser`. Without them the test says
//! `skipped`, unless `KVSET_REQUIRE_BROWSER=1`. `KVSET_BROWSER` names another browser.

use crate::live_support::{Service, closed};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The browser; `None` where there is none.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KVSET_BROWSER") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// The script with the package it needs, or why it cannot be run.
fn script() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    fs::create_dir_all(&folder).expect("a writable folder");
    let lock = fs::read(source.join("package-lock.json")).expect("the lock file");
    let installed = folder.join("node_modules/playwright-core/package.json").is_file()
        && fs::read(folder.join("package-lock.json")).is_ok_and(|known| known == lock);
    for name in ["page.mjs", "package.json", "package-lock.json"] {
        fs::copy(source.join(name), folder.join(name)).expect("a writable folder");
    }
    if !installed {
        let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        let install = Command::new("npm").args(arguments).current_dir(&folder).output();
        let install = install.map_err(|error| format!("npm: {error}"))?;
        if !install.status.success() {
            return Err(format!("npm ci: {}", String::from_utf8_lossy(&install.stderr)));
        }
    }
    Ok(folder)
}

#[test]
fn the_page_opens_updates_and_can_be_used_by_keyboard_in_both_themes() {
    let ready =
        browser().ok_or("no Chromium in PATH".to_owned()).and_then(|browser| Ok((browser, script()?)));
    let (browser, folder) = match ready {
        Ok(ready) => ready,
        Err(reason) => {
            let demanded = std::env::var("KVSET_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
            assert!(!demanded, "KVSET_REQUIRE_BROWSER=1, but {reason}");
            println!("skipped: {reason}");
            return;
        }
    };
    let service = Service::start(10);
    service.take_up(0, 0);
    let address = service.address();
    let mut node = Command::new("node");
    node.arg("page.mjs").args([address.as_ref(), browser.as_os_str(), folder.as_os_str()]);
    node.current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = node.spawn().expect("Node starts");
    let mut answers = node.stdin.take().expect("piped");
    let steps = BufReader::new(node.stdout.take().expect("piped"));
    let mut service = Some(service);
    let mut done = Vec::new();
    for step in steps.lines() {
        let step = step.expect("text");
        match (step.as_str(), &service) {
            ("empty", Some(service)) => publish_morning(service),
            ("reading", Some(service)) => {
                service.publish(&[closed("coding/eu", "tumbling:5m", 605)]);
            }
            ("leaving", _) => service.take().expect("not left yet").stop(),
            _ => {}
        }
        done.push(step);
        // The script may have failed meanwhile; its status says so.
        drop(writeln!(answers, "go"));
    }
    let ended = node.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "after {done:?}: {said}");
    assert_eq!(done, ["empty", "reading", "leaving", "done"]);
}

/// Ten hours of two pools.
fn publish_morning(service: &Service) {
    for minute in (5..=600).step_by(5) {
        let pools = ["coding/eu", "agents/us"].into_iter();
        let estimates = pools.flat_map(|pool| ["tumbling:5m", "all"].map(|kind| closed(pool, kind, minute)));
        service.publish(&estimates.collect::<Vec<_>>());
    }
}
