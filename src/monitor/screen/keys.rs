//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::Action;

/// The keys, for the last line of the screen.
pub(super) const HELP: &str = "q quit   tab next table   ↑ ↓ scroll";

/// What a key does.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::Quit),
        KeyCode::Tab | KeyCode::Right => Some(Action::NextTable),
        KeyCode::BackTab | KeyCode::Left => Some(Action::LastTable),
        KeyCode::Down => Some(Action::Scroll(1)),
        KeyCode::Up => Some(Action::Scroll(-1)),
        KeyCode::PageDown => Some(Action::ScrollPages(1)),
        KeyCode::PageUp => Some(Action::ScrollPages(-1)),
        KeyCode::Home => Some(Action::Scroll(isize::MIN)),
        KeyCode::End => Some(Action::Scroll(isize::MAX)),
        _ => None,
    }
}
