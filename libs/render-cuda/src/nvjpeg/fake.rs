//! A table of functions in nvJPEG's place: it keeps books of what is made and destroyed, and answers
//! as the test has set.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::budget::{Budget, Memory};
use super::engine::Engine;
use super::handle::Handle;
use super::kernels::{Budgets, Kernels};
use super::library::{Allocator, Backend, Image, Library, Opaque, Status};
use super::{Codec, CodecError, Extent, Hint, Placed};

thread_local! {
    /// Each test has a thread of its own, and so a library of its own.
    static BOOKS: RefCell<Books> = RefCell::default();
}

#[derive(Default)]
struct Books {
    alive: Vec<usize>,
    made: usize,
    calls: Vec<&'static str>,
    /// Function that fails, and with what.
    failing: Option<(&'static str, c_int)>,
    size: (u32, u32),
    components: u32,
    refused: c_int,
    /// Images of the batch that each state is prepared for.
    batches: HashMap<usize, c_int>,
    /// The file whose header was read last, of each parser.
    parsed: HashMap<usize, (usize, usize)>,
    /// The file whose codes were read last, and the buffer that it is in.
    read: (usize, usize),
    /// The buffer that the state was given last.
    pinned: usize,
    /// Buffers that the stream has not read yet.
    on_their_way: Vec<usize>,
}

fn call(name: &'static str) -> Status {
    BOOKS.with_borrow_mut(|books| {
        books.calls.push(name);
        let failing = books.failing.filter(|(failing, _)| *failing == name);
        Status(failing.map_or(0, |(_, status)| status))
    })
}

/// Answers a function that makes something.
///
/// # Safety
/// `to` is a place for a pointer.
unsafe fn make(name: &'static str, to: *mut Opaque) -> Status {
    let status = call(name);
    if status == Status::SUCCESS {
        let number = BOOKS.with_borrow_mut(|books| {
            books.made += 1;
            books.alive.push(books.made);
            books.made
        });
        // SAFETY: the caller's word.
        unsafe { *to = number as Opaque };
    }
    status
}

fn destroy(name: &'static str, made: Opaque) -> Status {
    BOOKS.with_borrow_mut(|books| {
        let before = books.alive.len();
        books.alive.retain(|&number| number != made as usize);
        assert_eq!(books.alive.len() + 1, before, "{name} of what is not alive");
    });
    call(name)
}

unsafe extern "C" fn create(
    _: Backend,
    _: *mut c_void,
    _: *mut c_void,
    _: c_uint,
    to: *mut Opaque,
) -> Status {
    // SAFETY: the codec gives a place for the handle.
    unsafe { make("create", to) }
}

unsafe extern "C" fn handle_destroy(made: Opaque) -> Status {
    let status = destroy("destroy", made);
    BOOKS.with_borrow(|books| assert!(books.alive.is_empty(), "the handle goes last"));
    status
}

unsafe extern "C" fn hardware(_: Opaque, engines: *mut c_uint, cores: *mut c_uint) -> Status {
    // SAFETY: both are places of the caller's.
    unsafe { (*engines, *cores) = (7, 1) };
    call("hardware")
}

unsafe extern "C" fn state_create(_: Opaque, to: *mut Opaque) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { make("state_create", to) }
}

unsafe extern "C" fn state_destroy(made: Opaque) -> Status {
    destroy("state_destroy", made)
}

unsafe extern "C" fn stream_create(_: Opaque, to: *mut Opaque) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { make("stream_create", to) }
}

unsafe extern "C" fn stream_destroy(made: Opaque) -> Status {
    destroy("stream_destroy", made)
}

unsafe extern "C" fn stream_parse(
    _: Opaque,
    file: *const u8,
    length: usize,
    _: c_int,
    _: c_int,
    stream: Opaque,
) -> Status {
    BOOKS.with_borrow_mut(|books| books.parsed.insert(stream as usize, (file as usize, length)));
    call("stream_parse")
}

