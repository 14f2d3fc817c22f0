//! What the client of a Schema Registry does with every way a registry can behave.

use crate::kafka_support::wait_for;
use crate::registry_support::{Fault, Registry};
use kvset::codec::{LookupError, SchemaId, SchemaRef, WriterSchemas, schema};
use kvset::registry::cache::SchemaCache;
use kvset::registry::client::{RegistryClient, RegistryFailure};
use kvset::service::plan::schemas::{RegistryError, id_of_values, open};
use kvset::settings::{HttpUrl, SchemaRegistry, Secret, Span};
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "hunter2-marker";

fn settings(registry: &Registry) -> SchemaRegistry {
    SchemaRegistry {
        url: HttpUrl::new(&registry.url()).expect("an address"),
        timeout: Span::from_ms(300),
        ..SchemaRegistry::default()
    }
}

fn cache(settings: &SchemaRegistry) -> Arc<SchemaCache> {
    open(settings).expect("nothing is missing").expect("an address is set")
}

fn by_id(id: u32) -> SchemaRef {
    SchemaRef::Id(SchemaId(id))
}

fn find(settings: &SchemaRegistry, id: u32) -> Result<bool, LookupError> {
    cache(settings).find(by_id(id)).map(|schema| schema.is_some())
}

/// Why a lookup ends for good, which no text of ours may show a secret for.
fn refused(settings: &SchemaRegistry) -> String {
    match find(settings, 1) {
        Err(LookupError::Refused(reason)) => {
            assert!(!reason.contains(SECRET) && !reason.contains("aHVudGVyMi"), "{reason}");
            assert!(reason.starts_with(&format!("schema registry {}", settings.url.as_str())), "{reason}");
            reason
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn many_threads_ask_once_and_nobody_asks_again() {
    let registry = Registry::up();
    let id = by_id(registry.add(schema::REQUEST_EVENT));
    registry.fault(Some(Fault::Slow(Duration::from_millis(100))));
    let cache = cache(&settings(&registry));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(cache.find(id).expect("an answer").is_some()));
        }
    });
    cache.find(id).expect("kept");
    assert_eq!(registry.requests(), ["GET /schemas/ids/1"]);
}

#[test]
fn the_cache_keeps_what_was_used_last_within_its_bound() {
    let registry = Registry::up();
    let ids = [1, 2, 3].map(|_| by_id(registry.add(schema::REQUEST_EVENT)));
    let cache = cache(&SchemaRegistry { max_schemas: 2, ..settings(&registry) });
    for id in [ids[0], ids[1], ids[0], ids[2], ids[0]] {
        assert!(cache.find(id).expect("an answer").is_some());
    }
    assert_eq!((cache.len(), registry.requests().len()), (2, 3), "the one used last stayed");
    cache.find(ids[1]).expect("an answer");
    assert_eq!(registry.requests().len(), 4, "the one used least lately went");
}

#[test]
fn an_id_the_registry_does_not_know_is_asked_for_a_few_times_and_then_not_again() {
    let registry = Registry::up();
    let cache = cache(&settings(&registry));
    assert!(cache.find(by_id(7)).expect("an answer").is_none());
    let asked = registry.requests().len();
    assert!((2..=5).contains(&asked), "{asked} questions");
    assert!(cache.find(by_id(7)).expect("an answer").is_none());
    assert_eq!(registry.requests().len(), asked);
    assert!(!cache.is_waiting());
}

#[test]
fn a_schema_that_appears_late_is_found() {
    let registry = Registry::up();
    let cache = cache(&settings(&registry));
    std::thread::scope(|scope| {
        let found = scope.spawn(|| cache.find(by_id(1)));
        wait_for(|| !registry.requests().is_empty());
        registry.add(schema::REQUEST_EVENT);
        assert!(found.join().expect("no panic").expect("an answer").is_some());
    });
}

#[test]
fn a_registry_in_trouble_is_waited_for() {
    let late = Fault::Slow(Duration::from_secs(20));
    for fault in [Fault::Status(500), Fault::Status(503), Fault::Status(429), late] {
        let registry = Registry::up();
        registry.add(schema::REQUEST_EVENT);
        registry.fault(Some(fault));
        let cache = cache(&settings(&registry));
        std::thread::scope(|scope| {
            let found = scope.spawn(|| cache.find(by_id(1)));
            wait_for(|| cache.is_waiting() && registry.requests().len() >= 2);
            registry.fault(None);
            assert!(found.join().expect("no panic").expect("an answer").is_some(), "{fault:?}");
        });
        assert!(!cache.is_waiting());
    }
}

#[test]
fn a_registry_that_is_down_is_waited_for_until_it_is_up_or_the_program_stops() {
    let mut registry = Registry::down();
    registry.add(schema::REQUEST_EVENT);
    let cache = cache(&settings(&registry));
    std::thread::scope(|scope| {
        let found = scope.spawn(|| cache.find(by_id(1)));
        wait_for(|| cache.is_waiting());
        registry.start();
        assert!(found.join().expect("no panic").expect("an answer").is_some());
    });
    drop(registry);
    std::thread::scope(|scope| {
        let waiting = [8, 9, 9].map(|id| {
            let cache = &cache;
            scope.spawn(move || cache.find(by_id(id)))
        });
        wait_for(|| cache.is_waiting());
        cache.stop();
        for thread in waiting {
            assert!(matches!(thread.join().expect("no panic"), Err(LookupError::Stopped)));
        }
    });
    assert!(cache.find(by_id(1)).expect("known, so nobody waits").is_some());
}

