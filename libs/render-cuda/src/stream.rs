//! One stream of a GPU: its memory, its copies, its kernels, its decoder.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUevent_flags};
use cudarc::driver::{CudaEvent, CudaStream};
use headwater_cuda::{CudaError, HostPins, Pinned, check_clock, said};
use headwater_part_rows::{DeviceBytes, Pins};

use super::device::{Device, DeviceError, JpegError, JpegImage};
use super::driver::Gpu;
use super::launch::Launch;
use super::measure::Stopwatch;
use super::memory::JpegsOnGpu;
use super::nvjpeg::{JpegStream, NvJpegSettings, Placed};
use super::rows::DirectRows;

/// Pinned memory through which a stream's uploads go. Larger ones go in pieces.
const STAGING_BYTES: usize = 16 << 20;
/// Places of uploads in it begin at multiples of this.
const STAGING_ALIGN_BYTES: usize = 256;

/// One stream of a GPU, with memory of its own.
pub(super) struct GpuStream {
    gpu: Arc<Gpu>,
    stream: Arc<CudaStream>,
    /// Ends when all that was asked of the stream before has ended.
    done: CudaEvent,
    arena: sys::CUdeviceptr,
    arena_bytes: u64,
    staging: Pinned,
    /// Bytes of it that copies under way may still read.
    staged: usize,
    rows: Option<Pinned>,
    pins: HostPins,
    jpegs: JpegStream,
}

fn failed(doing: &str) -> impl FnOnce(DriverError) -> DeviceError {
    let doing = doing.to_owned();
    move |error| DeviceError { doing, reason: said(error) }
}

/// Why a GPU has not given a stream its memory, and what to do.
fn no_memory(gpu: &Gpu, arena_bytes: u64, error: DriverError) -> CudaError {
    let left = match result::mem_get_info() {
        Ok((free, total)) => format!("{free} of {total} bytes are free"),
        Err(error) => said(error),
    };
    let reason = format!(
        "{}: {arena_bytes} bytes for each of augment.threads, {left}: lower augment.cuda_memory_bytes",
        said(error)
    );
    let doing = "take augment.cuda_memory_bytes of its memory";
    CudaError::Device { ordinal: gpu.gpu.ordinal(), doing, reason }
}

// === impl GpuStream ===

