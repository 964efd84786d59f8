//! One round of a request: the nodes are asked in their order until one gives an answer.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use headwater_proto::storage::StorageFailure;
use tokio::time::{Instant, sleep};

use crate::hedging::Hedging;
use crate::node::Node;
use crate::{StorageClientError, metrics};

/// The node that is asked before the first one has answered.
const HEDGE: usize = 1;

/// Asks one node after the other, in the order given, until one answers. With `hedging`, the next is
/// asked as well when the first takes long: the first good answer counts, and the other one is
/// dropped. Where all failed, the error that tells most (see `worse`).
///
/// # Panics
/// There is no node.
pub(crate) async fn ask_in_order<T, F>(
    nodes: &[&Arc<Node>],
    hedging: Option<&Hedging>,
    ask: &impl Fn(Arc<Node>) -> F,
) -> Result<T, StorageClientError>
where
    F: Future<Output = Result<T, StorageClientError>>,
{
    let numbered = |number: usize, node: &Arc<Node>| {
        let answer = ask(Arc::clone(node));
        async move { (number, answer.await) }
    };
    let mut waiting = nodes.iter().peekable();
    let mut asked = FuturesUnordered::new();
    let mut failed = None;
    let begun = Instant::now();
    let mut delay = hedging.map(Hedging::begin);
    let mut late = pin!(sleep(delay.unwrap_or_default()));
    let mut withheld = false;
    loop {
        if asked.is_empty() {
            let Some(node) = waiting.next() else { break };
            asked.push(numbered(0, node));
        }
        tokio::select! {
            biased;
            Some((number, answer)) = asked.next() => match answer {
                Ok(answer) => {
                    hedging.inspect(|hedging| hedging.took(begun.elapsed()));
                    if number == HEDGE {
                        metrics::hedge_won();
                    }
                    return Ok(answer);
                }
                Err(error) => failed = Some(worse(failed, error)),
            },
            () = &mut late, if delay.is_some() => {
                // One that failed a moment ago is not faster.
                let other = waiting.peek().is_some_and(|node| !node.is_resting());
                if !other {
                    delay = None;
                } else if hedging.is_some_and(Hedging::take) {
                    metrics::hedged();
                    asked.extend(waiting.next().map(|node| numbered(HEDGE, node)));
                    delay = None;
                } else {
                    // Others may leave room for it.
                    if !std::mem::replace(&mut withheld, true) {
                        metrics::hedge_withheld();
                    }
                    late.as_mut().reset(Instant::now() + delay.unwrap_or_default());
                }
            }
        }
    }
    Err(failed.expect("a node was asked"))
}

/// The error that tells more: one that failed for good, else the first. That a node's copy of a shard is broken says
/// nothing of the others': as long as one of them may still serve it, it is waited for.
fn worse(before: Option<StorageClientError>, error: StorageClientError) -> StorageClientError {
    let Some(before) = before else { return error };
    let weight = |error: &StorageClientError| match error.kind() {
        StorageFailure::ShardBroken => 0,
        _ if error.is_retryable() => 1,
        _ => 2,
    };
    let (kept, left) =
        if weight(&error) > weight(&before) { (error, before) } else { (before, error) };
    if left.kind() == StorageFailure::ShardBroken && kept.is_retryable() {
        tracing::warn!(error = %left, "a node cannot serve a shard: the others are waited for");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: StorageFailure) -> StorageClientError {
        let (node, message) = ("a:1".to_owned(), kind.name().to_owned());
        StorageClientError::Node { node, kind, message }
    }

    /// Another copy may be whole, though its node is slow, about to end, or just starting.
    #[test]
    fn a_broken_copy_is_final_only_where_no_other_may_come() {
        use StorageFailure::{Draining, ManifestChanged, ShardAway, ShardBroken};
        for (first, second, kept) in [
            (ShardBroken, Draining, Draining),
            (Draining, ShardBroken, Draining),
            (ShardBroken, ShardBroken, ShardBroken),
            (ShardBroken, ManifestChanged, ManifestChanged),
            (ManifestChanged, ShardBroken, ManifestChanged),
            (ShardAway, ManifestChanged, ManifestChanged),
            (ManifestChanged, ShardAway, ManifestChanged),
            (ShardAway, Draining, ShardAway),
        ] {
            let found = worse(Some(error(first)), error(second)).kind();
            assert_eq!(found, kept, "{first:?}, then {second:?}");
        }
    }
}
