//! The drawings: labels apart, texts as texts, every colour a class, readable without the page.

use crate::report_support::{covered, point, recommending, troubled_pool, week_pool};
use kvset::present::plots::Plot;
use kvset::present::plots::{
    capacity_curve, capacity_history, requirement_distribution, traffic_history, worth_against_price,
};
use kvset::present::pool::PoolReport;
use kvset::present::questions::WorthCurve;
use proptest::prelude::*;

fn plots(pool: &PoolReport<'_>) -> Vec<Plot> {
    let pool = &recommending(pool.clone());
    let drawn = [
        capacity_curve("a", pool),
        capacity_history("b", pool),
        requirement_distribution("c", pool),
        traffic_history("d", pool),
    ];
    drawn.into_iter().filter_map(|plot| plot.expect("a drawable plot")).collect()
}

/// A text as a box: left, top, right, bottom, in drawing units.
#[derive(Debug)]
struct Label {
    text: String,
    area: [f64; 4],
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let from = tag.find(&format!(" {name}=\"")).map_or(0, |at| at + name.len() + 3);
    tag[from..].split('"').next().unwrap_or_default()
}

fn labels(svg: &str) -> Vec<Label> {
    let number = |tag: &str, name: &str| attribute(tag, name).parse::<f64>().expect(name);
    let label = |part: &str| {
        let (tag, rest) = part.split_once('>').expect("a tag");
        let tag = format!(" {tag}");
        let text = rest.split('<').next().unwrap_or_default().trim().to_owned();
        let size = number(&tag, "font-size");
        // Half an em a character is what common fonts take for such texts.
        let width = text.chars().count() as f64 * size * 0.5;
        let left = match attribute(&tag, "text-anchor") {
            "end" => number(&tag, "x") - width,
            "middle" => number(&tag, "x") - width / 2.0,
            _ => number(&tag, "x"),
        };
        let baseline = number(&tag, "y")
            + match attribute(&tag, "dy") {
                "0.76em" => 0.76 * size,
                "0.5ex" => 0.25 * size,
                _ => -0.25 * size,
            };
        Label { text, area: [left, baseline - 0.72 * size, left + width, baseline] }
    };
    svg.split("<text").skip(1).map(label).collect()
}

fn overlapping(labels: &[Label]) -> Option<(&Label, &Label)> {
    let apart = |a: &Label, b: &Label| {
        let ([al, at, ar, ab], [bl, bt, br, bb]) = (a.area, b.area);
        ar <= bl || br <= al || ab <= bt || bb <= at
    };
    let pairs =
        labels.iter().enumerate().flat_map(|(index, a)| labels[index + 1..].iter().map(move |b| (a, b)));
    pairs.into_iter().find(|(a, b)| !apart(a, b))
}

fn check(plot: &Plot) {
    plot.inline_svgs().iter().for_each(|svg| check_drawing(plot, svg));
    assert!(!plot.table.rows.is_empty() && !plot.description.is_empty());
    assert!(plot.table.rows.iter().all(|row| row.len() == plot.table.columns.len()), "{}", plot.id);
}

fn check_drawing(plot: &Plot, svg: &str) {
    let labels = labels(svg);
    assert!(labels.len() > 6, "{}: texts are texts", plot.id);
    assert!(overlapping(&labels).is_none(), "{}: {:?}", plot.id, overlapping(&labels));
    let size: Vec<f64> = attribute(svg, "viewBox").split(' ').filter_map(|part| part.parse().ok()).collect();
    for label in &labels {
        let [left, top, right, bottom] = label.area;
        assert!(left >= 0.0 && top >= 0.0 && right <= size[2] && bottom <= size[3], "{}: {label:?}", plot.id);
    }
    assert!(!svg.contains("#C0DE") && !svg.contains("=\"#"), "{}: a colour that follows no theme", plot.id);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", plot.id);
    for needed in ["role=\"img\"", "<title id=", "<desc id=", "aria-labelledby="] {
        assert!(svg.contains(needed), "{}: {needed}", plot.id);
    }
    let axes = labels.iter().filter(|label| label.text.contains('('));
    assert!(plot.id == "d" || axes.count() >= 1, "{}: axes name their units", plot.id);
}

#[test]
fn every_plot_is_readable_whatever_the_pool() {
    for pool in [week_pool(), troubled_pool()] {
        let plots = plots(&pool);
        assert_eq!(plots.len(), 4);
        plots.iter().for_each(check);
    }
}

#[test]
fn a_drawing_stands_alone() {
    let svg = plots(&week_pool())[0].standalone_svg();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(
        svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.contains("prefers-color-scheme:dark")
    );
    let opened = svg.matches("<text").count();
    assert_eq!(opened, svg.matches("</text>").count());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plot-curve.svg");
    std::fs::write(file, svg).expect("a writable folder");
}

