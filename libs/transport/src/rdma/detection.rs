//! What is said where something is missing: on emulated verbs that have it so.

#[path = "../../../../tests/support/emulation.rs"]
mod support;

use std::fs::File;
use std::sync::Arc;

use headwater_dylib::{Dylib, IBVERBS};
use support::on_verbs;

use super::adapter::{Adapter, RdmaPort};
use super::slot::Slot;
use super::verbs::{Library, MemoryRegion};
use super::wire::Gid;
use crate::memory::mapping::Mapping;
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::{DeviceWindow, Dmabuf};

/// The emulation's variables.
const DEVICES: &str = "EMULATED_VERBS_DEVICES";
const FAIL: &str = "EMULATED_VERBS_FAIL";
/// One port that is ACTIVE (4), with an address of IPv4.
const ONE: (&str, &str) = (DEVICES, "mlx5_0=4/::ffff:192.0.2.1");

const LINK_LOCAL: Gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
const IPV4: Gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];

fn find(choice: &RdmaPort) -> Result<Adapter, String> {
    Adapter::find(&Library::system().expect("the emulated one"), choice)
}

fn refusal(choice: &RdmaPort) -> String {
    find(choice).map(|found| found.describe()).unwrap_err()
}

fn device(name: &str) -> RdmaPort {
    RdmaPort { device: name.into(), gid_index: None }
}

#[test]
fn another_library_is_not_taken_for_it() {
    let another = Dylib { sonames: &["libc.so.6"], ..IBVERBS };
    let reason = another.load::<Library>().map(drop).unwrap_err().to_string();
    assert!(reason.starts_with("libibverbs cannot be used") && reason.contains("ibv_"), "{reason}");
}

#[test]
fn a_machine_without_devices_has_none() {
    on_verbs("rdma::detection::a_machine_without_devices_has_none", &[(DEVICES, "")], || {
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("no RDMA device"), "{reason}");
    });
}

/// ENOSYS and EOPNOTSUPP at first, then EPERM.
#[test]
fn a_kernel_without_verbs_has_no_device() {
    let test = "rdma::detection::a_kernel_without_verbs_has_no_device";
    let list = "ibv_get_device_list:1:38,ibv_get_device_list:2:95,ibv_get_device_list:3:1";
    on_verbs(test, &[(FAIL, list)], || {
        for _ in 0..2 {
            let reason = refusal(&RdmaPort::default());
            assert!(reason.contains("no RDMA device"), "{reason}");
        }
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("cannot be listed"), "{reason}");
    });
}

#[test]
fn a_port_that_is_down_is_not_used() {
    let machine = "mlx5_0=1/::ffff:192.0.2.1;mlx5_1=1/::ffff:192.0.2.1|4/::ffff:192.0.2.1";
    on_verbs("rdma::detection::a_port_that_is_down_is_not_used", &[(DEVICES, machine)], || {
        let reason = refusal(&device("mlx5_0"));
        assert!(reason.contains("mlx5_0: port 1 is DOWN"), "{reason}");
        let found = find(&RdmaPort::default()).expect("port 2");
        assert!(found.describe().contains("mlx5_1 port 2"), "{}", found.describe());
    });
}

#[test]
fn a_port_without_an_address_is_not_used() {
    let test = "rdma::detection::a_port_without_an_address_is_not_used";
    on_verbs(test, &[(DEVICES, "rxe0=4/::")], || {
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("rxe0: port 1 has no GID"), "{reason}");
    });
}

#[test]
fn an_address_that_routers_pass_is_preferred_and_another_can_be_asked_for() {
    let machine = "rxe0=4/fe80::200:ff:fe00:1,::ffff:192.0.2.1";
    let test =
        "rdma::detection::an_address_that_routers_pass_is_preferred_and_another_can_be_asked_for";
    on_verbs(test, &[(DEVICES, machine)], || {
        let found = find(&RdmaPort::default()).expect("a port");
        assert_eq!((found.path.gid, found.path.gid_index), (IPV4, 1));
        let first = RdmaPort { device: String::new(), gid_index: Some(0) };
        let found = find(&first).expect("a port");
        assert_eq!((found.path.gid, found.path.gid_index), (LINK_LOCAL, 0));
        let reason = refusal(&RdmaPort { device: String::new(), gid_index: Some(7) });
        assert!(reason.contains("no GID of index 7"), "{reason}");
    });
}

