//! Where labels go, so that none lies on another.

/// Room a text needs at a font size, on the wide side, because the reader's font is unknown.
pub(crate) fn text_width(text: &str, font_px: f64) -> f64 {
    let ems = |character: char| match character {
        ' ' | '.' | ',' | ':' | 'i' | 'l' | 'j' | '|' | '\'' => 0.34,
        'm' | 'w' | 'M' | 'W' | '%' | '×' => 0.95,
        c if c.is_uppercase() => 0.72,
        _ => 0.63,
    };
    text.chars().map(ems).sum::<f64>() * font_px
}

/// Moves intervals of these `sizes`, wanted around `centers`, as little as needed to lie within
/// `low..high` without overlap and in the order of their centers. `None` when they cannot all fit.
pub(crate) fn spread(centers: &[f64], sizes: &[f64], low: f64, high: f64) -> Option<Vec<f64>> {
    if sizes.iter().sum::<f64>() > high - low {
        return None;
    }
    let mut order: Vec<usize> = (0..centers.len()).collect();
    order.sort_by(|a, b| centers[*a].total_cmp(&centers[*b]));
    let mut clusters: Vec<Cluster> = Vec::new();
    for &index in &order {
        let mut joined = Cluster::single(index, centers[index], sizes[index]);
        joined.clamp(low, high);
        while let Some(last) = clusters.pop_if(|last| last.start + last.size > joined.start) {
            joined = last.join(joined);
            joined.clamp(low, high);
        }
        clusters.push(joined);
    }
    let mut placed = vec![0.0; centers.len()];
    for cluster in &clusters {
        let mut start = cluster.start;
        for &index in &cluster.members {
            placed[index] = start + sizes[index] / 2.0;
            start += sizes[index];
        }
    }
    Some(placed)
}

/// Intervals that touch, laid end to end from `start`.
struct Cluster {
    members: Vec<usize>,
    start: f64,
    size: f64,
    /// Sum over the members of the cluster's start that would put each where it was wanted.
    wanted_starts: f64,
}

impl Cluster {
    fn single(index: usize, center: f64, size: f64) -> Self {
        let start = center - size / 2.0;
        Self { members: vec![index], start, size, wanted_starts: start }
    }

    fn join(mut self, next: Cluster) -> Cluster {
        self.wanted_starts += next.wanted_starts - next.members.len() as f64 * self.size;
        self.members.extend(next.members);
        self.size += next.size;
        self.start = self.wanted_starts / self.members.len() as f64;
        self
    }

    fn clamp(&mut self, low: f64, high: f64) {
        self.start = self.start.min(high - self.size).max(low);
    }
}

/// The smallest step by which labels must be thinned so that neighbours stay apart: every
/// `n`-th is kept, counted from the first. `positions` ascend.
pub(crate) fn thinning(positions: &[f64], widths: &[f64], gap: f64) -> usize {
    let fits = |step: usize| {
        let kept: Vec<usize> = (0..positions.len()).step_by(step).collect();
        kept.windows(2).all(|pair| {
            let room = positions[pair[1]] - positions[pair[0]];
            room >= (widths[pair[0]] + widths[pair[1]]) / 2.0 + gap
        })
    };
    (1..=positions.len().max(1)).find(|step| fits(*step)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_with_room_stay_where_they_are_wanted() {
        assert_eq!(spread(&[10.0, 50.0], &[20.0, 20.0], 0.0, 100.0), Some(vec![10.0, 50.0]));
        assert_eq!(spread(&[50.0, 50.0], &[20.0, 20.0], 0.0, 100.0), Some(vec![40.0, 60.0]));
        assert_eq!(spread(&[50.0, 50.0], &[60.0, 60.0], 0.0, 100.0), None);
        assert_eq!(spread(&[], &[], 0.0, 100.0), Some(vec![]));
    }

    proptest! {
        #[test]
        fn no_label_lies_on_another_and_order_is_kept(
            wanted in prop::collection::vec((-50.0..150.0f64, 1.0..30.0f64), 0..12),
        ) {
            let (centers, sizes): (Vec<f64>, Vec<f64>) = wanted.into_iter().unzip();
            let Some(placed) = spread(&centers, &sizes, 0.0, 100.0) else {
                prop_assert!(sizes.iter().sum::<f64>() > 100.0);
                return Ok(());
            };
            for a in 0..placed.len() {
                prop_assert!(placed[a] - sizes[a] / 2.0 >= -1e-6 && placed[a] + sizes[a] / 2.0 <= 100.0 + 1e-6);
                for b in 0..placed.len() {
                    if centers[a] < centers[b] {
                        prop_assert!(placed[b] - placed[a] >= (sizes[a] + sizes[b]) / 2.0 - 1e-6);
                    }
                }
            }
        }

        #[test]
        fn thinned_labels_stay_apart(gaps in prop::collection::vec(1.0..40.0f64, 1..30), width in 1.0..80.0f64) {
            let positions: Vec<f64> = gaps.iter().scan(0.0, |at, gap| { *at += gap; Some(*at) }).collect();
            let widths = vec![width; positions.len()];
            let step = thinning(&positions, &widths, 4.0);
            let kept: Vec<f64> = positions.iter().copied().step_by(step).collect();
            prop_assert!(kept.windows(2).all(|pair| pair[1] - pair[0] >= width + 4.0));
        }
    }
}
