//! `kvset replay --ttl`, `--optimal` and `--tenants`: the known figures of real traces, and that what is
//! said of tenants adds up to what is said of all.

use crate::support::program::{WITHOUT_CERTAINTY, kvset};
use crate::support::shared::shared_path;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

fn run(trace: &Path, args: &[&str]) -> Value {
    let trace = trace.to_str().expect("UTF-8");
    let mut command = kvset(&[&["replay", "--json"], &WITHOUT_CERTAINTY[..], args, &[trace]].concat());
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

fn replay(rows: &[Value], args: &[&str]) -> Value {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    rows.iter().for_each(|row| writeln!(file, "{row}").expect("written"));
    file.flush().expect("written");
    run(file.path(), args)
}

/// Three tenants that each come back to their own pages and to a first one that all share.
fn tenants_rows() -> Vec<Value> {
    let row = |at: u64| {
        let (tenant, turn) = (at % 3, at / 3);
        let ids: Vec<u64> =
            [1].into_iter().chain((0..3 + turn % 4).map(|page| 100 * tenant + page + 10)).collect();
        json!({"timestamp": at * 700, "input_length": ids.len() * 512, "output_length": 1, "hash_ids": ids,
               "tenant": (tenant > 0).then(|| format!("t{tenant}"))})
    };
    (0..60).map(row).collect()
}

#[test]
fn retention_of_the_mooncake_trace_is_the_known_one() {
    let Some(trace) = shared_path("traces/mooncake_synthetic_trace.jsonl") else { return };
    for engine in ["paper", "leaf-first"] {
        let result = run(&trace, &["--ttl", "10s,1m,5m,10m", "--engine", engine]);
        let of = |kind: &str, field: &str| -> Vec<f64> {
            let points = result["retention"].as_array().expect("points");
            let points = points.iter().filter(|point| point["kind"] == kind);
            points.map(|point| point[field].as_f64().expect("a number")).collect()
        };
        assert_eq!(of("sliding", "ttl_ms"), [10_000.0, 60_000.0, 300_000.0, 600_000.0]);
        assert_eq!(of("sliding", "page_hits"), [13_007.0, 39_124.0, 71_046.0, 77_057.0]);
        assert_eq!(of("sliding", "prefix_hits"), of("sliding", "page_hits"));
        assert_eq!(of("sliding", "peak_pages"), [2_314.0, 7_628.0, 21_839.0, 34_182.0]);
        assert_eq!(of("fixed", "page_hits"), [11_368.0, 34_079.0, 62_348.0, 71_686.0]);
        // Page-milliseconds over the 1,022,025 ms of the trace.
        let held = [1_103_478_338.0, 5_492_409_770.0, 17_340_970_438.0, 24_435_030_755.0];
        for ((mean, known), held) in
            of("sliding", "mean_pages").iter().zip([1079.698, 5374.046, 16967.266, 23908.447]).zip(held)
        {
            assert!((mean - known).abs() < 0.0005, "{mean} is not {known}");
            assert!((mean - held / 1_022_025.0).abs() <= 1e-9 * mean, "{mean} is not {held} over the span");
        }
    }
}

#[test]
fn the_optimum_of_the_mooncake_trace_is_the_known_one() {
    let Some(trace) = shared_path("traces/mooncake_synthetic_trace.jsonl") else { return };
    let capacities = "1000p,2000p,5000p,10000p,20000p";
    let result = run(&trace, &["--optimal", "--engine", "leaf-first", "--capacities", capacities]);
    let points = result["capacities"].as_array().expect("points");
    let of = |field: &str| -> Vec<_> { points.iter().map(|point| point[field].as_u64()).collect() };
    assert_eq!(of("optimal_page_hits"), [33_697, 46_201, 64_034, 75_141, 77_740].map(Some));
    assert_eq!(of("page_hits"), [10_370, 18_256, 34_604, 52_952, 70_849].map(Some));
    let found = &result["optimal"];
    let (pages, least) = (found["pages"].as_u64(), found["optimal_pages"].as_u64());
    let (pages, least) = (pages.expect("the recommended one"), least.expect("the least"));
    assert_eq!(found["times"].as_f64(), Some(pages as f64 / least as f64));
    let around = format!("{}p,{least}p,{pages}p", least - 1);
    let result = run(&trace, &["--optimal", "--engine", "leaf-first", "--capacities", &around]);
    let hits = |at: usize, field: &str| result["capacities"][at][field].as_u64().expect("hits");
    let lru = hits(2, "page_hits");
    assert!(
        hits(0, "optimal_page_hits") < lru && hits(1, "optimal_page_hits") >= lru,
        "the least is the least"
    );
}

#[test]
fn a_week_of_coding_sessions_says_what_five_minutes_need() {
    let Some(trace) = shared_path("traces/weka_claude_code_week.jsonl.zst") else { return };
    let cost = ["--kv-bytes-per-token", "61464", "--capacities", "8192p"];
    let result = run(&trace, &[&["--ttl", "5m,1h"], &cost[..]].concat());
    let gib = |point: &Value, field: &str| point[field].as_f64().expect("bytes") / f64::from(1 << 30);
    let (five, hour) = (&result["retention"][0], &result["retention"][2]);
    let rate = |point: &Value| (point["page_hit_rate"].as_f64().expect("a rate") * 1e4).round();
    assert_eq!([rate(five), rate(hour)], [8893.0, 9359.0]);
    assert_eq!(
        [gib(five, "mean_bytes"), gib(hour, "mean_bytes")].map(|mean| (mean * 10.0).round()),
        [20.0, 105.0]
    );
    assert_eq!([gib(five, "peak_bytes"), gib(hour, "peak_bytes")].map(f64::round), [55.0, 121.0]);
    let age = result["capacities"][0]["eviction_age_ms"]["p50"].as_f64().expect("an age");
    assert_eq!((age / 60_000.0).round(), 88.0);
}

#[test]
fn tenants_add_up_to_the_pool() {
    let rows = tenants_rows();
    let args = ["--capacities", "2p,5p,9p,100p", "--tenants", "2"];
    let result = replay(&rows, &args);
    let tenants = result["tenants"].as_array().expect("tenants");
    let names: Vec<_> = tenants.iter().map(|tenant| tenant["tenant"].clone()).collect();
    assert_eq!(names.len(), 3);
    assert_eq!(names[2], json!("other"));
    let sum =
        |field: &str| tenants.iter().map(|tenant| tenant[field].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(sum("requests"), 60);
    assert_eq!(json!(sum("page_hits")), result["theoretical"]["page_hits"]);
    assert_eq!(json!(sum("page_hits") + sum("cold_pages")), result["trace"]["page_accesses"]);
    for at in 0..4 {
        let of = |field: &str| {
            tenants.iter().map(|tenant| tenant[field][at].as_u64().expect("a count")).sum::<u64>()
        };
        assert_eq!(json!(of("capacity_page_hits")), result["capacities"][at]["page_hits"]);
    }
    let alone = replay(&rows, &["--capacities", "2p,5p,9p,100p", "--tenants", "0"]);
    let pool = &alone["tenants"][0]["page_milliseconds"];
    for at in 0..4 {
        let held = tenants.iter().map(|tenant| tenant["page_milliseconds"][at].as_u64().expect("a sum"));
        assert_eq!(json!(held.sum::<u64>()), pool[at]);
    }
}

#[test]
fn an_engine_without_one_curve_is_refused_with_a_reason() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    tenants_rows().iter().for_each(|row| writeln!(file, "{row}").expect("written"));
    let trace = file.path().to_str().expect("UTF-8");
    for asked in [&["--ttl", "5m"][..], &["--optimal"], &["--tenants"]] {
        let command = [&["replay", "--engine", "sglang"], asked, &[trace]].concat();
        let assert = kvset(&command).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains("one curve, which sglang has not"), "{said}");
    }
}

