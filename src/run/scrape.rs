//! Counters of another process, from its `/metrics`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result};

const LIMIT: Duration = Duration::from_secs(2);

/// Values by name with labels, as in `headwater_storage_read_bytes_total{way="file"}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    values: BTreeMap<String, f64>,
}

/// Adds up the counters of several processes. One that is gone has taken its own with it.
pub(crate) fn scrape(addresses: &[SocketAddr]) -> Counters {
    let mut sum = Counters::default();
    for address in addresses {
        match fetch(address) {
            Ok(counters) => sum.add(&counters),
            Err(error) => tracing::debug!(%address, %error, "no metrics"),
        }
    }
    sum
}

/// What one process shows. Blocks for two seconds at most.
pub(crate) fn fetch(address: impl ToSocketAddrs) -> Result<Counters> {
    let address = address.to_socket_addrs()?.next().context("the name has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: run\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("no answer")?;
    Ok(Counters::of(&answer))
}

// === impl Counters ===

impl Counters {
    /// A counter's value; 0 where there is none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.values.get(name).map_or(0, |value| *value as u64)
    }

    /// A metric's value, where there is one.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Those of a text in Prometheus' form.
    pub(crate) fn of(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            if let Ok(value) = value.parse::<f64>() {
                values.insert(name.to_owned(), value);
            }
        }
        Self { values }
    }

    fn add(&mut self, other: &Self) {
        for (name, value) in &other.values {
            *self.values.entry(name.clone()).or_default() += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_several_processes_add_up() {
        let mut counters = Counters::default();
        let text = "HTTP/1.1 200 OK\r\n\r\n# HELP a b\na_total{way=\"file\"} 3\nb 1.5\n";
        counters.add(&Counters::of(text));
        counters.add(&Counters::of(text));
        assert_eq!(counters.get("a_total{way=\"file\"}"), 6);
        assert_eq!(counters.get("b"), 3);
        assert_eq!(counters.get("c"), 0);
    }
}
