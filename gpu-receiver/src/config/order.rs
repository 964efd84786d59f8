//! Which of the keys on the order of samples go together.

use std::path::Path;

use headwater_core::sampler::Order;

use super::ReceiverConfig;
use crate::error::ReceiverError;

// === impl ReceiverConfig ===

impl ReceiverConfig {
    /// Files that a list is read from, by their keys; empty paths are left out.
    pub(crate) fn order_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("order_list", &self.order_list),
            ("order_groups", &self.order_groups),
            ("order_weights", &self.order_weights),
        ];
        let given = files.into_iter().filter(|(_, path)| !path.as_os_str().is_empty());
        given.map(|(key, path)| (key, path.as_path()))
    }

    /// Whether a list has what it needs is seen when it is read: Python may have it in memory.
    pub(super) fn check_order(&self) -> Result<(), ReceiverError> {
        let wrong = |(key, path): (&'static str, &Path), rule| {
            let value = format!("\"{}\"", path.display());
            Err(ReceiverError::Config { key, value, rule })
        };
        let file = |named: &str| self.order_files().find(|(key, _)| *key == named);
        if self.order != Order::List {
            let rule = "needs receiver.order = \"list\"";
            return self.order_files().next().map_or(Ok(()), |file| wrong(file, rule));
        }
        if !self.curriculum.is_empty() {
            return Err(ReceiverError::Config {
                key: "order",
                value: "\"list\"".into(),
                rule: "does not go with a curriculum: the list says which samples come",
            });
        }
        let Some(weights) = file("order_weights") else { return Ok(()) };
        if file("order_list").or(file("order_groups")).is_some() {
            let rule = "does not go with receiver.order_list and receiver.order_groups: samples are \
                        drawn by weights, or listed";
            return wrong(weights, rule);
        }
        Ok(())
    }
}
