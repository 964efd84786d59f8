//! Structures and numbers of `abi.rs` beside those of the system's headers.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::abi;

/// What an expression of C is, and what it is here.
type Fact = (String, usize);

macro_rules! fields {
    ($facts:ident, $c:literal $ours:ty: $($field:ident),+ $(; $($path:literal = $other:ident),+)?) => {
        $($facts.push((
            format!("offsetof({}, {})", $c, stringify!($field)),
            offset_of!($ours, $field),
        ));)+
        $($($facts.push((format!("offsetof({}, {})", $c, $path), offset_of!($ours, $other)));)+)?
        // Without the spare bytes, up to the alignment that the structure has anyway.
        $facts.push((format!("sizeof({})", $c), offset_of!($ours, spare)));
    };
}

fn facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    fields!(facts, "ucp_params_t" abi::Params: field_mask, features, request_size, request_init,
        request_cleanup, tag_sender_mask, mt_workers_shared, estimated_num_eps, estimated_num_ppn,
        name);
    fields!(facts, "ucp_worker_params_t" abi::WorkerParams: field_mask, thread_mode, cpu_mask,
        events, user_data, event_fd, flags, name, am_alignment, client_id);
    fields!(facts, "ucp_ep_params_t" abi::EndpointParams: field_mask, address, err_mode, user_data,
        flags, sockaddr, conn_request, name, local_sockaddr;
        "err_handler.cb" = err_handler, "err_handler.arg" = err_handler_arg);
    fields!(facts, "ucp_mem_map_params_t" abi::MemMapParams: field_mask, address, length, flags,
        prot, memory_type);
    fields!(facts, "ucp_am_handler_param_t" abi::AmHandlerParam: field_mask, id, flags, cb, arg);
    fields!(facts, "ucp_request_param_t" abi::RequestParam: op_attr_mask, flags, request, cb,
        datatype, user_data, reply_buffer, memory_type, recv_info, memh);
    facts.push(("sizeof(ucs_status_t)".to_owned(), size_of::<abi::Status>()));
    facts.push(("sizeof(ucs_status_ptr_t)".to_owned(), size_of::<abi::StatusPtr>()));
    let numbers = [
        ("UCP_PARAM_FIELD_FEATURES", abi::PARAM_FEATURES),
        ("UCP_PARAM_FIELD_MT_WORKERS_SHARED", abi::PARAM_MT_WORKERS_SHARED),
        ("UCP_FEATURE_RMA", abi::FEATURE_RMA),
        ("UCP_FEATURE_WAKEUP", abi::FEATURE_WAKEUP),
        ("UCP_FEATURE_AM", abi::FEATURE_AM),
        ("UCP_WORKER_PARAM_FIELD_THREAD_MODE", abi::WORKER_THREAD_MODE),
        ("UCS_THREAD_MODE_SINGLE", abi::THREAD_MODE_SINGLE as u64),
        ("UCP_EP_PARAM_FIELD_REMOTE_ADDRESS", abi::EP_REMOTE_ADDRESS),
        ("UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE", abi::EP_ERR_HANDLING_MODE),
        ("UCP_EP_PARAM_FIELD_ERR_HANDLER", abi::EP_ERR_HANDLER),
        ("UCP_ERR_HANDLING_MODE_PEER", abi::ERR_HANDLING_PEER as u64),
        ("UCP_EP_CLOSE_FLAG_FORCE", abi::EP_CLOSE_FORCE.into()),
        ("UCP_OP_ATTR_FIELD_FLAGS", abi::OP_FLAGS.into()),
        ("UCP_AM_SEND_FLAG_EAGER", abi::AM_SEND_EAGER.into()),
        ("UCP_MEM_MAP_PARAM_FIELD_ADDRESS", abi::MEM_MAP_ADDRESS),
        ("UCP_MEM_MAP_PARAM_FIELD_LENGTH", abi::MEM_MAP_LENGTH),
        ("UCP_AM_HANDLER_PARAM_FIELD_ID", abi::AM_HANDLER_ID),
        ("UCP_AM_HANDLER_PARAM_FIELD_CB", abi::AM_HANDLER_CB),
        ("UCP_AM_HANDLER_PARAM_FIELD_ARG", abi::AM_HANDLER_ARG),
        ("UCP_API_MAJOR", abi::API_MAJOR.into()),
        ("UCS_INPROGRESS", abi::IN_PROGRESS as u64),
        ("-UCS_ERR_BUSY", u64::from(abi::ERR_BUSY.unsigned_abs())),
        ("-UCS_ERR_LAST", abi::ERR_LAST.unsigned_abs() as u64),
    ];
    facts.extend(numbers.map(|(name, value)| (name.to_owned(), value as usize)));
    facts
}

/// Skipped, loudly, where the system has no headers or no compiler.
#[test]
fn structures_and_numbers_are_those_of_the_systems_headers() {
    let header = "/usr/include/ucp/api/ucp.h";
    if !Path::new(header).exists() || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("SKIP: no {header} or no cc: install libucx-dev and gcc");
        return;
    }
    let facts = facts();
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <ucp/api/ucp.h>\nint main(void) {\n",
    );
    for (expression, _) in &facts {
        writeln!(program, "  printf(\"%zu\\n\", (size_t)({expression}));").expect("a string");
    }
    program.push_str("  return 0;\n}\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&source, program).expect("written");
    let built = Command::new("cc").arg("-o").arg(&binary).arg(&source).status().expect("cc");
    assert!(built.success(), "the header is not understood");
    let said = Command::new(&binary).output().expect("it runs").stdout;
    let said = String::from_utf8(said).expect("numbers");
    let said: Vec<usize> = said.lines().map(|line| line.parse().expect("a number")).collect();
    for ((expression, ours), theirs) in facts.iter().zip(said) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}
