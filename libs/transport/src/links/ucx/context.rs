//! UCX opened for use, and memory that peers may write to.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;

use super::abi::{
    API_MAJOR, API_MINOR, FEATURE_AM, FEATURE_RMA, FEATURE_WAKEUP, Handle, MEM_MAP_ADDRESS,
    MEM_MAP_LENGTH, MemMapParams, PARAM_FEATURES, PARAM_MT_WORKERS_SHARED, Params,
};
use super::library::Library;
use super::threads;
use super::wire::RemoteMemory;
use crate::link::terms::LinkKind;
use crate::memory::slot::SlotMemory;
use crate::metrics;

/// Beginnings of the names of UCX's transports over RDMA cards: reliable and unreliable
/// connections, dynamic ones. EFA's (`srd`) is none of them: it has no descriptor that tells of arrivals
/// (`iface_event_fd_get` of `uct_srd_iface.c`), by which a port's thread is woken.
const RDMA_TRANSPORTS: [&str; 4] = ["rc_", "ud_", "dc_", "gga"];

/// Why nothing is made any more.
const EXITS: &str = "the process exits";

/// Name of the setting that says which devices are opened, `UCX_NET_DEVICES` in the environment.
const NET_DEVICES: &CStr = c"NET_DEVICES";

/// What a context is opened with.
struct Config {
    library: &'static Library,
    handle: Handle,
}

/// UCX with its transports, as `UCX_*` in the environment chooses them.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) library: &'static Library,
    pub(super) handle: Handle,
}

// SAFETY: made with `mt_workers_shared`: UCX locks what threads share through a context.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A slot that peers may write to, registered once in its life.
#[derive(Debug)]
pub(super) struct Registration {
    memory: Arc<SlotMemory>,
    context: Arc<Context>,
    handle: Handle,
    /// As UCX packed it, for peers.
    remote_key: Vec<u8>,
}

// SAFETY: the handle is used once more, to end the registration, under the context's own lock.
unsafe impl Send for Registration {}
// SAFETY: nothing is done through a shared one.
unsafe impl Sync for Registration {}

// === impl Context ===

impl Context {
    /// `devices`: the only ones that each of its ports opens, as in `mlx5_0:1`; empty: those of the environment,
    /// or all.
    pub(super) fn open(devices: &[String]) -> Result<Arc<Self>, String> {
        let library = Library::get()?;
        let _there = threads::call().ok_or(EXITS)?;
        let config = if devices.is_empty() { None } else { Some(Config::of(library, devices)?) };
        let params = Params {
            field_mask: PARAM_FEATURES | PARAM_MT_WORKERS_SHARED,
            features: FEATURE_RMA | FEATURE_AM | FEATURE_WAKEUP,
            mt_workers_shared: 1,
            ..Params::default()
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the parameters are those that their mask names; without a configuration UCX reads
        // its variables; what is given is copied; the handle is written on success.
        let status = unsafe {
            (library.functions.init)(
                API_MAJOR,
                API_MINOR,
                &raw const params,
                config.as_ref().map_or(ptr::null(), |config| config.handle.cast_const()),
                &raw mut handle,
            )
        };
        drop(config);
        library.check(status).map_err(|error| {
            format!(
                "UCX {} finds no transport ({error}): look at UCX_TLS and UCX_NET_DEVICES",
                library.version
            )
        })?;
        Ok(Arc::new(Self { library, handle }))
    }

    /// What was found, for logs.
    pub(super) fn describe(&self) -> String {
        format!("UCX {}: {}", self.library.version, self.transports().join(" "))
    }

    /// Transports with their devices, as in `rc_mlx5/mlx5_0:1`.
    fn transports(&self) -> Vec<String> {
        let said = self.library.describe(self.handle);
        let words = said.lines().filter(|line| line.contains("resource"));
        let words = words.filter_map(|line| line.split_whitespace().last());
        words.filter(|word| word.contains('/')).map(str::to_owned).collect()
    }

    /// Whether some transport goes over an RDMA card.
    pub(super) fn has_rdma(&self) -> bool {
        let names = self.transports();
        names.iter().any(|name| RDMA_TRANSPORTS.iter().any(|kind| name.starts_with(kind)))
    }
}

// === impl Config ===

impl Config {
    /// That of the environment, with these devices.
    fn of(library: &'static Library, devices: &[String]) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: without a prefix and a file UCX reads its variables; the handle is written on success.
        let status =
            unsafe { (library.functions.config_read)(ptr::null(), ptr::null(), &raw mut handle) };
        library.check(status)?;
        let config = Self { library, handle };
        let list = CString::new(devices.join(",")).map_err(|error| error.to_string())?;
        // SAFETY: the configuration is open, and both texts end in a zero; UCX copies them.
        let status = unsafe {
            (library.functions.config_modify)(handle, NET_DEVICES.as_ptr(), list.as_ptr())
        };
        library.check(status)?;
        Ok(config)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: read above, released once.
        unsafe { (self.library.functions.config_release)(self.handle) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Some(_there) = threads::call() else { return };
        // SAFETY: workers and registrations hold the context, so none is left.
        unsafe { (self.library.functions.cleanup)(self.handle) };
    }
}

// === impl Registration ===

impl Registration {
    pub(super) fn new(context: &Arc<Context>, memory: Arc<SlotMemory>) -> Result<Self, String> {
        let functions = &context.library.functions;
        let _there = threads::call().ok_or(EXITS)?;
        let params = MemMapParams {
            field_mask: MEM_MAP_ADDRESS | MEM_MAP_LENGTH,
            address: memory.as_ptr().cast(),
            length: memory.len_bytes() as usize,
            flags: 0,
            prot: 0,
            memory_type: 0,
            spare: Default::default(),
        };
        let mut handle = ptr::null_mut();
        // SAFETY: address and length are those of the slot, which this value keeps until it has
        // ended the registration.
        let status =
            unsafe { (functions.mem_map)(context.handle, &raw const params, &raw mut handle) };
        context.library.check(status)?;
        let context = Arc::clone(context);
        let mut this = Self { memory, context, handle, remote_key: Vec::new() };
        this.remote_key = this.pack()?;
        metrics::registered(LinkKind::Ucx, this.memory.len_bytes());
        Ok(this)
    }