impl GpuStream {
    /// A stream with `arena_bytes` bytes of the GPU's memory.
    ///
    /// # Errors
    /// The GPU has less memory than that.
    pub(super) fn open(
        gpu: &Arc<Gpu>,
        arena_bytes: u64,
        nvjpeg: NvJpegSettings,
    ) -> Result<Self, CudaError> {
        let failed = |doing| gpu.gpu.failed(doing);
        let stream = gpu.context().new_stream().map_err(failed("make a stream"))?;
        let done = gpu.context().new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC));
        let done = done.map_err(failed("make an event"))?;
        let staging = Pinned::take(gpu.context(), STAGING_BYTES).map_err(failed("pin memory"))?;
        // SAFETY: the context is current since the calls above bound it. What the memory holds does
        // not matter: kernels read what was written before.
        let arena = unsafe { result::malloc_sync(arena_bytes as usize) };
        let arena = arena.map_err(|error| no_memory(gpu, arena_bytes, error))?;
        let jpegs =
            JpegsOnGpu { gpu: Arc::clone(gpu), stream: Arc::clone(&stream), settings: nvjpeg };
        let jpegs = JpegStream::new(Box::new(jpegs));
        let pins = HostPins::new(Arc::clone(gpu.context()));
        let (gpu, staged, rows) = (Arc::clone(gpu), 0, None);
        Ok(Self { gpu, stream, done, arena, arena_bytes, staging, staged, rows, pins, jpegs })
    }

    fn check(&self, offset: u64, bytes: u64) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.arena_bytes), "{bytes} bytes from {offset} on");
    }

    /// Whether nvJPEG has engines here.
    ///
    /// # Errors
    /// nvJPEG is not there, or refuses the GPU.
    pub(super) fn has_jpeg_engine(&mut self) -> Result<bool, String> {
        Ok(self.jpegs.nvjpeg()?.has_engine())
    }

    /// Waits until the stream has done all that was asked of it. The thread sleeps meanwhile.
    fn wait(&mut self) -> Result<(), DriverError> {
        self.done.record(&self.stream)?;
        self.done.synchronize()?;
        self.staged = 0;
        Ok(())
    }

    /// An event at what was asked of the stream last, which says when it ended.
    fn mark(&self) -> Result<CudaEvent, DeviceError> {
        let event = self.gpu.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let event = event.map_err(failed("make an event"))?;
        event.record(&self.stream).map_err(failed("record an event"))?;
        Ok(event)
    }

    /// Copies pieces to the arena, one behind the other from `offset` on: by as few copies as the staging memory is
    /// large enough for, because each takes the driver's lock.
    fn copy_pieces(&mut self, offset: u64, pieces: &[&[u8]]) -> Result<(), DriverError> {
        if self.staged + STAGING_ALIGN_BYTES > self.staging.len() {
            self.wait()?;
        }
        let (mut at, mut first) = (offset, self.staged);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                if self.staged == self.staging.len() {
                    at = self.copy_staged(at, first)?;
                    self.wait()?;
                    first = 0;
                }
                let count = rest.len().min(self.staging.len() - self.staged);
                let (now, later) = rest.split_at(count);
                self.staging.as_mut_slice()[self.staged..][..count].copy_from_slice(now);
                self.staged += count;
                rest = later;
            }
        }
        self.copy_staged(at, first)?;
        self.staged = self.staged.next_multiple_of(STAGING_ALIGN_BYTES);
        Ok(())
    }

    /// Has the staging memory from `first` on copied to a place; the place behind that.
    fn copy_staged(&self, at: u64, first: usize) -> Result<u64, DriverError> {
        let bytes = &self.staging.as_slice()[first..self.staged];
        if !bytes.is_empty() {
            // SAFETY: the callers have seen that the place is within the arena, which is alive as long as the
            // stream. The staging memory is not written to before `wait` has seen the copy's end.
            unsafe {
                let stream = self.stream.cu_stream();
                result::memcpy_htod_async(self.arena + at, bytes, stream)?;
            }
        }
        Ok(at + bytes.len() as u64)
    }

    /// Pinned memory for `bytes` bytes of rows.
    fn rows(&mut self, bytes: usize) -> Result<(), DriverError> {
        if self.rows.as_ref().is_none_or(|rows| rows.len() < bytes) {
            self.rows = None;
            self.rows = Some(Pinned::take(self.gpu.context(), bytes.next_power_of_two())?);
        }
        Ok(())
    }

    /// Copies rows to their places: those that lie side by side at both ends as one.
    fn write_rows(&mut self, rows: &DirectRows) -> Result<(), DriverError> {
        self.gpu.context().bind_to_thread()?;
        let mut rest = rows.rows();
        while let Some((first, others)) = rest.split_first() {
            let (mut last, mut bytes) = (first, first.to.len_bytes());
            rest = others;
            while let Some((next, others)) = rest.split_first().filter(|(row, _)| {
                row.offset == first.offset + bytes && last.to.is_followed_by(&row.to)
            }) {
                bytes += next.to.len_bytes();
                (last, rest) = (next, others);
            }
            let from = self.arena + first.offset;
            // SAFETY: the place is within the arena, `download_rows` has checked that. That the memory is there to be
            // written is the word of `DirectRows`, until its caller goes on: `download` waits for the copies' end, and
            // where that cannot be seen the device has failed and copies no more.
            unsafe {
                let (bytes, stream) = (bytes as usize, self.stream.cu_stream());
                match first.to {
                    DeviceBytes::Host(to) => {
                        let to = to.cast::<c_void>().as_ptr();
                        sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream).result()?;
                    }
                    DeviceBytes::Window { address, .. } => {
                        result::memcpy_dtod_async(address, from, bytes, stream)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, offset: u64, bytes: usize) -> Result<&[u8], DriverError> {
        self.gpu.context().bind_to_thread()?;
        self.rows(bytes)?;
        if let Some(rows) = self.rows.as_mut().filter(|_| bytes > 0) {
            let to = &mut rows.as_mut_slice()[..bytes];
            // SAFETY: the place is within the arena. The memory is neither read nor written to
            // before `wait` below has seen the copy's end.
            unsafe {
                result::memcpy_dtoh_async(to, self.arena + offset, self.stream.cu_stream())?;
            }
        }
        self.wait()?;
        Ok(self.rows.as_ref().map_or(&[], |rows| &rows.as_slice()[..bytes]))
    }
}

impl Device for GpuStream {
    fn name(&self) -> String {
        self.gpu.name().to_owned()
    }

    fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    fn shared_bytes_max(&self) -> u32 {
        self.gpu.shared_bytes_max
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.upload_pieces(offset, &[bytes])
    }

    fn upload_pieces(&mut self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        self.check(offset, pieces.iter().map(|piece| piece.len() as u64).sum());
        self.gpu.context().bind_to_thread().map_err(failed("upload"))?;
        self.copy_pieces(offset, pieces).map_err(failed("upload"))
    }

    fn decode_jpegs(
        &mut self,
        images: &[JpegImage<'_>],
        engine_load: f64,
    ) -> Result<Vec<bool>, JpegError> {
        let mut placed = Vec::with_capacity(images.len());
        for &JpegImage { encoded, extent, offset } in images {
            self.check(offset, 3 * u64::from(extent.width) * u64::from(extent.height));
            placed.push(Placed { encoded, extent, to: self.arena + offset });
        }
        self.gpu.context().bind_to_thread().map_err(failed("decode JPEGs"))?;
        self.jpegs.decode(&placed, engine_load)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        let Launch { kernel, blocks, threads, shared_bytes, records: [mut first, mut second] } =
            *launch;
        let doing = |error| failed(&format!("launch {}", kernel.name()))(error);
        self.gpu.context().bind_to_thread().map_err(doing)?;
        let mut arena = self.arena;
        let mut arguments = [&mut arena, &mut first, &mut second]
            .map(|argument: &mut u64| std::ptr::from_mut(argument).cast::<c_void>());
        let function = &self.gpu.kernels[kernel as usize];
        // SAFETY: the kernels take three numbers of 64 bits, which live until the driver has copied
        // them, before this returns. What the records say is within the arena: `load` has laid it out
        // in no more than `arena_bytes`.
        unsafe {
            let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
            let stream = self.stream.cu_stream();
            let function = function.cu_function();
            result::launch_kernel(function, grid, block, shared_bytes, stream, &mut arguments)
        }
        .map_err(doing)
    }

    fn pins(&self) -> Option<&dyn Pins> {
        Some(&self.pins)
    }

    fn download_rows(
        &mut self,
        rows: &DirectRows,
        offset: u64,
        bytes: u64,
    ) -> Result<&[u8], DeviceError> {
        rows.rows().iter().for_each(|row| self.check(row.offset, row.to.len_bytes()));
        self.write_rows(rows).map_err(failed("download rows"))?;
        self.download(offset, bytes)
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.check(offset, bytes);
        self.read(offset, bytes as usize).map_err(failed("download"))
    }
}

impl Stopwatch for GpuStream {
    fn time_launches(&mut self, launches: &[Launch]) -> Result<Vec<Duration>, DeviceError> {
        has_clock()?;
        let mut marks = vec![self.mark()?];
        for launch in launches {
            self.launch(launch)?;
            marks.push(self.mark()?);
        }
        self.wait().map_err(failed("time kernels"))?;
        marks.windows(2).map(|pair| between(&pair[0], &pair[1])).collect()
    }

    fn time_copies(&mut self, times: u32) -> Result<Duration, DeviceError> {
        has_clock()?;
        let half = self.arena_bytes / 2;
        let first = self.mark()?;
        for _ in 0..times {
            // SAFETY: both halves are within the arena, which lives as long as the stream, and do
            // not overlap.
            unsafe {
                let (to, stream) = (self.arena + half, self.stream.cu_stream());
                result::memcpy_dtod_async(to, self.arena, half as usize, stream)
            }
            .map_err(failed("copy within its memory"))?;
        }
        let last = self.mark()?;
        self.wait().map_err(failed("time copies"))?;
        between(&first, &last)
    }
}

/// Checks that the driver's clock can be read: cudarc panics where it cannot.
fn has_clock() -> Result<(), DeviceError> {
    check_clock().map_err(|error| DeviceError {
        doing: "read its clock".to_owned(),
        reason: error.to_string(),
    })
}

fn between(first: &CudaEvent, last: &CudaEvent) -> Result<Duration, DeviceError> {
    let ms = first.elapsed_ms(last).map_err(failed("read its clock"))?;
    Ok(Duration::from_secs_f64(f64::from(ms) / 1e3))
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        // Copies under way still use the memory that is given back here. After a failure there is
        // nothing to wait for, and nothing to be done about one more error.
        let _ = self.gpu.context().bind_to_thread();
        let _ = self.wait();
        self.jpegs.close();
        // SAFETY: it was taken in `Gpu::stream`, and the stream has done all that used it.
        let _ = unsafe { result::free_sync(self.arena) };
    }
}
