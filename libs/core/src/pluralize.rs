//! A number and what it counts, in words.

use std::fmt::Display;

/// A count with its noun: `1 shard`, `2 shards`, `0 batches`. `noun` is in the singular.
#[must_use]
pub fn pluralize<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = match noun {
        _ if count == N::from(1) => "",
        noun if noun.ends_with("ch") || noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::pluralize;

    #[test]
    fn one_of_them_is_singular() {
        assert_eq!(pluralize(1_u64, "dataset"), "1 dataset");
        assert_eq!(pluralize(0_usize, "dataset"), "0 datasets");
        assert_eq!(pluralize(2_u32, "batch"), "2 batches");
        assert_eq!(pluralize(1_u32, "class"), "1 class");
        assert_eq!(pluralize(12_u64, "class"), "12 classes");
    }
}
