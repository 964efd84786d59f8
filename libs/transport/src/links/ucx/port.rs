//! One UCX worker: an address, what arrives there, and endpoints to other addresses. It lives and
//! dies on one thread; others may only ring its bell.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::abi::{
    AM_HANDLER_ARG, AM_HANDLER_CB, AM_HANDLER_ID, AM_SEND_EAGER, AmHandlerParam, EP_CLOSE_FORCE,
    EP_ERR_HANDLER, EP_ERR_HANDLING_MODE, EP_REMOTE_ADDRESS, ERR_BUSY, ERR_HANDLING_PEER,
    EndpointParams, Handle, IN_PROGRESS, OK, OP_FLAGS, RequestParam, Status, StatusPtr,
    THREAD_MODE_SINGLE, WORKER_THREAD_MODE, WorkerParams,
};
use super::context::Context;
use super::library::Library;

/// Number of the only kind of active message.
const MESSAGE: u32 = 0;

/// Rounds of UCX's work after which what arrived is looked at: a peer that never pauses would fill
/// the inbox meanwhile.
const PROGRESS_MAX: usize = 1024;

type Inbox = Mutex<VecDeque<Vec<u8>>>;
type Fault = Mutex<Option<Status>>;

/// A UCX worker.
#[derive(Debug)]
pub(super) struct Port {
    context: Arc<Context>,
    handle: Handle,
    /// Where UCX's callback puts messages; boxed, since UCX has its address.
    inbox: Box<Inbox>,
    bell: EventFd,
    event_fd: c_int,
}

/// Wakes the thread of a port.
#[derive(Clone, Debug)]
pub(super) struct EventFd {
    context: Arc<Context>,
    /// `None` when the port is gone.
    worker: Arc<Mutex<Option<Rung>>>,
}

#[derive(Debug)]
struct Rung(Handle);

// SAFETY: `ucp_worker_signal` is the one call that UCX allows from other threads than the worker's,
// and the only one that is made with this handle.
unsafe impl Send for Rung {}

/// A way to another port. To be closed before its port is dropped.
#[derive(Debug)]
pub(super) struct Endpoint {
    handle: Handle,
    /// Where UCX's callback notes why it broke; boxed, since UCX has its address.
    fault: Box<Fault>,
}

/// Memory of a peer that may be written to over one endpoint.
#[derive(Debug)]
pub(super) struct RemoteKey(Handle);

/// Something that UCX has not finished. It uses its bytes until [`Port::poll`] says that it ended,
/// or the port is gone.
#[derive(Debug)]
pub(super) struct Request(StatusPtr);

// === impl Port ===

impl Port {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, String> {
        let functions = &context.library.functions;
        let params = WorkerParams {
            field_mask: WORKER_THREAD_MODE,
            thread_mode: THREAD_MODE_SINGLE,
            ..WorkerParams::default()
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the context is open; the handle is written on success.
        let status = unsafe {
            (functions.worker_create)(context.handle, &raw const params, &raw mut handle)
        };
        context.library.check(status)?;
        let worker = Arc::new(Mutex::new(Some(Rung(handle))));
        let bell = EventFd { context: Arc::clone(context), worker };
        let inbox = Box::<Inbox>::default();
        let mut port = Self { context: Arc::clone(context), handle, inbox, bell, event_fd: -1 };
        // From here on dropping the port destroys the worker.
        let handler = AmHandlerParam {
            field_mask: AM_HANDLER_ID | AM_HANDLER_CB | AM_HANDLER_ARG,
            id: MESSAGE,
            flags: 0,
            cb: Some(arrived),
            arg: ptr::from_ref::<Inbox>(&port.inbox).cast_mut().cast(),
            spare: Default::default(),
        };
        // SAFETY: `arrived` takes the inbox as its argument, which outlives the worker.
        let status = unsafe { (functions.worker_set_am_handler)(handle, &raw const handler) };
        context.library.check(status)?;
        // SAFETY: one int is written; the descriptor belongs to the worker.
        let status = unsafe { (functions.worker_get_efd)(handle, &raw mut port.event_fd) };
        context.library.check(status)?;
        Ok(port)
    }

    pub(super) fn bell(&self) -> EventFd {
        self.bell.clone()
    }

