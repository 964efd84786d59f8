//! `abi.rs` beside the system's own header, as its C compiler lays it out.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::abi;

/// A structure or enumerator of the header, and what `abi.rs` makes of it.
type Fact = (&'static str, String, usize);

/// Size of a structure, and offsets of its fields under the header's names.
macro_rules! fields {
    ($facts:ident, whole $c:literal $rust:ty: $($field:ident),* $(; $($cname:literal = $rname:ident),*)?) => {
        $facts.push(($c, format!("sizeof(struct {})", $c), size_of::<$rust>()));
        fields!($facts, part $c $rust: $($field),* $(; $($cname = $rname),*)?);
    };
    ($facts:ident, part $c:literal $rust:ty: $($field:ident),* $(; $($cname:literal = $rname:ident),*)?) => {
        $($facts.push((
            $c,
            format!("offsetof(struct {}, {})", $c, stringify!($field)),
            offset_of!($rust, $field),
        ));)*
        $($($facts.push((
            $c,
            format!("offsetof(struct {}, {})", $c, $cname),
            offset_of!($rust, $rname),
        ));)*)?
    };
}

fn facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    fields!(facts, whole "ibv_context_ops" abi::ContextOps: poll_cq, req_notify_cq, post_send,
        post_recv);
    fields!(facts, part "ibv_context" abi::Context: device, ops, cmd_fd, async_fd,
        num_comp_vectors);
    fields!(facts, whole "ibv_comp_channel" abi::CompChannel: context, fd, refcnt);
    fields!(facts, part "ibv_cq" abi::Cq: context, channel, cq_context, handle, cqe);
    fields!(facts, part "ibv_qp" abi::Qp: context, qp_context, pd, send_cq, recv_cq, srq, handle,
        qp_num);
    fields!(facts, whole "ibv_mr" abi::Mr: context, pd, addr, length, handle, lkey, rkey);
    fields!(facts, whole "ibv_device_attr" abi::DeviceAttr: fw_ver, node_guid, max_mr_size,
        vendor_id, max_qp, max_qp_wr, device_cap_flags, max_sge, max_cq, max_cqe, max_pkeys,
        local_ca_ack_delay, phys_port_cnt; "max_mr" = limits);
    fields!(facts, part "ibv_port_attr" abi::PortAttr: state, max_mtu, active_mtu, gid_tbl_len,
        port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc,
        max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state,
        link_layer, flags, port_cap_flags2);
    fields!(facts, whole "ibv_qp_cap" abi::QpCap: max_send_wr, max_recv_wr, max_send_sge,
        max_recv_sge, max_inline_data);
    fields!(facts, whole "ibv_qp_init_attr" abi::QpInitAttr: qp_context, send_cq, recv_cq, srq, cap,
        qp_type, sq_sig_all);
    fields!(facts, whole "ibv_global_route" abi::GlobalRoute: dgid, flow_label, sgid_index,
        hop_limit, traffic_class);
    fields!(facts, whole "ibv_ah_attr" abi::AhAttr: grh, dlid, sl, src_path_bits, static_rate,
        is_global, port_num);
    fields!(facts, whole "ibv_qp_attr" abi::QpAttr: qp_state, cur_qp_state, path_mtu,
        path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
        alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
        max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num,
        alt_timeout, rate_limit);
    fields!(facts, whole "ibv_sge" abi::Sge: addr, length, lkey);
    fields!(facts, whole "ibv_send_wr" abi::SendWr: wr_id, next, sg_list, num_sge, opcode,
        send_flags, imm_data; "wr.rdma.remote_addr" = remote_addr, "wr.rdma.rkey" = rkey);
    fields!(facts, whole "ibv_recv_wr" abi::RecvWr: wr_id, next, sg_list, num_sge);
    fields!(facts, whole "ibv_wc" abi::Wc: wr_id, status, opcode, vendor_err, byte_len, imm_data,
        qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits);
    fields!(facts, whole "ibv_gid_entry" abi::GidEntry: gid, gid_index, port_num, gid_type,
        ndev_ifindex);
    fields!(facts, whole "ibv_async_event" abi::AsyncEvent: element, event_type);
    facts.push(("ibv_gid", "sizeof(union ibv_gid)".into(), size_of::<abi::AlignedGid>()));
    facts.extend(constants().map(|(name, value)| (name, name.to_owned(), value)));
    facts
}

