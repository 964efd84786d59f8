//! The checksum of TFRecord: CRC-32C (Castagnoli), masked as TensorFlow does.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each byte does to the checksum, followed by as many bytes as the table's number.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut number = 1;
    while number < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[number - 1][byte];
            tables[number][byte] = before >> 8 ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        number += 1;
    }
    tables
}

/// The checksum of bytes, masked.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let table = |number: usize| TABLES[7 - number][(word >> (8 * number) & 255) as usize];
        crc = (0..8).map(table).fold(0, |crc, part| crc ^ part);
    }
    for &byte in rest {
        crc = crc >> 8 ^ TABLES[0][((crc ^ u32::from(byte)) & 255) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of RFC 3720, B.4.
    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
