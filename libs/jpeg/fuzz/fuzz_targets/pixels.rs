#![no_main]
#[path = "../door.rs"]
mod door;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| door::pixels(bytes));
