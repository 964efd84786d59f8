//! The launcher's word on which rank a process is. It holds where nothing else says the rank.

use crate::error::ConfigError;
use crate::setting::Setting;

/// The keys that a launcher sets, both or neither.
pub(crate) const RANK_KEY: &str = "receiver.rank";
pub(crate) const WORLD_SIZE_KEY: &str = "receiver.world_size";

/// Where launchers say rank and number of ranks, best first: torchrun and its like, SLURM.
const LAUNCHERS: [(&str, &str); 2] = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];

/// Whether a launcher may set a key.
pub(crate) fn sets(key: &str) -> bool {
    [RANK_KEY, WORLD_SIZE_KEY].contains(&key)
}

/// Rank and number of ranks, from the first launcher that says both. An empty variable is not set, as
/// for `headwater.distributed`.
pub(crate) fn launched(variables: &[(String, String)]) -> Result<Vec<Setting>, ConfigError> {
    let value = |name: &str| {
        let variable = variables.iter().find(|(known, _)| known == name);
        variable.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    };
    for (rank, world_size) in LAUNCHERS {
        if let (Some(rank_text), Some(world_size_text)) = (value(rank), value(world_size)) {
            return Ok(vec![
                Setting::typed(rank, RANK_KEY, number(rank, rank_text)?),
                Setting::typed(world_size, WORLD_SIZE_KEY, number(world_size, world_size_text)?),
            ]);
        }
    }
    Ok(Vec::new())
}

fn number(name: &str, text: &str) -> Result<u32, ConfigError> {
    text.trim().parse().map_err(|error| ConfigError::Key {
        place: name.to_owned(),
        problem: format!(
            "`{text}` is not a number of ranks: {error}; correct it, or set receiver.rank and \
             receiver.world_size"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_of_a_launcher_is_not_set() {
        let of = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let found = launched(&owned.collect::<Vec<_>>());
            found.map(|settings| settings.len()).map_err(|error| error.to_string())
        };
        let torchrun = [("RANK", ""), ("WORLD_SIZE", "2")];
        assert_eq!(of(&torchrun), Ok(0));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", " ")]), Ok(0));
        // The next launcher counts.
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        assert_eq!(of(&[torchrun, slurm].concat()), Ok(2));
        let error = of(&[("RANK", "one"), ("WORLD_SIZE", "2")]).expect_err("no number");
        assert!(error.contains("`one` is not a number of ranks"), "{error}");
    }
}
