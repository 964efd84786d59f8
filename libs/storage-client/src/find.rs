//! Where the storage nodes are, found out once.

use headwater_discovery::{Places, Sight};
use tokio::time::{Duration, Instant, sleep};

use crate::StorageClientError;

/// Pause between two looks while an entry gives nothing.
const PAUSE: Duration = Duration::from_millis(500);

/// The addresses of a list. All its entries must give some: a list that is not whole would divide
/// the shards otherwise than everybody else's does. Waits for them up to `limit`.
pub(crate) async fn find_nodes(
    entries: &[String],
    limit: Duration,
) -> Result<Vec<String>, StorageClientError> {
    let mut places = Places::parse(entries)?;
    let until = Instant::now() + limit;
    let mut told = false;
    loop {
        let Sight { addresses, mut troubles } = look(&mut places).await;
        let Some(trouble) = troubles.pop() else {
            if places.change() {
                tracing::info!(nodes = addresses.join(","), "storage nodes found");
            }
            return Ok(addresses);
        };
        if Instant::now() + PAUSE > until {
            return Err(trouble.into());
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(error = %trouble, "storage nodes not found yet, looking again");
        }
        sleep(PAUSE).await;
    }
}

/// One look, on a thread that may block.
async fn look(places: &mut Places) -> Sight {
    let mut moved = places.clone();
    let looked = tokio::task::spawn_blocking(move || (moved.look(), moved)).await;
    let (sight, moved) =
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    *places = moved;
    sight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_that_is_not_whole_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        let entries = ["n[0-1]:1".to_owned(), format!("file:{}", path.display())];
        let error = find_nodes(&entries, Duration::ZERO).await.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("`file:"), "{error}");

        let writer = tokio::spawn(async move {
            sleep(Duration::from_millis(50)).await;
            std::fs::write(path, "late:1\n").unwrap();
        });
        let found = find_nodes(&entries, Duration::from_secs(20)).await.unwrap();
        assert_eq!(found, ["n0:1", "n1:1", "late:1"]);
        writer.await.unwrap();
    }
}
