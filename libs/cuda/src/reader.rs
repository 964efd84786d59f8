//! Copies between a GPU's memory and the host's, on streams that wait for nothing that a trainer has asked
//! its own streams for.
#![allow(unsafe_code)]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys;

use crate::current::Current;
use crate::event::Event;
use crate::pinned::Pinned;

/// Readers of one GPU: the maximum number of copies that can be under way at a time.
const READERS_MAX: usize = 4;

/// A few readers, lent to whoever comes first.
pub(crate) struct Readers {
    context: Arc<CudaContext>,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Reader>,
    made: usize,
}

/// Gives a reader back, however its use ends.
struct Lent<'a> {
    readers: &'a Readers,
    reader: Option<Reader>,
}

/// A stream with pinned memory that it copies to.
pub(crate) struct Reader {
    context: Arc<CudaContext>,
    stream: sys::CUstream,
    copied: Event,
    staging: Option<Pinned>,
}

// SAFETY: the driver's calls on a stream may be made on any thread; all else in it is `Send`.
unsafe impl Send for Reader {}

// === impl Readers ===

impl Readers {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        let (state, given_back) = (Mutex::default(), Condvar::new());
        Self { context: Arc::clone(context), state, given_back }
    }

    /// Lends a reader, after having waited for one where all are in use.
    pub(crate) fn with<T>(
        &self,
        read: impl FnOnce(&mut Reader) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        let mut lent = Lent { readers: self, reader: Some(self.take()?) };
        read(lent.reader.as_mut().expect("it was just lent"))
    }

    fn take(&self) -> Result<Reader, DriverError> {
        let mut state = self.lock();
        loop {
            if let Some(reader) = state.idle.pop() {
                return Ok(reader);
            }
            if state.made < READERS_MAX {
                let reader = Reader::new(&self.context)?;
                state.made += 1;
                return Ok(reader);
            }
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lent ===

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.readers.lock().idle.extend(self.reader.take());
        self.readers.given_back.notify_one();
    }
}

// === impl Reader ===

impl Reader {
    fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let _current = Current::of(context)?;
        let copied = Event::new(context)?;
        let stream = result::stream::create(StreamKind::NonBlocking)?;
        Ok(Self { context: Arc::clone(context), stream, copied, staging: None })
    }

    /// Bytes of pieces of the GPU's memory, given by address and length, one piece after the other.
    ///
    /// # Safety
    /// The pieces lie in memory of the GPU that is there until this returns. Writers of it, if any, make
    /// of the copy a mixture of old and new.
    pub(crate) unsafe fn copy(&mut self, pieces: &[(u64, usize)]) -> Result<&[u8], DriverError> {
        let len: usize = pieces.iter().map(|(_, len)| len).sum();
        if self.staging.as_ref().is_none_or(|staging| staging.len() < len) {
            self.staging = None;
            self.staging = Some(Pinned::take(&self.context, len.max(1))?);
        }
        let staging = self.staging.as_mut().expect("just taken").as_mut_slice();
        let _current = Current::of(&self.context)?;
        let mut enqueue = || {
            let mut rest = &mut staging[..len];
            for &(address, len) in pieces {
                let (piece, others) = std::mem::take(&mut rest).split_at_mut(len);
                // SAFETY: source by the caller's word; the target is this reader's, which waits below
                // before anybody looks at it.
                unsafe { result::memcpy_dtoh_async(piece, address, self.stream) }?;
                rest = others;
            }
            Ok(())
        };
        let enqueued = enqueue();
        // SAFETY: the stream is the reader's own.
        let copied = unsafe { self.copied.set(self.stream) }.and_then(|()| self.copied.wait());
        enqueued.and(copied)?;
        Ok(&staging[..len])
    }

    /// Writes pieces to the GPU's memory, given by their addresses, and waits until it has them.
    ///
    /// # Errors
    /// The GPU fails: some of the pieces may be written later.
    ///
    /// # Safety
    /// The pieces lie in memory that the GPU reaches, and that is there until it has done what it was asked for.
    pub(crate) unsafe fn write(&mut self, pieces: &[(u64, &[u8])]) -> Result<(), DriverError> {
        let _current = Current::of(&self.context)?;
        let enqueue = || {
            pieces.iter().try_for_each(|&(address, bytes)| {
                // SAFETY: target by the caller's word; the source is lent until this returns, which is after the copy.
                unsafe { result::memcpy_htod_async(address, bytes, self.stream) }
            })
        };
        let enqueued = enqueue();
        // SAFETY: the stream is the reader's own.
        let copied = unsafe { self.copied.set(self.stream) }.and_then(|()| self.copied.wait());
        enqueued.and(copied)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Ok(_current) = Current::of(&self.context) else { return };
        // SAFETY: the stream is the reader's own, whose copies were all waited for.
        let _ = unsafe { result::stream::destroy(self.stream) };
    }
}