#[test]
fn a_pool_without_figures_has_no_plots() {
    let mut pool = week_pool();
    pool.estimate.to_mut().capacities.clear();
    pool.history = Default::default();
    pool.distribution = Default::default();
    assert!(plots(&pool).is_empty());
}

#[test]
fn one_point_is_enough_to_draw() {
    let mut pool = week_pool();
    pool.estimate.to_mut().capacities.truncate(1);
    pool.history.points.truncate(1);
    pool.distribution.steps.retain(|step| step.pages == 0 || step.pages > 5_000_000);
    pool.estimate.to_mut().required.clear();
    assert_eq!(plots(&pool).len(), 4);
    plots(&pool).iter().for_each(check);
}

#[test]
fn figures_that_are_no_numbers_are_left_out() {
    let mut pool = week_pool();
    pool.estimate.to_mut().capacities[3].prefix_hit_rate = Some(f64::NAN);
    pool.estimate.to_mut().capacities[4].relative_prefill_throughput = Some(f64::INFINITY);
    pool.history.points[5].hit_rate = Some(f64::NAN);
    pool.estimate.to_mut().theoretical.prefix_hit_rate = f64::NAN;
    plots(&pool).iter().for_each(check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn labels_stay_apart_wherever_the_requirements_lie(
        required in prop::collection::vec(1u64..10_000_000_000, 5),
        close in any::<bool>(),
        page_bytes in prop::option::of(1u64..1 << 32),
        accumulated in 1u64..20_000_000_000,
    ) {
        let mut pool = week_pool();
        pool.estimate.to_mut().page_bytes = page_bytes;
        let mut required: Vec<u64> =
            required.iter().map(|pages| if close { 1_000_000 + pages % 50 } else { *pages }).collect();
        required.sort_unstable();
        pool.estimate.to_mut().required.truncate(1);
        pool.estimate.to_mut().required[0].coverage =
            ["0.5", "0.9", "0.95", "0.99", "0.999"].iter().zip(&required).map(|(share, pages)| covered(share, Some(*pages))).collect();
        for (index, history) in pool.history.points.iter_mut().enumerate() {
            history.required = required.iter().map(|pages| Some(pages * (index as u64 + 1) / 168)).collect();
            history.accumulated_pages = accumulated * (index as u64 + 1) / 168;
        }
        pool.estimate.to_mut().capacities = (0..20).map(|index| point(required[0].max(2) / 2 * (index + 1), 0.04 * index as f64, 0.04 * index as f64)).collect();
        plots(&pool).iter().for_each(check);
    }
}

/// A curve on which the next GiB earns less and less, of pages of a GiB.
fn worth(steps: &[(u64, f64)], price: f64, best: Option<u64>) -> Option<Plot> {
    let curve = WorthCurve { steps: steps.to_vec(), price, best, page_bytes: 1 << 30 };
    worth_against_price("worth", &curve).expect("a drawable plot")
}

#[test]
fn worth_is_drawn_against_its_price_with_the_crossing_marked() {
    let steps = [(1, 2.0), (8, 1.5), (64, 0.5), (128, 0.05), (256, 0.000_1), (512, 0.0)];
    let plot = worth(&steps, 0.07, Some(64)).expect("a plot");
    check(&plot);
    let svg = plot.standalone_svg();
    for text in ["worth its price up to 64.0 GiB", "one GiB costs: 0.07", "one GiB more earns"] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    assert!(plot.description.contains("Up to 64.0 GiB"));
    // What earns next to nothing is not drawn.
    assert_eq!(plot.table.rows.last().map(|row| row[0].text()).as_deref(), Some("128 GiB"));
    let dear = worth(&steps, 9.0, None).expect("a plot");
    check(&dear);
    assert!(
        dear.description.contains("no size of the cache saves what it costs")
            && !dear.standalone_svg().contains("worth its price")
    );
    check(&worth(&steps, 0.0, None).expect("memory that is free"));
    assert!(worth(&[(1, 0.0), (2, 0.0)], 0.07, None).is_none() && worth(&[], 0.07, None).is_none());
}

proptest! {
    #[test]
    fn any_worth_can_be_drawn(
        steps in prop::collection::vec((1u64..1 << 20, 0.0..1e4f64), 0..40), price in 0.0..1e3f64, best in 0usize..50,
    ) {
        let (mut pages, mut sum) = (0, Vec::new());
        for (step, earns) in steps {
            pages += step;
            sum.push((pages, earns));
        }
        let best = sum.get(best).map(|(pages, _)| *pages);
        if let Some(plot) = worth(&sum, price, best) {
            check(&plot);
        }
    }
}
