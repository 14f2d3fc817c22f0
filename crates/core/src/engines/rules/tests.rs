//! The options, one by one: what is read, written and refused.

use super::*;

#[test]
fn every_example_is_read_and_is_written_as_it_was_read() {
    for option in EngineRules::OPTIONS {
        let mut rules = EngineRules::default();
        for text in [Some(option.example), option.alone].into_iter().flatten() {
            option.read(&mut rules, text).expect(option.key);
            assert_eq!(option.written(&rules), text, "{}", option.key);
        }
    }
}

#[test]
fn every_name_is_one_of_the_types() {
    let policies = WritePolicy::NAMES.map(|(name, _)| name);
    let modes = OverlapMode::NAMES.map(|(name, _)| name);
    let offloads = OffloadPolicy::NAMES.map(|(name, _)| name);
    let layers = DraftLayers::NAMES.map(|(name, _)| name);
    for option in EngineRules::OPTIONS {
        if let OptionValues::Names(names) = &option.values {
            let is_one = *names == policies || *names == modes || *names == offloads || *names == layers;
            assert!(is_one, "{}", option.key);
        }
    }
}

#[test]
fn options_of_one_name_are_of_different_engines() {
    for option in EngineRules::OPTIONS {
        for (engine, _) in option.engines {
            let same =
                EngineRules::OPTIONS.iter().filter(|other| other.key == option.key && other.is_of(*engine));
            assert_eq!(same.count(), 1, "{} of {engine}", option.key);
        }
    }
}

#[test]
fn what_is_no_value_is_refused_with_what_is_expected() {
    let refused = |key: &str, text: &str| {
        let option = EngineRules::OPTIONS.iter().find(|option| option.key == key).expect(key);
        option.read(&mut EngineRules::default(), text).expect_err(text)
    };
    assert_eq!(refused("draft_head", "65"), "expected a whole number from 1 to 64");
    assert_eq!(refused("prefill_chunk", "-1"), "expected a whole number from 1 to 16777216");
    assert_eq!(refused("watermark", "0"), "expected a decimal with at most 9 places from 0.001 to 1");
    assert_eq!(refused("lease", "5"), "expected a duration like \"30s\" or \"5m\" from 0s to 366d");
    assert_eq!(refused("overlap", "maybe"), "expected \"on\" or \"off\"");
    assert!(refused("attention", "window:9").contains("no group is `full`"));
}

#[test]
fn an_engine_reads_its_own_options_alone() {
    for option in EngineRules::OPTIONS.iter().filter(|option| option.key != "hicache_write") {
        let mut rules = EngineRules::default();
        option.read(&mut rules, option.example).expect(option.key);
        for (_, engine) in Profile::NAMES {
            let of_engine = rules.of_profile(engine);
            assert_eq!(option.is_set(&of_engine), option.is_set(&rules) && option.is_read(&rules, engine));
            assert_eq!(rules.check(engine, None).is_ok(), of_engine == rules, "{} of {engine}", option.key);
        }
    }
}