    /// What others need to reach it.
    pub(super) fn address(&self) -> Result<Vec<u8>, String> {
        let functions = &self.context.library.functions;
        let (mut address, mut length) = (ptr::null_mut(), 0);
        // SAFETY: pointer and length are written on success.
        let status = unsafe {
            (functions.worker_get_address)(self.handle, &raw mut address, &raw mut length)
        };
        self.context.library.check(status)?;
        // SAFETY: UCX wrote `length` bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length) }.to_vec();
        // SAFETY: given out above, copied, released once.
        unsafe { (functions.worker_release_address)(self.handle, address) };
        Ok(bytes)
    }

    /// Lets UCX work until it has nothing to do, or for a while, and gives what arrived.
    pub(super) fn progress(&self) -> Vec<Vec<u8>> {
        for _ in 0..PROGRESS_MAX {
            // SAFETY: called on the worker's own thread; its callbacks only touch inbox and faults.
            if unsafe { (self.context.library.functions.worker_progress)(self.handle) } == 0 {
                break;
            }
        }
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Waits until there is something to do or the bell rings, at most so long.
    pub(super) fn wait(&self, limit: Duration) {
        // SAFETY: called on the worker's own thread.
        let status = unsafe { (self.context.library.functions.worker_arm)(self.handle) };
        if status == ERR_BUSY {
            return; // Something came meanwhile.
        }
        // SAFETY: the descriptor is open as long as the worker.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.event_fd) };
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        // An interrupted wait ends early, which does no harm.
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit)).ok();
    }

    /// A way to the port of an address.
    pub(super) fn endpoint(&self, address: &[u8]) -> Result<Endpoint, String> {
        let fault = Box::<Fault>::default();
        let params = EndpointParams {
            field_mask: EP_REMOTE_ADDRESS | EP_ERR_HANDLING_MODE | EP_ERR_HANDLER,
            address: address.as_ptr().cast(),
            err_mode: ERR_HANDLING_PEER,
            err_handler: Some(broke),
            err_handler_arg: ptr::from_ref::<Fault>(&fault).cast_mut().cast(),
            user_data: 0,
            flags: 0,
            sockaddr: [0; 2],
            conn_request: 0,
            name: 0,
            local_sockaddr: [0; 2],
            spare: Default::default(),
        };
        let mut handle = ptr::null_mut();
        // SAFETY: UCX copies what it needs of the address before it returns; addresses come from
        // UCX itself, over the authenticated control stream or from a peer that has its key;
        // `broke` takes the fault as its argument, which lives as long as the endpoint.
        let status = unsafe {
            let create = self.context.library.functions.ep_create;
            create(self.handle, &raw const params, &raw mut handle)
        };
        self.context.library.check(status)?;
        Ok(Endpoint { handle, fault })
    }

    /// Sends a message. The bytes are to be kept until the request ended.
    pub(super) fn send(&self, to: &Endpoint, bytes: &[u8]) -> Result<Option<Request>, String> {
        let param = RequestParam {
            op_attr_mask: OP_FLAGS,
            flags: AM_SEND_EAGER,
            ..RequestParam::default()
        };
        // SAFETY: the endpoint is of this port; whoever gets the request keeps the bytes.
        let request = unsafe {
            (self.context.library.functions.am_send)(
                to.handle,
                MESSAGE,
                ptr::null(),
                0,
                bytes.as_ptr().cast(),
                bytes.len(),
                &raw const param,
            )
        };
        self.started(request)
    }

    /// Writes to a peer's memory. The bytes are to be kept until the request ended.
    pub(super) fn put(
        &self,
        to: &Endpoint,
        bytes: &[u8],
        address: u64,
        key: &RemoteKey,
    ) -> Result<Option<Request>, String> {
        let param = RequestParam::default();
        // SAFETY: endpoint and key are of this port; whoever gets the request keeps the bytes; the
        // peer's own card or port checks the address against its registration.
        let request = unsafe {
            (self.context.library.functions.put)(
                to.handle,
                bytes.as_ptr().cast(),
                bytes.len(),
                address,
                key.0,
                &raw const param,
            )
        };
        self.started(request)
    }

