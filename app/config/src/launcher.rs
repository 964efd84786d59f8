//! The launcher's word on the rank and the job of a process. It holds where nothing else says it.

use figment::Figment;

use crate::origin::{is_default, origin};
use crate::setting::Setting;

/// The keys that a launcher sets.
const RANK_KEY: &str = "receiver.rank";
const WORLD_SIZE_KEY: &str = "receiver.world_size";
const KEYS: [&str; 2] = [RANK_KEY, WORLD_SIZE_KEY];
const JOB_KEY: &str = "receiver.job";
/// SLURM's number of the job, in batch scripts, too: `headwater monitor --job` takes it.
const SLURM_JOB: &str = "SLURM_JOB_ID";

/// Where launchers say rank and number of ranks, best first: torchrun and its like, Open MPI, MVAPICH, SLURM, MPICH
/// and Intel MPI. `headwater.distributed` has the same.
const LAUNCHERS: [[&str; 2]; 5] = [
    TORCHRUN,
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
    SLURM,
    ["PMI_RANK", "PMI_SIZE"],
];
const TORCHRUN: [&str; 2] = ["RANK", "WORLD_SIZE"];
const SLURM: [&str; 2] = ["SLURM_PROCID", "SLURM_NTASKS"];
/// SLURM sets it for what `srun` starts, and not for a batch script. The shell of `salloc` has one of the numbers that
/// name no step (`SLURM_INTERACTIVE_STEP` and others, slurm.h).
const SLURM_STEP: &str = "SLURM_STEP_ID";
const SLURM_STEPS_MAX: u32 = 0xffff_fff0;

/// What a launcher says of this process.
#[derive(Debug, Default)]
pub(crate) struct Launched {
    /// Rank and number of ranks, and who says so; `None`: nobody.
    ranks: [Option<(u32, String)>; 2],
    job: Option<String>,
    /// Why a receiver may not open.
    fault: Option<String>,
    /// A sentence for the log.
    warning: Option<String>,
}

/// What a configuration takes of it.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) settings: Vec<Setting>,
    /// The configuration does not say both.
    pub(crate) is_asked: bool,
    /// Why a receiver may not open.
    pub(crate) fault: Option<String>,
    /// A sentence for the log of a receiver.
    pub(crate) warning: Option<String>,
}

/// Whether a launcher may set a key.
pub(crate) fn sets(key: &str) -> bool {
    KEYS.contains(&key) || key == JOB_KEY
}

// === impl Launched ===

impl Launched {
    /// By whoever says it in this process, where a group of processes is made already.
    pub(crate) fn by(self, origin: &str, [rank, world_size]: [u32; 2]) -> Self {
        let ranks = [rank, world_size].map(|number| (number, origin.to_owned()));
        Self { ranks: ranks.map(Some), job: self.job, ..Self::default() }
    }

    /// By the first launcher whose variables say both. An empty variable is not set.
    pub(crate) fn read(variables: &[(String, String)]) -> Self {
        let value = |name: &str| {
            let variable = variables.iter().find(|(known, _)| known == name);
            variable.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        let number = |name: &str| match value(name).map(str::parse::<u32>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some((number, name.to_owned()))),
            Some(Err(error)) => {
                let text = value(name).unwrap_or_default();
                Err(format!("{name}: `{text}` is not a number of ranks: {error}"))
            }
        };
        let job = value(SLURM_JOB).map(str::to_owned);
        let mut found = Self { job, ..Self::default() };
        for names in LAUNCHERS {
            let [rank, world_size] = match (number(names[0]), number(names[1])) {
                (Ok(rank), Ok(world_size)) => [rank, world_size],
                (Err(fault), _) | (_, Err(fault)) => return found.refused(fault),
            };
            let (Some(rank), Some(world_size)) = (rank, world_size) else { continue };
            if names == SLURM && !value(SLURM_STEP).is_some_and(is_step) {
                found.warning = (world_size.0 > 1).then(|| {
                    let tasks = world_size.0;
                    format!(
                        "SLURM_NTASKS is {tasks}, and this process was not started by srun ({SLURM_STEP} names no step): it \
                         is taken for the only rank; start it by srun, or set receiver.rank and receiver.world_size"
                    )
                });
                continue;
            }
            found.ranks = [Some(rank), Some(world_size)];
            break;
        }
        let halves = TORCHRUN.map(|name| number(name).unwrap_or_default());
        if let [Some((number, name)), None] | [None, Some((number, name))] = &halves {
            found.fault = found.disagreement(usize::from(halves[0].is_none()), *number, name);
            if found.ranks.iter().all(Option::is_none) {
                found.ranks = halves;
            }
        }
        found
    }

