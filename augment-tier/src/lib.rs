//! Augment tier: decodes, augments, casts.
