//! The emulated verbs themselves: they do things as late as verbs permit, fail on the sides where verbs
//! fail, and stop whoever breaks their contract. What the rdma link does on them, other tests show.

use std::process::{Command, Output};

use crate::emulation;

fn run(scenario: &str, setting: (&str, &str)) -> (Output, String) {
    let mut command = Command::new(emulation::verbs().join("selftest"));
    let output = command.arg(scenario).envs([setting]).output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// As it is without any.
const NONE: (&str, &str) = ("EMULATED_VERBS_FAIL", "");

#[track_caller]
fn hold(scenarios: &[&str]) {
    for scenario in scenarios {
        let (output, said) = run(scenario, NONE);
        assert!(output.status.success(), "{scenario}: {}: {said}", output.status);
    }
}

#[test]
fn data_moves_when_it_is_sent_and_completions_come_in_order() {
    hold(&[
        "writes_arrive_in_order_and_the_last_is_told_of",
        "a_message_waits_for_a_buffer",
        "memory_is_read_when_it_is_sent",
        "room_comes_back_with_a_completion_that_is_taken",
        "an_event_comes_once_for_each_request",
    ]);
}

#[test]
fn memory_is_registered_where_it_is_and_by_descriptor() {
    hold(&[
        "memory_of_a_descriptor_is_written_by_its_addresses",
        "what_is_not_there_is_not_registered",
    ]);
}

#[test]
fn what_a_peer_may_not_do_ends_both_pairs_and_writes_nothing() {
    hold(&[
        "a_wrong_key_breaks_both",
        "a_key_that_was_ended_breaks_both",
        "a_write_beyond_the_region_breaks_both",
        "a_write_before_the_region_breaks_both",
        "a_region_that_peers_may_not_write_is_not_written",
        "a_pair_that_peers_may_not_write_through_is_not_written_through",
        "a_message_that_is_too_long_breaks_both",
        "packets_of_another_beginning_are_dropped",
    ]);
}

#[test]
fn a_pair_that_ends_gives_everything_back_and_writes_no_more() {
    hold(&[
        "a_stopped_pair_gives_everything_back",
        "nothing_is_written_after_the_end",
        "a_peer_that_is_killed_is_missed_by_who_sends",
    ]);
}

#[test]
fn calls_fail_where_they_are_told_to() {
    let (output, said) = run(
        "the_call_that_is_named_fails",
        ("EMULATED_VERBS_FAIL", "ibv_reg_mr:2,ibv_modify_qp:1:1"),
    );
    assert!(output.status.success(), "{said}");
}

#[test]
fn devices_and_ports_are_those_that_are_described() {
    let (output, said) = run(
        "the_machine_is_the_one_that_is_described",
        ("EMULATED_VERBS_DEVICES", "first=1/::1|4/::,::2;second="),
    );
    assert!(output.status.success(), "{said}");
}

#[test]
fn misuse_ends_the_process_and_is_named() {
    for (scenario, named) in [
        ("sent_before_it_can", "ibv_post_send: a pair in state 2 cannot send"),
        ("received_before_it_can", "ibv_post_recv: a pair that was not initialised"),
        ("a_remote_key_for_a_local_one", "is no local key, or not any more"),
        ("a_key_of_another_domain", "the local key is of another protection domain"),
        ("a_key_after_its_end", "is no local key, or not any more"),
        ("beyond_a_region", "1048576 bytes from byte 1 on of a region of 1048576"),
        ("two_pieces", "2 pieces of memory; the device takes 1"),
        ("received_where_nobody_may_write", "ibv_post_recv: the region may not be written"),
        ("ended_in_use", "ibv_dereg_mr: 1 unfinished requests use it"),
        ("ended_before_its_completion_was_taken", "ibv_dereg_mr: 1 unfinished requests use it"),
        ("ended_twice", "is no memory region, or destroyed before"),
        ("unmapped_while_registered", "registered memory was unmapped"),
        ("a_queue_with_pairs", "ibv_destroy_cq: 2 queue pairs use it"),
        ("a_queue_with_events", "ibv_destroy_cq: 1 events of it are not acknowledged"),
        ("a_channel_with_a_queue", "ibv_destroy_comp_channel: 1 completion queues use it"),
        ("a_domain_with_regions", "ibv_dealloc_pd: 2 regions and queue pairs use it"),
        ("a_device_with_a_domain", "ibv_close_device: 3 domains, channels and queues use it"),
        ("a_pair_after_its_end", "is no queue pair, or destroyed before"),
        ("a_queue_that_overflows", "a completion queue of 2 entries overflows"),
        ("attributes_that_are_missing", "ibv_modify_qp: attributes 0x8 are missing"),
        ("attributes_that_do_not_belong", "attributes 0x10000 do not belong to state 1"),
        ("a_state_too_early", "a pair in state 1 cannot go to 3"),
        ("a_route_within_a_subnet", "an Ethernet port is left by a global route"),
    ] {
        let (output, said) = run(scenario, NONE);
        assert!(!output.status.success(), "{scenario} went by");
        assert!(said.contains("emulated verbs: ") && said.contains(named), "{scenario}: {said}");
    }
}
