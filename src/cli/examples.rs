//! An example for each verb, at the end of its `--help`.

use clap::Command;

/// Verb, what the example does, and the example.
const EXAMPLES: [(&str, &str, &str); 27] = [
    (
        "storage",
        "Serve the shards of one dataset on port 7401",
        "headwater storage --listen 0.0.0.0:7401 --dataset 'photos=/data/photos-*.tar'",
    ),
    (
        "augment",
        "Work with eight threads for whoever calls port 7402",
        "headwater augment --listen 0.0.0.0:7402 --storage node1:7401 --threads 8",
    ),
    (
        "run",
        "One epoch through all three tiers of this machine",
        "headwater run --dataset 'photos=/data/photos-*.tar' --workers 2",
    ),
    (
        "receive",
        "Take the batches of rank 0 of 1, and say how fast they come",
        "headwater receive --dataset photos --storage node1:7401 --workers node2:7402,node3:7402",
    ),
    (
        "publish",
        "Hand batches on to Tensorcom's clients",
        "headwater publish --dataset photos --storage node1:7401 --workers node2:7402 --urls zpub://0.0.0.0:7404",
    ),
    ("autoscale", "Say what would be done, and do nothing", "headwater autoscale --dry-run"),
    (
        "plan",
        "What the first batch of epoch 0 holds",
        "headwater plan --dataset 'photos=/data/photos-*.tar' --batch 8",
    ),
    (
        "datasets list",
        "The datasets of a configuration",
        "headwater --config headwater.toml datasets list",
    ),
    ("datasets preview", "The hub as a tree", "headwater datasets preview"),
    (
        "datasets count",
        "Count the samples of a dataset of the hub",
        "headwater datasets count photos/train",
    ),
    (
        "datasets add",
        "Begin a dataset in the hub",
        "headwater datasets add public rgb photos train",
    ),
    ("datasets index", "Write an index beside each shard", "headwater datasets index photos/train"),
    ("datasets validate", "Read every sample", "headwater datasets validate photos/train"),
    ("datasets stubs", "Write hub.py for an editor", "headwater datasets stubs"),
    (
        "datasets pack",
        "Make shards of a folder of images",
        "headwater datasets pack /data/imagenet/train --out /data/shards",
    ),
    (
        "datasets buckets",
        "Group images by aspect ratio for batches of three sizes",
        "headwater datasets buckets 'photos=/data/photos-*.tar' --sizes 512x512,384x640,640x384 -o list.npy",
    ),
    ("bench", "Measure everything", "headwater bench --report report --quick"),
    ("bench link", "Measure TCP and shared memory", "headwater bench link --links tcp,shm"),
    ("bench pipeline", "Measure all three tiers on this machine", "headwater bench pipeline"),
    ("bench gpu", "Compare a GPU with the processor", "headwater bench gpu --photos /data/photos"),
    ("bench storage", "Measure reading", "headwater bench storage"),
    ("monitor", "Watch the processes of this host", "headwater monitor"),
    (
        "trace merge",
        "See three tiers in one trace",
        "headwater trace merge out.json out-storage.json out-augment-0.json -o all.json",
    ),
    ("doctor", "Look for what is wrong on this machine", "headwater doctor"),
    ("config", "What is configured, and where from", "headwater --config headwater.toml config"),
    (
        "completions",
        "Complete verbs and flags in bash",
        "headwater completions bash > ~/.local/share/bash-completion/completions/headwater",
    ),
    (
        "man",
        "Write the manual's pages and read one",
        "headwater man /tmp/man && man /tmp/man/headwater.1",
    ),
];

/// The command with an example for each verb.
pub(crate) fn with_examples(mut command: Command) -> Command {
    for (verb, what, example) in EXAMPLES {
        command = at(command, &mut verb.split(' '), &|command| {
            command.after_help(format!("Example: {}\n  {example}", lower(what)))
        });
    }
    command
}

/// Changes the command of a path of verbs.
fn at(
    command: Command,
    path: &mut dyn Iterator<Item = &str>,
    change: &dyn Fn(Command) -> Command,
) -> Command {
    match path.next() {
        None => change(command),
        Some(verb) => command.mut_subcommand(verb, |inner| at(inner, path, change)),
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    /// Verbs that do something by themselves, with the verbs before them.
    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let inner: Vec<&Command> = inner.filter(|inner| inner.get_name() != "help").collect();
        if inner.is_empty() || !path.is_empty() && !command.is_subcommand_required_set() {
            found.push(path.trim().to_owned());
        }
        inner
            .iter()
            .for_each(|inner| leaves(inner, &format!("{path} {}", inner.get_name()), found));
    }

    #[test]
    fn each_verb_has_one_and_no_other_is_named() {
        let mut verbs = Vec::new();
        leaves(&Cli::command(), "", &mut verbs);
        let named: Vec<&str> = EXAMPLES.iter().map(|(verb, _, _)| *verb).collect();
        assert_eq!(verbs, named, "verbs as `headwater --help` has them");
    }

    #[test]
    fn examples_are_understood() {
        for (verb, _, example) in EXAMPLES {
            let own = example.split([';', '>', '&']).next().unwrap_or_default();
            let words = own.split_whitespace().map(|word| word.trim_matches('\''));
            let read = Cli::command().try_get_matches_from(words);
            assert!(read.is_ok(), "{verb}: {}", read.unwrap_err());
        }
    }

    #[test]
    fn they_stand_at_the_end_of_the_help() {
        let mut command = with_examples(Cli::command());
        let help = command.find_subcommand_mut("doctor").unwrap().render_help().to_string();
        assert!(help.trim_end().ends_with("  headwater doctor"), "{help}");
    }
}