    fn refused(self, fault: String) -> Self {
        Self { ranks: [None, None], fault: Some(fault), ..self }
    }

    /// What is wrong with one of both numbers, the rank (0) or the number of ranks (1), as somebody else says it.
    fn disagreement(&self, at: usize, number: u32, who: &str) -> Option<String> {
        let other = ["number of ranks", "rank"][at];
        match (&self.ranks[at], &self.ranks[1 - at]) {
            (Some((found, name)), _) if *found != number => {
                Some(format!("{who} says {number}, and {name} says {found}"))
            }
            (_, Some(_)) => None,
            // The only rank.
            (_, None) if number == at as u32 => None,
            (_, None) => Some(format!("{who} says {number}, and nothing says the {other}")),
        }
    }

    /// What is taken of it where the configuration, without its say, is this.
    pub(crate) fn over(self, figment: &Figment) -> Taken {
        let job = self.job.clone().filter(|_| is_default(figment, JOB_KEY));
        let job = job.map(|job| Setting::typed(SLURM_JOB, JOB_KEY, job));
        let mut taken = self.rank_over(figment);
        taken.settings.extend(job);
        taken
    }

    fn rank_over(self, figment: &Figment) -> Taken {
        let is_set = KEYS.map(|key| !is_default(figment, key));
        let number = |key: &str| figment.extract_inner::<u32>(key).ok();
        let (takes, fault) = match is_set {
            [true, true] => return Taken::default(),
            // Whoever says so is the only rank, whatever a launcher says.
            [false, true] if number(WORLD_SIZE_KEY) == Some(1) => return Taken::default(),
            [false, false] => (KEYS.to_vec(), self.fault.clone()),
            [has_rank, _] => {
                let at = usize::from(!has_rank);
                let place = origin(figment, KEYS[at]).unwrap_or_default();
                let place = format!("{} ({place})", KEYS[at]);
                let fault =
                    number(KEYS[at]).and_then(|number| self.disagreement(at, number, &place));
                match fault {
                    None => (vec![KEYS[1 - at]], None),
                    fault => (Vec::new(), fault),
                }
            }
        };
        let ranks = KEYS.into_iter().zip(self.ranks).filter(|(key, _)| takes.contains(key));
        let settings = ranks.filter_map(|(key, said)| {
            said.map(|(number, name)| Setting::typed(&name, key, number))
        });
        Taken { settings: settings.collect(), is_asked: true, fault, warning: self.warning }
    }
}

