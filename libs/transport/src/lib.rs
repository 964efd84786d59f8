//! Links: the data path between one worker and one receiver.
