//! Lines over counts, such as threads.

use super::axis::{Axis, figure, mark};
use super::{Anchor, Document, FOOT, HEAD, LEGEND, MARGIN, Side, TEXT_SIZE, WIDTH, escaped, width};

const HEIGHT: f64 = 240.0;
/// Between the axis and the first count, and after the last.
const INDENT: f64 = 48.0;
const POINT: f64 = 4.5;

/// Lines over the same counts. Counts are at equal distances, which suits powers of two.
pub(crate) struct LineChart<'a> {
    pub(crate) title: &'a str,
    /// What is counted below.
    pub(crate) counts: &'a str,
    /// What the axis counts.
    pub(crate) unit: &'a str,
    pub(crate) lines: Vec<Line<'a>>,
}

/// One line: figures by their counts. What is no number of at least 0 is left out.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) side: Side,
    pub(crate) points: Vec<(usize, f64)>,
}

// === impl LineChart ===

impl LineChart<'_> {
    /// The plot; `None` without a figure.
    pub(crate) fn svg(&self) -> Option<String> {
        let mut counts: Vec<usize> = self.points().map(|(count, _)| count).collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.is_empty() {
            return None;
        }
        let axis = Axis::for_all(self.points().map(|(_, value)| value));
        let (top, bottom) = (HEAD + LEGEND + 24.0, HEAD + LEGEND + 24.0 + HEIGHT);
        let mut document = Document::new(bottom + FOOT, self.title, &self.description());
        document.legend(self.lines.iter().map(|line| (line.side, line.name)));

        let marks = axis.marks.iter().map(|at| width(&mark(*at))).fold(0.0, f64::max);
        let (left, right) = (MARGIN + marks + 10.0, WIDTH - MARGIN);
        document.text((MARGIN, top - 12.0), Anchor::Start, self.unit);
        let y = |value: f64| bottom - HEIGHT * axis.share(value);
        for at in &axis.marks {
            document.grid((left, y(*at)), (right, y(*at)));
            document.text((left - 8.0, y(*at) + 4.0), Anchor::End, &mark(*at));
        }
        let gaps = counts.len().saturating_sub(1).max(1) as f64;
        let step = (right - left - 2.0 * INDENT) / gaps;
        let x = |count: usize| {
            let place = counts.iter().position(|other| *other == count).unwrap_or_default();
            left + INDENT + step * place as f64
        };
        for count in &counts {
            let below = (x(*count), bottom + TEXT_SIZE + 4.0);
            document.text(below, Anchor::Middle, &count.to_string());
        }
        document.text(((left + right) / 2.0, bottom + 40.0), Anchor::Middle, self.counts);
        for line in &self.lines {
            self.line(&mut document, line, &x, &y);
        }
        Some(document.end())
    }

    fn line(
        &self,
        document: &mut Document,
        line: &Line<'_>,
        x: &impl Fn(usize) -> f64,
        y: &impl Fn(f64) -> f64,
    ) {
        let class = line.side.class();
        let places = line.points().map(|(count, value)| format!("{:.1},{:.1}", x(count), y(value)));
        let places = places.collect::<Vec<_>>().join(" ");
        document.push(format_args!("<polyline class=\"{class} line\" points=\"{places}\"/>"));
        for (count, value) in line.points() {
            let (cx, cy, shown) = (x(count), y(value), figure(value));
            let (name, counts) = (escaped(line.name), escaped(self.counts));
            let unit = escaped(self.unit);
            document.push(format_args!(
                "<circle class=\"{class}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{POINT}\">\
                 <title>{name}, {count} {counts}: {shown} {unit}</title></circle>"
            ));
        }
    }

    fn points(&self) -> impl Iterator<Item = (usize, f64)> {
        self.lines.iter().flat_map(Line::points)
    }

    fn description(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let points = line.points().map(|(count, value)| {
                let (value, counts) = (figure(value), self.counts);
                format!("{value} with {count} {counts}")
            });
            format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
        });
        format!("Lines, in {}. {}.", self.unit, lines.collect::<Vec<_>>().join("; "))
    }
}

// === impl Line ===

impl Line<'_> {
    fn points(&self) -> impl Iterator<Item = (usize, f64)> {
        let points = self.points.iter().copied();
        points.filter(|(_, value)| value.is_finite() && *value >= 0.0)
    }
}