fn constants() -> impl Iterator<Item = (&'static str, usize)> {
    let signed = [
        ("IBV_QP_STATE", abi::QP_STATE),
        ("IBV_QP_ACCESS_FLAGS", abi::QP_ACCESS_FLAGS),
        ("IBV_QP_PKEY_INDEX", abi::QP_PKEY_INDEX),
        ("IBV_QP_PORT", abi::QP_PORT),
        ("IBV_QP_AV", abi::QP_AV),
        ("IBV_QP_PATH_MTU", abi::QP_PATH_MTU),
        ("IBV_QP_TIMEOUT", abi::QP_TIMEOUT),
        ("IBV_QP_RETRY_CNT", abi::QP_RETRY_CNT),
        ("IBV_QP_RNR_RETRY", abi::QP_RNR_RETRY),
        ("IBV_QP_RQ_PSN", abi::QP_RQ_PSN),
        ("IBV_QP_MAX_QP_RD_ATOMIC", abi::QP_MAX_QP_RD_ATOMIC),
        ("IBV_QP_MIN_RNR_TIMER", abi::QP_MIN_RNR_TIMER),
        ("IBV_QP_SQ_PSN", abi::QP_SQ_PSN),
        ("IBV_QP_MAX_DEST_RD_ATOMIC", abi::QP_MAX_DEST_RD_ATOMIC),
        ("IBV_QP_DEST_QPN", abi::QP_DEST_QPN),
        ("IBV_ACCESS_LOCAL_WRITE", abi::ACCESS_LOCAL_WRITE),
        ("IBV_ACCESS_REMOTE_WRITE", abi::ACCESS_REMOTE_WRITE),
        ("IBV_ACCESS_RELAXED_ORDERING", abi::ACCESS_RELAXED_ORDERING),
        ("IBV_FORK_UNNEEDED", abi::FORK_UNNEEDED),
    ];
    let unsigned = [
        ("IBV_PORT_ACTIVE", abi::PORT_ACTIVE),
        ("IBV_LINK_LAYER_ETHERNET", abi::LINK_LAYER_ETHERNET.into()),
        ("IBV_QPT_RC", abi::QPT_RC),
        ("IBV_QPS_INIT", abi::QPS_INIT),
        ("IBV_QPS_RTR", abi::QPS_RTR),
        ("IBV_QPS_RTS", abi::QPS_RTS),
        ("IBV_QPS_ERR", abi::QPS_ERR),
        ("IBV_WR_RDMA_WRITE", abi::WR_RDMA_WRITE),
        ("IBV_WR_RDMA_WRITE_WITH_IMM", abi::WR_RDMA_WRITE_WITH_IMM),
        ("IBV_WR_SEND", abi::WR_SEND),
        ("IBV_SEND_SIGNALED", abi::SEND_SIGNALED),
        ("IBV_QPF_GRH_REQUIRED", abi::QPF_GRH_REQUIRED.into()),
        ("IBV_GID_TYPE_ROCE_V1", abi::GID_TYPE_ROCE_V1),
        ("IBV_EVENT_DEVICE_FATAL", abi::EVENT_DEVICE_FATAL),
        ("IBV_WC_SUCCESS", abi::WC_SUCCESS),
        ("IBV_WC_RECV", abi::WC_RECV),
        ("IBV_WC_RECV_RDMA_WITH_IMM", abi::WC_RECV_RDMA_WITH_IMM),
    ];
    let signed = signed.into_iter().map(|(name, value)| (name, value.cast_unsigned() as usize));
    signed.chain(unsigned.into_iter().map(|(name, value)| (name, value as usize)))
}

/// The header of before rdma-core 49, of Debian 12, ends `struct ibv_port_attr` here; the later one, of
/// Debian 13, has a field more. The library fills what both have.
const LAST_FIELD: &str = "\tuint16_t\t\tport_cap_flags2;\n";
const LATER_FIELD: &str = "\tuint32_t\t\tactive_speed_ex;\n";

/// Both headers, made of the system's: before the field, and with it.
fn headers(systems: &str) -> [String; 2] {
    let before = systems.replace(LATER_FIELD, "");
    assert_eq!(before.matches(LAST_FIELD).count(), 1, "the end of struct ibv_port_attr");
    let later = before.replace(LAST_FIELD, &format!("{LAST_FIELD}{LATER_FIELD}"));
    [before, later]
}

/// Skipped, loudly, where the system has no header or no compiler.
#[test]
fn structures_and_numbers_are_those_of_the_headers_before_and_after_rdma_core_49() {
    let header = "/usr/include/infiniband/verbs.h";
    if !Path::new(header).exists() || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("SKIP: no {header} or no cc: install libibverbs-dev and gcc");
        return;
    }
    let header = std::fs::read_to_string(header).expect("the header");
    headers(&header).iter().for_each(|header| compare(header));
}

fn compare(header: &str) {
    let facts = facts();
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n",
    );
    for (_, expression, _) in &facts {
        writeln!(program, "  printf(\"%zu\\n\", (size_t)({expression}));").expect("a string");
    }
    program.push_str("  return 0;\n}\n");
    let dir = tempfile::tempdir().expect("a folder");
    let (source, binary) = (dir.path().join("facts.c"), dir.path().join("facts"));
    std::fs::write(&source, program).expect("the program is written");
    std::fs::create_dir(dir.path().join("infiniband")).expect("a folder");
    std::fs::write(dir.path().join("infiniband/verbs.h"), header).expect("the header is written");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(dir.path()).arg("-o").args([&binary, &source]);
    let built = compiler.output().expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let said = Command::new(&binary).output().expect("the program runs").stdout;
    let said = String::from_utf8(said).expect("numbers");
    let wanted: Vec<usize> = said.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(wanted.len(), facts.len());
    for ((what, expression, ours), theirs) in facts.iter().zip(wanted) {
        assert_eq!(*ours, theirs, "{what}: {expression}");
    }
}
