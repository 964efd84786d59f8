//! An error and its causes as one line, and the last of them.

use std::error::Error;

use crate::escape_control;

/// Joins an error's chain, and the lines of each error. A cause that the text already holds is not said twice: some errors
/// put their source into their own sentence. Names from files may hold anything: a terminal gets text.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(error), |&error| error.source()) {
        let cause = cause.to_string();
        let lines = cause.lines().map(str::trim).filter(|line| !line.is_empty());
        let cause = lines.collect::<Vec<_>>().join(" ");
        // Before they are compared: some errors hold the sentence of another, whose names are written out already.
        let cause = escape_control(&cause);
        if text.is_empty() {
            text.push_str(&cause);
        } else if !text.contains(&*cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What the last of an error's causes says: the errors of some libraries name only their own layers.
#[must_use]
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{said}")]
    struct Link {
        said: &'static str,
        source: Option<Box<dyn Error + Send + Sync>>,
    }

    fn chain(said: &[&'static str]) -> Link {
        let source = said.get(1).map(|_| chain(&said[1..]).into());
        Link { said: said[0], source }
    }

    #[test]
    fn a_chain_is_one_line_that_says_nothing_twice() {
        let last = "address in use\n  (os error 98)";
        let error = chain(&["storage tier", "cannot listen: address in use (os error 98)", last]);
        let text = "storage tier: cannot listen: address in use (os error 98)";
        assert_eq!(error_chain(&error), text);
    }

    #[test]
    fn a_name_keeps_its_blanks() {
        let error = chain(&["cannot open\n    `a  b.tar`\n\n", "`a  b.tar`"]);
        assert_eq!(error_chain(&error), "cannot open `a  b.tar`");
    }

    #[test]
    fn a_cause_that_is_held_as_a_sentence_is_not_said_twice() {
        let error = chain(&[r"cannot serve: no `a\u{1b}b.tar`", "no `a\u{1b}b.tar`"]);
        assert_eq!(error_chain(&error), r"cannot serve: no `a\u{1b}b.tar`");
    }

    #[test]
    fn the_innermost_cause_is_the_last_and_may_be_the_error_itself() {
        assert_eq!(innermost(&chain(&["transport error", "tcp", "refused"])), "refused");
        assert_eq!(innermost(&chain(&["refused"])), "refused");
    }

    #[test]
    fn what_a_file_has_in_its_names_does_not_reach_the_terminal() {
        let error = io::Error::other("shard `\u{1b}]0;gone\u{7}.tar` is broken");
        assert_eq!(error_chain(&error), r"shard `\u{1b}]0;gone\u{7}.tar` is broken");
    }
}
