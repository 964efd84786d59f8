//! The tables of a report, as text: the screen and `--once` show the same ones.

use super::figures::{UNKNOWN, bytes, bytes_rate, count, ms, rate, share};
use super::report::{CacheLevel, Rank, Report, Worker};

/// Blanks between two columns.
const GAP: usize = 2;

/// A table of texts. Columns of names are on the left, those of numbers are set to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) head: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Rows of processes that do not answer.
    pub(crate) down: Vec<bool>,
}

/// A column's head, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) is_name: bool,
}

// === impl Table ===

impl Table {
    /// Heads that begin with `<` are of names.
    fn new(title: &'static str, heads: &[&'static str]) -> Self {
        let column = |head: &&'static str| match head.strip_prefix('<') {
            Some(head) => Column { head, is_name: true },
            None => Column { head, is_name: false },
        };
        Self { title, head: heads.iter().map(column).collect(), ..Self::default() }
    }

    /// Adds a row. The name of a process that does not answer says so.
    fn push(&mut self, up: bool, mut row: Vec<String>) {
        if let Some(name) = row.first_mut().filter(|_| !up) {
            name.push_str(" (down)");
        }
        self.rows.push(row);
        self.down.push(!up);
    }

    /// Width of each column.
    fn widths(&self) -> Vec<usize> {
        let width = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([column.head.chars().count()]).max().unwrap_or(0)
        };
        self.head.iter().enumerate().map(width).collect()
    }

    /// The heads and the rows as lines of limited length. Columns on the right are left out if
    /// there is no room for them.
    pub(crate) fn lines(&self, line_max: usize) -> Vec<String> {
        let mut widths = self.widths();
        let mut used = 0;
        widths.retain(|width| {
            used += width + GAP;
            used <= line_max + GAP
        });
        if widths.is_empty() {
            widths.push(line_max);
        }
        let line = |cells: Vec<&str>| {
            let set =
                cells.iter().zip(&widths).zip(&self.head).map(
                    |((cell, width), column)| match column.is_name {
                        true => format!("{cell:width$}"),
                        false => format!("{cell:>width$}"),
                    },
                );
            set.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        let heads = self.head.iter().map(|column| column.head).collect();
        let rows = self.rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
        [line(heads)].into_iter().chain(rows).collect()
    }
}

/// All tables that have rows, the most looked at first.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let all = [
        ranks(report),
        troubles(report),
        workers(report),
        storage(report),
        caches(report),
        links(report),
        shared(report),
        weights(report),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn ranks(report: &Report) -> Table {
    let heads =
        ["<rank", "samples/s", "wait", "<most for", "ready", "workers", "epoch", "step", "bad"];
    let mut table = Table::new("ranks", &heads);
    for rank in &report.ranks {
        table.push(
            rank.up,
            vec![
                rank.name.clone(),
                rate(rank.samples_per_s),
                share(rank.wait_share),
                most_for(rank),
                part_of(rank.ready_batches, rank.slots),
                count(rank.workers),
                count(rank.epoch),
                count(rank.step),
                count(rank.bad_samples),
            ],
        );
    }
    table
}

/// The cause with the largest share.
fn most_for(rank: &Rank) -> String {
    let most = rank.wait_by_cause.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or_else(String::new, |(cause, _)| cause.clone())
}

fn part_of(part: Option<u64>, all: Option<u64>) -> String {
    match (part, all) {
        (None, None) => UNKNOWN.to_owned(),
        (part, all) => format!("{}/{}", count(part), count(all)),
    }
}

fn workers(report: &Report) -> Table {
    let heads = [
        "<worker",
        "busy",
        "samples/s",
        "queue",
        "threads",
        "ranks",
        "render ms",
        "decode ms",
        "read ms",
        "deliver ms",
        "bad",
        "<backend",
    ];
    let mut table = Table::new("workers", &heads);
    for worker in &report.workers {
        let times = &worker.part_ms;
        table.push(
            worker.up,
            vec![
                worker.name.clone(),
                share(worker.busy_share),
                rate(worker.samples_per_s),
                count(worker.queue_parts),
                count(worker.threads),
                count(worker.sessions),
                ms(times.render),
                ms(times.decode),
                ms(times.read),
                ms(times.deliver),
                count(worker.bad_samples),
                worker.backend.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            ],
        );
    }
    table
}

