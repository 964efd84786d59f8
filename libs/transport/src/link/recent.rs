//! A bounded memory of the latest leases.

use std::collections::{HashSet, VecDeque};

use crate::memory::place::LeaseId;

/// The latest `capacity` leases that were put in.
#[derive(Debug)]
pub(crate) struct Recent {
    capacity: usize,
    order: VecDeque<LeaseId>,
    members: HashSet<LeaseId>,
}

// === impl Recent ===

impl Recent {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, order: VecDeque::new(), members: HashSet::new() }
    }

    pub(crate) fn insert(&mut self, lease: LeaseId) {
        if !self.members.insert(lease) {
            return;
        }
        self.order.push_back(lease);
        if self.order.len() > self.capacity {
            let oldest = self.order.pop_front().expect("longer than its capacity");
            self.members.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, lease: LeaseId) -> bool {
        self.members.contains(&lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = Recent::new(2);
        for lease in [1, 2, 2, 3] {
            recent.insert(LeaseId(lease));
        }
        assert!(!recent.contains(LeaseId(1)));
        assert!(recent.contains(LeaseId(2)) && recent.contains(LeaseId(3)));
    }
}
