//! A table of functions in nvJPEG's place: it keeps books of what is made and destroyed, and answers
//! as it is told.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};

use super::budget::{Budget, Memory};
use super::codec::{Budgets, NvCodec};
use super::library::{Allocator, Backend, Image, Library, Opaque, Status};
use super::{Codec as _, CodecError, Extent, Hint, Placed};

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
    batch: c_int,
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
    device: *mut Allocator,
    pinned: *mut Allocator,
    _: c_uint,
    to: *mut Opaque,
) -> Status {
    assert!(!device.is_null() && !pinned.is_null(), "memory comes out of the budgets");
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
    _: *const u8,
    _: usize,
    _: c_int,
    _: c_int,
    _: Opaque,
) -> Status {
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

unsafe extern "C" fn batch_supported(
    _: Opaque,
    _: Opaque,
    _: Opaque,
    refused: *mut c_int,
) -> Status {
    // SAFETY: a place of the caller's.
    unsafe { *refused = BOOKS.with_borrow(|books| books.refused) };
    call("batch_supported")
}

unsafe extern "C" fn batch_initialise(
    _: Opaque,
    _: Opaque,
    n: c_int,
    _: c_int,
    _: c_int,
) -> Status {
    BOOKS.with_borrow_mut(|books| books.batch = n);
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
    assert_eq!((width, height), (640, 480));
    call("batch_preallocate")
}

unsafe extern "C" fn batch_decode(
    _: Opaque,
    _: Opaque,
    files: *const *const u8,
    lengths: *const usize,
    places: *mut Image,
    _: *mut c_void,
) -> Status {
    let status = call("batch_decode");
    let images = BOOKS.with_borrow(|books| books.batch) as usize;
    for number in 0..images {
        // SAFETY: the codec gives as many of each as it has prepared the batch for.
        let (file, length, place) =
            unsafe { (*files.add(number), *lengths.add(number), *places.add(number)) };
        paint(file, length, &place);
    }
    status
}

unsafe extern "C" fn decode(
    _: Opaque,
    _: Opaque,
    file: *const u8,
    length: usize,
    _: c_int,
    place: *mut Image,
    _: *mut c_void,
) -> Status {
    // SAFETY: a structure of the caller's.
    paint(file, length, unsafe { &*place });
    call("decode")
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
        decode,
    }
}

struct NoMemory;

impl Memory for NoMemory {
    fn take(&self, _bytes: usize) -> Option<u64> {
        None
    }
    fn give_back(&self, _address: u64) {}
}

fn open(backend: Backend, hint: Hint) -> Result<NvCodec, CodecError> {
    BOOKS.with_borrow_mut(|books| (books.size, books.components) = ((3, 2), 3));
    let [device, pinned] = [0; 2].map(|_| Budget::new(1 << 20, Box::new(NoMemory)));
    let budgets = Budgets { device, pinned };
    NvCodec::open(&table(), backend, std::ptr::null_mut(), budgets, hint)
}

fn fail(name: &'static str, status: c_int) {
    BOOKS.with_borrow_mut(|books| books.failing = Some((name, status)));
}

fn calls(name: &'static str) -> usize {
    BOOKS.with_borrow(|books| books.calls.iter().filter(|call| **call == name).count())
}

const EXTENT: Extent = Extent { width: 3, height: 2 };

#[test]
fn whatever_fails_while_it_is_opened_nothing_is_left_behind() {
    let steps = ["create", "state_create", "stream_create", "params_create", "params_format"];
    for (at, step) in steps.into_iter().enumerate() {
        fail(step, 6);
        let error = open(Backend::Hardware, Hint::default()).err().expect(step);
        let CodecError::Device(reason) = error else { panic!("{step}: {error:?}") };
        assert!(reason.ends_with("NVJPEG_STATUS_EXECUTION_FAILED"), "{reason}");
        let (made, alive) = BOOKS.with_borrow(|books| (books.made, books.alive.len()));
        assert_eq!(alive, 0, "{step}");
        assert!(made >= at.min(1), "{step}");
    }
    BOOKS.with_borrow_mut(|books| books.failing = None);
    drop(open(Backend::Hardware, Hint::default()).unwrap());
    assert_eq!(BOOKS.with_borrow(|books| books.alive.len()), 0);
}

#[test]
fn an_image_whose_header_says_another_size_or_more_colours_is_not_taken() {
    let mut codec = open(Backend::Hardware, Hint::default()).unwrap();
    assert_eq!(codec.engines(), Ok((7, 1)));
    assert_eq!(codec.takes(b"file", EXTENT), Ok(true));
    assert_eq!(codec.takes(b"file", Extent { width: 2, height: 3 }), Ok(false));
    BOOKS.with_borrow_mut(|books| books.components = 4);
    assert_eq!(codec.takes(b"file", EXTENT), Ok(false), "four inks");
    BOOKS.with_borrow_mut(|books| (books.components, books.refused) = (3, 1));
    assert_eq!(codec.takes(b"file", EXTENT), Ok(false), "the engine's word");
    BOOKS.with_borrow_mut(|books| books.refused = 0);
    fail("stream_parse", 3);
    assert_eq!(codec.takes(b"file", EXTENT), Ok(false), "no JPEG");
    fail("stream_parse", 6);
    assert!(matches!(codec.takes(b"file", EXTENT), Err(CodecError::Device(_))));
}

/// Files of 1, 2 and so on bytes, with memory for each.
fn decode_some(codec: &mut NvCodec, images: usize) -> Result<Vec<[u8; 18]>, CodecError> {
    let files: Vec<Vec<u8>> = (1..=images).map(|n| vec![n as u8 + 40; n]).collect();
    let mut memory = vec![[0u8; 18]; images];
    let placed: Vec<Placed<'_>> = files
        .iter()
        .zip(&mut memory)
        .map(|(file, to)| Placed { encoded: file, extent: EXTENT, to: to.as_mut_ptr() as u64 })
        .collect();
    codec.decode(&placed)?;
    Ok(memory)
}

#[test]
fn each_image_goes_to_its_place_row_behind_row() {
    for backend in [Backend::Hardware, Backend::GpuHybrid] {
        let mut codec = open(backend, Hint::default()).unwrap();
        let memory = decode_some(&mut codec, 3).unwrap();
        for (number, pixels) in (1u8..).zip(&memory) {
            assert_eq!((pixels[0], pixels[9]), (number + 40, number), "{backend:?}");
        }
    }
}

#[test]
fn a_batch_is_prepared_once_for_each_number_of_images_and_anew_after_a_failure() {
    let mut codec = open(Backend::Hardware, Hint { width: 640, height: 480 }).unwrap();
    for images in [3, 3, 2, 2] {
        decode_some(&mut codec, images).unwrap();
    }
    assert_eq!((calls("batch_initialise"), calls("batch_preallocate")), (2, 2));
    fail("batch_decode", 3);
    assert!(matches!(decode_some(&mut codec, 2), Err(CodecError::Image(_))));
    BOOKS.with_borrow_mut(|books| books.failing = None);
    decode_some(&mut codec, 2).unwrap();
    assert_eq!(calls("batch_initialise"), 3);
    codec.decode(&[]).unwrap();
    assert_eq!(calls("batch_initialise"), 3, "no images ask for nothing");
}

#[test]
fn a_device_without_memory_is_no_fault_of_an_image() {
    let mut codec = open(Backend::Hardware, Hint::default()).unwrap();
    fail("batch_initialise", 5);
    assert!(matches!(decode_some(&mut codec, 2), Err(CodecError::Memory(_))));
}
