//! Which addresses go through the stream together, and with what receiver.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use headwater_config::publish::{Address, Pace};
use headwater_core::Digester;
use headwater_receiver::ReceiverConfig;

/// Most characters of an address that name a folder.
const FOLDER_CHARS_MAX: usize = 128;
/// Digits that tell addresses apart whose characters are the same otherwise.
const FOLDER_DIGITS: usize = 8;

/// A receiver, and the addresses that get its batches.
pub(crate) struct Stream {
    pub(crate) receiver: ReceiverConfig,
    pub(crate) addresses: Vec<Address>,
}

/// One stream for all addresses, or one for each.
///
/// # Errors
/// Each receiver would have to listen on the same port.
pub(crate) fn streams(
    pace: Pace,
    addresses: Vec<Address>,
    receiver: ReceiverConfig,
) -> Result<Vec<Stream>> {
    if pace == Pace::All || addresses.len() == 1 {
        return Ok(vec![Stream { receiver, addresses }]);
    }
    let listen = &receiver.link_settings.tcp_listen;
    ensure!(
        listen.ends_with(":0"),
        "links.tcp_listen is `{listen}`, and with publish.pace = \"each\" every address has a receiver that \
         listens: give port 0, as in `[::]:0`"
    );
    let mut seen = HashMap::new();
    let stream = |address: Address| {
        let mut receiver = receiver.clone();
        if !receiver.checkpoints.checkpoint_dir.as_os_str().is_empty() {
            let folder = folder(&address, &mut seen);
            receiver.checkpoints.checkpoint_dir.push(folder);
        }
        Stream { receiver, addresses: vec![address] }
    };
    Ok(addresses.into_iter().map(stream).collect())
}

/// Name of an address's own folder: the same after a restart, also where other addresses have come or gone.
fn folder(address: &Address, seen: &mut HashMap<String, u32>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let url = address.to_string();
    let whole: Vec<char> = url.chars().map(plain).collect();
    let cut = whole.len().saturating_sub(FOLDER_CHARS_MAX);
    let readable: String = whole[cut..].iter().collect();
    let digest = Digester::new("headwater address 1").bytes(url.as_bytes()).finish().to_string();
    let name = format!("{readable}-{}", &digest[..FOLDER_DIGITS]);
    // Port 0 may be there several times.
    let before = seen.entry(name.clone()).or_insert(0);
    *before += 1;
    if *before == 1 { name } else { format!("{name}-{before}") }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use headwater_config::publish::PublishConfig;
    use headwater_transport::links::LinksConfig;

    use super::*;

    fn addresses(urls: &[&str]) -> Vec<Address> {
        let urls = urls.iter().map(ToString::to_string).collect();
        PublishConfig { urls, ..PublishConfig::default() }.addresses().expect("addresses")
    }

    fn folders(urls: &[&str]) -> Vec<PathBuf> {
        let mut receiver = ReceiverConfig::default();
        receiver.checkpoints.checkpoint_dir = "state".into();
        let streams = streams(Pace::Each, addresses(urls), receiver).expect("streams");
        streams.into_iter().map(|stream| stream.receiver.checkpoints.checkpoint_dir).collect()
    }

    #[test]
    fn each_address_keeps_its_folder_of_checkpoints() {
        let all = folders(&["zrpush://0.0.0.0:{7410..7411}", "file:out/{00..}.ten"]);
        let readable = ["zrpush___0.0.0.0_7410-", "zrpush___0.0.0.0_7411-", "file_out__00.._.ten-"];
        for (folder, readable) in all.iter().zip(readable) {
            let name = folder.strip_prefix("state").expect("below it").to_string_lossy();
            assert!(name.starts_with(readable), "{name}");
        }
        // With fewer addresses, or in another order, none may continue at the position of another
        // one.
        let fewer = folders(&["file:out/{00..}.ten", "zrpush://0.0.0.0:7411"]);
        assert_eq!(fewer, [all[2].clone(), all[1].clone()]);
        let long = format!("file:{}/{{0..}}.ten", "a".repeat(300));
        let alike = ["file:a_{0..}.ten", "file:a/{0..}.ten", "zrpush://h:0", "zrpush://h:0", &long];
        let many = folders(&alike);
        assert_eq!(many.iter().collect::<HashSet<_>>().len(), alike.len(), "{many:?}");
        assert!(many[4].file_name().expect("a name").len() <= 255);
    }

    #[test]
    fn all_addresses_share_one_receiver_unless_each_is_asked_for() {
        let urls = ["zrpush://h:{1..3}"];
        let link_settings = LinksConfig { tcp_listen: "[::]:7500".into(), ..Default::default() };
        let config = ReceiverConfig { link_settings, ..Default::default() };
        let all = streams(Pace::All, addresses(&urls), config.clone()).expect("a stream");
        assert_eq!(all.iter().map(|stream| stream.addresses.len()).collect::<Vec<_>>(), [3]);
        let refused =
            streams(Pace::Each, addresses(&urls), config).err().expect("one port for three");
        assert!(refused.to_string().contains("give port 0"), "{refused}");
    }
}
