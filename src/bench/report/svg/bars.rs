//! Horizontal bars.

use super::axis::{Axis, figure, mark};
use super::{Anchor, Document, FOOT, HEAD, LEGEND, MARGIN, Side, TEXT_SIZE, WIDTH, escaped, width};

const BAR: f64 = 20.0;
const ROW: f64 = 28.0;
/// Widest names; longer ones are cut.
const NAME_MAX: usize = 32;

/// A bar for each figure.
pub(crate) struct BarChart<'a> {
    pub(crate) title: &'a str,
    /// What the axis counts.
    pub(crate) unit: &'a str,
    /// What both sides are called.
    pub(crate) sides: [&'a str; 2],
    pub(crate) bars: Vec<Bar>,
}

/// One figure. What is no number of at least 0 is left out.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) side: Side,
}

// === impl BarChart ===

impl BarChart<'_> {
    /// The plot; `None` without a figure.
    pub(crate) fn svg(&self) -> Option<String> {
        let is_shown = |bar: &&Bar| bar.value.is_finite() && bar.value >= 0.0;
        let bars: Vec<&Bar> = self.bars.iter().filter(is_shown).collect();
        if bars.is_empty() {
            return None;
        }
        let axis = Axis::for_all(bars.iter().map(|bar| bar.value));
        let (top, bottom) = (HEAD + LEGEND, HEAD + LEGEND + ROW * bars.len() as f64);
        let mut document = Document::new(bottom + FOOT, self.title, &self.description(&bars));
        document.legend([(Side::Ours, self.sides[0]), (Side::Theirs, self.sides[1])]);

        let names = bars.iter().map(|bar| width(&short(&bar.name))).fold(0.0, f64::max);
        let values = bars.iter().map(|bar| width(&figure(bar.value))).fold(0.0, f64::max);
        let left = MARGIN + names + 10.0;
        let room = WIDTH - MARGIN - values - 8.0 - left;
        for at in &axis.marks {
            let x = left + room * axis.share(*at);
            document.grid((x, top), (x, bottom));
            document.text((x, bottom + TEXT_SIZE + 4.0), Anchor::Middle, &mark(*at));
        }
        document.text((left + room / 2.0, bottom + 40.0), Anchor::Middle, self.unit);
        for (row, bar) in bars.iter().enumerate() {
            let y = top + ROW * row as f64 + (ROW - BAR) / 2.0;
            let (baseline, length) = (y + BAR - 5.0, room * axis.share(bar.value));
            let (class, name) = (bar.side.class(), escaped(&bar.name));
            let value = figure(bar.value);
            let unit = escaped(self.unit);
            document.text((left - 10.0, baseline), Anchor::End, &short(&bar.name));
            document.push(format_args!(
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" \
                 height=\"{BAR}\"><title>{name}: {value} {unit}</title></rect>"
            ));
            document.text((left + length + 6.0, baseline), Anchor::Start, &value);
        }
        Some(document.end())
    }

    fn description(&self, bars: &[&Bar]) -> String {
        let bars = bars.iter().map(|bar| format!("{} {}", bar.name, figure(bar.value)));
        format!("Bars, in {}: {}.", self.unit, bars.collect::<Vec<_>>().join("; "))
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        None => name.to_owned(),
        Some(_) => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
    }
}
