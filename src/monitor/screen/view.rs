//! What of the tables is shown: the table in focus, and how far each is scrolled.

use std::collections::HashMap;

/// What the user wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    NextTable,
    LastTable,
    /// Rows down.
    Scroll(isize),
    /// Pages down.
    ScrollPages(isize),
}

/// Tables come and go, so the shown ones are remembered by their titles.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    titles: Vec<&'static str>,
    focus: usize,
    /// First row that is shown.
    first: HashMap<&'static str, usize>,
    /// Rows of the table in focus that are shown at a time, and all of them.
    page: (usize, usize),
}

// === impl View ===

impl View {
    /// These tables are there now. The number of the one in focus.
    pub(super) fn set_tables(&mut self, titles: Vec<&'static str>) -> usize {
        let focused = self.titles.get(self.focus).copied();
        let kept = focused.and_then(|focused| titles.iter().position(|title| *title == focused));
        self.titles = titles;
        self.focus = kept.unwrap_or(0);
        self.focus
    }

    /// The first of `rows` rows of a table that is shown, if `page` of them are.
    pub(super) fn first_row(&mut self, title: &'static str, rows: usize, page: usize) -> usize {
        if self.titles.get(self.focus) == Some(&title) {
            self.page = (page, rows);
        }
        let first = self.first.entry(title).or_default();
        *first = (*first).min(rows.saturating_sub(page));
        *first
    }

    pub(super) fn act(&mut self, action: Action) {
        let count = self.titles.len().max(1);
        match action {
            Action::Quit => {}
            Action::NextTable => self.focus = (self.focus + 1) % count,
            Action::LastTable => self.focus = (self.focus + count - 1) % count,
            Action::Scroll(by) => self.scroll(by),
            Action::ScrollPages(pages) => {
                self.scroll(pages * self.page.0.saturating_sub(1).max(1) as isize);
            }
        }
    }

    fn scroll(&mut self, by: isize) {
        let (page, rows) = self.page;
        if let Some(title) = self.titles.get(self.focus) {
            let first = self.first.entry(title).or_default();
            *first = first.saturating_add_signed(by).min(rows.saturating_sub(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_scrolled_within_its_rows_and_keeps_its_place() {
        let mut view = View::default();
        assert_eq!(view.set_tables(vec!["ranks", "workers"]), 0);
        view.first_row("ranks", 10, 4);
        view.act(Action::Scroll(-1));
        assert_eq!(view.first_row("ranks", 10, 4), 0);
        view.act(Action::Scroll(isize::MAX));
        assert_eq!(view.first_row("ranks", 10, 4), 6);
        view.act(Action::ScrollPages(-1));
        assert_eq!(view.first_row("ranks", 10, 4), 3);
        view.act(Action::NextTable);
        assert_eq!(view.set_tables(vec!["ranks", "links", "workers"]), 2, "still the workers");
        assert_eq!(view.first_row("workers", 2, 4), 0);
        view.act(Action::Scroll(1));
        assert_eq!(view.first_row("workers", 2, 4), 0, "all of it is shown");
        view.act(Action::NextTable);
        assert_eq!(view.set_tables(vec!["ranks", "links"]), 0);
        assert_eq!(view.first_row("ranks", 4, 4), 0, "fewer rows than before");
    }
}
