//! nvJPEG's kernels, which decode one JPEG after the other, of any kind. While the GPU works on one image,
//! the processor reads the Huffman codes of the next.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use headwater_core::draw::Extent;

use super::budget::Budget;
use super::handle::{Handle, Made, Parser, check, place};
use super::library::{Allocator, Backend, Opaque};
use super::{Codec, CodecError, Placed};

/// Images under way at a time: one on the processor, one on the GPU.
const IN_TURN: usize = 2;

/// Waits until the GPU's stream has done all that was asked of it.
pub(crate) type Settle = Box<dyn FnMut() -> Result<(), String> + Send>;

/// The kernels, on one stream of a GPU.
pub(super) struct Kernels {
    state: Made,
    /// Attached to the state.
    _device: Made,
    decoder: Made,
    turns: [Turn; IN_TURN],
    turn: usize,
    /// The GPU's stream, `cudaStream_t`.
    cuda_stream: *mut c_void,
    settle: Settle,
    handle: Arc<Handle>,
    /// The library holds pointers to them, so they come after all of its objects.
    budgets: Box<Budgets>,
    _allocators: Box<[Allocator; 2]>,
}

/// What an image occupies until its bytes are on the GPU.
struct Turn {
    pinned: Made,
    parser: Parser,
}

/// Bounds on the memory that the kernels take.
pub(super) struct Budgets {
    pub(super) device: Budget,
    /// On the host.
    pub(super) pinned: Budget,
}

// SAFETY: the library ties nothing to a thread; the GPU's context is made current by whoever calls, and
// the value is used by one thread at a time.
unsafe impl Send for Kernels {}

// === impl Kernels ===

impl Kernels {
    /// Kernels whose memory comes out of `budgets`.
    ///
    /// # Errors
    /// The GPU fails, or has no memory for them.
    pub(super) fn open(
        handle: Arc<Handle>,
        cuda_stream: *mut c_void,
        settle: Settle,
        budgets: Budgets,
    ) -> Result<Self, CodecError> {
        let budgets = Box::new(budgets);
        let allocators = [budgets.device.allocator(), budgets.pinned.allocator()];
        let mut allocators = Box::new(allocators);
        let [device, pinned]: &mut [Allocator; 2] = &mut allocators;
        let library = &handle.library;
        let get = handle.get();
        // SAFETY: the functions belong together; what each is given is alive, the places are ours, and
        // the allocators and what they point to outlive the buffers: see the order of the fields.
        unsafe {
            let create = |to: *mut Opaque| (library.decoder_create)(get, Backend::GpuHybrid, to);
            let decoder = Handle::make("make a decoder", create, library.decoder_destroy)?;
            let create = |to: *mut Opaque| (library.decoder_state_create)(get, decoder.get(), to);
            let state = Handle::make("make a state", create, library.state_destroy)?;
            let create = |to: *mut Opaque| (library.device_buffer_create)(get, device, to);
            let device = Handle::make("make a buffer", create, library.device_buffer_destroy)?;
            check("give it", (library.attach_device_buffer)(state.get(), device.get()))?;
            let mut turn = || {
                let create = |to: *mut Opaque| (library.pinned_buffer_create)(get, pinned, to);
                let pinned = Handle::make("make a buffer", create, library.pinned_buffer_destroy)?;
                Ok(Turn { pinned, parser: Parser::new(&handle)? })
            };
            let turns = [turn()?, turn()?];
            Ok(Self {
                state,
                _device: device,
                decoder,
                turns,
                turn: 0,
                cuda_stream,
                settle,
                handle,
                budgets,
                _allocators: allocators,
            })
        }
    }

    /// Decodes one image by the three phases of the library's guide. The wait between the first two makes
    /// sure that the previous image's buffers are free when the next image needs them.
    fn decode_one(&mut self, image: &Placed<'_>) -> Result<(), CodecError> {
        self.turn = (self.turn + 1) % IN_TURN;
        let Self { turns, turn, handle, state, decoder, cuda_stream, .. } = self;
        let Turn { pinned, parser } = &mut turns[*turn];
        parser.read(handle, image.encoded)?;
        let (library, get, stream) = (&handle.library, handle.get(), parser.stream());
        let (state, decoder) = (state.get(), decoder.get());
        // SAFETY: all are alive. The image before the last used this buffer, and the wait below has seen
        // the end of its copy.
        unsafe {
            check("give it", (library.attach_pinned_buffer)(state, pinned.get()))?;
            let decode = library.decode_host;
            check("read codes", decode(get, decoder, state, parser.params(), stream))?;
        }
        (self.settle)().map_err(CodecError::Device)?;
        let mut to = place(image);
        // SAFETY: as above; the bytes and the place on the device outlive the stream's work, see
        // `Codec::decode`.
        unsafe {
            let transfer = library.decode_transfer;
            check("copy an image", transfer(get, decoder, state, stream, *cuda_stream))?;
            let decode = library.decode_device;
            check("decode an image", decode(get, decoder, state, &mut to, *cuda_stream))
        }
    }
}

impl Codec for Kernels {
    fn takes(&mut self, encoded: &[u8], extent: Extent) -> Result<bool, CodecError> {
        let Self { turns, turn, handle, decoder, .. } = self;
        // The previous image may still be using the other parser.
        let parser = &mut turns[(*turn + 1) % IN_TURN].parser;
        let refused = |parser: &Parser, number: &mut i32| {
            let supported = handle.library.decoder_supported;
            // SAFETY: all are alive, and the stream has a header.
            unsafe { supported(decoder.get(), parser.stream(), parser.params(), number) }
        };
        parser.takes(handle, encoded, extent, refused)
    }

    fn decode(&mut self, images: &[Placed<'_>]) -> Result<(), CodecError> {
        let decoded = images.iter().try_for_each(|image| self.decode_one(image));
        // Which status the library has for memory that it was refused is its own affair.
        let refusals = [&self.budgets.device, &self.budgets.pinned].map(Budget::take_refusal);
        match (decoded, refusals.into_iter().flatten().next()) {
            (Err(error), Some(bytes)) => Err(CodecError::Memory(format!(
                "{} ({bytes} bytes more were refused)",
                error.into_reason()
            ))),
            (decoded, _) => decoded,
        }
    }
}
