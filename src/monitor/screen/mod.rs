//! The report on a terminal, until a key or a signal ends it.

mod keys;
mod layout;
mod plots;
mod style;
mod view;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ratatui::crossterm::event::{self, Event};

use self::keys::action;
use self::layout::draw;
use self::style::Theme;
use self::view::{Action, View};
use super::watch::Watch;

/// How long a key may wait for its effect, and a report to be seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows reports, a new one every so often. Ends at `q`, Esc or Ctrl-C, or
/// when `check` fails.
///
/// # Errors
/// The terminal cannot be used; what `check` says.
pub(crate) fn show(watch: &Watch, every: Duration, check: impl Fn() -> Result<()>) -> Result<()> {
    // Restores the terminal, also after a panic.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let shown = show_on(&mut terminal, watch, every, check);
    ratatui::try_restore().context("the terminal cannot be restored; try `reset`")?;
    shown
}

fn show_on(
    terminal: &mut ratatui::DefaultTerminal,
    watch: &Watch,
    every: Duration,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let theme = Theme::of_environment();
    let mut view = View::default();
    let (mut number, mut report) = watch.latest();
    let mut next = Instant::now() + every;
    terminal.draw(|frame| draw(frame, &report, &mut view, theme))?;
    loop {
        check()?;
        let mut changed = false;
        if event::poll(LOOK_EVERY)? {
            changed = true;
            // A resize is drawn as any other change is.
            match event::read()? {
                Event::Key(key) => match action(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(action) => view.act(action),
                    None => {}
                },
                Event::Resize(..) => {}
                _ => continue,
            }
        }
        let (latest, new) = watch.latest();
        // The first ones are shown at once.
        if latest > number && (Instant::now() >= next || number == 0) {
            (number, report, changed) = (latest, new, true);
            next = Instant::now() + every.saturating_sub(LOOK_EVERY);
        }
        if changed {
            terminal.draw(|frame| draw(frame, &report, &mut view, theme))?;
        }
    }
}
