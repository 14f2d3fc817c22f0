//! The report as a reader gets it: words, safety of hostile names, and that it needs nothing else.

use crate::report_support::{
    covered, in_flight, in_flight_over, recommending, troubled_pool, week, week_pool,
};
use kvset::core::engines::profile::Profile;
use kvset::core::questions::routing::RouterCoverage;
use kvset::core::sizing::tiers::{Inclusion, NextUnit, Purchase, Settled, TierEstimate, TierEstimates};
use kvset::core::units::PageCount;
use kvset::core::units::ratio::Ratio;
use kvset::present::html::render;
use kvset::present::pool::{Headline, PoolReport, Replicas, ReportInput, caveats, headline};
use std::fs;
use std::path::Path;

/// Renders, and leaves the page where a browser can open it.
fn page(name: &str, input: &ReportInput<'_>) -> String {
    let html = render(input).expect("a drawable report");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join(format!("report-{name}.html")), &html).expect("a writable folder");
    html
}

/// What is said of a pool with these requirements.
fn worded(pool: &PoolReport<'_>) -> Headline {
    headline(&recommending(pool.clone()))
}

fn of_pools(title: &str, pools: Vec<PoolReport<'static>>) -> ReportInput<'static> {
    let pools = pools.into_iter().map(recommending).collect();
    ReportInput { title: title.to_owned(), inputs: Vec::new(), pools, compares_engines: false }
}

#[test]
fn a_week_is_recommended_in_words() {
    let words = worded(&week_pool());
    assert_eq!(
        words.lead,
        "5.05 TiB keeps 99 % of requests at 99 % or more of their theoretical hit rate; \
         991 GiB is enough for 95 %; 17.6 TiB is needed for 99.9 %."
    );
    assert_eq!(words.size.as_deref(), Some("5.05 TiB"));
    assert_eq!(
        words.further,
        [
            "With unlimited capacity 93.66 % of page accesses are prefix hits (93.41 % by tokens).",
            "Never evicting anything would take 22.2 TiB, 4.4 times as much.",
        ]
    );
    let html = page("week", &week());
    assert!(html.contains("5.05 TiB keeps 99 % of requests"));
    assert_eq!(
        html.matches("kv-plot kv-wide").count(),
        4,
        "a plot each for curve, history, distribution, traffic"
    );
    assert_eq!(html.matches("<details><summary>Numbers").count(), 4, "a table behind each plot");
    assert_eq!(html.matches(" need more than before: ").count(), 1);
}

#[test]
fn targets_and_units_read_as_sentences() {
    let mut pool = week_pool();
    pool.estimate.to_mut().required[0].target_ratio = Ratio::ONE;
    pool.estimate.to_mut().in_flight = None;
    pool.estimate.to_mut().required[0].coverage =
        vec![covered("0.99", Some(1_411_000)), covered("1", Some(1_411_000))];
    assert_eq!(
        worded(&pool).lead,
        "5.05 TiB keeps 99 % of requests at their theoretical hit rate; 5.05 TiB is also enough for every request."
    );
    pool.estimate.to_mut().page_bytes = None;
    pool.estimate.to_mut().required[0].coverage =
        vec![covered("0.95", Some(1)), covered("0.99", Some(2)), covered("0.999", Some(30_000))];
    assert_eq!(
        worded(&pool).lead,
        "2 pages keep 99 % of requests at their theoretical hit rate; 1 page is enough for 95 %; \
         30,000 pages are needed for 99.9 %."
    );
    pool.estimate.to_mut().required[0].coverage = vec![covered("1", Some(1))];
    assert_eq!(worded(&pool).lead, "1 page keeps every request at its theoretical hit rate.");
    pool.estimate.to_mut().required[0].coverage = vec![covered("0.5", Some(0)), covered("0.99", Some(7))];
    assert!(worded(&pool).lead.ends_with("hit rate; 50 % need none."));
    pool.estimate.to_mut().required[0].coverage = vec![covered("0.99", Some(0)), covered("0.999", Some(7))];
    assert_eq!(
        worded(&pool).lead,
        "No cache is needed to keep 99 % of requests at their theoretical hit rate; 7 pages are needed for 99.9 %."
    );
    pool.estimate.to_mut().sample_rate = 0.1;
    pool.estimate.to_mut().required[0].coverage = vec![covered("0.9", Some(12))];
    assert_eq!(worded(&pool).lead, "About 12 pages keep 90 % of requests at their theoretical hit rate.");
}

#[test]
fn what_lies_beyond_the_bound_is_never_a_number() {
    let mut pool = troubled_pool();
    assert_eq!(
        worded(&pool).lead,
        "About 1,411,000 pages keep 99 % of requests at 99 % or more of their theoretical hit rate; about 270,500 pages \
         are enough for 95 %; 99.9 % would take more than was tracked."
    );
    pool.estimate.to_mut().required[0].coverage[3] = covered("0.99", None);
    let in_flight = in_flight_over(&pool.estimate.required, 0, 0);
    pool.estimate.to_mut().in_flight = Some(in_flight);
    let words = worded(&pool);
    assert_eq!(
        words.lead,
        "More than the 3,000,000 pages that were tracked would be needed to keep 99 % of requests at 99 % or more of \
         their theoretical hit rate; about 270,500 pages are enough for 95 %."
    );
    assert_eq!(words.size, None);
}

#[test]
fn nothing_to_say_is_said_plainly() {
    let mut pool = week_pool();
    pool.estimate.to_mut().requests_with_reuse = 0;
    for (requests, start) in [
        (1, "There is nothing to reuse: the only request does not begin with"),
        (2, "There is nothing to reuse: neither of the 2 requests begins with"),
        (4_002, "There is nothing to reuse: none of the 4,002 requests begins with"),
    ] {
        pool.estimate.to_mut().requests = requests;
        assert!(worded(&pool).lead.starts_with(start), "{}", worded(&pool).lead);
    }
    pool.estimate.to_mut().requests = 0;
    assert!(worded(&pool).lead.ends_with("(the input holds no request)."));
    pool.caveats.rejected_records = 1;
    assert!(worded(&pool).lead.ends_with("(1 row was refused)."));
    pool.caveats.warm_up_requests = 20;
    assert!(worded(&pool).lead.ends_with("(20 requests were used to warm the cache up)."));
}

#[test]
fn an_empty_report_is_still_a_page() {
    let html = page("empty", &of_pools("nothing.jsonl", Vec::new()));
    assert!(html.contains("There is nothing to recommend"));
    let mut pool = week_pool();
    pool.estimate.to_mut().requests = 0;
    pool.estimate.to_mut().requests_with_reuse = 0;
    pool.estimate.to_mut().page_accesses = 0;
    pool.estimate.to_mut().accumulated_pages = 0;
    pool.estimate.to_mut().theoretical = Default::default();
    pool.estimate.to_mut().required.clear();
    pool.estimate.to_mut().capacities.clear();
    pool.windows.clear();
    pool.history = Default::default();
    pool.distribution = Default::default();
    let html = page("empty-pool", &of_pools("nothing.jsonl", vec![pool]));
    assert!(html.contains("no request was counted") && !html.contains("<svg") && !html.contains("NaN"));
}

#[test]
fn without_a_requirement_the_curve_serves() {
    let mut pool = week_pool();
    pool.estimate.to_mut().engine = Profile::Sglang;
    pool.pointwise = true;
    pool.estimate.to_mut().required.clear();
    let words = worded(&pool);
    assert!(words.lead.contains("is the smallest capacity requested that reaches 99 %"), "{}", words.lead);
    pool.estimate.to_mut().capacities.truncate(5);
    let words = worded(&pool);
    assert!(words.lead.starts_with("None of the capacities requested reaches 99 %"), "{}", words.lead);
    assert_eq!(words.size, None);
    let html = page("pointwise", &of_pools("sglang", vec![pool]));
    assert!(html.contains("Nothing is said about capacities that were not requested"));
}

#[test]
fn every_caveat_is_named_with_its_count() {
    let titles: Vec<String> = caveats(&troubled_pool()).into_iter().map(|caveat| caveat.title).collect();
    insta::assert_snapshot!(titles.join("\n"), @r"
    Beyond the tracked bound (3,000,000 pages): the requirement at 99.9 %, 1 capacity of the curve and 61 requests
    1,204 pages came with an id already known under another prefix (seen in a sample of the ids)
    3 records were left out: unreadable or over a limit
    17 records came after the window had closed
    1 window was counted while the cache was still warming up
    Estimated from a sample of 10 % of the pages
    At the end the requests of the last 1 h need more than before: 2,814,512 pages after 2,436,384 pages for 99.9 %
    Reuse of generated tokens is not visible
    The profile mooncake is an approximation
    1 window is provisional
    Capacities are in pages
    ");
    let html = page("troubled", &of_pools("two pools", vec![troubled_pool(), week_pool()]));
    assert!(titles.iter().all(|title| html.contains(title.as_str())));
    assert!(html.contains("beyond bound"));
}

#[test]
fn the_page_says_what_to_buy_and_whether_the_requirement_has_converged() {
    let mut pool = week_pool();
    let html = page("no-tiers", &of_pools("week", vec![pool.clone()]));
    assert!(!html.contains("<h2>What to buy") && !html.contains("Not converged"));
    pool.estimate.to_mut().required[0].coverage[3].convergence = Settled::NotConverged;
    pool.estimate.to_mut().required[0].coverage[3].growth_per_window = Some(0.031);
    pool.estimate.to_mut().plan = Some(plan());
    let words = worded(&pool);
    assert_eq!(
        words.further.last().map(String::as_str),
        Some("This requirement has not converged: it was still growing by 3.1 % from one step to the next.")
    );
    let html = page("tiers", &of_pools("week", vec![pool]));
    for part in [
        "<h2>What to buy</h2>",
        "Units of each tier that keep its share of requests at 99 % of their theoretical hit rate; 62,500 in all",
        "<td>25</td><td>1.96 TiB</td><td>91.50 %</td><td>90.50 %</td><td>11.8 ×</td><td>62,500</td>",
        "<td class=\"words\">+0.25 % hits for 2,500</td><td class=\"words\">not converged, +3.1 % per step</td>",
        "nvme (inclusive)",
        "<td>beyond bound</td>",
        "<dt>Not converged: 99 % (+3.1 % per step)</dt>",
        "Over the last 12 readings",
    ] {
        assert!(html.contains(part), "{part} is missing");
    }
}

/// A tier with numbers and one beyond the bound.
fn plan() -> TierEstimates {
    let tier = |name: &str, coverage: &str| TierEstimate {
        name: name.to_owned(),
        coverage: coverage.parse().expect("a share"),
        inclusion: Inclusion::Exclusive,
        required_pages: Some(540_000),
        beyond_bound: false,
        convergence: Settled::NotConverged,
        growth_per_window: Some(0.031),
        planned: Purchase {
            units: Some(25),
            pages: Some(546_133),
            bytes: Some(25 * (80 << 30)),
            reach_pages: Some(546_133),
            hit_rate: Some(0.915),
            hit_rate_tokens: Some(0.905),
            relative_prefill_throughput: Some(1.0 / 0.085),
            cost: Some(62_500.0),
        },
        next_unit: Some(NextUnit {
            reach_pages: PageCount(567_978),
            hit_rate_gain: Some(0.0025),
            relative_prefill_throughput: Some(12.0),
            cost: Some(2_500.0),
        }),
        recommended: Purchase::default(),
        recommendation_changed: false,
    };
    let beyond = TierEstimate {
        inclusion: Inclusion::Inclusive,
        required_pages: None,
        beyond_bound: true,
        growth_per_window: None,
        planned: Purchase::default(),
        next_unit: None,
        ..tier("nvme", "0.999")
    };
    let tiers = vec![tier("hbm", "0.99"), beyond];
    TierEstimates { target_ratio: Ratio::per_mille(990), cost: Some(62_500.0), recommended_cost: None, tiers }
}

const HOSTILE: [&str; 6] = [
    "</title><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' style='background:url(//evil.example)",
    "]]><!-- &lt;script&gt; -->",
    "\u{202e}lmth.live\u{0}\u{1b}[31m",
    "javascript:alert(1)//&amp;<svg/onload=alert(1)>",
];

#[test]
fn hostile_names_are_shown_and_never_run() {
    let mut input = of_pools(HOSTILE[0], vec![troubled_pool(), week_pool()]);
    input.inputs = HOSTILE.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
    let tags = |html: &str| -> Vec<String> {
        html.split('<')
            .skip(1)
            .map(|rest| rest.split(['>', ' ', '/']).next().unwrap_or_default().to_owned())
            .collect()
    };
    let mut harmless = input.clone();
    harmless.title = "a title".to_owned();
    harmless.inputs.iter_mut().for_each(|(name, value)| (*name, *value) = ("n".to_owned(), "v".to_owned()));
    for (pool, name) in input.pools.iter_mut().zip(&HOSTILE[1..]) {
        pool.name = Some((*name).to_owned());
        pool.estimate
            .to_mut()
            .capacities
            .iter_mut()
            .for_each(|point| point.label = Some(HOSTILE[2].to_owned()));
    }
    harmless.pools.iter_mut().for_each(|pool| pool.name = Some("pool".to_owned()));
    let html = page("hostile", &input);
    assert_eq!(tags(&html), tags(&page("harmless", &harmless)), "names add no element");
    for attack in
        ["<script", "<img", "onerror=alert(1)>", "\u{202e}", "\u{0}", "\u{1b}", "style='background", "<svg/"]
    {
        assert!(!html.contains(attack), "{attack:?} got through");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "and is shown as it was written");
}

#[test]
fn the_page_needs_nothing_else_and_runs_nothing() {
    let html = page("alone", &week());
    for outside in
        ["http:", "https:", "src=", "@import", "url(", "<script", "<link", "javascript:", "@font-face"]
    {
        assert!(!html.contains(outside), "the page names {outside}");
    }
    assert!(html.contains("default-src 'none'"), "the browser holds it to that");
    assert!(html.len() < 500_000, "{} bytes", html.len());
}

#[test]
fn a_size_is_of_one_cache_where_the_log_names_several() {
    let count = 4;
    let pool = PoolReport { replicas: Some(Replicas { count, logged: Vec::new() }), ..week_pool() };
    let words = worded(&pool);
    assert!(words.lead.starts_with("5.05 TiB keeps 99 % of requests"), "{}", words.lead);
    assert!(
        words.lead.contains("theoretical hit rate, as one cache for all 4 replicas; 991 GiB"),
        "{}",
        words.lead
    );
    let coverage = "0.99".parse().expect("a share");
    let routed = |pages: Option<u64>| RouterCoverage {
        coverage,
        pages,
        total_pages: pages.map(|pages| pages * count),
        total_bytes: None,
    };
    for (pages, said) in [
        (
            Some(400_000),
            "the 4 replicas need 5.73 TiB together, 1.44 TiB each, for the same share of requests.",
        ),
        (None, "the replicas need more than was tracked for the same share of requests."),
    ] {
        let replicas = Some(Replicas { count, logged: vec![routed(pages)] });
        assert_eq!(
            worded(&PoolReport { replicas, ..week_pool() }).further[0],
            format!("Routed as logged, {said}")
        );
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(render(&week()).expect("a report"), render(&week()).expect("a report"));
}

#[test]
fn requests_in_flight_are_a_caveat_and_a_column_and_their_absence_is_told() {
    let mut pool = week_pool();
    let says = |pool: &PoolReport<'_>, words: &str| {
        caveats(pool).iter().filter(|caveat| caveat.title.contains(words)).count()
    };
    assert_eq!(says(&pool, "in flight"), 0, "nothing overlapped");
    pool.estimate.to_mut().in_flight = Some(in_flight(12, 40_000));
    assert_eq!(says(&pool, "Up to 12 other requests were in flight as one arrived, holding at most"), 1);
    let html = page("in-flight", &of_pools("overlap.jsonl", vec![pool.clone()]));
    assert!(
        html.contains("hit rate, with room for requests in flight</caption>")
            && html.contains("without that room")
    );
    pool.estimate.to_mut().in_flight = None;
    assert_eq!(says(&pool, "Requests in flight are not visible"), 1);
    pool.estimate.to_mut().requests = 0;
    assert_eq!(says(&pool, "in flight"), 0);
}

#[test]
fn engines_side_by_side_share_one_plot_and_keep_their_sections() {
    let engines = [Profile::Paper, Profile::Vllm, Profile::Sglang].map(|engine| {
        let mut pool = week_pool();
        (pool.estimate.to_mut().engine, pool.name) = (engine, Some(engine.to_string()));
        pool
    });
    let mut engines = engines.to_vec();
    engines[2].estimate.to_mut().required.clear();
    engines[2].pointwise = true;
    let input = ReportInput { compares_engines: true, ..of_pools("engines.jsonl", engines) };
    let html = page("engines", &input);
    assert_eq!(html.matches("id=\"comparison-curves-title\"").count(), 1);
    assert!(html.contains("<h2>Engine vllm</h2>") && !html.contains("<h2>Pool"));
    assert!(html.contains("<caption>Recommended capacity at target 99 %</caption>"));
    assert!(html.contains("aria-label=\"Engines\""));
}