fn storage(report: &Report) -> Table {
    let heads = ["<storage", "samples/s", "served", "reads", "waiting", "distant"];
    let mut table = Table::new("storage", &heads);
    for node in &report.storage {
        table.push(
            node.up,
            vec![
                node.name.clone(),
                rate(node.samples_per_s),
                bytes_rate(node.bytes_per_s),
                count(node.reads_in_flight),
                count(node.reads_waiting),
                bytes_rate(node.source_bytes_per_s),
            ],
        );
    }
    table
}

fn caches(report: &Report) -> Table {
    let mut table = Table::new("caches", &["<cache of", "<level", "bytes", "limit", "hits"]);
    let of_nodes = report.storage.iter().map(|node| (&node.name, &node.caches));
    let of_workers = report.workers.iter().map(|worker| (&worker.name, &worker.caches));
    for (name, levels) in of_nodes.chain(of_workers) {
        for CacheLevel { level, bytes: used, limit, hit_share } in levels {
            let cells =
                [name.clone(), level.clone(), bytes(*used), bytes(*limit), share(*hit_share)];
            table.push(true, cells.to_vec());
        }
    }
    table
}

fn links(report: &Report) -> Table {
    let mut table = Table::new("links", &["<link", "moved", "parts/s", "dropped"]);
    for link in &report.links {
        let (moved, parts) = (bytes_rate(link.bytes_per_s), rate(link.parts_per_s));
        table.push(true, vec![link.link.clone(), moved, parts, count(link.dropped)]);
    }
    table
}

/// Parts that were made once for several ranks, and those that were made or sent more than once.
fn shared(report: &Report) -> Table {
    let heads = ["<shared parts", "used again", "kept", "bytes", "hedges", "twice"];
    let mut table = Table::new("shared", &heads);
    let sharing = |worker: &&Worker| worker.share_parts.is_some() || worker.parts_shared.is_some();
    for worker in report.workers.iter().filter(sharing) {
        let (again, kept) = (count(worker.parts_shared), count(worker.share_parts));
        let cells = [worker.name.clone(), again, kept, bytes(worker.share_bytes)];
        table.push(worker.up, cells.into_iter().chain([String::new(), String::new()]).collect());
    }
    let some = |value: Option<u64>| value.is_some_and(|value| value > 0);
    let telling =
        |rank: &&Rank| some(rank.parts_shared) || some(rank.hedges) || some(rank.duplicates);
    for rank in report.ranks.iter().filter(telling) {
        let (again, empty) = (count(rank.parts_shared), String::new());
        let cells = [rank.name.clone(), again, empty.clone(), empty];
        let more = [count(rank.hedges), count(rank.duplicates)];
        table.push(rank.up, cells.into_iter().chain(more).collect());
    }
    table
}

/// Weights in force. Ranks of a job have the same ones.
fn weights(report: &Report) -> Table {
    let mut table = Table::new("weights", &["<dataset", "weight", "<of"]);
    let mut shown: Vec<(&String, f64)> = Vec::new();
    for rank in &report.ranks {
        for (dataset, weight) in &rank.weights {
            if !shown.contains(&(dataset, *weight)) {
                shown.push((dataset, *weight));
                let cells = [dataset.clone(), format!("{weight:.3}"), rank.name.clone()];
                table.push(rank.up, cells.to_vec());
            }
        }
    }
    table
}

fn troubles(report: &Report) -> Table {
    let mut table = Table::new("troubles", &["<trouble"]);
    for trouble in &report.troubles {
        table.push(true, vec![trouble.clone()]);
    }
    table
}
