//! The codecs on that table.

use super::*;

/// A baseline JPEG of 17 x 16 pixels.
const FILE: &[u8] = include_bytes!("../../../../render/tests/fixtures/decode/tiny-17.jpg");
const EXTENT: Extent = Extent { width: 17, height: 16 };

#[test]
fn whatever_fails_while_it_is_opened_nothing_is_left_behind() {
    let shared = ["create", "stream_create", "params_create", "params_format"];
    let of_kernels =
        ["decoder_create", "decoder_state_create", "buffer_create", "attach_device_buffer"];
    type Open = fn() -> Result<(), CodecError>;
    let open_engine: Open = || engine(Hint::default()).map(drop);
    let open_kernels: Open = || kernels().map(drop);
    for (open, own) in [(open_engine, &[][..]), (open_kernels, &of_kernels)] {
        for step in shared.iter().chain(own) {
            fail(step, 6);
            let error = open().expect_err(step);
            let CodecError::Device(reason) = error else { panic!("{step}: {error:?}") };
            assert!(reason.ends_with("NVJPEG_STATUS_EXECUTION_FAILED"), "{reason}");
            assert_eq!(BOOKS.with_borrow(|books| books.alive.len()), 0, "{step}");
        }
        BOOKS.with_borrow_mut(|books| books.failing = None);
        open().unwrap();
        assert_eq!(BOOKS.with_borrow(|books| books.alive.len()), 0);
    }
}

#[test]
fn a_gpu_without_engines_is_told_from_one_that_fails() {
    for status in [7, 9] {
        fail("create", status);
        assert!(matches!(handle(Backend::Hardware), Ok(None)), "{status}");
    }
    fail("create", 5);
    assert!(handle(Backend::Hardware).is_err(), "others would decode otherwise than this one");
}

#[test]
fn an_image_whose_header_says_another_size_or_more_colours_is_not_taken() {
    for open in CODECS {
        let mut codec = open();
        BOOKS.with_borrow_mut(|books| (books.failing, books.components) = (None, 3));
        assert_eq!(codec.takes(FILE, EXTENT), Ok(true));
        assert_eq!(codec.takes(FILE, Extent { width: 15, height: 16 }), Ok(false));
        BOOKS.with_borrow_mut(|books| books.components = 4);
        assert_eq!(codec.takes(FILE, EXTENT), Ok(false), "four inks");
        BOOKS.with_borrow_mut(|books| (books.components, books.refused) = (3, 1));
        assert_eq!(codec.takes(FILE, EXTENT), Ok(false), "the decoder's word");
        BOOKS.with_borrow_mut(|books| books.refused = 0);
        fail("stream_parse", 3);
        assert_eq!(codec.takes(FILE, EXTENT), Ok(false), "no JPEG");
        fail("stream_parse", 6);
        assert!(matches!(codec.takes(FILE, EXTENT), Err(CodecError::Device(_))));
    }
}

#[test]
fn an_engine_is_given_no_image_that_is_damaged() {
    let cut = [&FILE[..FILE.len() - 8], &[0xff, 0xd9]].concat();
    assert_eq!(engine(Hint::default()).unwrap().takes(&cut, EXTENT), Ok(false));
    assert_eq!(kernels().unwrap().takes(&cut, EXTENT), Ok(true), "they leave nothing as it was");
}

/// Pixels of an image, which has two rows.
type Pixels = [u8; 102];

/// Files of 1, 2 and so on bytes, with memory for each.
fn decode_some(codec: &mut dyn Codec, images: usize) -> Result<Vec<Pixels>, CodecError> {
    let files: Vec<Vec<u8>> = (1..=images).map(|n| vec![n as u8 + 40; n]).collect();
    let mut memory = vec![[0u8; 102]; images];
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
    for (which, open) in CODECS.into_iter().enumerate() {
        let memory = decode_some(&mut *open(), 3).unwrap();
        for (number, pixels) in (1u8..).zip(&memory) {
            assert_eq!((pixels[0], pixels[51]), (number + 40, number), "codec {which}");
        }
    }
}

/// The library itself says so where it is not: see `decode_host` and `decode_transfer` above.
#[test]
fn codes_are_read_while_the_image_before_is_on_its_way_and_no_buffer_is_used_too_early() {
    let mut kernels = kernels().unwrap();
    for _ in 0..2 {
        decode_some(&mut kernels, 5).unwrap();
        let on_their_way = BOOKS.with_borrow(|books| books.on_their_way.len());
        assert_eq!(on_their_way, 1, "nobody waits for the last one");
    }
}

#[test]
fn an_image_that_fails_is_no_harm_to_the_next_one() {
    let mut kernels = kernels().unwrap();
    fail("decode_host", 10);
    assert!(matches!(decode_some(&mut kernels, 1), Err(CodecError::Image(_))));
    BOOKS.with_borrow_mut(|books| books.failing = None);
    assert_eq!(decode_some(&mut kernels, 1).unwrap()[0][0], 41);
}

#[test]
fn states_are_prepared_once_for_batches_of_few_sizes_and_anew_after_a_failure() {
    let mut codec = engine(Hint { width: 640, height: 480 }).unwrap();
    // 2 and 1; 4 and 1; 4, 2 and 1.
    for (images, batches) in [(3, 2), (2, 1), (5, 2), (7, 3)] {
        let before = calls("batch_decode");
        let memory = decode_some(&mut codec, images).unwrap();
        assert_eq!(calls("batch_decode") - before, batches, "{images} images");
        for (number, pixels) in (1u8..).zip(&memory) {
            assert_eq!((pixels[0], pixels[51]), (number + 40, number), "{images} images");
        }
    }
    assert_eq!((calls("state_create"), calls("batch_initialise")), (3, 3));
    assert_eq!(calls("batch_preallocate"), 3);
    fail("batch_decode", 3);
    assert!(matches!(decode_some(&mut codec, 2), Err(CodecError::Image(_))));
    BOOKS.with_borrow_mut(|books| books.failing = None);
    decode_some(&mut codec, 3).unwrap();
    assert_eq!(calls("batch_initialise"), 4);
    codec.decode(&[]).unwrap();
    assert_eq!(calls("batch_initialise"), 4, "no images ask for nothing");
}

#[test]
fn a_state_that_cannot_be_made_is_a_failure_of_the_device() {
    let mut codec = engine(Hint::default()).unwrap();
    fail("state_create", 6);
    assert!(matches!(decode_some(&mut codec, 2), Err(CodecError::Device(_))));
}

#[test]
fn a_device_without_memory_is_no_fault_of_an_image() {
    let mut codec = engine(Hint::default()).unwrap();
    fail("batch_initialise", 5);
    assert!(matches!(decode_some(&mut codec, 2), Err(CodecError::Memory(_))));
}
