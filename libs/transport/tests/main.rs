//! The tests of this crate in one program: it is linked once, and its tests run side by side.
//! Cargo.toml names those that need a process of their own, and says why.

mod conformance_bites;
mod cuda;
#[path = "../../../tests/support/emulation.rs"]
mod emulation;
mod pid_namespaces;
mod rdma_paths;
mod shm;
mod shm_processes;
mod slot_gate;
mod support;
mod tcp;
mod tcp_breaks;
mod tcp_encrypted;
mod tcp_refusals;
mod wire;
