//! Which labels the result of a query has, and whether its series are exported at all.

use kvset::telemetry::catalog::ALL;
use kvset::telemetry::{Metric, MetricKind};
use promql_parser::label::{Labels, MatchOp, Matchers};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use std::collections::BTreeSet;

/// Labels by name.
pub type Names = BTreeSet<String>;

/// What Prometheus adds to every series it scrapes.
const SCRAPED: [&str; 2] = ["job", "instance"];

/// A series as it is exported.
pub struct Series {
    /// The metric's own name, without a histogram's suffix.
    pub metric: &'static str,
    /// Its labels, those of the scrape among them.
    pub labels: Names,
}

/// The series of this name.
pub fn series(name: &str) -> Option<Series> {
    if name == "up" {
        return Some(Series { metric: "up", labels: names(SCRAPED) });
    }
    ALL.iter().find_map(|metric| series_of(metric, name))
}

fn series_of(metric: &Metric, name: &str) -> Option<Series> {
    let suffix = name.strip_prefix(metric.name)?;
    let further: &[&str] = match (suffix, metric.kind) {
        ("", MetricKind::Counter | MetricKind::Gauge) | ("_sum" | "_count", MetricKind::Histogram(_)) => &[],
        ("_bucket", MetricKind::Histogram(_)) => &["le"],
        _ => return None,
    };
    let labels = names(metric.labels.iter().chain(further).copied().chain(SCRAPED));
    Some(Series { metric: metric.name, labels })
}

fn names<'a>(labels: impl IntoIterator<Item = &'a str>) -> Names {
    labels.into_iter().map(str::to_owned).collect()
}

/// A query that was understood.
pub struct Query {
    /// Labels of its result.
    pub labels: Names,
    /// The metrics it reads.
    pub metrics: BTreeSet<&'static str>,
}

/// Parses a query and checks every name in it.
pub fn check(text: &str) -> Result<Query, String> {
    let expression = parser::parse(text).map_err(|error| format!("{text}: {error}"))?;
    let mut query = Query { labels: Names::new(), metrics: BTreeSet::new() };
    query.labels = labels(&expression, &mut query.metrics).map_err(|reason| format!("{text}: {reason}"))?;
    Ok(query)
}

/// What a query selects, each selector as a query of its own.
pub fn selectors(text: &str) -> Vec<String> {
    selected_in(text).iter().map(ToString::to_string).collect()
}

/// The matchers of all selectors: label, operation, value.
pub fn matchers(text: &str) -> Vec<(String, MatchOp, String)> {
    let selectors = selected_in(text);
    let matchers = selectors.into_iter().flat_map(|selector| selector.matchers.matchers);
    matchers.map(|matcher| (matcher.name, matcher.op, matcher.value)).collect()
}

fn selected_in(text: &str) -> Vec<VectorSelector> {
    struct Found(Vec<VectorSelector>);
    impl ExprVisitor for Found {
        type Error = std::convert::Infallible;

        fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
            match expression {
                Expr::VectorSelector(selector) => self.0.push(selector.clone()),
                Expr::MatrixSelector(matrix) => self.0.push(matrix.vs.clone()),
                _ => {}
            }
            Ok(true)
        }
    }
    let expression = parser::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut found = Found(Vec::new());
    let Ok(_) = walk_expr(&mut found, &expression);
    found.0
}

/// The labels of an expression's result.
fn labels(expression: &Expr, read: &mut BTreeSet<&'static str>) -> Result<Names, String> {
    match expression {
        Expr::VectorSelector(selector) => selected(selector, read),
        Expr::MatrixSelector(matrix) => selected(&matrix.vs, read),
        Expr::Paren(inner) => labels(&inner.expr, read),
        Expr::Unary(inner) => labels(&inner.expr, read),
        Expr::Subquery(inner) => labels(&inner.expr, read),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(Names::new()),
        Expr::Aggregate(aggregate) => {
            let inner = labels(&aggregate.expr, read)?;
            match &aggregate.modifier {
                None => Ok(Names::new()),
                Some(LabelModifier::Include(by)) => known(by, &inner),
                Some(LabelModifier::Exclude(without)) => {
                    Ok(inner.difference(&known(without, &inner)?).cloned().collect())
                }
            }
        }
        Expr::Binary(binary) => {
            let (left, right) = (labels(&binary.lhs, read)?, labels(&binary.rhs, read)?);
            let matching = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
            if let Some(matching) = matching {
                known(matching.labels(), &left)?;
                known(matching.labels(), &right)?;
            }
            Ok(left.union(&right).cloned().collect())
        }
        Expr::Call(call) => {
            let mut result = Names::new();
            for argument in &call.args.args {
                result.extend(labels(argument, read)?);
            }
            if call.func.name == "histogram_quantile" && !result.remove("le") {
                return Err("histogram_quantile of series without `le`".to_owned());
            }
            Ok(result)
        }
        Expr::Extension(_) => Err("not PromQL".to_owned()),
    }
}

fn selected(selector: &VectorSelector, read: &mut BTreeSet<&'static str>) -> Result<Names, String> {
    let name = selector.name.as_deref().ok_or("a selector without a metric's name")?;
    let series = series(name).ok_or_else(|| format!("`{name}` is not exported"))?;
    read.insert(series.metric);
    let Matchers { matchers, or_matchers } = &selector.matchers;
    for matcher in matchers.iter().chain(or_matchers.iter().flatten()) {
        if !series.labels.contains(&matcher.name) {
            return Err(format!("`{name}` has no label `{}`", matcher.name));
        }
    }
    Ok(series.labels)
}

/// The labels as a set, all of which must be among those that there are.
fn known(asked: &Labels, there: &Names) -> Result<Names, String> {
    let asked: Names = asked.labels.iter().cloned().collect();
    match asked.difference(there).next() {
        Some(missing) => Err(format!("no label `{missing}` to group or match by")),
        None => Ok(asked),
    }
}

#[test]
fn wrong_names_are_found() {
    for (text, reason) in [
        ("sum(", "sum("),
        ("kvset_no_such_thing", "not exported"),
        ("kvset_snapshot_duration_seconds", "not exported"),
        ("kvset_pools_bucket", "not exported"),
        ("kvset_pools{pool=\"a\"}", "no label `pool`"),
        ("sum by (pool) (kvset_pools)", "no label `pool`"),
        ("sum by (pool) (sum by (job) (kvset_tracked_pages))", "no label `pool`"),
        ("kvset_tracked_pages / on (partition) kvset_pools", "no label `partition`"),
        ("histogram_quantile(0.9, sum(rate(kvset_snapshot_pause_seconds_bucket[5m])))", "without `le`"),
    ] {
        let error = check(text).err().unwrap_or_else(|| panic!("{text} passes"));
        assert!(error.contains(reason), "{error}");
    }
    let query =
        check("histogram_quantile(0.9, sum by (le, job) (rate(kvset_snapshot_pause_seconds_bucket[5m])))");
    let query = query.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(query.labels, names(["job"]));
    assert_eq!(query.metrics, BTreeSet::from(["kvset_snapshot_pause_seconds"]));
    let both = "kvset_pools > 3 and rate(kvset_transactions_total{outcome!=\"committed\"}[5m]) > 0";
    assert_eq!(selectors(both), ["kvset_pools", "kvset_transactions_total{outcome!=\"committed\"}"]);
}