unsafe extern "C" fn stream_size(_: Opaque, width: *mut c_uint, height: *mut c_uint) -> Status {
    // SAFETY: both are places of the caller's.
    unsafe { (*width, *height) = BOOKS.with_borrow(|books| books.size) };
    call("stream_size")
}

unsafe extern "C" fn stream_components(_: Opaque, components: *mut c_uint) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { *components = BOOKS.with_borrow(|books| books.components) };
    call("stream_components")
}

unsafe extern "C" fn params_create(_: Opaque, to: *mut Opaque) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { make("params_create", to) }
}

unsafe extern "C" fn params_destroy(made: Opaque) -> Status {
    destroy("params_destroy", made)
}

unsafe extern "C" fn params_format(_: Opaque, format: c_int) -> Status {
    assert_eq!(format, 5, "interleaved RGB");
    call("params_format")
}

/// Answers whether an image is supported.
///
/// # Safety
/// `refused` is a place of the caller's.
unsafe fn supported(name: &'static str, refused: *mut c_int) -> Status {
    // SAFETY: as the caller says.
    unsafe { *refused = BOOKS.with_borrow(|books| books.refused) };
    call(name)
}

unsafe extern "C" fn batch_supported(_: Opaque, _: Opaque, _: Opaque, to: *mut c_int) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { supported("batch_supported", to) }
}

unsafe extern "C" fn decoder_supported(_: Opaque, _: Opaque, _: Opaque, to: *mut c_int) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { supported("decoder_supported", to) }
}

unsafe extern "C" fn batch_initialise(
    _: Opaque,
    state: Opaque,
    n: c_int,
    _: c_int,
    _: c_int,
) -> Status {
    BOOKS.with_borrow_mut(|books| books.batches.insert(state as usize, n));
    call("batch_initialise")
}

unsafe extern "C" fn batch_preallocate(
    _: Opaque,
    _: Opaque,
    _: c_int,
    width: c_int,
    height: c_int,
    _: c_int,
    _: c_int,
) -> Status {
    assert!([(640, 480), (1, 1)].contains(&(width, height)));
    call("batch_preallocate")
}

unsafe extern "C" fn batch_decode(
    _: Opaque,
    state: Opaque,
    files: *const *const u8,
    lengths: *const usize,
    places: *mut Image,
    _: *mut c_void,
) -> Status {
    let status = call("batch_decode");
    let images = BOOKS.with_borrow(|books| books.batches[&(state as usize)]) as usize;
    for number in 0..images {
        // SAFETY: the codec gives as many of each as it has prepared the batch for.
        let (file, length, place) =
            unsafe { (*files.add(number), *lengths.add(number), *places.add(number)) };
        paint(file, length, &place);
    }
    status
}

unsafe extern "C" fn decoder_create(_: Opaque, backend: Backend, to: *mut Opaque) -> Status {
    assert_eq!(backend, Backend::GpuHybrid);
    // SAFETY: a place of the caller's.
    unsafe { make("decoder_create", to) }
}

unsafe extern "C" fn decoder_destroy(made: Opaque) -> Status {
    destroy("decoder_destroy", made)
}

unsafe extern "C" fn decoder_state_create(_: Opaque, _: Opaque, to: *mut Opaque) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { make("decoder_state_create", to) }
}

unsafe extern "C" fn buffer_create(_: Opaque, memory: *mut Allocator, to: *mut Opaque) -> Status {
    assert!(!memory.is_null(), "memory comes out of the budgets");
    // SAFETY: a place of the caller's.
    unsafe { make("buffer_create", to) }
}

unsafe extern "C" fn buffer_destroy(made: Opaque) -> Status {
    destroy("buffer_destroy", made)
}

unsafe extern "C" fn attach_device_buffer(_: Opaque, _: Opaque) -> Status {
    call("attach_device_buffer")
}

unsafe extern "C" fn attach_pinned_buffer(_: Opaque, buffer: Opaque) -> Status {
    BOOKS.with_borrow_mut(|books| books.pinned = buffer as usize);
    call("attach_pinned_buffer")
}

