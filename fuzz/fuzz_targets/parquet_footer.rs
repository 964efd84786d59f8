#![no_main]
#[path = "../doors.rs"]
#[allow(dead_code)]
mod doors;

// A panic of the crate that takes pages apart is caught and told as broken bytes. Without this the
// hook of the fuzzer would end the process before; what is not caught ends it still.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| doors::parquet_footer(bytes)
);
