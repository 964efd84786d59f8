//! The tests of this crate in one program: it is linked once, and its tests run side by side.

mod a_broken_shard_is_named_with_its_byte;
mod a_local_file_gives_the_same_bytes;
mod a_lost_node_is_replaced_by_the_next;
mod an_idx_that_does_not_fit_is_named_with_its_line;
mod entry_points_go_with_samples;
mod every_format_goes_over_the_wire;
mod every_index_source_gives_the_same_index;
mod filtered_shards;
mod folders_of_images;
mod limits;
mod nodes;
mod nothing_outside_the_roots;
mod odd_archives;
mod samples_are_counted;
mod samples_go_over_the_wire;
mod shards_in_the_cache;
mod support;
#[path = "support/unfinished.rs"]
mod unfinished;
