//! What is said where something is missing: on emulated verbs that have it so.

#[path = "../../../../../tests/support/emulation.rs"]
mod support;

use std::fs::File;
use std::sync::Arc;

use headwater_dylib::{Dylib, IBVERBS};
use support::on_verbs;

use super::adapter::{Adapter, RdmaPort};
use super::connection::Connection;
use super::slot::Slot;
use super::verbs::{Library, MemoryRegion};
use super::wire::{Gid, Offer, Path};
use crate::memory::mapping::Mapping;
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
use crate::memory::window::{DeviceWindow, Dmabuf, ExportsWindow};

/// The emulation's variables.
const DEVICES: &str = "EMULATED_VERBS_DEVICES";
const FAIL: &str = "EMULATED_VERBS_FAIL";
/// One port that is ACTIVE (4), with an address of IPv4.
const ONE: (&str, &str) = (DEVICES, "mlx5_0=4/::ffff:192.0.2.1");

const LINK_LOCAL: Gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
const IPV4: Gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];

fn find(choice: &RdmaPort) -> Result<Arc<Adapter>, String> {
    // Only port 1 of a machine that is not described takes pairs.
    Adapter::find(&Library::system().expect("the emulated one"), choice, None, |_| Ok(()))
}

fn path(choice: &RdmaPort) -> Path {
    find(choice).and_then(|found| found.route(None)).expect("a port").path
}

fn refusal(choice: &RdmaPort) -> String {
    find(choice).map(|found| found.describe()).unwrap_err()
}

fn device(name: &str) -> RdmaPort {
    RdmaPort { device: name.into(), ..RdmaPort::default() }
}

#[test]
fn another_library_is_not_taken_for_it() {
    let another = Dylib { sonames: &["libc.so.6"], ..IBVERBS };
    let reason = another.load::<Library>().map(drop).unwrap_err().to_string();
    assert!(reason.starts_with("libibverbs cannot be used") && reason.contains("ibv_"), "{reason}");
}

#[test]
fn a_machine_without_devices_has_none() {
    on_verbs(
        "links::rdma::detection::a_machine_without_devices_has_none",
        &[(DEVICES, "")],
        || {
            let reason = refusal(&RdmaPort::default());
            assert!(reason.contains("no RDMA device"), "{reason}");
        },
    );
}

/// ENOSYS and EOPNOTSUPP at first, then EPERM.
#[test]
fn a_kernel_without_verbs_has_no_device() {
    let test = "links::rdma::detection::a_kernel_without_verbs_has_no_device";
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
    on_verbs(
        "links::rdma::detection::a_port_that_is_down_is_not_used",
        &[(DEVICES, machine)],
        || {
            let reason = refusal(&device("mlx5_0"));
            assert!(reason.contains("mlx5_0: port 1 is DOWN"), "{reason}");
            let found = find(&RdmaPort::default()).expect("port 2");
            assert!(found.describe().contains("mlx5_1 port 2"), "{}", found.describe());
        },
    );
}

#[test]
fn a_port_without_an_address_is_not_used() {
    let test = "links::rdma::detection::a_port_without_an_address_is_not_used";
    on_verbs(test, &[(DEVICES, "rxe0=4/::")], || {
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("rxe0: port 1 has no GID"), "{reason}");
    });
}

#[test]
fn an_address_that_routers_pass_is_preferred_and_another_can_be_asked_for() {
    let machine = "rxe0=4/fe80::200:ff:fe00:1,::ffff:192.0.2.1";
    let test = "links::rdma::detection::an_address_that_routers_pass_is_preferred_and_another_can_be_asked_for";
    on_verbs(test, &[(DEVICES, machine)], || {
        let found = path(&RdmaPort::default());
        assert_eq!((found.gid, found.gid_index), (IPV4, 1));
        let of_index = |index| RdmaPort { gid_index: Some(index), ..RdmaPort::default() };
        let found = path(&of_index(0));
        assert_eq!((found.gid, found.gid_index), (LINK_LOCAL, 0));
        let reason = refusal(&of_index(7));
        assert!(reason.contains("no GID of index 7"), "{reason}");
    });
}

