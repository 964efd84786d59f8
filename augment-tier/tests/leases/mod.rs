//! An augment worker as receivers see it: a real control stream, real links, a real storage
//! client; the storage node, the trainer's side and, where a test must stop time, the renderer are
//! made up. One behaviour a file.

mod support;

mod abrupt_end;
mod bad_samples;
mod credits;
mod device_lost;
mod drain;
mod entries;
mod fairness;
mod fp8;
mod greedy;
mod heartbeats;
mod hello;
mod limits;
mod links;
mod panics;
mod same_bytes;
mod shared;
mod storage_away;
mod together;
mod withdraw;
