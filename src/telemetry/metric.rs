//! What a metric is: its definition as data, and the handles made from it.

use metrics::{Counter, Gauge, Histogram, Label};

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// A present value.
    Gauge,
    /// A distribution, over these upper bounds.
    Histogram(&'static [f64]),
}

/// What a metric counts; its name ends in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// Bytes.
    Bytes,
    /// Pages of the pool.
    Pages,
    /// Seconds.
    Seconds,
    /// A share between 0 and 1.
    Ratio,
    /// Kafka records.
    Records,
    /// Requests.
    Requests,
    /// Countable things named by the metric itself.
    Things,
    /// Always 1; the labels are the information.
    Info,
}

impl MetricUnit {
    /// What names end in, before `_total`; `None` where the metric's own name says what is counted.
    pub fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Bytes => Some("_bytes"),
            Self::Pages => Some("_pages"),
            Self::Seconds => Some("_seconds"),
            Self::Ratio => Some("_ratio"),
            Self::Records => Some("_records"),
            Self::Requests => Some("_requests"),
            Self::Info => Some("_info"),
            Self::Things => None,
        }
    }
}

/// The definition of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Full name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// What it counts.
    pub unit: MetricUnit,
    /// Names of its labels; their values are bounded by the configuration.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

impl Metric {
    /// The counter with these label values, in the order of [`Metric::labels`].
    pub fn counter(&self, values: &[&str]) -> Counter {
        debug_assert_eq!(self.kind, MetricKind::Counter, "{} is no counter", self.name);
        metrics::counter!(self.name, self.labelled(values))
    }

    /// The gauge with these label values, in the order of [`Metric::labels`].
    pub fn gauge(&self, values: &[&str]) -> Gauge {
        debug_assert_eq!(self.kind, MetricKind::Gauge, "{} is no gauge", self.name);
        metrics::gauge!(self.name, self.labelled(values))
    }

    /// The histogram with these label values, in the order of [`Metric::labels`].
    pub fn histogram(&self, values: &[&str]) -> Histogram {
        debug_assert!(matches!(self.kind, MetricKind::Histogram(_)), "{} is no histogram", self.name);
        metrics::histogram!(self.name, self.labelled(values))
    }

    fn labelled(&self, values: &[&str]) -> Vec<Label> {
        debug_assert_eq!(values.len(), self.labels.len(), "{} has the labels {:?}", self.name, self.labels);
        let pairs = self.labels.iter().zip(values);
        pairs.map(|(name, value)| Label::new(*name, (*value).to_owned())).collect()
    }

    /// Tells the recorder what the metric means.
    pub(super) fn describe(&self) {
        match self.kind {
            MetricKind::Counter => metrics::describe_counter!(self.name, self.help),
            MetricKind::Gauge => metrics::describe_gauge!(self.name, self.help),
            MetricKind::Histogram(_) => metrics::describe_histogram!(self.name, self.help),
        }
    }
}
