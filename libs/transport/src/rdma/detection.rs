//! What is said where something is missing: the library's functions replaced, everything above
//! them as it is.

use std::fs::File;
use std::sync::Arc;

use super::adapter::{Adapter, RdmaPort};
use super::ledger::Ledger;
use super::verbs::{FakeDevice, LIBRARY_NAME, Library, Machine, MemoryRegion};
use super::wire::Gid;
use crate::contract::SlotId;
use crate::slot::SlotMemory;
use crate::window::{DeviceWindow, Dmabuf};

const ACTIVE: u32 = 4;
const DOWN: u32 = 1;
const LINK_LOCAL: Gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
const IPV4: Gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];

fn refusal(machine: Machine, choice: &RdmaPort) -> String {
    Adapter::find(&machine.library(), choice).map(|found| found.describe()).unwrap_err()
}

fn machine(devices: Vec<FakeDevice>) -> Machine {
    Machine { devices, ..Machine::default() }
}

fn device(name: &str) -> RdmaPort {
    RdmaPort { device: name.into(), gid_index: None }
}

#[test]
fn a_missing_library_is_named() {
    let reason = Library::open("libibverbs-that-is-not-there.so.1").map(drop).unwrap_err();
    assert!(reason.contains("libibverbs-that-is-not-there.so.1"), "{reason}");
    assert_eq!(LIBRARY_NAME, "libibverbs.so.1");
}

#[test]
fn another_library_is_not_taken_for_it() {
    let reason = Library::open("libc.so.6").map(drop).unwrap_err();
    assert!(reason.contains("is not libibverbs") && reason.contains("ibv_"), "{reason}");
}

#[test]
fn a_kernel_without_verbs_has_no_device() {
    for errno in [None, Some(libc::ENOSYS), Some(libc::EOPNOTSUPP)] {
        let machine = Machine { list_error: errno, ..Machine::default() };
        let reason = refusal(machine, &RdmaPort::default());
        assert!(reason.contains("no RDMA device"), "{reason}");
    }
    let machine = Machine { list_error: Some(libc::EPERM), ..Machine::default() };
    let reason = refusal(machine, &RdmaPort::default());
    assert!(reason.contains("cannot be listed"), "{reason}");
}

#[test]
fn a_port_that_is_down_is_not_used() {
    let reason = refusal(machine(vec![("mlx5_0", vec![(DOWN, vec![IPV4])])]), &RdmaPort::default());
    assert!(reason.contains("mlx5_0: port 1 is DOWN"), "{reason}");
    let both = vec![("mlx5_0", vec![(DOWN, vec![IPV4]), (ACTIVE, vec![IPV4])])];
    let found = Adapter::find(&machine(both).library(), &RdmaPort::default()).expect("port 2");
    assert!(found.describe().contains("mlx5_0 port 2"), "{}", found.describe());
}

#[test]
fn a_port_without_an_address_is_not_used() {
    let no_gid = machine(vec![("rxe0", vec![(ACTIVE, vec![Gid::default()])])]);
    let reason = refusal(no_gid, &RdmaPort::default());
    assert!(reason.contains("rxe0: port 1 has no GID"), "{reason}");
}

#[test]
fn an_address_that_routers_pass_is_preferred_and_another_can_be_asked_for() {
    let here = || machine(vec![("rxe0", vec![(ACTIVE, vec![LINK_LOCAL, IPV4])])]).library();
    let found = Adapter::find(&here(), &RdmaPort::default()).expect("a port");
    assert_eq!((found.path.gid, found.path.gid_index), (IPV4, 1));
    let first = RdmaPort { device: String::new(), gid_index: Some(0) };
    let found = Adapter::find(&here(), &first).expect("a port");
    assert_eq!((found.path.gid, found.path.gid_index), (LINK_LOCAL, 0));
    let none = RdmaPort { device: String::new(), gid_index: Some(7) };
    let reason = Adapter::find(&here(), &none).map(drop).unwrap_err();
    assert!(reason.contains("no GID of index 7"), "{reason}");
}

