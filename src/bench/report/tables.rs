//! Tables in Markdown.

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

/// A text that stays in its cell, on its line, and is no HTML.
fn cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_holds_what_would_end_it() {
        let mut table = Table::new(&["way", "GB/s"], 1);
        table.row(["a|b\n<c>".to_owned(), "1".to_owned()]);
        assert_eq!(table.markdown(), "| way | GB/s |\n| --- | ---: |\n| a\\|b &lt;c> | 1 |\n");
    }
}