unsafe extern "C" fn decode_host(
    _: Opaque,
    _: Opaque,
    _: Opaque,
    _: Opaque,
    stream: Opaque,
) -> Status {
    BOOKS.with_borrow_mut(|books| {
        let pinned = books.pinned;
        assert!(!books.on_their_way.contains(&pinned), "the stream has not read that buffer yet");
        books.read = books.parsed[&(stream as usize)];
    });
    call("decode_host")
}

unsafe extern "C" fn decode_transfer(
    _: Opaque,
    _: Opaque,
    _: Opaque,
    _: Opaque,
    _: *mut c_void,
) -> Status {
    BOOKS.with_borrow_mut(|books| {
        assert!(books.on_their_way.is_empty(), "the image before is still on its way");
        books.on_their_way.push(books.pinned);
    });
    call("decode_transfer")
}

unsafe extern "C" fn decode_device(
    _: Opaque,
    _: Opaque,
    _: Opaque,
    place: *mut Image,
    _: *mut c_void,
) -> Status {
    let (file, length) = BOOKS.with_borrow(|books| books.read);
    // SAFETY: a structure of the caller's; the file is as it was when its header was read.
    paint(file as *const u8, length, unsafe { &*place });
    call("decode_device")
}

/// Writes the file's first byte where the first pixel goes, and its length to the next row.
fn paint(file: *const u8, length: usize, place: &Image) {
    // SAFETY: the tests give memory of the host with two rows of the pitch.
    unsafe {
        place.channel[0].write(*file);
        place.channel[0].add(place.pitch[0]).write(length as u8);
    }
}

fn table() -> Library {
    Library {
        create,
        destroy: handle_destroy,
        hardware,
        state_create,
        state_destroy,
        stream_create,
        stream_destroy,
        stream_parse,
        stream_size,
        stream_components,
        params_create,
        params_destroy,
        params_format,
        batch_supported,
        batch_initialise,
        batch_preallocate,
        batch_decode,
        decoder_create,
        decoder_destroy,
        decoder_supported,
        decoder_state_create,
        device_buffer_create: buffer_create,
        device_buffer_destroy: buffer_destroy,
        pinned_buffer_create: buffer_create,
        pinned_buffer_destroy: buffer_destroy,
        attach_device_buffer,
        attach_pinned_buffer,
        decode_host,
        decode_transfer,
        decode_device,
    }
}

struct NoMemory;

impl Memory for NoMemory {
    fn take(&self, _bytes: usize) -> Option<u64> {
        None
    }
    fn give_back(&self, _address: u64) {}
}

fn handle(backend: Backend) -> Result<Option<Arc<Handle>>, String> {
    BOOKS.with_borrow_mut(|books| (books.size, books.components) = ((17, 16), 3));
    Handle::open(&table(), backend)
}

fn engine(hint: Hint) -> Result<Engine, CodecError> {
    let handle = handle(Backend::Hardware).map_err(CodecError::Device)?;
    Engine::open(handle.expect("engines"), std::ptr::null_mut(), hint)
}

fn kernels() -> Result<Kernels, CodecError> {
    let handle = handle(Backend::GpuHybrid).map_err(CodecError::Device)?;
    let [device, pinned] = [0; 2].map(|_| Budget::new(1 << 20, Box::new(NoMemory)));
    let settle = || {
        BOOKS.with_borrow_mut(|books| books.on_their_way.clear());
        Ok(())
    };
    let budgets = Budgets { device, pinned };
    let handle = handle.expect("kernels");
    Kernels::open(handle, std::ptr::null_mut(), Box::new(settle), budgets)
}

/// Both ways, one at a time: the books are those of one handle.
const CODECS: [fn() -> Box<dyn Codec>; 2] =
    [|| Box::new(engine(Hint::default()).unwrap()), || Box::new(kernels().unwrap())];

fn fail(name: &'static str, status: c_int) {
    BOOKS.with_borrow_mut(|books| books.failing = Some((name, status)));
}

fn calls(name: &'static str) -> usize {
    BOOKS.with_borrow(|books| books.calls.iter().filter(|call| **call == name).count())
}

mod tests;