fn is_step(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|step| step < SLURM_STEPS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Launched {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Launched::read(&owned.collect::<Vec<_>>())
    }

    fn ranks(variables: &[(&str, &str)]) -> Result<Option<[u32; 2]>, String> {
        let found = read(variables);
        let [rank, world_size] = found.ranks.map(|said| said.map(|(number, _)| number));
        found.fault.map_or(Ok(rank.zip(world_size).map(|(rank, size)| [rank, size])), Err)
    }

    const STEP: [(&str, &str); 3] =
        [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2"), ("SLURM_STEP_ID", "0")];

    #[test]
    fn an_empty_variable_of_a_launcher_is_not_set() {
        assert_eq!(ranks(&[("RANK", ""), ("WORLD_SIZE", " ")]), Ok(None));
        // The next launcher counts.
        assert_eq!(
            ranks(&[&[("RANK", ""), ("WORLD_SIZE", "2")], &STEP[..]].concat()),
            Ok(Some([1, 2]))
        );
        let error = ranks(&[("RANK", "one"), ("WORLD_SIZE", "2")]).expect_err("no number");
        assert!(error.contains("RANK: `one` is not a number of ranks"), "{error}");
    }

    #[test]
    fn a_job_of_slurm_has_its_number_and_another_name_stays() {
        let job = |variables: &[(&str, &str)], name: Option<&str>| {
            let keys = name.map(|name| figment::util::nest(JOB_KEY, name.into()));
            let figment = keys.map_or_else(Figment::new, |keys| {
                Figment::from(figment::providers::Serialized::defaults(keys))
            });
            let settings = read(variables).over(&figment).settings;
            settings.into_iter().map(|setting| (setting.key, setting.origin)).collect::<Vec<_>>()
        };
        let of_slurm = [(JOB_KEY.to_owned(), "SLURM_JOB_ID".to_owned())];
        assert_eq!(job(&[("SLURM_JOB_ID", "77")], None), of_slurm);
        assert_eq!(job(&[("SLURM_JOB_ID", "77")], Some("mine")), []);
        assert_eq!(job(&[("SLURM_JOB_ID", "")], None), []);
    }

    #[test]
    fn half_a_word_is_none_unless_it_agrees_with_another() {
        assert_eq!(ranks(&[("WORLD_SIZE", "1")]), Ok(None));
        assert_eq!(ranks(&[("RANK", "0")]), Ok(None));
        let fault = "WORLD_SIZE says 2, and nothing says the rank";
        assert_eq!(ranks(&[("WORLD_SIZE", "2")]), Err(fault.into()));
        let fault = "RANK says 0, and SLURM_PROCID says 1";
        assert_eq!(ranks(&[&[("RANK", "0")], &STEP[..]].concat()), Err(fault.into()));
    }

    #[test]
    fn a_half_that_is_configured_is_joined_with_a_half_of_torchrun() {
        let over = |variable: (&str, &str), key: &str, number: u32| {
            let configured = figment::util::nest(key, number.into());
            let figment = Figment::from(figment::providers::Serialized::defaults(configured));
            let taken = read(&[variable]).over(&figment);
            let keys = taken.settings.into_iter().map(|setting| setting.key).collect::<Vec<_>>();
            taken.fault.map_or(Ok(keys), Err)
        };
        assert_eq!(over(("WORLD_SIZE", "2"), RANK_KEY, 0), Ok(vec![WORLD_SIZE_KEY.to_owned()]));
        assert_eq!(over(("RANK", "1"), WORLD_SIZE_KEY, 2), Ok(vec![RANK_KEY.to_owned()]));
        assert!(over(("RANK", "1"), RANK_KEY, 0).is_err_and(|fault| fault.contains("RANK says 1")));
    }

    #[test]
    fn every_launcher_is_heard_and_slurm_only_of_what_srun_starts() {
        for [rank, world_size] in LAUNCHERS {
            let variables = [(rank, "3"), (world_size, "4"), ("SLURM_STEP_ID", "0")];
            assert_eq!(ranks(&variables), Ok(Some([3, 4])), "{rank}");
        }
        let shell = [STEP[0], STEP[1], ("SLURM_STEP_ID", "4294967290")];
        assert_eq!(ranks(&shell), Ok(None), "a shell of salloc");
        assert_eq!(ranks(&STEP[..2]), Ok(None));
        let warning = read(&STEP[..2]).warning.expect("two tasks");
        assert!(
            warning.starts_with("SLURM_NTASKS is 2, and this process was not started by srun"),
            "{warning}"
        );
    }
}