    /// Ends when everything that was put before is in the peer's memory.
    pub(super) fn flush(&self, to: &Endpoint) -> Result<Option<Request>, String> {
        let param = RequestParam::default();
        // SAFETY: the endpoint is of this port.
        let request =
            unsafe { (self.context.library.functions.ep_flush)(to.handle, &raw const param) };
        self.started(request)
    }

    /// Breaks an endpoint off; what it has not finished ends with an error. The end of the request
    /// frees it.
    pub(super) fn close(&self, endpoint: &Endpoint) -> Option<Request> {
        let param = RequestParam {
            op_attr_mask: OP_FLAGS,
            flags: EP_CLOSE_FORCE,
            ..RequestParam::default()
        };
        // SAFETY: the endpoint is of this port, and its owner uses it no more.
        let request =
            unsafe { (self.context.library.functions.ep_close)(endpoint.handle, &raw const param) };
        self.started(request).ok().flatten()
    }

    /// `Some` when a request ended; it must not be asked again then.
    pub(super) fn poll(&self, request: &Request) -> Option<Result<(), String>> {
        let functions = &self.context.library.functions;
        // SAFETY: the request was started on this port and has not ended before.
        let status = unsafe { (functions.request_check)(request.0) };
        if status == IN_PROGRESS {
            return None;
        }
        // SAFETY: it ended, and is asked for the last time.
        unsafe { (functions.request_free)(request.0) };
        Some(self.context.library.check(status))
    }

    pub(super) fn unpack(&self, endpoint: &Endpoint, key: &[u8]) -> Result<RemoteKey, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: the bytes are a key that the peer's UCX packed; the handle is written on success.
        let status = unsafe {
            let unpack = self.context.library.functions.rkey_unpack;
            unpack(endpoint.handle, key.as_ptr().cast(), &raw mut handle)
        };
        self.context.library.check(status).map(|()| RemoteKey(handle))
    }

    pub(super) fn forget(&self, key: RemoteKey) {
        // SAFETY: unpacked on this port, used no more.
        unsafe { (self.context.library.functions.rkey_destroy)(key.0) };
    }

    /// Why an endpoint broke, if it did.
    pub(super) fn fault(&self, endpoint: &Endpoint) -> Option<String> {
        let status = *endpoint.fault.lock().unwrap_or_else(PoisonError::into_inner);
        status.map(|status| self.context.library.text(status))
    }

    fn started(&self, request: StatusPtr) -> Result<Option<Request>, String> {
        match Library::status_of(request) {
            None => Ok(Some(Request(request))),
            Some(OK) => Ok(None),
            Some(error) => Err(self.context.library.text(error)),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Nobody rings from here on.
        self.bell.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        // SAFETY: on the worker's own thread, as all its calls; its endpoints are closed. When this
        // returns, its sockets and queue pairs are gone, and no byte is written through it.
        unsafe { (self.context.library.functions.worker_destroy)(self.handle) };
    }
}

// === impl EventFd ===

impl EventFd {
    pub(super) fn ring(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Rung(handle)) = &*worker {
            // SAFETY: the worker is there while the lock is held: its drop takes the handle first.
            unsafe { (self.context.library.functions.worker_signal)(*handle) };
        }
    }
}

/// UCX's callback for a message.
unsafe extern "C" fn arrived(
    inbox: *mut c_void,
    _header: *const c_void,
    _header_length: usize,
    data: *mut c_void,
    length: usize,
    _param: *const c_void,
) -> Status {
    // SAFETY: the argument that was given with the callback: the port's inbox.
    let inbox = unsafe { &*inbox.cast::<Inbox>() };
    let bytes = match length {
        0 => Vec::new(),
        // SAFETY: messages are sent eagerly, so UCX has all `length` bytes there for this call.
        _ => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }.to_vec(),
    };
    inbox.lock().unwrap_or_else(PoisonError::into_inner).push_back(bytes);
    OK
}

/// UCX's callback for an endpoint whose peer is gone.
unsafe extern "C" fn broke(fault: *mut c_void, _endpoint: Handle, status: Status) {
    // SAFETY: the argument that was given with the callback: the endpoint's fault.
    let fault = unsafe { &*fault.cast::<Fault>() };
    fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(status);
}
