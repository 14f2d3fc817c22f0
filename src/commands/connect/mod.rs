//! `kvset config check --connect`: everything the service needs of the world around it, tried once, with
//! what to do about each thing that is not as it must be. Readers of committed records see nothing of it.

mod brokers;
mod finding;

pub use finding::{CheckVerdict, ConnectCheck};

use super::health::told_at;
use finding::{finding, judged};
use kvset_formats::codec::Encoding;
use kvset_formats::codec::schema;
use kvset_formats::codec::{SchemaId, SchemaRef};
use kvset_pipeline::facts::PartitionId;
use kvset_service::folder::FolderPlan;
use kvset_service::folder::catalog::check_folder;
use kvset_service::plan::{schemas, shared_plan};
use kvset_service::snapshots::stores::open_shared;
use kvset_settings::{OutputEncoding, Settings};
use kvset_snapshot::directory::DirectoryStore;
use kvset_snapshot::store::{SnapshotStore, StoreError};
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::path::Path;

/// Most bytes read of metrics; who tells them stands first.
const ANSWER: u64 = 1 << 16;

/// Tries everything, in order; `tell` is called as soon as each is known.
pub fn check(settings: &Settings, tell: &mut dyn FnMut(&ConnectCheck)) -> Vec<ConnectCheck> {
    let mut findings = Vec::new();
    let mut note = |found: Vec<ConnectCheck>| {
        found.iter().for_each(&mut *tell);
        findings.extend(found);
    };
    match &settings.input.folder {
        Some(folder) => note(vec![events_folder(folder), estimates_file(settings)]),
        None => note(brokers::check(settings)),
    }
    note(vec![registry(settings)]);
    note(vec![directory(settings), shared_store(settings)]);
    note(vec![http(settings)]);
    findings
}

/// Whether the registry answers, and knows the schema that is to be written.
fn registry(settings: &Settings) -> ConnectCheck {
    let what = "schema registry";
    let (registry, output) = (&settings.schema_registry, &settings.output);
    let opened = match schemas::open(registry) {
        Ok(None) if output.encoding == OutputEncoding::ConfluentAvro => {
            return finding(what, CheckVerdict::Bad, "output.encoding needs one: set schema_registry.url");
        }
        Ok(None) if settings.input.encoding == Encoding::ConfluentAvro => {
            return finding(what, CheckVerdict::Bad, "input.encoding needs one: set schema_registry.url");
        }
        Ok(None) => return finding(what, CheckVerdict::Untried, "none is configured"),
        Ok(Some(opened)) => opened,
        Err(error) => return finding(what, CheckVerdict::Bad, error.to_string()),
    };
    let url = registry.url.as_str();
    if output.encoding != OutputEncoding::ConfluentAvro {
        let answered = opened.client().schema(SchemaRef::Id(SchemaId(1)));
        return judged(what, answered, |_| format!("{url} answers"));
    }
    let subject = format!("{}-value", output.topic.as_str());
    match opened.client().registered(&subject, schema::CAPACITY_ESTIMATE) {
        Ok(Some(id)) => {
            finding(what, CheckVerdict::Good, format!("{url} has the schema of {subject} as id {id}"))
        }
        Ok(None) if registry.auto_register => {
            finding(what, CheckVerdict::Good, format!("{url} answers; the service registers {subject}"))
        }
        Ok(None) => {
            let said = format!(
                "{url} answers and does not have {subject}: register schemas/capacity_estimate.avsc there, or set \
                 schema_registry.auto_register = true"
            );
            finding(what, CheckVerdict::Bad, said)
        }
        Err(error) => finding(what, CheckVerdict::Bad, error.to_string()),
    }
}

/// Whether the folder of events can be read.
fn events_folder(folder: &Path) -> ConnectCheck {
    judged("input.folder", check_folder(folder), |files| {
        format!("{} can be read, with {files} files of events", folder.display())
    })
}

/// Whether the file of estimates can be written, beside which positions lie.
fn estimates_file(settings: &Settings) -> ConnectCheck {
    let path = &settings.output.file;
    let plan = FolderPlan::make(settings, false).map_err(|error| error.to_string());
    let tried = plan.and_then(|plan| {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        let opened =
            opened.map_err(|error| format!("{}: {error}; name another (output.file)", path.display()));
        // One that was made for this is taken away again.
        let is_new = opened?.metadata().is_ok_and(|made| made.len() == 0);
        if is_new && plan.is_some_and(|plan| !plan.positions().exists()) {
            drop(std::fs::remove_file(path));
        }
        Ok(())
    });
    judged("output.file", tried, |()| format!("{} can be written to", path.display()))
}

/// Whether the snapshot directory can be written to; it is made, as the service makes it.
fn directory(settings: &Settings) -> ConnectCheck {
    let (what, path) = ("state.directory", settings.state.directory.display());
    let generations = NonZeroUsize::new(settings.state.generations as usize).unwrap_or(NonZeroUsize::MIN);
    match DirectoryStore::open(&settings.state.directory, generations) {
        Ok(_) => finding(what, CheckVerdict::Good, format!("{path} can be written to")),
        Err(StoreError::Locked { holder, .. }) => {
            finding(what, CheckVerdict::Good, format!("{path} is in use by {holder}"))
        }
        Err(error) => finding(what, CheckVerdict::Bad, error.to_string()),
    }
}

/// Whether the store that hosts share tells what it holds.
fn shared_store(settings: &Settings) -> ConnectCheck {
    let what = "state.shared";
    let Some(plan) = shared_plan(settings) else {
        return finding(what, CheckVerdict::Untried, "none is configured");
    };
    let id = match PartitionId::new(settings.input.topic.as_str(), 0) {
        Ok(id) => id,
        Err(error) => return finding(what, CheckVerdict::Bad, error.to_string()),
    };
    let listed = open_shared(&plan, NonZeroUsize::MIN).and_then(|store| store.list(&id));
    judged(what, listed, |found| {
        format!("{} can be read, with {} snapshots of {id}", plan.address, found.len())
    })
}

/// Whether what listens on the address to serve on is a service of the same group: it then runs already.
fn is_its_service(settings: &Settings) -> bool {
    let group = format!("group=\"{}\"", settings.kafka.group);
    let told = told_at(settings, "/metrics", ANSWER).unwrap_or_default();
    told.lines().any(|line| line.starts_with("kvset_build_info{") && line.contains(&group))
}

/// Whether the address to serve on is free.
fn http(settings: &Settings) -> ConnectCheck {
    let what = "http.listen";
    let Some(address) = settings.http.listen.0 else {
        return finding(what, CheckVerdict::Untried, "no address is configured");
    };
    match TcpListener::bind(address) {
        Ok(_) => finding(what, CheckVerdict::Good, format!("{address} is free")),
        Err(_) if is_its_service(settings) => {
            let said =
                format!("{address} is in use by a kvset of group {}, which runs", settings.kafka.group);
            finding(what, CheckVerdict::Good, said)
        }
        Err(error) => {
            let said = format!(
                "{address}: {error}; end what listens there (another kvset, perhaps), or set another http.listen"
            );
            finding(what, CheckVerdict::Bad, said)
        }
    }
}
