//! Tables in Markdown, and their figures.

use std::fmt::Write as _;

/// A table, with its figures aligned to the right.
pub(super) struct Table {
    text: String,
}

// === impl Table ===

impl Table {
    /// A table with names of its columns: the first `names` of them hold words.
    pub(super) fn new(columns: &[&str], names: usize) -> Self {
        let mut table = Self { text: String::new() };
        table.row(columns.iter().map(|column| (*column).to_owned()));
        let rule = (0..columns.len()).map(|at| if at < names { " --- |" } else { " ---: |" });
        writeln!(table.text, "|{}", rule.collect::<String>()).expect("a string takes everything");
        table
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|text| format!(" {} |", cell(&text)));
        writeln!(self.text, "|{}", cells.collect::<String>()).expect("a string takes everything");
    }

    pub(super) fn markdown(self) -> String {
        self.text
    }
}

/// A figure with three digits or more, and a comma at each thousand.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        magnitude if magnitude >= 99.95 => 0,
        magnitude if magnitude >= 9.995 => 1,
        _ => 2,
    };
    grouped(&format!("{value:.decimals$}"))
}

fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A text that stays in its cell, on its line, and is no HTML.
fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_commas() {
        let figures = [1_234_567.0, 941.4, 12.34, 9.999, 0.126, f64::NAN].map(figure);
        assert_eq!(figures, ["1,234,567", "941", "12.3", "10.0", "0.13", "-"]);
    }

    #[test]
    fn a_cell_holds_what_would_end_it() {
        let mut table = Table::new(&["way", "GB/s"], 1);
        table.row(["a|b\n<c>".to_owned(), "1".to_owned()]);
        assert_eq!(table.markdown(), "| way | GB/s |\n| --- | ---: |\n| a\\|b &lt;c> | 1 |\n");
    }
}
