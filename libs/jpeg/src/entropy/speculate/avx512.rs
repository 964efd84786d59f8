//! The steps of all lanes, and the tables for them, with AVX-512 VBMI2.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Vbmi2;

use super::tables::{ENDS, LONG, Phases, TAKEN};
use super::{LANES_MAX, Log, STEPS, Track, WORDS_AHEAD};
use crate::huffman::{LOOKUP_BITS, LOOKUP_LEN};

/// Symbols that are combined with the first one at most.
const MORE: usize = 3;

/// Makes entries of whatever symbols the bits of each entry show whole: one of `first`, and then of `then`.
pub(super) fn combine(
    _proof: Vbmi2,
    is_dc: bool,
    first: &[u32; LOOKUP_LEN],
    then: &[u32; LOOKUP_LEN],
    to: &mut [u32; LOOKUP_LEN],
) {
    // SAFETY: the proof exists only where the processor has these sets.
    unsafe { combine_vectors(is_dc, first, then, to) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,popcnt")]
fn combine_vectors(
    is_dc: bool,
    first: &[u32; LOOKUP_LEN],
    then: &[u32; LOOKUP_LEN],
    to: &mut [u32; LOOKUP_LEN],
) {
    let number = |n: u32| _mm512_set1_epi32(n as i32);
    let (zero, bits_of, lookup) = (_mm512_setzero_si512(), number(31), number(LOOKUP_BITS));
    let mut window = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let (first, _) = first.as_chunks::<16>();
    let (to, _) = to.as_chunks_mut::<16>();
    for (first, to) in first.iter().zip(to) {
        // SAFETY: the chunk has 16 numbers.
        let single = unsafe { _mm512_loadu_si512(first.as_ptr().cast()) };
        let alone = _mm512_and_si512(single, number(TAKEN));
        let mut taken = alone;
        let mut goes_on = _mm512_testn_epi32_mask(single, number(LONG | ENDS));
        for _ in 0..MORE {
            let bits = _mm512_and_si512(taken, bits_of);
            goes_on = _mm512_mask_cmplt_epu32_mask(goes_on, bits, lookup);
            if goes_on == 0 {
                break;
            }
            let index = _mm512_sllv_epi32(window, bits);
            let index = _mm512_and_si512(index, number(LOOKUP_LEN as u32 - 1));
            // SAFETY: the index is one of the table.
            let next = unsafe {
                _mm512_mask_i32gather_epi32::<4>(zero, goes_on, index, then.as_ptr().cast())
            };
            let code_bits = _mm512_and_si512(_mm512_srli_epi32::<16>(next), bits_of);
            let known = _mm512_mask_testn_epi32_mask(goes_on, next, number(LONG));
            let code_end = _mm512_add_epi32(bits, code_bits);
            goes_on = _mm512_mask_cmple_epu32_mask(known, code_end, lookup);
            let more = _mm512_and_si512(next, number(TAKEN));
            taken = _mm512_mask_add_epi32(taken, goes_on, taken, more);
            goes_on = _mm512_mask_testn_epi32_mask(goes_on, next, number(ENDS));
        }
        let above = if is_dc {
            _mm512_andnot_si512(number(0xffff), single)
        } else {
            _mm512_slli_epi32::<16>(alone)
        };
        let entry = _mm512_or_si512(taken, above);
        let entry = _mm512_mask_mov_epi32(entry, _mm512_movepi32_mask(single), single);
        // SAFETY: the chunk has room for 16 numbers.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), entry) };
        window = _mm512_add_epi32(window, number(16));
    }
}

/// Takes up to [`STEPS`] steps with all lanes that are not at their limits, and logs where MCUs begin.
pub(super) fn run(
    _proof: Vbmi2,
    vectors: usize,
    track: &mut Track,
    phases: &Phases,
    words: &[u32],
    tables: &[u32],
    log: &mut Log,
) {
    for lane in 0..LANES_MAX {
        let last = track.bit[lane].max(track.limit[lane]) as usize / 32;
        assert!(last + 2 * WORDS_AHEAD < words.len(), "padding after the stream");
        assert!(track.phase[lane] < 16, "a block of an MCU");
    }
    let short = phases.dc.iter().chain(&phases.ac);
    assert!(short.max().is_none_or(|&at| at as usize + LOOKUP_LEN <= tables.len()), "the tables");
    log.clear();
    // SAFETY: the proof exists only where the processor has these sets. A lane reads up to the fourth word after the one
    // of its limit: a step takes less than a word. Tables are where `Phases` has them, and where their own entries say
    // that others are. The log has room for all lanes at all steps, and a vector more.
    unsafe {
        if vectors == 1 {
            run_vectors::<1>(track, phases, words.as_ptr(), tables.as_ptr(), log);
        } else {
            run_vectors::<2>(track, phases, words.as_ptr(), tables.as_ptr(), log);
        }
    }
}

/// # Safety
/// As in `run`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,popcnt")]
unsafe fn run_vectors<const N: usize>(
    track: &mut Track,
    phases: &Phases,
    words: *const u32,
    tables: *const u32,
    log: &mut Log,
) {
    let zero = _mm512_setzero_si512();
    let number = |n: u32| _mm512_set1_epi32(n as i32);
    let (one, ones, low_half) = (number(1), number(!0), number(0xffff));
    let (word_bits, in_word, places) = (number(32), number(31), number(127));
    let (block, ends_bit, rest) = (number(64), number(ENDS), number(31));
    // The third and the fourth byte of each number.
    let code_bits_of = _mm512_set4_epi32(!0xf1, !0xf5, !0xf9, !0xfd);
    let value_bits_of = _mm512_set4_epi32(!0xf0, !0xf4, !0xf8, !0xfc);
    // SAFETY: the arrays have 16 numbers each.
    let load = |numbers: &[u32]| unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
    let (next, ac, dc) = (load(&phases.next), load(&phases.ac), load(&phases.dc));
    let (to_first, to_second) = (load(&phases.first), load(&phases.second));

    let mut window = [[zero; 3]; N];
    let (mut word, mut bit, mut limit) = ([zero; N], [zero; N], [zero; N]);
    let (mut at, mut phase, mut table) = ([zero; N], [zero; N], [zero; N]);
    let (mut first, mut second) = ([zero; N], [zero; N]);
    let mut active = [0_u16; N];
    for v in 0..N {
        let lanes = 16 * v..16 * v + 16;
        let bits = load(&track.bit[lanes.clone()]);
        bit[v] = _mm512_and_si512(bits, in_word);
        word[v] = _mm512_srli_epi32::<5>(bits);
        for (n, window) in window[v].iter_mut().enumerate() {
            // SAFETY: the words of all lanes' next bits, and three more, are there.
            *window = unsafe { _mm512_i32gather_epi32::<4>(word[v], words.add(n).cast()) };
        }
        limit[v] = _mm512_srli_epi32::<5>(load(&track.limit[lanes.clone()]));
        active[v] = _mm512_cmplt_epu32_mask(word[v], limit[v]);
        word[v] = _mm512_add_epi32(word[v], number(3));
        limit[v] = _mm512_add_epi32(limit[v], number(3));
        at[v] = load(&track.at[lanes.clone()]);
        phase[v] = load(&track.phase[lanes.clone()]);
        table[v] = _mm512_permutexvar_epi32(phase[v], ac);
        let begins = _mm512_testn_epi32_mask(at[v], at[v]);
        table[v] = _mm512_mask_permutexvar_epi32(table[v], begins, phase[v], dc);
        first[v] = load(&track.first[lanes.clone()]);
        second[v] = load(&track.second[lanes]);
    }
    let mut step = number(track.step);
    for _ in 0..STEPS {
        let mut entry = [zero; N];
        let mut bits = [zero; N];
        let mut long = 0;
        for v in 0..N {
            bits[v] = _mm512_shldv_epi32(window[v][0], window[v][1], bit[v]);
            let index =
                _mm512_add_epi32(_mm512_srli_epi32::<{ 32 - LOOKUP_BITS }>(bits[v]), table[v]);
            // SAFETY: a table begins at `table` and has an entry for all values of the bits.
            entry[v] =
                unsafe { _mm512_mask_i32gather_epi32::<4>(zero, active[v], index, tables.cast()) };
            long |= _mm512_movepi32_mask(entry[v]);
        }
        if long != 0 {
            for v in 0..N {
                let long = _mm512_movepi32_mask(entry[v]);
                let index = _mm512_and_si512(_mm512_srli_epi32::<16>(bits[v]), rest);
                let index = _mm512_add_epi32(index, entry[v]);
                let index = _mm512_andnot_si512(number(LONG), index);
                // SAFETY: the entry says where the table for its bits begins.
                entry[v] = unsafe {
                    _mm512_mask_i32gather_epi32::<4>(entry[v], long, index, tables.cast())
                };
            }
        }
        for v in 0..N {
            let value_bits = _mm512_shuffle_epi8(entry[v], value_bits_of);
            let from_value =
                _mm512_sllv_epi32(bits[v], _mm512_shuffle_epi8(entry[v], code_bits_of));
            let value = _mm512_srlv_epi32(from_value, value_bits);
            let negative = !_mm512_movepi32_mask(from_value);
            let value =
                _mm512_mask_sub_epi32(value, negative, value, _mm512_srlv_epi32(ones, value_bits));
            let is_dc = _mm512_mask_testn_epi32_mask(active[v], at[v], at[v]);
            let value = _mm512_maskz_and_epi32(is_dc, value, low_half);
            let moved = _mm512_sllv_epi32(value, _mm512_permutexvar_epi32(phase[v], to_first));
            first[v] = _mm512_add_epi16(first[v], moved);
            let moved = _mm512_sllv_epi32(value, _mm512_permutexvar_epi32(phase[v], to_second));
            second[v] = _mm512_add_epi16(second[v], moved);

            let places_of = |entry| _mm512_and_si512(_mm512_srli_epi32::<5>(entry), places);
            let place = _mm512_add_epi32(at[v], places_of(entry[v]));
            // The block ends among the symbols: take the first one only.
            let crosses = _mm512_mask_cmpgt_epu32_mask(active[v], place, block);
            let taken = _mm512_mask_srli_epi32::<16>(entry[v], crosses, entry[v]);
            let place = _mm512_add_epi32(at[v], places_of(taken));
            let ends = active[v]
                & (_mm512_cmpge_epu32_mask(place, block) | _mm512_test_epi32_mask(taken, ends_bit));
            at[v] = _mm512_mask_mov_epi32(at[v], active[v], place);
            at[v] = _mm512_maskz_mov_epi32(!ends, at[v]);
            phase[v] = _mm512_mask_permutexvar_epi32(phase[v], ends, phase[v], next);
            let following = _mm512_permutexvar_epi32(phase[v], ac);
            let following = _mm512_mask_permutexvar_epi32(following, ends, phase[v], dc);
            table[v] = _mm512_mask_mov_epi32(table[v], active[v], following);
            bit[v] = _mm512_add_epi32(bit[v], _mm512_maskz_and_epi32(active[v], taken, in_word));
            let empties = _mm512_test_epi32_mask(bit[v], word_bits);
            bit[v] = _mm512_and_si512(bit[v], in_word);
            window[v][0] = _mm512_mask_mov_epi32(window[v][0], empties, window[v][1]);
            window[v][1] = _mm512_mask_mov_epi32(window[v][1], empties, window[v][2]);
            // SAFETY: the next word of the lanes whose first one is used up.
            window[v][2] = unsafe {
                _mm512_mask_i32gather_epi32::<4>(window[v][2], empties, word[v], words.cast())
            };
            word[v] = _mm512_mask_add_epi32(word[v], empties, word[v], one);
            let begins = _mm512_mask_testn_epi32_mask(ends, phase[v], phase[v]);
            if begins != 0 {
                let position = _mm512_add_epi32(_mm512_slli_epi32::<5>(word[v]), bit[v]);
                let numbers = [position, first[v], second[v]];
                for (to, numbers) in
                    [&mut log.bit, &mut log.first, &mut log.second].into_iter().zip(numbers)
                {
                    let numbers = _mm512_maskz_compress_epi32(begins, numbers);
                    // SAFETY: the log has room for all lanes at all steps, and a vector more.
                    unsafe {
                        _mm512_storeu_si512(to.as_mut_ptr().add(log.len).cast(), numbers);
                    }
                }
                // SAFETY: as above.
                unsafe { _mm512_storeu_si512(log.step.as_mut_ptr().add(log.len).cast(), step) };
                log.len += begins.count_ones() as usize;
            }
            active[v] = _mm512_mask_cmplt_epu32_mask(active[v], word[v], limit[v]);
        }
        step = _mm512_add_epi32(step, one);
        if active.iter().all(|active| *active == 0) {
            break;
        }
    }
    // SAFETY: the arrays have 16 numbers each.
    let store =
        |to: &mut [u32], numbers| unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), numbers) };
    track.step = _mm512_cvtsi512_si32(step) as u32;
    track.active = 0;
    for v in 0..N {
        let lanes = 16 * v..16 * v + 16;
        let bits = _mm512_slli_epi32::<5>(_mm512_sub_epi32(word[v], number(3)));
        store(&mut track.bit[lanes.clone()], _mm512_add_epi32(bits, bit[v]));
        store(&mut track.at[lanes.clone()], at[v]);
        store(&mut track.phase[lanes.clone()], phase[v]);
        store(&mut track.first[lanes.clone()], first[v]);
        store(&mut track.second[lanes], second[v]);
        track.active |= u32::from(active[v]) << (16 * v);
    }
}
