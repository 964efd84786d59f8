//! Bars of the causes of waits, and sparklines.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::style::Theme;
use crate::monitor::figures::{rate, share};
use crate::monitor::report::{Report, Stage};

/// Width of a cause's name, and of its share.
const NAME: usize = 8;
const SHARE: usize = 6;

/// Bars of the ranks' time by cause, most first. A full bar is all of the time.
pub(super) fn waits(frame: &mut Frame<'_>, area: Rect, report: &Report, theme: Theme) {
    let head = format!("waiting for ({} of the time)", share(report.summary.wait_share));
    frame.render_widget(Line::styled(head, theme.title()), Rect { height: 1, ..area });
    let width = usize::from(area.width).saturating_sub(NAME + SHARE + 2);
    for (row, of) in (1..area.height).zip(&report.wait_by_cause) {
        let bar = bar(of.share_of_time, width);
        let line = Line::from(vec![
            Span::raw(format!("{:NAME$.NAME$} ", of.cause)),
            Span::styled(format!("{bar:width$}"), theme.bar(Stage::of_cause(&of.cause))),
            Span::raw(format!("{:>SHARE$}", share(Some(of.share_of_time)))),
        ]);
        frame.render_widget(line, Rect { y: area.y + row, height: 1, ..area });
    }
}

/// A bar for a share, in a width of characters, exact to an eighth of a character.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * width as f64).round() as usize;
    // What is there is seen.
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Throughput and waiting over the last minutes, the newest on the right.
pub(super) fn sparklines(frame: &mut Frame<'_>, area: Rect, report: &Report, theme: Theme) {
    let half = Rect { height: area.height / 2, ..area };
    let other = Rect { y: area.y + half.height, height: area.height - half.height, ..area };
    let samples = format!("samples/s {}", rate(report.summary.samples_per_s));
    sparkline(frame, half, &samples, &report.history.samples_per_s, None, theme);
    let waiting = format!("waiting {}", share(report.summary.wait_share));
    sparkline(frame, other, &waiting, &report.history.wait_share, Some(1.0), theme);
}

fn sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    head: &str,
    points: &[Option<f64>],
    most: Option<f64>,
    theme: Theme,
) {
    if area.height < 2 {
        return;
    }
    frame.render_widget(Line::styled(head.to_owned(), theme.title()), Rect { height: 1, ..area });
    /// Steps from the bottom to the top.
    const STEPS: f64 = 1000.0;
    let shown = &points[points.len().saturating_sub(area.width.into())..];
    let top = most.unwrap_or_else(|| shown.iter().flatten().copied().fold(0.0, f64::max));
    let height = |value: f64| if top > 0.0 { (value / top * STEPS) as u64 } else { 0 };
    let missing = usize::from(area.width) - shown.len();
    let data: Vec<Option<u64>> = std::iter::repeat_n(None, missing)
        .chain(shown.iter().map(|value| value.map(height)))
        .collect();
    let plot = Sparkline::default().data(data).max(STEPS as u64).style(theme.plot());
    frame.render_widget(plot, Rect { y: area.y + 1, height: area.height - 1, ..area });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0, 2), "██");
        assert_eq!(bar(0.0, 8), "");
        assert_eq!(bar(0.0001, 8), "▏");
        assert_eq!(bar(0.3125, 4), "█▎");
    }
}
