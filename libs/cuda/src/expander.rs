//! Normalises levels on the GPU.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaFunction, sys};
use headwater_core::Dtype;
use headwater_core::cast::{LevelElements, Normalise, level_elements};

use crate::cubin_cache::CubinCache;
use crate::current::Current;
use crate::error::CudaError;
use crate::gpu::Gpu;
use crate::kernels::{KernelSource, OPTIONS};
use crate::memory::DeviceMemory;

/// What is compiled for receivers.
pub const LEVELS: KernelSource =
    KernelSource { texts: &[include_str!("levels.cu")], options: OPTIONS };
/// The one kernel in it.
pub const EXPAND_LEVELS: &std::ffi::CStr = c"expand_levels";

/// Threads of a block.
const THREADS: u32 = 256;
/// Levels that a thread looks up.
const LEVELS_OF_A_THREAD: u64 = 16;
/// Bytes of a channel's table.
const SHARED_BYTES: u32 = 256 * 4;
/// What a plane of it may be cut into: more than any GPU runs at once.
const BLOCKS_MAX: u64 = 1024;

/// Levels of images in a slot, and where in the slot their elements go; in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Where the levels begin, `u8[planes, plane]`; a multiple of 256.
    pub levels: u64,
    /// Where the elements go, as many; a multiple of 256.
    pub elements: u64,
    /// Pixels of one channel of one view.
    pub plane: u64,
    /// Such planes, three to a view.
    pub planes: u32,
}

/// Makes elements of levels: the worker's normalise and cast, done where the batch arrives.
pub(crate) struct Expander {
    function: CudaFunction,
    /// `u32[3, 256]`.
    table: DeviceMemory,
    normalise: Normalise,
    dtype: Dtype,
}

// === impl Expander ===

impl Expander {
    /// For elements of `dtype`.
    pub(crate) fn new(
        gpu: &Gpu,
        normalise: &Normalise,
        dtype: Dtype,
        cache: Option<&CubinCache>,
    ) -> Result<Self, CudaError> {
        let module = gpu.load(&LEVELS, cache)?;
        let function = EXPAND_LEVELS.to_str().expect("a name in ASCII");
        let function = {
            let _current = Current::of(gpu.context()).map_err(gpu.failed("use it"))?;
            module.load_function(function).map_err(gpu.failed("load kernels"))?
        };
        let table = DeviceMemory::take(gpu, None, size_of::<LevelElements>() as u64)?;
        let elements = level_elements(normalise, dtype, 1.0);
        let upload = || {
            let _current = Current::of(gpu.context())?;
            // SAFETY: the memory was taken with the table's length.
            unsafe { result::memcpy_htod_sync(table.address(), elements.as_flattened()) }?;
            // It returns when the source may be changed, which is before the table is there; slots' streams
            // do not wait for the default stream.
            result::ctx::synchronize()
        };
        upload().map_err(gpu.failed("upload a table"))?;
        Ok(Self { function, table, normalise: *normalise, dtype })
    }

    /// What its elements are.
    pub(crate) fn makes(&self) -> (&Normalise, Dtype) {
        (&self.normalise, self.dtype)
    }

    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> u64 {
        self.dtype.size_bytes()
    }

    /// Asks a stream of the same GPU for it; `slot`: address of the slot's first byte.
    ///
    /// # Safety
    /// The context is current and the stream alive; both places lie within the slot's memory, which
    /// lives until the stream is done.
    pub(crate) unsafe fn launch(
        &self,
        slot: u64,
        expansion: Expansion,
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let Expansion { levels, elements, mut plane, planes } = expansion;
        let (mut from, mut to) = (slot + levels, slot + elements);
        let (mut table, mut element_bytes) = (self.table.address(), self.element_bytes());
        let mut arguments = [&mut from, &mut to, &mut table, &mut plane, &mut element_bytes]
            .map(|argument: &mut u64| std::ptr::from_mut(argument).cast::<c_void>());
        let blocks = plane.div_ceil(u64::from(THREADS) * LEVELS_OF_A_THREAD).clamp(1, BLOCKS_MAX);
        let (grid, block) = ((planes, blocks as u32, 1), (THREADS, 1, 1));
        // SAFETY: the kernel takes five numbers of 64 bits, which live until the driver has copied them,
        // before this returns; what they point to is so by the caller's word.
        unsafe {
            let function = self.function.cu_function();
            result::launch_kernel(function, grid, block, SHARED_BYTES, stream, &mut arguments)
        }
    }
}