#[test]
fn credentials_are_sent_and_wrong_ones_are_refused_without_being_shown() {
    let user = |registry: &Registry, password: &str| SchemaRegistry {
        username: "kvset".to_owned(),
        password: Secret::new(password),
        ..settings(registry)
    };
    // kvset:right and the marker, in base64.
    let registry = Registry::demanding("Basic a3ZzZXQ6cmlnaHQ=");
    registry.add(schema::REQUEST_EVENT);
    assert_eq!(find(&user(&registry, "right"), 1), Ok(true));
    let reason = refused(&user(&registry, SECRET));
    assert!(reason.contains("401") && reason.contains("schema_registry.username"), "{reason}");
    assert!(refused(&settings(&registry)).contains("401"), "no credentials at all");

    let registry = Registry::demanding("Bearer let-me-in");
    registry.add(schema::REQUEST_EVENT);
    let token = |token: &str| SchemaRegistry { token: Secret::new(token), ..settings(&registry) };
    assert_eq!(find(&token("let-me-in"), 1), Ok(true));
    assert!(refused(&token(SECRET)).contains("token"));
    assert!(refused(&token(&format!("{SECRET}\n"))).contains("characters"));
    assert!(
        !format!("{:?}", RegistryClient::open(&user(&registry, SECRET)).expect("a client")).contains(SECRET)
    );
}

#[test]
fn a_password_in_a_file_is_read_anew_and_a_missing_one_is_named() {
    let registry = Registry::demanding("Bearer second");
    registry.add(schema::REQUEST_EVENT);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    let settings =
        SchemaRegistry { token: Secret::new(format!("file:{}", path.display())), ..settings(&registry) };
    let error = open(&settings).expect_err("no file").to_string();
    assert!(error.contains("schema_registry.token refers to file"), "{error}");
    std::fs::write(&path, "first\n").expect("written");
    let cache = cache(&settings);
    assert!(matches!(cache.find(by_id(1)), Err(LookupError::Refused(_))));
    std::fs::write(&path, "second\n").expect("written");
    assert!(cache.find(by_id(1)).expect("the new token").is_some());
}

#[cfg(feature = "tls")]
#[test]
fn tls_trusts_the_authority_it_is_given_and_no_other() {
    let registry = Registry::with_tls();
    registry.add(schema::REQUEST_EVENT);
    let directory = tempfile::tempdir().expect("a directory");
    let trusting = |ca_file| SchemaRegistry {
        ca_file: Some(ca_file),
        timeout: Span::from_secs(10),
        ..settings(&registry)
    };
    assert_eq!(find(&trusting(registry.authority_file(directory.path())), 1), Ok(true));

    let stranger = tempfile::tempdir().expect("a directory");
    let reason = refused(&trusting(Registry::with_tls().authority_file(stranger.path())));
    assert!(
        reason.contains("no secure connection") && reason.contains("schema_registry.ca_file"),
        "{reason}"
    );

    let no_pem = directory.path().join("no.pem");
    let error = open(&trusting(no_pem.clone())).expect_err("no file").to_string();
    assert!(error.contains("schema_registry.ca_file") && error.contains("cannot be read"), "{error}");
    std::fs::write(&no_pem, "no certificate").expect("written");
    let error = open(&trusting(no_pem)).expect_err("no certificate").to_string();
    assert!(error.contains("holds no certificates"), "{error}");
}

#[test]
fn what_is_no_registry_is_refused_at_once_with_what_to_do() {
    for (fault, word) in [
        (Fault::Redirect, "redirect"),
        (Fault::NotARegistry, "not a schema registry's"),
        (Fault::NoSuchPath, "not a schema registry's"),
        (Fault::Status(403), "rights"),
        (Fault::Status(400), "answered 400"),
    ] {
        let registry = Registry::up();
        registry.fault(Some(fault));
        let reason = refused(&SchemaRegistry { token: Secret::new(SECRET), ..settings(&registry) });
        assert!(reason.contains(word), "{fault:?}: {reason}");
        assert_eq!(registry.requests().len(), 1, "{fault:?}: asked once");
    }
}

#[test]
fn the_schema_of_what_is_written_is_looked_up_or_registered() {
    let registry = Registry::up();
    let id = |auto_register| {
        let settings = SchemaRegistry { auto_register, ..settings(&registry) };
        let cache = cache(&settings);
        let timeout = Duration::from_millis(100);
        id_of_values(&settings, cache.client(), "kvset.estimates", schema::CAPACITY_ESTIMATE, timeout)
    };
    let error = id(false).expect_err("nobody registered it").to_string();
    assert!(error.contains("kvset.estimates-value") && error.contains("auto_register"), "{error}");
    let registered = id(true).expect("registered");
    assert!(registry.has("kvset.estimates-value", registered.0));
    assert_eq!(id(false).expect("there now"), registered);
    assert_eq!(id(true).expect("there already"), registered);
    for (fault, passing) in [(Fault::Status(409), false), (Fault::Status(500), true)] {
        registry.fault(Some(fault));
        match id(true).expect_err("a fault") {
            RegistryError::Failure(RegistryFailure::Passing(_)) => assert!(passing),
            RegistryError::Failure(RegistryFailure::Lasting(_)) => assert!(!passing),
            other => panic!("{other}"),
        }
    }
}
