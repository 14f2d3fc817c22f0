//! What caches are worth, as settings say it.

use super::*;
use kvset_core::questions::enabled::Questions;

#[test]
fn what_a_cache_is_worth_is_said_at_a_rate_and_in_money_at_prices() {
    let of = |text: &str, pool: &str| load(text, &[]).expect(text).pool_config(pool).questions;
    let general = "[estimate]\nkv_bytes_per_token = 100\nprefill_rate = 8000\ngib_price = 0.5\nprovisioned = \"9GiB\"\n";
    let own = "[[pools]]\nname = \"a\"\nprefill_rate = \"9000@0,4000.5@32768\"\ngpu_price = 2\n";
    let (all, a) = (of(&format!("{general}{own}"), "b"), of(&format!("{general}{own}"), "a"));
    let worth = |asked: &Questions| {
        let worth = asked.worth.clone().expect("asked");
        (worth.prefill_rate.to_string(), worth.prices.accelerator_hour, worth.prices.gib_hour)
    };
    assert_eq!(worth(&all), ("8000".to_owned(), None, Some(0.5)));
    assert_eq!(worth(&a), ("9000@0,4000.5@32768".to_owned(), Some(2.0), Some(0.5)));
    assert_eq!((all.reuse.prefill_rate, all.provisioned.is_some()), (None, true), "traffic is not asked");
    assert!(of("[estimate]\nprovisioned = \"9p\"", "").provisioned.is_none(), "it shapes nothing");
    // Of a pool's sample nothing is said; a general one says what it says of traffic, and no more.
    let traffic = "[estimate]\ntraffic = true\nprefill_rate = 100\nsample_rate = 0.5\n[[tiers]]\nname = \"x\"\nunit = \"9p\"\n\
                   [[tiers]]\nname = \"y\"\nunit = \"9p\"\n";
    assert_eq!((of(traffic, "").worth, of(traffic, "").reuse.prefill_rate), (None, Some(100.0)));
    let sampled = format!("{general}[[pools]]\nname = \"a\"\nsample_rate = 0.5\n");
    assert!(of(&sampled, "a").worth.is_none() && of(&sampled, "b").worth.is_some());
    assert!(of("[estimate]\nprefill_rate = 0", "").worth.is_none());
    // A pool can have none of its own.
    for none in ["0", "0.0", "\"0\""] {
        let text = format!("{general}[[pools]]\nname = \"a\"\nprefill_rate = {none}\n");
        assert!(of(&text, "a").worth.is_none() && of(&text, "b").worth.is_some(), "{text}");
        let said = problems(&format!("{text}gpu_price = 2"), &[]).join("\n");
        assert!(said.contains("pools[0].gpu_price"), "{said}");
    }
    for (text, key) in [
        ("[estimate]\ngpu_price = 2", "estimate.gpu_price"),
        ("[[pools]]\nname = \"a\"\ngib_price = 2", "pools[0].gib_price"),
        ("[estimate]\nprefill_rate = 9\ngib_price = 2", "estimate.gib_price"),
        ("[estimate]\nprefill_rate = \"5,6\"", "estimate.prefill_rate"),
        ("[estimate]\nprefill_rate = 9\ngpu_price = -1", "estimate.gpu_price"),
        ("[estimate]\nprefill_rate = 9\nwindows = [\"last:70000\"]", "estimate.windows"),
        (
            &traffic.replace("traffic =", "kv_bytes_per_token = 1\ngib_price = 1\ntraffic ="),
            "estimate.prefill_rate",
        ),
    ] {
        let said = problems(text, &[]).join("\n");
        assert!(said.contains(key), "{text}: {said}");
    }
}

#[test]
fn what_restarts_cost_is_asked_of_all_pools_or_of_one() {
    let of = |text: &str, pool: &str| load(text, &[]).expect(text).pool_config(pool).questions;
    let all = "[estimate]\nrestarts = true\nprovisioned = \"9p\"\n";
    let own = "[[pools]]\nname = \"a\"\nrestarts = false\n[[pools]]\nname = \"b\"\nsample_rate = 0.5\n";
    let text = format!("{all}{own}");
    assert_eq!(["a", "b", "c"].map(|pool| of(&text, pool).restarts), [false, false, true]);
    assert!(of(&text, "c").provisioned.is_some() && of(&text, "a").provisioned.is_none());
    assert!(!of("", "").restarts);
    for (text, key) in [
        ("[estimate]\nrestarts = true\nsample_rate = 0.5", "estimate.restarts"),
        ("[[pools]]\nname = \"a\"\nrestarts = true\nsample_rate = 0.5", "pools[0].restarts"),
        ("[estimate]\nrestarts = true\nengine = \"sglang\"", "estimate.restarts"),
        ("[estimate]\nrestarts = true\nwindows = [\"last:70000\"]", "estimate.windows"),
    ] {
        let said = problems(text, &[]).join("\n");
        assert!(said.contains(key), "{text}: {said}");
    }
}
