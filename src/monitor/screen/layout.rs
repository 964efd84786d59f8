//! Where everything is on the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::keys::HELP;
use super::plots::{sparklines, waits};
use super::style::Theme;
use super::view::View;
use crate::monitor::report::Report;
use crate::monitor::tables::{Table, tables};
use crate::monitor::text::{clock, tier_lines, title};

/// Heights of the parts above the tables.
const TITLE: u16 = 1;
const VERDICT: u16 = 3;
const TIERS: u16 = 3;
const PLOTS: u16 = 6;
/// Rows of each table if all are shown, without its title and its head.
const ROWS_MIN: usize = 3;
/// Lines of a table besides its rows: title, head, and a blank one after it.
const AROUND: usize = 3;

/// Draws a report.
pub(super) fn draw(frame: &mut Frame<'_>, report: &Report, view: &mut View, theme: Theme) {
    let area = frame.area();
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let gap = Constraint::Length(1);
    let heights = [
        Constraint::Length(TITLE),
        Constraint::Length(VERDICT),
        gap,
        Constraint::Length(TIERS),
        gap,
        Constraint::Length(PLOTS),
        gap,
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [top, verdict, _, tiers, _, plots, _, rest, bottom] = Layout::vertical(heights).areas(area);
    head(frame, top, report, theme);
    say(frame, verdict, report, theme);
    for (row, line) in (0..tiers.height).zip(tier_lines(report)) {
        frame.render_widget(Line::raw(line), Rect { y: tiers.y + row, height: 1, ..tiers });
    }
    let halves = [Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)];
    let [left, _, right] = Layout::horizontal(halves).areas(plots);
    waits(frame, left, report, theme);
    sparklines(frame, right, report, theme);
    let all = tables(report);
    let focus = view.set_tables(all.iter().map(|table| table.title).collect());
    match stacked(&all, focus, rest.height.into()) {
        Some(rows) => stack(frame, rest, (&all, focus, &rows), view, theme),
        None => tabs(frame, rest, (&all, focus), view, theme),
    }
    frame.render_widget(Line::styled(HELP, theme.quiet()), bottom);
}

fn head(frame: &mut Frame<'_>, area: Rect, report: &Report, theme: Theme) {
    let name = Line::from(vec![
        Span::styled("headwater monitor", theme.title()),
        Span::raw(format!("  {}", title(report))),
    ]);
    frame.render_widget(name, area);
    let clock = Line::raw(clock(report)).right_aligned();
    let right = Rect { x: area.right().saturating_sub(12), width: 12.min(area.width), ..area };
    frame.render_widget(clock, right);
}

/// The verdict, and what to do.
fn say(frame: &mut Frame<'_>, area: Rect, report: &Report, theme: Theme) {
    let verdict = &report.summary.verdict;
    let text = vec![
        Line::styled(verdict.text.clone(), theme.verdict(verdict.stage)),
        Line::raw(verdict.remedy.clone()),
    ];
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

/// Rows of each table if all are shown one above the other; `None` if there is no room for that.
fn stacked(tables: &[Table], focus: usize, height: usize) -> Option<Vec<usize>> {
    let mut rows: Vec<usize> = tables.iter().map(|table| table.rows.len().min(ROWS_MIN)).collect();
    let around = (AROUND * tables.len()).saturating_sub(1);
    let mut left = height.checked_sub(rows.iter().sum::<usize>() + around)?;
    // The one in focus takes what it needs first.
    let order = (focus..tables.len()).chain(0..focus);
    for at in order {
        let more = left.min(tables[at].rows.len() - rows[at]);
        rows[at] += more;
        left -= more;
    }
    Some(rows)
}

/// All tables, one above the other.
fn stack(
    frame: &mut Frame<'_>,
    area: Rect,
    (tables, focus, rows): (&[Table], usize, &[usize]),
    view: &mut View,
    theme: Theme,
) {
    let mut y = area.y;
    for (at, (table, rows)) in tables.iter().zip(rows).enumerate() {
        let height = (rows + AROUND - 1) as u16;
        let place = Rect { y, height, ..area };
        let style = if at == focus { theme.focus() } else { theme.title() };
        let name = Span::styled(format!(" {} ", heading(table)), style);
        frame.render_widget(Line::from(name), Rect { height: 1, ..place });
        rows_of(frame, Rect { y: y + 1, height: height - 1, ..place }, table, view, theme);
        y += height + 1;
    }
}

/// The table in focus, with the names of all.
fn tabs(
    frame: &mut Frame<'_>,
    area: Rect,
    (tables, focus): (&[Table], usize),
    view: &mut View,
    theme: Theme,
) {
    let name = |(at, table): (usize, &Table)| {
        let style = if at == focus { theme.focus() } else { theme.quiet() };
        Span::styled(format!(" {} ", heading(table)), style)
    };
    let names: Vec<Span<'_>> = tables.iter().enumerate().map(name).collect();
    frame.render_widget(Line::from(names), Rect { height: area.height.min(1), ..area });
    if let Some(table) = tables.get(focus) {
        let height = area.height.saturating_sub(1);
        rows_of(frame, Rect { y: area.y + 1, height, ..area }, table, view, theme);
    }
}

fn heading(table: &Table) -> String {
    format!("{} {}", table.title, table.rows.len())
}

/// The head of a table and those rows for which there is room.
fn rows_of(frame: &mut Frame<'_>, area: Rect, table: &Table, view: &mut View, theme: Theme) {
    if area.height == 0 {
        return;
    }
    let lines = table.lines(area.width.into());
    let page = usize::from(area.height - 1);
    let first = view.first_row(table.title, table.rows.len(), page);
    let mut lines = lines.into_iter();
    let head = lines.next().unwrap_or_default();
    frame.render_widget(Line::styled(head, theme.quiet()), Rect { height: 1, ..area });
    let shown = lines.zip(&table.down).skip(first);
    for (row, (line, is_down)) in (1..area.height).zip(shown) {
        let style = if *is_down { theme.down() } else { ratatui::style::Style::new() };
        frame.render_widget(Line::styled(line, style), Rect { y: area.y + row, height: 1, ..area });
    }
}
