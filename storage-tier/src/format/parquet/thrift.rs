//! A walk through structures of Thrift's compact protocol, ahead of the parser that takes them apart.
//!
//! The parser believes some of the numbers that it reads. Here they are held against the bytes that
//! there are. Maps do not occur in Parquet and are refused.

/// How deep structures may lie in each other.
const DEPTH_MAX: u32 = 32;

/// What the walk comes by. Paths are the numbers of the fields from the outermost structure on.
pub(super) enum Met {
    /// A structure begins: a field, or an element of a list.
    Structure,
    /// A whole number.
    Number(i64),
    /// A switch of a structure that is off, and the place of the byte that says so.
    Off(usize),
}

/// Walks one structure; gives the number of bytes that it has, or `None` where it is none.
pub(super) fn walk(bytes: &[u8], met: &mut dyn FnMut(&[i16], Met)) -> Option<usize> {
    let mut walk = Walk { bytes, at: 0, path: Vec::new(), met };
    walk.structure(0)?;
    Some(walk.at)
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<i16>,
    met: &'a mut dyn FnMut(&[i16], Met),
}

// === impl Walk ===

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        let left = (self.bytes.len() - self.at) as u64;
        (bytes <= left).then(|| self.at += bytes as usize)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn structure(&mut self, depth: u32) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        let mut field = 0_i16;
        loop {
            let place = self.at;
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => i16::try_from(self.zigzag()?).ok()?,
                step => field.checked_add(step.into())?,
            };
            self.path.push(field);
            // Of a field, a switch is its own kind.
            match head & 15 {
                1 => {}
                2 => (self.met)(&self.path, Met::Off(place)),
                kind => self.value(kind, depth)?,
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => {
                let number = self.zigzag()?;
                (self.met)(&self.path, Met::Number(number));
                Some(())
            }
            7 => self.skip(8),
            8 => self.varint().and_then(|bytes| self.skip(bytes)),
            9 | 10 => self.list(depth),
            12 => {
                (self.met)(&self.path, Met::Structure);
                self.structure(depth + 1)
            }
            _ => None,
        }
    }

    fn list(&mut self, depth: u32) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        let head = self.byte()?;
        let elements = match head >> 4 {
            15 => self.varint()?,
            few => few.into(),
        };
        // Each has a byte at least.
        if elements > (self.bytes.len() - self.at) as u64 {
            return None;
        }
        for _ in 0..elements {
            self.value(head & 15, depth + 1)?;
        }
        Some(())
    }
}