#[test]
fn a_device_that_is_asked_for_is_the_only_one() {
    let machine = "mlx5_0=4/::ffff:192.0.2.1;mlx5_1=4/::ffff:192.0.2.1|1/::ffff:192.0.2.1";
    let test = "links::rdma::detection::a_device_that_is_asked_for_is_the_only_one";
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
fn an_address_of_roce_v2_and_of_this_network_is_preferred() {
    // No machine has an interface of this index.
    let machine = "rxe0=4/::ffff:192.0.2.1!,::ffff:192.0.2.1@2000000000,::,2001:db8::1";
    let test = "links::rdma::detection::an_address_of_roce_v2_and_of_this_network_is_preferred";
    on_verbs(test, &[(DEVICES, machine)], || {
        assert_eq!(path(&RdmaPort::default()).gid_index, 3);
        let library = Library::system().expect("the emulated one").without_gid_entries();
        let found = Adapter::find(&library, &RdmaPort::default(), None, |_| Ok(()));
        let found = found.and_then(|found| found.route(None)).expect("a port");
        assert_eq!(found.path.gid_index, 0, "which an older library cannot tell");
    });
}

/// An address of IPv4 as ports have it.
fn ipv4(address: [u8; 4]) -> Gid {
    std::net::Ipv4Addr::from(address).to_ipv6_mapped().octets()
}

fn towards(ethernet: bool, gid: Gid) -> Result<String, String> {
    let offer = Offer { ethernet, gid, description: String::new() };
    let library = Library::system().expect("the emulated one");
    let found = Adapter::find(&library, &RdmaPort::default(), Some(&offer), |_| Ok(()))?;
    let index = found.route(Some(&gid)).expect("a port").path.gid_index;
    Ok(format!("{} port {}, address {index}", found.device().name(), found.port))
}

/// Of the second entry the type is worse, whatever its subnet.
#[test]
fn the_address_in_the_control_streams_subnet_comes_first() {
    let machine = "mlx5_0=4/::ffff:172.16.0.1,::ffff:10.1.0.1!,::ffff:10.1.0.2,2001:db8::1";
    let test = "links::rdma::detection::the_address_in_the_control_streams_subnet_comes_first";
    on_verbs(test, &[(DEVICES, machine)], || {
        let port = find(&RdmaPort::default()).expect("a port");
        let gid = |control: &str| port.offer(control.parse().unwrap()).expect("an offer").gid;
        assert_eq!(gid("10.1.0.9"), ipv4([10, 1, 0, 2]));
        assert_eq!(gid("172.16.0.1"), ipv4([172, 16, 0, 1]));
        let v6 = "2001:db8::1".parse::<std::net::Ipv6Addr>().expect("one").octets();
        assert_eq!(gid("2001:db8::9"), v6);
    });
}

#[test]
fn a_worker_takes_the_port_and_the_address_that_are_nearest_to_the_receivers() {
    let machine = "mlx5_0=4/::ffff:10.1.0.1,::ffff:10.7.0.1|4i/fe80::1;mlx5_1=4/::ffff:10.2.0.1;\
                   mlx5_2=4i/fec0:0:0:7::1";
    let test = "links::rdma::detection::a_worker_takes_the_port_and_the_address_that_are_nearest_to_the_receivers";
    on_verbs(test, &[(DEVICES, machine)], || {
        assert_eq!(towards(true, ipv4([10, 1, 0, 9])).as_deref(), Ok("mlx5_0 port 1, address 0"));
        assert_eq!(towards(true, ipv4([10, 2, 0, 9])).as_deref(), Ok("mlx5_1 port 1, address 0"));
        // All ports have as much of it in common as this one's first address: the first is taken.
        assert_eq!(towards(true, ipv4([10, 7, 0, 9])).as_deref(), Ok("mlx5_0 port 1, address 1"));
        let in_subnet = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("one").octets();
        assert_eq!(towards(false, in_subnet("fe80::2")).as_deref(), Ok("mlx5_0 port 2, address 0"));
        let far = towards(false, in_subnet("fec0:0:0:7::2"));
        assert_eq!(far.as_deref(), Ok("mlx5_2 port 1, address 0"));
        let reason = towards(false, in_subnet("fec0:0:0:8::2")).unwrap_err();
        assert!(reason.contains("mlx5_2: port 1: the two InfiniBand ports"), "{reason}");
        assert!(reason.contains("mlx5_1: port 1: one port is Ethernet"), "{reason}");
    });
}

#[test]
fn a_port_that_takes_no_pairs_makes_way_for_the_next() {
    let machine = "efa_0=4/::,::ffff:127.0.0.1;mlx5_0=4/::,::ffff:127.0.0.1";
    let test = "links::rdma::detection::a_port_that_takes_no_pairs_makes_way_for_the_next";
    // EOPNOTSUPP.
    on_verbs(test, &[(DEVICES, machine), (FAIL, "ibv_create_qp:1:95")], || {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let _entered = runtime.enter();
        let found = Adapter::open(&RdmaPort::default(), None, Connection::try_out);
        assert_eq!(found.expect("the second").device().name(), "mlx5_0");
    });
}

#[test]
fn devices_are_tried_in_the_order_that_is_preferred() {
    let machine = "mlx5_0=4/::ffff:192.0.2.1;mlx5_1=1/::;mlx5_2=4/::ffff:192.0.2.1";
    let test = "links::rdma::detection::devices_are_tried_in_the_order_that_is_preferred";
    on_verbs(test, &[(DEVICES, machine)], || {
        let preferred = ["mlx5_1", "mlx5_2"].map(str::to_owned).to_vec();
        let choice = RdmaPort { preferred, ..RdmaPort::default() };
        assert_eq!(find(&choice).expect("a port").device().name(), "mlx5_2");
    });
}

#[test]
fn a_port_says_that_it_needs_a_global_route() {
    let machine = "mlx5_0=4i/fe80::1|4ig/fe80::2";
    on_verbs(
        "links::rdma::detection::a_port_says_that_it_needs_a_global_route",
        &[(DEVICES, machine)],
        || {
            let flags = |port| path(&device(port)).needs_grh;
            assert_eq!([flags("mlx5_0:1"), flags("mlx5_0:2")], [false, true]);
        },
    );
}

#[test]
fn a_partition_that_is_asked_for_is_the_one_that_is_used() {
    let test = "links::rdma::detection::a_partition_that_is_asked_for_is_the_one_that_is_used";
    on_verbs(test, &[ONE, ("EMULATED_VERBS_PKEYS", "ffff,8001")], || {
        let of = |pkey| RdmaPort { pkey, ..RdmaPort::default() };
        let index =
            |pkey| find(&of(pkey)).and_then(|found| found.route(None)).map(|r| r.pkey_index);
        assert_eq!((index(0), index(1), index(0x8001)), (Ok(0), Ok(1), Ok(1)));
        let reason = index(2).unwrap_err();
        assert!(reason.contains("rdma_pkey 0x0002"), "{reason}");
    });
}

#[test]
fn a_device_that_had_a_fatal_error_is_opened_anew() {
    let test = "links::rdma::detection::a_device_that_had_a_fatal_error_is_opened_anew";
    on_verbs(test, &[ONE, ("EMULATED_VERBS_FATAL", "ibv_query_device:2")], || {
        let open = || Adapter::open(&RdmaPort::default(), None, |_| Ok(())).expect("a port");
        let first = open();
        assert!(Arc::ptr_eq(&first, &open()), "opened once");
        first.device().limits().expect("an answer, and the fatal error");
        let second = open();
        assert!(!Arc::ptr_eq(&first, &second));
        let reason = first.route(None).unwrap_err();
        assert!(reason.contains("fatal error"), "{reason}");
        second.route(None).expect("a port");
    });
}

#[test]
fn fork_is_made_safe_before_a_device_is_opened() {
    let test = "links::rdma::detection::fork_is_made_safe_before_a_device_is_opened";
    on_verbs(test, &[ONE, ("EMULATED_VERBS_FORK", "unsafe")], || {
        find(&RdmaPort::default()).expect("a port");
    });
}

#[test]
fn a_device_that_may_not_be_opened_is_told_from_one_that_is_not_there() {
    let test = "links::rdma::detection::a_device_that_may_not_be_opened_is_told_from_one_that_is_not_there";
    on_verbs(test, &[ONE, (FAIL, "ibv_open_device:1:13")], || {
        let reason = refusal(&RdmaPort::default());
        assert!(reason.contains("cannot be opened") && reason.contains("uverbs"), "{reason}");
    });
}

#[test]
fn a_slot_that_cannot_be_registered_is_named() {
    let test = "links::rdma::detection::a_slot_that_cannot_be_registered_is_named";
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

    fn exports(&self) -> Option<&dyn ExportsWindow> {
        None
    }
}

/// How memory of 8,192 bytes is registered whose descriptor is of a file of `descriptor` bytes.
fn way(library: &Library, descriptor: Result<u64, &str>) -> Result<&'static str, String> {
    let adapter = Adapter::find(library, &RdmaPort::default(), None, |_| Ok(())).expect("a port");
    let memory = Mapping::anonymous(8192).expect("memory");
    let window = Window { memory, descriptor: descriptor.map_err(str::to_owned) };
    let (_region, way) = MemoryRegion::of_window(&adapter.domain, Arc::new(window))?;
    Ok(way)
}

#[test]
fn a_gpus_memory_is_registered_by_dmabuf_else_by_its_address() {
    let test = "links::rdma::detection::a_gpus_memory_is_registered_by_dmabuf_else_by_its_address";
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
    let test =
        "links::rdma::detection::a_gpus_memory_that_no_way_leads_to_is_refused_with_both_reasons";
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
