//! Text from files and peers, made safe for terminals and logs.

use std::borrow::Cow;

/// The text as one line that is safe to show in a terminal. Characters that control the terminal,
/// begin a new line or change the direction of writing are escaped, as `\\u{1b}`.
///
/// Escaped text comes back as it is.
#[must_use]
pub fn escape_control(text: &str) -> Cow<'_, str> {
    if !text.contains(is_acted_on) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_acted_on(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

fn is_acted_on(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Ends of lines and paragraphs; marks, embeddings, overrides and isolates of direction.
            '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
                | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_written_out() {
        let name = "a\u{1b}[31mred\u{7}\r\nINFO forged\u{9b}2J\u{202e}gpj.exe";
        let shown = r"a\u{1b}[31mred\u{7}\u{d}\u{a}INFO forged\u{9b}2J\u{202e}gpj.exe";
        assert_eq!(escape_control(name), shown);
        assert_eq!(escape_control(shown), shown);
    }

    #[test]
    fn names_in_any_script_stay_as_they_are() {
        for name in ["photos/猫 #1.jpg", "Ünïcode — ok", "علي.png", ""] {
            assert!(matches!(escape_control(name), Cow::Borrowed(shown) if shown == name));
        }
    }
}