#[test]
fn a_device_that_is_asked_for_is_the_only_one() {
    let machine = "mlx5_0=4/::ffff:192.0.2.1;mlx5_1=4/::ffff:192.0.2.1|1/::ffff:192.0.2.1";
    let test = "rdma::detection::a_device_that_is_asked_for_is_the_only_one";
    on_verbs(test, &[(DEVICES, machine)], || {
        let found = find(&device("mlx5_1")).expect("the second");
        assert!(found.describe().starts_with("mlx5_1 port 1"));
        let reason = refusal(&device("mlx5_1:2"));
        assert!(reason.contains("port 2 is DOWN"), "{reason}");
        let reason = refusal(&device("mlx5_7"));
        assert!(reason.contains("`mlx5_7`") && reason.contains("mlx5_0, mlx5_1"), "{reason}");
        let reason = refusal(&device("mlx5_0:first"));
        assert!(reason.contains("device:port"), "{reason}");
    });
}

#[test]
fn a_device_that_may_not_be_opened_is_told_from_one_that_is_not_there() {
    let test =
        "rdma::detection::a_device_that_may_not_be_opened_is_told_from_one_that_is_not_there";
    on_verbs(test, &[ONE, (FAIL, "ibv_open_device:1:13")], || {
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("cannot be opened") && reason.contains("uverbs"), "{reason}");
    });
}

#[test]
fn a_slot_that_cannot_be_registered_is_named() {
    let test = "rdma::detection::a_slot_that_cannot_be_registered_is_named";
    on_verbs(test, &[ONE, (FAIL, "ibv_reg_mr:1:12")], || {
        let adapter = find(&RdmaPort::default()).expect("a port");
        let memory = Arc::new(SlotMemory::private(4096, false).expect("memory"));
        let error = Slot::host(&adapter.domain, SlotId(3), memory).unwrap_err().to_string();
        assert!(error.contains("slot 3 of 4096 bytes"), "{error}");
    });
}

/// Memory of a GPU, as far as a registration goes: it stands in memory of the host.
#[derive(Debug)]
struct Window {
    memory: Mapping,
    descriptor: Result<u64, String>,
}

#[allow(unsafe_code)]
// SAFETY: the mapping keeps its place and length until the value is dropped, and no test writes
// through the descriptor.
unsafe impl DeviceWindow for Window {
    fn address(&self) -> u64 {
        self.memory.base().as_ptr() as u64
    }

    fn len_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        let file_bytes = self.descriptor.clone()?;
        let file: File = tempfile::tempfile().expect("a file");
        file.set_len(file_bytes).expect("its length");
        Ok(Dmabuf { descriptor: file.into(), offset_bytes: 4096 })
    }

    fn read(&self, _: headwater_core::Region) -> Result<Vec<u8>, String> {
        Err("no test reads it".into())
    }
}

/// How memory of 8,192 bytes is registered whose descriptor is of a file of so many.
fn way(library: &Library, descriptor: Result<u64, &str>) -> Result<&'static str, String> {
    let adapter = Adapter::find(library, &RdmaPort::default()).expect("a port");
    let memory = Mapping::anonymous(8192).expect("memory");
    let window = Window { memory, descriptor: descriptor.map_err(str::to_owned) };
    let (_region, way) = MemoryRegion::of_window(&adapter.domain, Arc::new(window))?;
    Ok(way)
}

#[test]
fn a_gpus_memory_is_registered_by_dmabuf_else_by_its_address() {
    let test = "rdma::detection::a_gpus_memory_is_registered_by_dmabuf_else_by_its_address";
    // The third time: EOPNOTSUPP.
    on_verbs(test, &[ONE, (FAIL, "ibv_reg_dmabuf_mr:3:95")], || {
        let library = Library::system().expect("the emulated one");
        assert_eq!(way(&library, Ok(12288)), Ok("dmabuf"));
        let peermem = Ok("nvidia-peermem");
        assert_eq!(way(&library, Ok(12287)), peermem, "the window ends beyond it");
        assert_eq!(way(&library, Err("not by this driver")), peermem);
        assert_eq!(way(&library, Ok(12288)), peermem, "the device refuses");
        assert_eq!(way(&library.without_dmabuf(), Ok(12288)), peermem);
    });
}

#[test]
fn a_gpus_memory_that_no_way_leads_to_is_refused_with_both_reasons() {
    let test = "rdma::detection::a_gpus_memory_that_no_way_leads_to_is_refused_with_both_reasons";
    // EFAULT: the kernel does not know the address.
    on_verbs(test, &[ONE, (FAIL, "ibv_reg_mr:1:14,ibv_reg_mr:2:14")], || {
        let library = Library::system().expect("the emulated one");
        let reason = way(&library, Err("not by this driver")).unwrap_err();
        assert!(reason.contains("dmabuf: not by this driver"), "{reason}");
        assert!(reason.contains("Bad address") && reason.contains("nvidia_peermem"), "{reason}");
        let reason = way(&library.without_dmabuf(), Ok(12288)).unwrap_err();
        assert!(reason.contains("rdma-core 34"), "{reason}");
    });
}
