//! Which loaders share their services.

use headwater_config::Config;
use headwater_core::{Digest, Digester};
use headwater_storage::listed;

use crate::job::namespace;

/// Identity of the services that a loader wants: equal for those of one job that want the same data
/// served in the same way, of folders with the same files. `job` tells it from others of the same user.
///
/// Neither recipe nor weights count, which services do not know; nor the number of threads, which
/// follows from each rank's own cores where nobody sets it.
pub(crate) fn key(config: &Config, job: &str) -> Digest {
    let mut served = Config {
        dataset: config.dataset.clone(),
        filter: config.filter.clone(),
        storage: config.storage.clone(),
        augment: config.augment.clone(),
        links: config.links.clone(),
        ..Config::default()
    };
    served.dataset.iter_mut().for_each(|dataset| dataset.weight = None);
    let served = serde_json::to_vec(&served).expect("plain data");
    // Paths may be relative. Services of another network namespace cannot be reached, and the numbers
    // of processes of another one say nothing.
    let folder = std::env::current_dir().unwrap_or_default();
    let mut digester = Digester::new("headwater local services 1");
    for text in [env!("CARGO_PKG_VERSION"), job, &namespace("net"), &namespace("pid")] {
        digester.bytes(text.as_bytes());
    }
    digester.bytes(folder.as_os_str().as_encoded_bytes()).bytes(&served);
    // Services know what was there when they were started.
    for dataset in &config.dataset {
        for text in listed(&dataset.served().shards) {
            digester.bytes(text.as_bytes());
        }
    }
    digester.finish()
}

#[cfg(test)]
mod tests {
    use headwater_config::DatasetEntry;
    use headwater_storage::FilterConfig;

    use super::*;

    fn config(shards: &str) -> Config {
        let dataset = vec![DatasetEntry::parse(&format!("data={shards}")).unwrap()];
        Config { dataset, ..Config::default() }
    }

    #[test]
    fn what_the_services_do_not_know_makes_no_others() {
        let ours = key(&config("photos/"), "job 1");
        let mut same = config("photos/");
        same.dataset[0].weight = Some(0.5);
        same.receiver.seed = 7;
        assert_eq!(key(&same, "job 1"), ours);
        let mut others = ["others/", "photos/", "photos/", "photos/"].map(config);
        others[1].storage.reads.readers = 3;
        others[2].augment.threads = 3;
        others[3].filter.push(FilterConfig::default());
        for other in &others {
            assert_ne!(key(other, "job 1"), ours);
        }
        assert_ne!(key(&config("photos/"), "job 2"), ours);
    }
}
