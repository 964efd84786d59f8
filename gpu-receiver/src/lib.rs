//! Receiver: ready batches, in order, in the training rank.