#[test]
fn tables_say_what_was_asked() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    tenants_rows().iter().for_each(|row| writeln!(file, "{row}").expect("written"));
    let trace = file.path().to_str().expect("UTF-8");
    let asked = ["replay", "--ttl", "1s,5m,1h", "--optimal", "--kv-bytes-per-token", "1000"];
    let mut command = kvset(&[&asked[..], &["--tenants", trace]].concat());
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).expect("UTF-8");
    for said in ["kept for", "How long unused pages live", "with foresight", "Whose pages"] {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
}

#[test]
fn between_tiers_pass_the_known_amounts() {
    let Some(trace) = shared_path("traces/weka_claude_code_week.jsonl.zst") else { return };
    let tiers = ["--tier", "hbm:0.99:30GiB", "--tier", "dram:0.999:30GiB", "--prefill-rate", "10000"];
    let result = run(&trace, &[&["--kv-bytes-per-token", "61464"], &tiers[..]].concat());
    let (traffic, dram) = (&result["traffic"], &result["traffic"]["tiers"][0]);
    let pages = |name: &str| dram[name].as_u64().expect("a count");
    let reach = |at: usize| result["plan"]["tiers"][at]["planned"]["reach_pages"].as_u64().expect("pages");
    let capacities = format!("{}p,{}p", reach(0), reach(1));
    let curve = run(&trace, &["--capacities", &capacities]);
    let hits = |at: usize| curve["capacities"][at]["page_hits"].as_u64().expect("hits");
    assert_eq!(pages("read_pages"), hits(1) - hits(0), "what is read is what the first tier misses");
    let accesses = curve["trace"]["page_accesses"].as_u64().expect("accesses");
    assert_eq!(
        pages("written_pages"),
        accesses - hits(0) - reach(0),
        "what enters the first tier leaves it but for its size"
    );
    assert_eq!(dram["drive_writes_per_day"].as_f64().map(|full| (full * 10.0).round()), Some(70.0));
    assert_eq!(traffic["pages_touched_once"], 36_607);
    assert_eq!(traffic["break_even_bytes_per_second"].as_f64(), Some(614_640_000.0));
    let words = traffic["in_words"][0].as_str().expect("a sentence");
    assert_eq!(
        words,
        "30 GiB + 30 GiB: 14.9 GiB a day read, 1.16 TiB written in 5.6 days, 7.0 drive writes a day."
    );
    let Some(trace) = shared_path("traces/mooncake_synthetic_trace.jsonl") else { return };
    let result = run(&trace, &["--tier", "a:0.5:1000p", "--tier", "b:0.9:1000p"]);
    assert_eq!(result["traffic"]["pages_touched_once"], 40_148 - 18_057);
}

