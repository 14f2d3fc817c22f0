//! What the fingerprint of a configuration follows.

use super::*;

/// A state that SGLang's former rules made is set aside: what it would go on to is neither theirs nor today's.
#[test]
fn an_engine_whose_rules_were_mended_has_another_fingerprint_than_before() {
    let of = |text: &str| load(text, &[]).expect(text).fingerprint_hex();
    assert_ne!(
        of("[estimate]\nengine = \"vllm\""),
        "fedc7c2ea57bd736",
        "as it was while requests did not overlap"
    );
    assert_ne!(of("[estimate]\nengine = \"sglang\""), "dd6c299f0e116e68", "as it was before revision 1");
    for (engine, before) in [("lmcache", "a257035841bd122e"), ("mooncake", "1582bce53381cdee")] {
        let now = of(&format!("[estimate]\nengine = \"{engine}\""));
        assert_ne!(now, before, "{engine} as it was while it was the paper's order");
    }
}

/// A state whose restarts or coverage were counted by the former rules is set aside.
#[test]
fn what_is_asked_and_was_mended_has_another_fingerprint_than_before() {
    let of = |text: &str| load(text, &[]).expect(text).fingerprint_hex();
    let before = ["0d98c60fbf092d49", "7617b42ca87121dd", "f98045b503448881"];
    let asked = [
        "[estimate]\nmeasured = true",
        "[estimate]\nttls = [\"5m\"]",
        "[[pools]]\nname = \"a\"\nmeasured = true",
    ];
    for (asked, before) in asked.into_iter().zip(before) {
        assert_ne!(of(asked), before, "{asked}");
    }
    // Before replicas went along the pool's own stack.
    let alone = ["818a0c5a4aae5ae0", "2aea63110ec667c9"];
    for (asked, before) in ["measured = true", "routers = [\"round-robin:2\"]"].into_iter().zip(alone) {
        assert_ne!(of(&format!("[estimate]\n{asked}")), before, "{asked}");
    }
}

#[test]
fn the_fingerprint_follows_what_shapes_results_and_nothing_else() {
    let of = |text: &str| load(text, &[]).expect(text).fingerprint_hex();
    let default = of("");
    assert_eq!(
        default, "cacca5b3e400962a",
        "a change rebuilds every state there is: raise VERSION knowingly"
    );
    for same in [
        "[kafka]\nbrokers = \"other:1\"\ngroup = \"g\"",
        "[input]\ntopic = \"other\"",
        "[output]\nencoding = \"avro\"",
        "[state]\ndirectory = \"/elsewhere\"",
        "[log]\nlevel = \"debug\"",
        "[estimate]\nprovisioned = \"70p\"",
        "[estimate]\npublish_every = \"60s\"",
        "[estimate]\ntarget_ratios = [0.990]",
    ] {
        assert_eq!(of(same), default, "{same}");
    }
    let mut seen = BTreeSet::from([default]);
    for other in [
        "[estimate]\npage_size = 64",
        "[estimate]\nengine = \"vllm\"",
        "[estimate]\noutputs = \"ignored\"",
        "[estimate]\ntarget_ratios = [1.0]",
        "[estimate]\nwindows = [\"all\"]",
        "[estimate]\nmax_tracked_pages = 5000",
        "[input]\nmax_record_bytes = \"1MiB\"",
        "[input]\nmax_event_time_ahead = \"0s\"",
        "[plan]\nhold = 2",
        "[[tiers]]\nname = \"a\"\nunit = \"1p\"",
        "[[tiers]]\nname = \"a\"\nunit = \"2p\"",
        "[[pools]]\nname = \"a\"\npage_size = 16",
        "[[pools]]\nname = \"b\"\npage_size = 16",
        "[estimate]\nengine = \"vllm\"\noverlap = \"off\"",
        "[estimate]\nengine = \"vllm\"\nhold_back = \"1m\"",
        "[estimate]\nengine = \"vllm\"\nhold_back_bytes = \"1MiB\"",
        "[estimate]\nengine = \"vllm\"\n[[pools]]\nname = \"a\"\nhold_back = \"1m\"",
        "[estimate]\nmeasured = true",
        "[estimate]\nmeasured = true\nprovisioned = \"70p\"",
        "[estimate]\nmeasured = true\nprovisioned = \"80p\"",
        "[[pools]]\nname = \"a\"\nmeasured = true\nprovisioned = \"80p\"",
        "[estimate]\nrouters = [\"hash:4:tenant\"]",
        "[estimate]\nrouters = [\"hash:4:first-page\"]",
        "[estimate]\nttls = [\"5m\"]\ncapacities = [\"9p\"]",
        "[estimate]\nttls = [\"5m\", \"1h\"]\ncapacities = [\"9p\"]",
        "[estimate]\ntenants = 5\ncapacities = [\"9p\"]",
        "[estimate]\noptimal = true\ncapacities = [\"9p\"]",
    ] {
        assert!(seen.insert(of(other)), "{other}");
    }
    let pools = ["a", "b"].map(|name| format!("[[pools]]\nname = \"{name}\"\npage_size = 16\n"));
    assert_eq!(of(&pools.concat()), of(&format!("{}{}", pools[1], pools[0])), "order does not matter");
}
