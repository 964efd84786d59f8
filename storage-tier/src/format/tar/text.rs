//! DALI's text index: `v1.2 <samples>`, then a line per sample with, for each field,
//! `<field> <offset> <bytes> <file name>`; v1.1 has no file names.

use std::fmt::Write as _;

use headwater_core::pluralize;
use headwater_core::{IndexedField, ShardIndex};

use super::fault::IdxFault;

/// A text index. File names in it are not looked at: tools write them differently.
pub(super) struct TextIndex {
    with_names: bool,
    announced: u64,
    /// One per sample.
    lines: Vec<String>,
}

/// Line 1 is the head.
const FIRST_LINE: usize = 2;

// === impl TextIndex ===

impl TextIndex {
    pub(super) fn parse(text: &str) -> Result<Self, IdxFault> {
        let mut lines = text.lines().map(str::trim_end);
        let head = lines.next().unwrap_or_default();
        let (version, count) = head.split_once(' ').unwrap_or((head, ""));
        let with_names = match version {
            "v1.1" => false,
            "v1.2" => true,
            _ => {
                let fault = format!("version `{version}` is not known, v1.1 and v1.2 are");
                return Err(IdxFault::line(1, fault));
            }
        };
        let announced = count.trim().parse().map_err(|_| {
            IdxFault::line(1, format!("`{head}` does not give the number of samples"))
        })?;
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        Ok(Self { with_names, announced, lines })
    }

    /// Offsets of the fields' data, as far as the lines can be read without the shard.
    pub(super) fn data_offsets(&self) -> impl Iterator<Item = u64> + '_ {
        let tokens = if self.with_names { 4 } else { 3 };
        self.lines.iter().flat_map(move |line| {
            line.split(' ').skip(1).step_by(tokens).filter_map(|offset| offset.parse().ok())
        })
    }

    /// Whether it is of v1.2, with file names.
    pub(super) fn with_names(&self) -> bool {
        self.with_names
    }

    /// Number of samples and where the first field of the last one starts, if it has as many lines
    /// as it announces.
    pub(super) fn last_data(&self) -> Option<(u64, u64)> {
        let last = self.lines.last()?.split(' ').nth(1)?.parse().ok()?;
        (self.announced == self.lines.len() as u64).then_some((self.announced, last))
    }

    pub(super) fn check(&self, index: &ShardIndex, shard_bytes: u64) -> Result<(), IdxFault> {
        for (sample, line) in self.lines.iter().enumerate().take(index.samples() as usize) {
            let (key, fields) = (index.key(sample as u32), index.fields(sample as u32));
            self.check_line(line, key.unwrap_or_default(), fields, shard_bytes)
                .map_err(|fault| IdxFault::line(sample + FIRST_LINE, fault))?;
        }
        let (found, lines) = (u64::from(index.samples()), self.lines.len() as u64);
        if self.announced != lines {
            let announced = pluralize(self.announced, "sample");
            let fault = format!("announces {announced}, {} follow", pluralize(lines, "line"));
            return Err(IdxFault::line(1, fault));
        }
        if self.announced != found {
            let announced = pluralize(self.announced, "sample");
            let fault = format!("announces {announced}, the shard has {found}");
            return Err(IdxFault::line(1, fault));
        }
        Ok(())
    }

    fn check_line<'a>(
        &self,
        line: &str,
        key: &str,
        fields: impl ExactSizeIterator<Item = IndexedField<'a>>,
        shard_bytes: u64,
    ) -> Result<(), String> {
        let expected: Vec<_> = fields.collect();
        let mut rest = line;
        for (at, field) in expected.iter().enumerate() {
            let tokens = format!("{} {} {}", field.name, field.offset, field.bytes);
            rest = match rest.strip_prefix(&tokens) {
                Some(rest) if rest.is_empty() || rest.starts_with(' ') => rest,
                _ => return Err(difference(rest, field, shard_bytes)),
            };
            if self.with_names {
                // A file name may hold spaces: it ends where the next field starts.
                let next =
                    expected.get(at + 1).map(|f| format!(" {} {} {}", f.name, f.offset, f.bytes));
                rest = match next {
                    Some(next) => match rest.find(&next) {
                        Some(start) => &rest[start..],
                        None => {
                            let after_name = rest.trim_start().split_once(' ');
                            let rest = after_name.map_or("", |(_, rest)| rest);
                            return Err(difference(rest, &expected[at + 1], shard_bytes));
                        }
                    },
                    None => after_name(rest.trim_start(), key, field.name),
                };
            }
            rest = rest.trim_start();
        }
        if !rest.is_empty() {
            return Err(format!("`{rest}` is not in the shard's sample"));
        }
        Ok(())
    }
}

/// The text of an index, v1.2, as DALI's `wds2idx` writes it.
pub(crate) fn write(index: &ShardIndex) -> String {
    let mut text = format!("v1.2 {}\n", index.samples());
    for sample in 0..index.samples() {
        let key = index.key(sample).unwrap_or_default();
        for (at, IndexedField { name, offset, bytes, .. }) in index.fields(sample).enumerate() {
            let space = if at == 0 { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{space}{name} {offset} {bytes} {key}.{name}");
        }
        text.push('\n');
    }
    text
}

/// What follows the last file name. It may be written in another way than in the shard, but has as
/// many spaces.
fn after_name<'a>(rest: &'a str, key: &str, field: &str) -> &'a str {
    let spaces = key.matches(' ').count() + field.matches(' ').count();
    rest.match_indices(' ').nth(spaces).map_or("", |(end, _)| &rest[end..])
}

/// Puts into words how a line differs from the field that the shard has.
fn difference(found: &str, field: &IndexedField<'_>, shard_bytes: u64) -> String {
    let IndexedField { name, offset, bytes, .. } = *field;
    let shard = format!("the shard has `{name}` at offset {offset} with {bytes} bytes");
    let mut tokens = found.split(' ');
    let (Some(found_name), Some(Ok(found_offset)), Some(Ok(found_bytes))) =
        (tokens.next(), tokens.next().map(str::parse::<u64>), tokens.next().map(str::parse::<u64>))
    else {
        return format!("`{found}` is no field; {shard}");
    };
    if found_offset.saturating_add(found_bytes) > shard_bytes {
        return format!(
            "`{found_name}` at offset {found_offset} with {found_bytes} bytes is beyond \
             the end of the shard at {shard_bytes}"
        );
    }
    format!(
        "`{found_name}` at offset {found_offset} with {found_bytes} bytes is not there; {shard}"
    )
}
