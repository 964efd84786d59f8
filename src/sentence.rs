//! An error and its causes as one line.

use headwater_core::printable;

/// Joins an error's chain. A cause that the text already holds is not said twice: some errors
/// put their source into their own sentence. Names from files may hold anything: a terminal gets text.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let cause = cause.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    printable(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    #[test]
    fn a_chain_is_one_line_that_says_nothing_twice() {
        let result: anyhow::Result<()> = Err(anyhow!("address in use\n  (os error 98)"));
        let error = result.context("cannot listen: address in use (os error 98)");
        let error = error.context("storage tier").unwrap_err();
        let text = super::sentence(&error);
        assert_eq!(text, "storage tier: cannot listen: address in use (os error 98)");
    }

    #[test]
    fn what_a_file_has_in_its_names_does_not_reach_the_terminal() {
        let error = anyhow!("shard `\u{1b}]0;gone\u{7}.tar` is broken");
        assert_eq!(super::sentence(&error), r"shard `\u{1b}]0;gone\u{7}.tar` is broken");
    }
}
