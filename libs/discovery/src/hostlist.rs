//! SLURM's host lists, as `SLURM_JOB_NODELIST` holds them: containers have no `scontrol` to
//! expand them with.
//!
//! `n[0,3-5]` is n0 n3 n4 n5. Ranges keep the zeros that the lower end is written with
//! (`n[08-10]`), several of them multiply, the last one runs fastest (`r[0-1]n[0-1]`). Hosts keep
//! their order and may come twice, as with `scontrol show hostnames`.

use crate::DiscoveryError;

/// Most hosts of one list: SLURM's own limit of a range.
pub const HOSTS_MAX: usize = 1 << 16;

/// The hosts of a list.
///
/// # Errors
/// Names the list and what is wrong with it.
pub fn expand(list: &str) -> Result<Vec<String>, DiscoveryError> {
    let mut hosts = Vec::new();
    for pattern in split_list(list) {
        expand_one(pattern.trim(), &mut hosts).map_err(|rule| DiscoveryError::entry(list, rule))?;
    }
    Ok(hosts)
}

/// The pieces between commas, other than those of ranges: `n[0,3-5],n9` has two.
pub fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    list.split(move |c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
}

/// Appends the hosts of a pattern like `r[0-1]n[0-9]`.
fn expand_one(pattern: &str, hosts: &mut Vec<String>) -> Result<(), String> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((ranges, after)) = after.split_once(']') else {
            return Err(format!("close the bracket of `{pattern}`"));
        };
        let numbers = numbers(ranges)?;
        within_limit(names.len().saturating_mul(numbers.len()) + hosts.len())?;
        let longer = |name: &String| {
            let stem = format!("{name}{}", plain(before)?);
            Ok(numbers.iter().map(move |number| format!("{stem}{number}")))
        };
        let longer: Vec<_> = names.iter().map(longer).collect::<Result<_, String>>()?;
        names = longer.into_iter().flatten().collect();
        rest = after;
    }
    let end = plain(rest)?;
    if pattern.is_empty() {
        return Err("name a host between two commas".to_owned());
    }
    within_limit(names.len() + hosts.len())?;
    hosts.extend(names.into_iter().map(|name| name + end));
    Ok(())
}

/// The numbers of `0,3-5`, as they are written in names.
fn numbers(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (number(first, range)?, number(last, range)?);
        if low > high {
            return Err(format!("write the range `{range}` from its lower to its higher end"));
        }
        within_limit(usize::try_from(high - low).unwrap_or(usize::MAX).saturating_add(1))?;
        let width = first.len();
        numbers.extend((low..=high).map(|number| format!("{number:0width$}")));
        within_limit(numbers.len())?;
    }
    Ok(numbers)
}

fn number(digits: &str, range: &str) -> Result<u64, String> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Longer ones do not fit into a number, and zeros make every name of the range as long.
    let parsed = digits.parse().ok().filter(|_| all_digits && digits.len() <= 18);
    parsed.ok_or_else(|| format!("write `{range}` as a number or a range like `3-5`"))
}

fn plain(name: &str) -> Result<&str, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match name.chars().find(|c| !known(*c)) {
        Some(odd) => Err(format!("a host's name has no `{odd}`: write it like `n[0,3-5]`")),
        None => Ok(name),
    }
}

fn within_limit(hosts: usize) -> Result<(), String> {
    match hosts <= HOSTS_MAX {
        true => Ok(()),
        false => Err(format!("name {HOSTS_MAX} hosts at most")),
    }
}