    pub(super) fn memory(&self) -> &Arc<SlotMemory> {
        &self.memory
    }

    /// What a peer needs to write to it.
    pub(super) fn terms(&self) -> RemoteMemory {
        let address = self.memory.as_ptr() as u64;
        let (len_bytes, key) = (self.memory.len_bytes(), self.remote_key.clone());
        RemoteMemory { address, len_bytes, key }
    }

    fn pack(&self) -> Result<Vec<u8>, String> {
        let Context { library, handle } = &*self.context;
        let (mut bytes, mut length): (*mut c_void, usize) = (ptr::null_mut(), 0);
        // SAFETY: both handles are open; pointer and length are written on success.
        let status = unsafe {
            (library.functions.rkey_pack)(*handle, self.handle, &raw mut bytes, &raw mut length)
        };
        library.check(status)?;
        // SAFETY: UCX wrote `length` bytes there.
        let key = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec();
        // SAFETY: packed above, copied, released once.
        unsafe { (library.functions.rkey_buffer_release)(bytes) };
        Ok(key)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(_there) = threads::call() else { return };
        let Context { library, handle } = &*self.context;
        // SAFETY: registered by `new`, ended once; the memory is let go of after this.
        let status = unsafe { (library.functions.mem_unmap)(*handle, self.handle) };
        if let Err(error) = library.check(status) {
            tracing::warn!(error, "UCX does not end a registration");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::ucx::port::Port;

    /// Interfaces of sockets that a context found.
    fn interfaces(context: &Context) -> Vec<String> {
        let found = context.transports().into_iter();
        found.filter_map(|name| name.strip_prefix("tcp/").map(str::to_owned)).collect()
    }

    /// UCX takes interfaces of sockets for network devices too.
    #[test]
    fn a_context_opens_only_the_devices_that_are_named() {
        let all = match Context::open(&[]) {
            Ok(all) => all,
            Err(reason) if std::env::var_os("HEADWATER_NEEDS_UCX").is_some() => panic!("{reason}"),
            Err(reason) => return eprintln!("SKIP: {reason}"),
        };
        let found = interfaces(&all);
        let [first, _, ..] = &found[..] else {
            return eprintln!("SKIP: UCX finds less than two network devices: {found:?}");
        };
        let one = Context::open(std::slice::from_ref(first)).expect("one of them");
        assert_eq!(interfaces(&one), std::slice::from_ref(first));
        let address = |context: &Arc<Context>| {
            Port::new(context).and_then(|port| port.address()).expect("an address").len()
        };
        assert!(address(&one) < address(&all), "a shorter address");
        let none = Context::open(&["none9:1".to_owned()]).expect("what stays within the process");
        assert_eq!((interfaces(&none), none.has_rdma()), (Vec::new(), false));
    }
}
