//! Storage tier: finds, indexes, caches and serves encoded samples.
