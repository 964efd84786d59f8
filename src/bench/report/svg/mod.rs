//! Plots as SVG: horizontal bars, and lines over counts.
//!
//! The writer is our own. The crates that we looked at bring fonts for bitmaps (plotters), or
//! start a browser or a JavaScript engine (charming, plotly). None of them writes what these plots
//! need: colours by `prefers-color-scheme`, and a title and a description for screen readers. Text
//! has the reader's own font, so its width is estimated generously.
//!
//! Deliberately absent: scripts, resources from elsewhere, and whatever is measured.

mod axis;
mod bars;
mod lines;

use std::fmt::Write as _;

pub(crate) use axis::figure;
pub(crate) use bars::{Bar, BarChart};
pub(crate) use lines::{Line, LineChart};

/// Width of every plot.
const WIDTH: f64 = 720.0;
/// Room around it.
const MARGIN: f64 = 16.0;
/// Of a title's letters, and of all others.
const TITLE_SIZE: f64 = 16.0;
const TEXT_SIZE: f64 = 13.0;
/// Where titles end and legends begin.
const HEAD: f64 = 44.0;
const LEGEND: f64 = 28.0;
/// Below a plot: the numbers of its axis, and their unit.
const FOOT: f64 = 52.0;
/// Widths of letters are a matter of the reader's font; few are wider than this share of their size.
const LETTER: f64 = 0.58;

/// Light unless the reader prefers dark.
const STYLE: &str = "
svg { --page: #ffffff; --text: #1f2328; --grid: #d1d9e0; --ours: #0969da; --theirs: #bc4c00; }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --text: #e6edf3; --grid: #3d444d; --ours: #58a6ff; --theirs: #f0883e; }
}
text { fill: var(--text); font: 13px system-ui, -apple-system, \"Segoe UI\", sans-serif; }
.title { font-size: 16px; font-weight: 600; }
.page { fill: var(--page); }
.grid { stroke: var(--grid); stroke-width: 1; }
.ours { fill: var(--ours); }
.theirs { fill: var(--theirs); }
.ours.line, .theirs.line { fill: none; stroke-width: 2.5; }
.ours.line { stroke: var(--ours); }
.theirs.line { stroke: var(--theirs); stroke-dasharray: 6 4; }
";

/// Whose figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What this program does.
    Ours,
    /// What it is compared with.
    Theirs,
}

/// Where a text is held.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A plot that is being written.
struct Document {
    text: String,
}

// === impl Side ===

impl Side {
    const fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }
}

// === impl Document ===

impl Document {
    /// A plot of some height, with its title.
    fn new(height: f64, title: &str, description: &str) -> Self {
        let (name, what) = (escaped(title), escaped(description));
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
             <title id=\"title\">{name}</title>\n<desc id=\"desc\">{what}</desc>\n\
             <style>{STYLE}</style>\n\
             <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
        );
        let mut document = Self { text };
        let baseline = MARGIN + TITLE_SIZE;
        document.push(format_args!(
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{baseline}\">{name}</text>"
        ));
        document
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("a string takes everything");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn grid(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// Says which colour is whose, below the title.
    fn legend<'a>(&mut self, sides: impl IntoIterator<Item = (Side, &'a str)>) {
        let mut x = MARGIN;
        let y = HEAD + TEXT_SIZE;
        for (side, name) in sides {
            let (class, top) = (side.class(), y - TEXT_SIZE + 3.0);
            self.push(format_args!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"12\" height=\"12\"/>"
            ));
            self.text((x + 18.0, y), Anchor::Start, name);
            x += 18.0 + width(name) + 24.0;
        }
    }

    fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Room that a text takes.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * TEXT_SIZE * LETTER
}

/// A text as content of an element; characters that XML does not have are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
