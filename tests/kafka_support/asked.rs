//! Everything that a pool can be asked alongside its curve, and requests that say something to each question.

use kvset::core::request::labels::Label;
use kvset::settings::Settings;
use kvset::trace::TraceRow;
use std::path::Path;

const CACHES: [&str; 3] = ["cache-1", "cache-2", "cache-3"];
const TENANTS: [&str; 4] = ["acme", "beta", "gamma", "delta"];

/// Of the section `[estimate]`.
const QUESTIONS: &str = "ttls = [\"5s\", \"1m\", \"10m\"]\ntenants = 2\ntraffic = true\n\
    prefill_rate = \"10000@0,5000@20000\"\ngpu_price = 2.5\nrestarts = true\nretention_classes = true\ncertainty = true\nmeasured = true\nprovisioned = \"2000p\"\n\
    routers = [\"logged\", \"round-robin:3\", \"least-in-flight:2\", \"prefix:2\"]\n\
    capacities = [\"200p\", \"2000p\", \"20000p\"]\n";

const TIERS: &str = "[[tiers]]\nname = \"fast\"\ncoverage = 0.5\nunit = \"100p\"\n\
    [[tiers]]\nname = \"slow\"\ncoverage = 0.99\nunit = \"500p\"\n";

/// Asks everything in a file of settings that has a section `[estimate]`.
pub fn ask_everything(config: &Path) {
    let text = std::fs::read_to_string(config).expect("settings");
    assert_eq!(text.matches("[estimate]\n").count(), 1, "{text}");
    let text = text.replace("[estimate]\n", &format!("[estimate]\n{QUESTIONS}")) + TIERS;
    std::fs::write(config, text).expect("a disk");
}

/// The same of settings in memory.
pub fn asking_everything(mut settings: Settings) -> Settings {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("asked.toml");
    std::fs::write(&path, format!("[input]\ntopic = \"any\"\n[estimate]\n{QUESTIONS}{TIERS}"))
        .expect("a disk");
    let asked = Settings::load(Some(&path)).expect("usable settings");
    let (windows, cost) = (settings.estimate.windows, settings.estimate.kv_bytes_per_token);
    settings.estimate = asked.estimate;
    (settings.estimate.windows, settings.estimate.kv_bytes_per_token) = (windows, cost);
    settings.tiers = asked.tiers;
    settings
}

/// Lets a request tell on whose behalf it came, which cache served it and what that had of it.
pub fn tell(row: &mut TraceRow<'_>, number: usize) {
    let session = row.session.unwrap_or_default().bytes().map(usize::from).sum::<usize>();
    row.event.labels.set(Label::Tenant, Some(TENANTS[session % TENANTS.len()]));
    row.event.labels.set(Label::RetentionClass, ["5m", "1h"].get(session % 3).copied());
    row.event.labels.set(Label::Replica, Some(CACHES[number % CACHES.len()]));
    row.event.cached_tokens = row.event.input_tokens.map(|tokens| tokens / 2).into();
}
