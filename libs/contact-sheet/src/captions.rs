//! Texts of samples, in lines under their rows.

use headwater_core::Recipe;

use crate::Pictured;
use crate::glyphs::{HEIGHT, WIDTH};

/// Lines of one text; of a longer one the beginning is shown.
const LINES_MAX: usize = 2;
/// Pixels between two letters, and between two lines, of letters of their own size.
const SPACE: usize = 1;
/// The narrowest picture that has letters of twice their size.
const TWICE_FROM: usize = 320;
/// What stands at the end of a text that goes on.
const MORE: &str = "..";

/// The lines of each sample, all of as many.
pub(crate) struct Captions {
    /// Pixels of the side of a letter's dot.
    pub(crate) dot: usize,
    lines: Vec<Vec<String>>,
    most: usize,
}

// === impl Captions ===

impl Captions {
    /// The texts of the first `samples` samples of a batch, in lines of `width` pixels.
    ///
    /// # Errors
    /// The batch lies on a GPU that does not give it back.
    pub(crate) fn of<P: Pictured>(
        batch: &P,
        recipe: &Recipe,
        samples: usize,
        width: usize,
    ) -> Result<Self, P::Error> {
        let dot = if width >= TWICE_FROM { 2 } else { 1 };
        let letters = (width / (dot * (WIDTH + SPACE))).max(1);
        let mut lines = vec![Vec::new(); samples];
        let texts = recipe.fields.iter().filter(|spec| spec.is_text());
        let several = texts.clone().count() > 1;
        for spec in texts {
            let rows = |name: &str| -> Result<Option<(Vec<u8>, usize)>, P::Error> {
                let tensor = batch.layout().tensors().iter().find(|tensor| tensor.name == name);
                let Some(tensor) = tensor else { return Ok(None) };
                Ok(Some((batch.tensor_bytes(tensor)?, tensor.row_bytes as usize)))
            };
            let (Some((bytes, row_bytes)), Some((sizes, _))) =
                (rows(&spec.name)?, rows(&spec.sizes_name())?)
            else {
                continue;
            };
            let sizes = sizes.as_chunks::<8>().0.iter().map(|size| i64::from_le_bytes(*size));
            let found: Vec<Vec<String>> = bytes
                .chunks(row_bytes.max(1))
                .zip(sizes)
                .take(samples)
                .map(|(row, size)| {
                    let text =
                        String::from_utf8_lossy(&row[..(size.max(0) as usize).min(row.len())]);
                    let name = if several { format!("{}: ", spec.name) } else { String::new() };
                    wrapped(&format!("{name}{text}"), letters)
                })
                .collect();
            // The texts of a field begin at the same line in each row.
            let most = found.iter().map(Vec::len).max().unwrap_or(0);
            for (lines, mut found) in lines.iter_mut().zip(found) {
                found.resize(most, String::new());
                lines.extend(found);
            }
        }
        let most = lines.first().map_or(0, Vec::len);
        Ok(Self { dot, lines, most })
    }

    /// Pixels that the lines of a sample take.
    pub(crate) fn height(&self) -> usize {
        self.most * self.line_height()
    }

    /// The dots of a sample's letters: left and top corner, from the lines' own.
    pub(crate) fn dots(&self, sample: usize) -> impl Iterator<Item = [usize; 2]> {
        let step = self.dot * (WIDTH + SPACE);
        self.lines[sample].iter().enumerate().flat_map(move |(number, line)| {
            let top = number * self.line_height();
            line.chars().enumerate().flat_map(move |(at, letter)| {
                let cells = (0..HEIGHT).flat_map(|row| (0..WIDTH).map(move |column| (column, row)));
                let drawn = cells.filter(move |&(x, y)| crate::glyphs::is_drawn(letter, x, y));
                drawn.map(move |(x, y)| [at * step + x * self.dot, top + y * self.dot])
            })
        })
    }

    fn line_height(&self) -> usize {
        self.dot * (HEIGHT + 2 * SPACE)
    }
}

/// A text in lines of at most `letters` letters, broken between words where that is possible.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let printed = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let printed: String = printed.collect();
    for word in printed.split_whitespace() {
        let mut word: &str = word;
        loop {
            let (has, wants) = (line.chars().count(), word.chars().count());
            let gap = usize::from(has > 0);
            if has + gap + wants <= letters {
                line.extend((gap > 0).then_some(' '));
                line.push_str(word);
                break;
            }
            if has == 0 {
                // A word that is longer than a line.
                let cut = word.char_indices().nth(letters).map_or(word.len(), |(at, _)| at);
                line.push_str(&word[..cut]);
                word = &word[cut..];
            }
            lines.push(std::mem::take(&mut line));
            if lines.len() > LINES_MAX {
                return ended(lines, letters);
            }
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    ended(lines, letters)
}

/// The first lines; the last of them says whether there are more.
fn ended(mut lines: Vec<String>, letters: usize) -> Vec<String> {
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        if let Some(last) = lines.last_mut() {
            let kept = last.chars().take(letters.saturating_sub(MORE.len()));
            *last = kept.collect::<String>() + &MORE[..MORE.len().min(letters)];
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_cut_after_two_lines() {
        assert_eq!(wrapped("a cat on a mat", 8), ["a cat on", "a mat"]);
        assert_eq!(wrapped("a cat on a mat", 14), ["a cat on a mat"]);
        assert_eq!(wrapped("a cat on a mat and a dog", 8), ["a cat on", "a mat.."]);
        assert_eq!(wrapped("a cat on a meadow", 8), ["a cat on", "a meadow"]);
        assert_eq!(wrapped("a cat on a meadow here", 8), ["a cat on", "a mead.."]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "ef.."]);
        assert_eq!(wrapped("abcdefgh", 4), ["abcd", "efgh"]);
        assert_eq!(wrapped("two\nlines\tand\u{0}tabs", 20), ["two lines and tabs"]);
        assert_eq!(wrapped("\u{e9}t\u{e9}", 3), ["\u{e9}t\u{e9}"]);
        assert_eq!(wrapped("abc", 1), ["a", "."]);
        assert!(wrapped(" ", 5).is_empty());
    }
}
