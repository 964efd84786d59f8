//! Colours, or none. Words and signs carry the same information.

use ratatui::style::{Color, Modifier, Style};

use crate::monitor::report::Stage;

/// Whether there are colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colour: bool,
}

// === impl Theme ===

impl Theme {
    /// As `NO_COLOR` asks for (no-color.org).
    pub(super) fn of_environment() -> Self {
        Self { has_colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What explains something else.
    pub(super) fn quiet(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    pub(super) fn focus(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn verdict(self, stage: Stage) -> Style {
        self.coloured(stage_colour(stage)).add_modifier(Modifier::BOLD)
    }

    pub(super) fn bar(self, stage: Stage) -> Style {
        self.coloured(stage_colour(stage))
    }

    pub(super) fn plot(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Processes that do not answer.
    pub(super) fn down(self) -> Style {
        self.coloured(Color::Red)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }
}

fn stage_colour(stage: Stage) -> Color {
    match stage {
        Stage::Trainer => Color::Green,
        Stage::Nobody => Color::Red,
        Stage::Storage => Color::Blue,
        Stage::Augment => Color::Yellow,
        Stage::Link => Color::Magenta,
        Stage::Device | Stage::Host => Color::Cyan,
        Stage::None => Color::Reset,
    }
}
