//! libjpeg-turbo's functions in AVX2, which are in its static library.
#![allow(unsafe_code)]

use super::{BLOCKS, Stage, WIDTH, blocks, noise, stage};
use turbojpeg_sys as _;

unsafe extern "C" {
    fn jsimd_idct_islow_avx2(
        table: *const i16,
        block: *const i16,
        rows: *const *mut u8,
        column: u32,
    );
    fn jsimd_ycc_extrgb_convert_avx2(
        width: u32,
        input: *const *const *const u8,
        row: u32,
        output: *const *mut u8,
        rows: i32,
    );
    fn jsimd_h2v1_fancy_upsample_avx2(
        v_max: i32,
        width: u32,
        input: *const *const u8,
        output: *const *const *mut u8,
    );
    fn jsimd_h2v2_fancy_upsample_avx2(
        v_max: i32,
        width: u32,
        input: *const *const u8,
        output: *const *const *mut u8,
    );
}

const BY: &str = "libjpeg-turbo";

pub(super) fn add(stages: &mut Vec<Stage<'static>>) {
    if !is_x86_feature_detected!("avx2") {
        return;
    }
    idct(stages);
    let units = WIDTH as f64 / 64.0;
    // Vectors read and write beyond the ends.
    let rows = [(); 3].map(|()| noise(WIDTH + 128).leak()[64..].as_ptr() as usize);
    let out = [(); 2].map(|()| vec![0_u8; 3 * WIDTH + 128].leak().as_mut_ptr() as usize);
    stages.push(stage("colour, 64 pixels", BY, units, move || {
        let rows = rows.map(|row| row as *const u8);
        let inputs: [*const *const u8; 3] = std::array::from_fn(|n| &raw const rows[n]);
        let outputs = [out[0] as *mut u8];
        // SAFETY: three rows of the width, one row of three times the width, and slack.
        unsafe {
            jsimd_ycc_extrgb_convert_avx2(WIDTH as u32, inputs.as_ptr(), 0, outputs.as_ptr(), 1)
        }
    }));
    stages.push(stage("h2v1, 64 of output", BY, 2.0 * units, move || {
        let inputs = [rows[0] as *const u8];
        let outputs = [out[0] as *mut u8];
        let outputs = outputs.as_ptr();
        // SAFETY: one row of the width, one of twice the width, and slack.
        unsafe {
            jsimd_h2v1_fancy_upsample_avx2(1, WIDTH as u32, inputs.as_ptr(), &raw const outputs)
        }
    }));
    stages.push(stage("h2v2, 64 of output", BY, 4.0 * units, move || {
        let inputs = rows.map(|row| row as *const u8);
        let outputs = out.map(|row| row as *mut u8);
        let outputs = outputs.as_ptr();
        // SAFETY: the row and those above and below it, two rows of twice the width, and slack.
        unsafe {
            jsimd_h2v2_fancy_upsample_avx2(
                2,
                WIDTH as u32,
                inputs.as_ptr().add(1),
                &raw const outputs,
            )
        }
    }));
}

fn idct(stages: &mut Vec<Stage<'static>>) {
    let work = blocks();
    let table: &'static [i16; 64] = &[3; 64];
    let mut plane = vec![0_u8; BLOCKS * 64];
    stages.push(stage("idct, a block", BY, BLOCKS as f64, move || {
        let rows: [*mut u8; 8] = std::array::from_fn(|n| plane[n * BLOCKS * 8..].as_mut_ptr());
        for (n, block) in work.iter().enumerate() {
            // SAFETY: a block and a table of 64 numbers, eight rows that each hold all blocks.
            unsafe {
                jsimd_idct_islow_avx2(table.as_ptr(), block.as_ptr(), rows.as_ptr(), n as u32 * 8)
            }
        }
    }));
}