#[test]
fn a_device_that_is_asked_for_is_the_only_one() {
    let two = || {
        machine(vec![
            ("mlx5_0", vec![(ACTIVE, vec![IPV4])]),
            ("mlx5_1", vec![(ACTIVE, vec![IPV4]), (DOWN, vec![IPV4])]),
        ])
    };
    let found = Adapter::find(&two().library(), &device("mlx5_1")).expect("the second");
    assert!(found.describe().starts_with("mlx5_1 port 1"));
    let reason = refusal(two(), &device("mlx5_1:2"));
    assert!(reason.contains("port 2 is DOWN"), "{reason}");
    let reason = refusal(two(), &device("mlx5_7"));
    assert!(reason.contains("`mlx5_7`") && reason.contains("mlx5_0, mlx5_1"), "{reason}");
    let reason = refusal(two(), &device("mlx5_0:first"));
    assert!(reason.contains("device:port"), "{reason}");
}

#[test]
fn a_device_that_may_not_be_opened_is_told_from_one_that_is_not_there() {
    let closed = Machine { closed: true, ..machine(vec![("mlx5_0", vec![])]) };
    let reason = refusal(closed, &RdmaPort::default());
    assert!(reason.contains("cannot be opened") && reason.contains("uverbs"), "{reason}");
}

#[test]
fn a_slot_that_cannot_be_registered_is_named() {
    let short = Machine {
        registration_error: Some(libc::ENOMEM),
        ..machine(vec![("mlx5_0", vec![(ACTIVE, vec![IPV4])])])
    };
    let adapter = Adapter::find(&short.library(), &RdmaPort::default()).expect("a port");
    let (sender, _arrivals) = tokio::sync::mpsc::unbounded_channel();
    let ledger = Ledger::new(Arc::new(adapter), sender);
    let memory = Arc::new(SlotMemory::private(4096, false).expect("memory"));
    let error = ledger.add_slot(SlotId(3), memory).unwrap_err().to_string();
    assert!(error.contains("slot 3 of 4096 bytes"), "{error}");
}

/// Numbers of a GPU's memory, without the memory.
#[derive(Debug)]
struct Window {
    descriptor: Result<u64, String>,
}

#[allow(unsafe_code)]
// SAFETY: no test writes there: the devices of these machines do nothing.
unsafe impl DeviceWindow for Window {
    fn address(&self) -> u64 {
        0x7f00_0000_1000
    }

    fn len_bytes(&self) -> u64 {
        8192
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        let file_bytes = self.descriptor.clone()?;
        let file: File = tempfile::tempfile().expect("a file");
        file.set_len(file_bytes).expect("its length");
        Ok(Dmabuf { descriptor: file.into(), offset_bytes: 4096 })
    }

    fn read(&self, _: headwater_core::Region) -> Result<Vec<u8>, String> {
        Err("no memory".into())
    }
}

fn window(machine: Machine, descriptor: Result<u64, &str>) -> Result<(&'static str, u32), String> {
    let port = vec![("mlx5_0", vec![(ACTIVE, vec![IPV4])])];
    let machine = Machine { devices: port, ..machine };
    let adapter = Adapter::find(&machine.library(), &RdmaPort::default()).expect("a port");
    let window = Arc::new(Window { descriptor: descriptor.map_err(str::to_owned) });
    let (region, way) = MemoryRegion::of_window(&adapter.domain, window)?;
    Ok((way, region.remote_key()))
}

#[test]
fn a_gpus_memory_is_registered_by_dmabuf_else_by_its_address() {
    assert_eq!(window(Machine::default(), Ok(12288)), Ok(("dmabuf", 3)));
    let peermem = Ok(("nvidia-peermem", 2));
    assert_eq!(window(Machine::default(), Ok(12287)), peermem, "the window ends beyond it");
    assert_eq!(window(Machine::default(), Err("not by this driver")), peermem);
    let refusing = Machine { dmabuf_error: Some(libc::EOPNOTSUPP), ..Machine::default() };
    assert_eq!(window(refusing, Ok(12288)), peermem);
    let old = Machine { without_dmabuf: true, ..Machine::default() };
    assert_eq!(window(old, Ok(12288)), peermem);
}

#[test]
fn a_gpus_memory_that_no_way_leads_to_is_refused_with_both_reasons() {
    let unknown = || Machine { registration_error: Some(libc::EFAULT), ..Machine::default() };
    let reason = window(unknown(), Err("not by this driver")).unwrap_err();
    assert!(reason.contains("dmabuf: not by this driver"), "{reason}");
    assert!(reason.contains("Bad address") && reason.contains("nvidia_peermem"), "{reason}");
    let old = Machine { without_dmabuf: true, ..unknown() };
    let reason = window(old, Ok(12288)).unwrap_err();
    assert!(reason.contains("rdma-core 34"), "{reason}");
}
