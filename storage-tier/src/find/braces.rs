//! Brace expansion as bash does it: `{a,b}`, `{000..127}`, `{9..0..3}`, `{a..e}`, nested.
//!
//! One difference: a brace that is opened and not closed is an error, since it is a slip of the
//! pen and no file's name.

/// Largest number of names one pattern may expand to.
const NAMES_MAX: usize = 1 << 24;

/// All names that a pattern stands for, in order.
///
/// # Errors
/// An unclosed brace or too many names; says what to do.
pub(crate) fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let Some(open) = next_group(pattern)? else {
        return Ok(vec![pattern.to_owned()]);
    };
    let Group { start, end, ref parts } = open;
    let mut middles = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => middles.extend(expand(text)?),
            Part::Range(range) => {
                within_limit(range.len())?;
                middles.extend(range.names());
            }
        }
    }
    let tails = expand(&pattern[end..])?;
    within_limit(middles.len().saturating_mul(tails.len()))?;
    let head = &pattern[..start];
    let names = middles.iter().flat_map(|m| tails.iter().map(move |t| format!("{head}{m}{t}")));
    Ok(names.collect())
}

fn within_limit(count: usize) -> Result<(), String> {
    if count > NAMES_MAX {
        return Err(format!("stands for over {NAMES_MAX} names: narrow the range"));
    }
    Ok(())
}

/// A pair of braces that stands for something: `pattern[start..end]`.
struct Group {
    start: usize,
    end: usize,
    parts: Vec<Part>,
}

enum Part {
    Text(String),
    Range(Range),
}

/// `{from..to..step}` of numbers or letters.
struct Range {
    from: i64,
    to: i64,
    step: u64,
    /// Least number of characters, filled with zeros.
    width: usize,
    letters: bool,
}

/// The first pair of braces with a comma or a range in it; others stand for themselves.
fn next_group(pattern: &str) -> Result<Option<Group>, String> {
    for (start, _) in pattern.match_indices('{') {
        let Some((end, commas)) = closing(pattern, start) else {
            return Err("a brace is opened and not closed: add `}`".to_owned());
        };
        let inner = &pattern[start + 1..end - 1];
        if !commas.is_empty() {
            let edges = [vec![start], commas, vec![end - 1]].concat();
            let parts = edges.windows(2).map(|w| Part::Text(pattern[w[0] + 1..w[1]].to_owned()));
            return Ok(Some(Group { start, end, parts: parts.collect() }));
        }
        if let Some(range) = Range::parse(inner) {
            return Ok(Some(Group { start, end, parts: vec![Part::Range(range)] }));
        }
    }
    Ok(None)
}

/// Where the brace at `start` is closed (one past it), and its own commas.
fn closing(pattern: &str, start: usize) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, byte) in pattern.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some((at + 1, commas)),
            b'}' => depth -= 1,
            b',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

// === impl Range ===

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let mut pieces = text.split("..");
        let (from, to, step) = (pieces.next()?, pieces.next()?, pieces.next());
        if pieces.next().is_some() {
            return None;
        }
        let step = step.map_or(Some(1), |s| s.parse::<i64>().ok())?.unsigned_abs().max(1);
        if let (Ok(first), Ok(last)) = (from.parse::<i64>(), to.parse::<i64>()) {
            let padded = |s: &str| {
                let digits = s.trim_start_matches(['-', '+']);
                digits.len() > 1 && digits.starts_with('0')
            };
            let width = if padded(from) || padded(to) { from.len().max(to.len()) } else { 0 };
            return Some(Self { from: first, to: last, step, width, letters: false });
        }
        let letter = |s: &str| match s.as_bytes() {
            [b] if b.is_ascii_alphabetic() => Some(i64::from(*b)),
            _ => None,
        };
        Some(Self { from: letter(from)?, to: letter(to)?, step, width: 0, letters: true })
    }

    fn len(&self) -> usize {
        usize::try_from(self.from.abs_diff(self.to) / self.step)
            .map_or(usize::MAX, |n| n.saturating_add(1))
    }

    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let sign: i64 = if self.from <= self.to { 1 } else { -1 };
        (0..self.len() as i64).map(move |at| {
            // Within i64 at the end, though perhaps not on the way.
            let value = self.from.wrapping_add((sign * at).wrapping_mul(self.step as i64));
            if self.letters {
                char::from(value as u8).to_string()
            } else {
                format!("{value:0width$}", width = self.width)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU bash 5.2 prints for `echo <pattern>`.
    const BASH: [(&str, &str); 18] = [
        ("a.tar", "a.tar"),
        ("a{b,c}d", "abd acd"),
        ("{000..003}.tar", "000.tar 001.tar 002.tar 003.tar"),
        ("{8..11}", "8 9 10 11"),
        ("{08..11}", "08 09 10 11"),
        ("{1..010}", "001 002 003 004 005 006 007 008 009 010"),
        ("{3..1}", "3 2 1"),
        ("{0..10..5}", "0 5 10"),
        ("{10..0..-4}", "10 6 2"),
        ("{-2..1}", "-2 -1 0 1"),
        ("{a..d}{1,2}", "a1 a2 b1 b2 c1 c2 d1 d2"),
        ("x{a,{1..3},b}y", "xay x1y x2y x3y xby"),
        ("{a,b{c,d}}{,.idx}", "a a.idx bc bc.idx bd bd.idx"),
        ("{one}{a,b}", "{one}a {one}b"),
        ("{{a,b}}", "{a} {b}"),
        ("{1..x}{}", "{1..x}{}"),
        ("{-01..2}", "-01 000 001 002"),
        ("{a..e..2}", "a c e"),
    ];

    #[test]
    fn names_are_those_that_bash_prints() {
        for (pattern, printed) in BASH {
            assert_eq!(expand(pattern).unwrap().join(" "), printed, "{pattern}");
        }
    }

    #[test]
    fn an_unclosed_brace_and_a_flood_are_refused() {
        assert!(expand("train-{000..127.tar").unwrap_err().contains("not closed"));
        assert!(expand("{a,b}{c").unwrap_err().contains("not closed"));
        assert!(expand("{0..99999999}").unwrap_err().contains("narrow"));
        assert!(expand("{0..9999}{0..9999}").unwrap_err().contains("narrow"));
        assert!(expand(&format!("{{{}..{}}}", i64::MIN, i64::MAX)).is_err());
    }
}