#[test]
fn the_report_has_a_section_for_each_thing_asked() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    tenants_rows().iter().for_each(|row| writeln!(file, "{row}").expect("written"));
    let page = file.path().with_extension("html");
    let (trace, out) = (file.path().to_str().expect("UTF-8"), page.to_str().expect("UTF-8"));
    let sections = ["The best any policy could do", "How long pages are kept", "Between tiers", "Tenants"];
    let read = || std::fs::read_to_string(&page).expect("a page");
    kvset(&["replay", "--report", out, trace]).assert().success();
    assert!(sections.iter().all(|section| !read().contains(section)), "nothing was asked for");
    let asked = ["--ttl", "5m", "--optimal", "--tier", "a:0.5:2p", "--tier", "b:1:2p"];
    kvset(&[&["replay", "--report", out], &asked[..], &["--tenants", trace]].concat()).assert().success();
    for section in sections.iter().chain(&["with perfect foresight"]) {
        assert!(read().contains(section), "{section} is missing");
    }
    std::fs::remove_file(&page).expect("the page");
}

/// Bodies, token ids and page ids alike name a class by the row; the report shows it.
#[test]
fn retention_classes_add_up_to_the_pool() {
    let mut rows = tenants_rows();
    for row in &mut rows {
        row["retention_class"] = row["tenant"].take();
    }
    let result =
        replay(&rows, &["--capacities", "2p,5p,9p,100p", "--retention-classes", "--provisioned", "7p"]);
    let classes = result["retention_classes"].as_array().expect("classes");
    let names: Vec<_> = classes.iter().map(|class| class["class"].as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.contains(&None) && names.contains(&Some("t1")) && names.contains(&Some("t2")), "{names:?}");
    let sum = |field: &str| classes.iter().map(|class| class[field].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(sum("requests"), 60);
    assert_eq!(json!(sum("page_hits")), result["theoretical"]["page_hits"]);
    assert_eq!(json!(sum("page_accesses")), result["trace"]["page_accesses"]);
    assert_eq!(
        (&classes[0]["sizes"][0]["pages"], &classes[0]["sizes"][0]["provisioned"]),
        (&json!(7), &json!(true))
    );
    let alone = replay(&rows, &["--capacities", "2p", "--provisioned", "7p"]);
    assert!(alone.get("retention_classes").is_none(), "nothing was asked for");
}

/// A window is what a replay up to its end says that only warmed up before its start.
#[test]
fn retention_in_windows_is_that_of_a_replay_that_counts_their_requests_only() {
    let rows = tenants_rows();
    let ttl = ["--ttl", "1s,3s,20s"];
    let windows =
        ["--window", "tumbling:14s", "--window", "hopping:14s/7s", "--window", "last:25", "--window", "all"];
    let sizes = ["--capacities", "2p,5p,9p"];
    let result = replay(&rows, &[&ttl[..], &windows, &sizes, &["--optimal"]].concat());
    let checked = result["windows"].as_array().expect("windows").iter().map(|window| {
        let times = (0..60).map(|at| at * 700);
        let (start, end) =
            (window["start_ms"].as_i64().expect("a time"), window["end_ms"].as_i64().expect("a time"));
        let (before, upto) = match window["kind"].as_str().expect("a kind") {
            "last:25" => (35, 60),
            "all" => (0, 60),
            _ => {
                (times.clone().filter(|time| *time < start).count(), times.filter(|time| *time < end).count())
            }
        };
        assert_eq!(window["requests"], json!(upto - before));
        let alone = replay(&rows[..upto], &[&ttl[..], &["--warm-up", &before.to_string()]].concat());
        let bare = |mut points: Value| {
            let points = points.as_array_mut().expect("points");
            points
                .iter_mut()
                .for_each(|point| drop(point.as_object_mut().expect("a point").remove("capacities")));
            points.clone()
        };
        assert_eq!(bare(window["retention"].clone()), bare(alone["retention"].clone()), "{window}");
        assert_eq!(window["retention_required"], alone["retention_required"]);
        // Foresight in a window begins with nothing.
        let within = replay(&rows[before..upto], &["--optimal", sizes[0], sizes[1]]);
        let found = within["capacities"].as_array().expect("points").iter();
        let found: Vec<_> = found.map(|point| point["optimal_page_hits"].clone()).collect();
        assert_eq!(window["optimal_page_hits"], json!(found));
        1
    });
    assert!(checked.sum::<usize>() >= 9);
}

#[test]
fn a_tenant_s_name_cannot_command_the_terminal() {
    let mut rows = tenants_rows();
    for row in &mut rows {
        row["tenant"] = json!("a\u{1b}[2Jb\u{0}c\u{202e}d\ne");
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    rows.iter().for_each(|row| writeln!(file, "{row}").expect("written"));
    file.flush().expect("written");
    let trace = file.path().to_str().expect("UTF-8");
    let args = ["replay", "--tenants", "--capacities", "5p", trace];
    let output = kvset(&args).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.contains("a\u{fffd}[2Jb\u{fffd}c\u{fffd}d e"), "{text}");
    let obeyed = |character: char| character != '\n' && character.is_control() || character == '\u{202e}';
    assert!(!text.contains(obeyed), "{text}");
}

#[test]
fn a_negative_value_is_refused_as_a_value() {
    for (option, value) in [("--ttl", "-5m"), ("--tenants", "-1"), ("--prefill-rate", "-1")] {
        let args = ["replay", "--tier", "hbm:0.95:1GiB", option, value, "trace.jsonl"];
        let output = kvset(&args).assert().code(2).get_output().stderr.clone();
        let text = String::from_utf8(output).expect("UTF-8");
        assert!(text.contains(&format!("invalid value '{value}' for '{option}")), "{text}");
    }
}
