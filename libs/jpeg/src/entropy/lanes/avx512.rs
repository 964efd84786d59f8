//! The step of all lanes, with AVX-512 VBMI2.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use headwater_simd::Vbmi2;

use super::windows::Log;
use super::{BLOCK, LANES_MAX, Phases, State, Stopped, WORDS_AHEAD};
use crate::huffman::{LOOKUP_BITS, NO_VALUE, UNKNOWN};

/// Goes on until a lane is at the end of its batch, meets a symbol that its table does not know, or goes beyond a block.
pub(super) fn run(
    _proof: Vbmi2,
    vectors: usize,
    state: &mut State,
    phases: &Phases,
    (words, tables): (&[u32], &[u32]),
    blocks: &mut [i16],
) -> Stopped {
    let mut log = Log::default();
    // SAFETY: the proof exists only where the processor has these sets. `State::set_batch` has checked for each active
    // lane what is read and written by index: a step takes one word at most and goes on by one place at least, so a lane
    // reads as many words as its batch has places; it writes up to 63 places beyond the next one. Tables are where
    // `Phases` has them. Nothing is logged.
    unsafe {
        let (words, tables) = (words.as_ptr(), tables.as_ptr());
        let run = if vectors == 1 { run_vectors::<1, false> } else { run_vectors::<2, false> };
        run(state, phases, words, tables, blocks.as_mut_ptr(), &mut log)
    }
}

/// Goes on until some lanes meet symbols that their tables do not know, or all are at their limits or have no room. Guesses
/// may decode garbage: what goes beyond a block is not written, and `state.doubt` keeps where. `log` takes where MCUs begin.
pub(super) fn run_freely(
    _proof: Vbmi2,
    vectors: usize,
    state: &mut State,
    phases: &Phases,
    (words, tables): (&[u32], &[u32]),
    blocks: &mut [i16],
    log: &mut Log,
) -> Stopped {
    for lane in 0..LANES_MAX {
        let last = state.bit[lane].max(state.limit[lane]) as usize / 32;
        assert!(last + 2 * WORDS_AHEAD < words.len(), "padding after the stream");
        assert!(state.end[lane] as usize + BLOCK <= blocks.len(), "room for a lane");
        assert!(state.active >> lane & 1 == 0 || state.at[lane] < state.end[lane], "a full lane");
    }
    let room = state.end.iter().zip(&state.at).map(|(end, at)| end.saturating_sub(*at) as usize);
    let mcus_max = room.map(|room| room / BLOCK + 1).sum::<usize>() + LANES_MAX;
    assert!(log.len + mcus_max <= log.bit.len().min(log.at.len()), "room for all MCUs");
    // SAFETY: the proof exists only where the processor has these sets. A lane reads up to the fourth word after the one
    // of its limit: a step takes less than a word. An active lane writes in the block that it is in, which is before its
    // end, and one coefficient more. The log has room for all MCUs that all rooms hold, and a vector more. Tables are where `Phases` has them.
    unsafe {
        let (words, tables) = (words.as_ptr(), tables.as_ptr());
        let run = if vectors == 1 { run_vectors::<1, true> } else { run_vectors::<2, true> };
        run(state, phases, words, tables, blocks.as_mut_ptr(), log)
    }
}

/// Lanes that may wait before the others stop for them.
const PATIENCE: u32 = 2;
/// Lanes that fall into step stop if no more of them are left: one after the other, scalar code is faster then.
pub(super) const FEW: u32 = 6;

