//! What shows that writes come where they belong.

/// Bytes of a probe over one pair: several packets of the largest size (4,096 bytes), so that a path
/// which loses those is found before a part takes it.
pub(super) const PROBE_BYTES: usize = 16 << 10;

/// What the worker writes over a pair and the receiver looks for: [`PROBE_BYTES`] that follow from the
/// session's key, the pair's number and the place of each byte, so that no packet is like another.
pub(super) fn pattern(key: &[u8; 32], pair: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let (turn, place) = (at / key.len(), at % key.len());
        let of_place = [turn as u8, (turn >> 8) as u8, pair as u8, 0x5a][place % 4];
        key[place] ^ of_place
    };
    (0..PROBE_BYTES).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_pairs_have_patterns_of_their_own() {
        let key = std::array::from_fn(|i| i as u8);
        let (one, other) = (pattern(&key, 0), pattern(&key, 1));
        for size in [256, 512, 1024, 2048, 4096] {
            let mut packets: Vec<&[u8]> = one.chunks(size).chain(other.chunks(size)).collect();
            let all = packets.len();
            packets.sort_unstable();
            packets.dedup();
            assert_eq!(packets.len(), all, "of {size} bytes");
        }
        // Python's [i % 32 ^ [i // 32 & 255, i // 32 >> 8, 1, 0x5a][i % 4] for i in (0, 32, 16381, 2, 16383)].
        let at = |i: usize| other[i];
        assert_eq!([at(0), at(32), at(16381), at(2), at(16383)], [0, 1, 28, 3, 69]);
    }
}