/// # Safety
/// As in `run`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,popcnt")]
unsafe fn run_vectors<const N: usize, const FREELY: bool>(
    state: &mut State,
    phases: &Phases,
    words: *const u32,
    tables: *const u32,
    blocks: *mut i16,
    log: &mut Log,
) -> Stopped {
    let zero = _mm512_setzero_si512();
    let number = |n: i32| _mm512_set1_epi32(n);
    let (one, ones, low_byte, low_half) = (number(1), number(-1), number(255), number(0xffff));
    let (word_bits, in_word, block, in_block) = (number(32), number(31), number(64), number(!63));
    let (no_value, rest) = (number(NO_VALUE as i32), number((1 << (16 - LOOKUP_BITS)) - 1));
    // The second and the third byte of each number.
    let code_bits_of = _mm512_set4_epi32(!0xf2, !0xf6, !0xfa, !0xfe);
    let value_bits_of = _mm512_set4_epi32(!0xf1, !0xf5, !0xf9, !0xfd);
    // SAFETY: the arrays have 16 numbers each.
    let load = |numbers: &[u32]| unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
    let (next, ac, dc) = (load(&phases.next), load(&phases.ac), load(&phases.dc));

    let mut window = [[zero; 3]; N];
    let (mut word, mut bit) = ([zero; N], [zero; N]);
    let (mut at, mut phase, mut table) = ([zero; N], [zero; N], [zero; N]);
    // The last word of a lane, and where it has gone beyond a block.
    let (mut limit, mut doubt) = ([zero; N], [zero; N]);
    let (mut end, mut beyond) = ([zero; N], [zero; N]);
    let (mut active, mut full) = ([0_u16; N], [0_u16; N]);
    for v in 0..N {
        let lanes = 16 * v..16 * v + 16;
        let bits = load(&state.bit[lanes.clone()]);
        bit[v] = _mm512_and_si512(bits, in_word);
        word[v] = _mm512_srli_epi32::<5>(bits);
        for (n, window) in window[v].iter_mut().enumerate() {
            // SAFETY: the words of all lanes' next bits, and three more, are there.
            *window = unsafe { _mm512_i32gather_epi32::<4>(word[v], words.add(n).cast()) };
        }
        word[v] = _mm512_add_epi32(word[v], number(3));
        at[v] = load(&state.at[lanes.clone()]);
        end[v] = load(&state.end[lanes.clone()]);
        phase[v] = load(&state.phase[lanes.clone()]);
        table[v] = load(&state.table[lanes.clone()]);
        if FREELY {
            let words = _mm512_srli_epi32::<5>(load(&state.limit[lanes.clone()]));
            limit[v] = _mm512_add_epi32(words, number(3));
            doubt[v] = load(&state.doubt[lanes]);
        }
        active[v] = (state.active >> (16 * v)) as u16;
    }
    let patience = state.active.count_ones().min(PATIENCE);
    let (mut rare, mut full_lanes, mut beyond_lanes) = (0_u32, 0_u32, 0_u32);
    let mut log_len = log.len;
    loop {
        let mut entry = [zero; N];
        let mut bits = [zero; N];
        let mut place = [zero; N];
        let mut unknown = [0_u16; N];
        let (mut waiting, mut long) = (0, 0);
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
                let index = _mm512_andnot_si512(number(UNKNOWN as i32), index);
                // SAFETY: the entry says where the table for its bits begins.
                entry[v] = unsafe {
                    _mm512_mask_i32gather_epi32::<4>(entry[v], long, index, tables.cast())
                };
            }
        }
        for v in 0..N {
            unknown[v] = _mm512_movepi32_mask(entry[v]);
            let value_bits = _mm512_shuffle_epi8(entry[v], value_bits_of);
            let from_value =
                _mm512_sllv_epi32(bits[v], _mm512_shuffle_epi8(entry[v], code_bits_of));
            let value = _mm512_srlv_epi32(from_value, value_bits);
            let negative = !_mm512_movepi32_mask(from_value);
            let value =
                _mm512_mask_sub_epi32(value, negative, value, _mm512_srlv_epi32(ones, value_bits));
            let value = _mm512_and_si512(value, low_half);
            place[v] = _mm512_add_epi32(at[v], _mm512_srli_epi32::<24>(entry[v]));
            let mut known = active[v] & !unknown[v];
            if FREELY {
                let crosses = _mm512_xor_si512(place[v], at[v]);
                let crosses = _mm512_mask_test_epi32_mask(known, crosses, block);
                known &= !crosses;
                let beyond = _mm512_mask_testn_epi32_mask(crosses, entry[v], no_value);
                doubt[v] = _mm512_mask_mov_epi32(doubt[v], beyond, at[v]);
            }
            // SAFETY: `place` is at most 62 after `at`, which is before the end of an active lane's batch; after that
            // there is room for a block.
            unsafe { _mm512_mask_i32scatter_epi32::<2>(blocks.cast(), known, place[v], value) };
        }
        for v in 0..N {
            if !FREELY {
                let crosses = _mm512_xor_si512(place[v], at[v]);
                let empty = _mm512_srli_epi32::<{ NO_VALUE.trailing_zeros() - 6 }>(entry[v]);
                // beyond | (crosses & !empty)
                beyond[v] = _mm512_ternarylogic_epi32::<0xf4>(beyond[v], crosses, empty);
            }
            let following = _mm512_add_epi32(place[v], one);
            let moves = active[v] & !unknown[v];
            let changed = _mm512_xor_si512(following, at[v]);
            let ends = _mm512_mask_test_epi32_mask(moves, changed, block);
            let following = _mm512_mask_and_epi32(following, ends, following, in_block);
            phase[v] = _mm512_mask_permutexvar_epi32(phase[v], ends, phase[v], next);
            let following_table = _mm512_permutexvar_epi32(phase[v], ac);
            let following_table =
                _mm512_mask_permutexvar_epi32(following_table, ends, phase[v], dc);
            at[v] = _mm512_mask_mov_epi32(at[v], moves, following);
            table[v] = _mm512_mask_mov_epi32(table[v], moves, following_table);
            bit[v] = _mm512_add_epi32(bit[v], _mm512_and_si512(entry[v], low_byte));
            let empties = _mm512_test_epi32_mask(bit[v], word_bits);
            bit[v] = _mm512_and_si512(bit[v], in_word);
            window[v][0] = _mm512_mask_mov_epi32(window[v][0], empties, window[v][1]);
            window[v][1] = _mm512_mask_mov_epi32(window[v][1], empties, window[v][2]);
            // SAFETY: the next word of the lanes whose first one is used up.
            window[v][2] = unsafe {
                _mm512_mask_i32gather_epi32::<4>(window[v][2], empties, word[v], words.cast())
            };
            word[v] = _mm512_mask_add_epi32(word[v], empties, word[v], one);
            if FREELY {
                // No branch: which lanes begin an MCU in a step cannot be predicted.
                let begins = _mm512_mask_testn_epi32_mask(ends, phase[v], phase[v]);
                let position = _mm512_add_epi32(_mm512_slli_epi32::<5>(word[v]), bit[v]);
                for (to, numbers) in [(&mut log.bit, position), (&mut log.at, at[v])] {
                    let numbers = _mm512_maskz_compress_epi32(begins, numbers);
                    // SAFETY: the log has room for all MCUs, and a vector more.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(log_len).cast(), numbers) };
                }
                log_len += begins.count_ones() as usize;
                active[v] = _mm512_mask_cmplt_epu32_mask(active[v], at[v], end[v]);
                active[v] = _mm512_mask_cmplt_epu32_mask(active[v], word[v], limit[v]);
            } else {
                let ended = _mm512_mask_cmpge_epu32_mask(active[v], at[v], end[v]);
                active[v] &= !ended;
                full[v] |= ended;
                waiting |= u32::from(unknown[v] | full[v]) << (16 * v);
            }
        }
        let has_unknown = unknown.iter().any(|lanes| *lanes != 0);
        let left = active.iter().map(|lanes| lanes.count_ones()).sum::<u32>();
        let has_ended = left <= FEW;
        if if FREELY { has_unknown || has_ended } else { waiting.count_ones() >= patience } {
            for v in 0..N {
                rare |= u32::from(unknown[v]) << (16 * v);
                full_lanes |= u32::from(full[v]) << (16 * v);
                let crossed = (active[v] | full[v]) & _mm512_test_epi32_mask(beyond[v], block);
                beyond_lanes |= u32::from(crossed) << (16 * v);
            }
            break;
        }
    }
    // SAFETY: the arrays have 16 numbers each.
    let store =
        |to: &mut [u32], numbers| unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), numbers) };
    if FREELY {
        log.len = log_len;
        state.active = 0;
    }
    for v in 0..N {
        let lanes = 16 * v..16 * v + 16;
        let bits = _mm512_slli_epi32::<5>(_mm512_sub_epi32(word[v], number(3)));
        store(&mut state.bit[lanes.clone()], _mm512_add_epi32(bits, bit[v]));
        store(&mut state.at[lanes.clone()], at[v]);
        store(&mut state.phase[lanes.clone()], phase[v]);
        store(&mut state.table[lanes.clone()], table[v]);
        if FREELY {
            store(&mut state.doubt[lanes], doubt[v]);
            state.active |= u32::from(active[v]) << (16 * v);
        }
    }
    Stopped { rare, full: full_lanes, beyond: beyond_lanes }
}
