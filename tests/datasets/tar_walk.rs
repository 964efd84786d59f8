//! A tar archive walked block by block: the plainest reader there is, to compare with.

use std::path::Path;

const BLOCK_BYTES: usize = 512;

/// One regular file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) mode: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: u64,
    /// Where the data starts.
    pub(crate) offset: usize,
    pub(crate) data: Vec<u8>,
}

/// All members of a ustar archive, in order.
pub(crate) fn members(path: &Path) -> Vec<Member> {
    let bytes = std::fs::read(path).expect("an archive");
    let mut found = Vec::new();
    let mut at = 0;
    while bytes[at..at + BLOCK_BYTES].iter().any(|&byte| byte != 0) {
        let header = &bytes[at..at + BLOCK_BYTES];
        assert_eq!(&header[257..262], b"ustar");
        let text = |from: usize, to: usize| {
            let end = header[from..to].iter().position(|&byte| byte == 0).unwrap_or(to - from);
            std::str::from_utf8(&header[from..from + end]).expect("text").trim().to_owned()
        };
        let octal = |from, to| u64::from_str_radix(&text(from, to), 8).expect("octal digits");
        let size = octal(124, 136) as usize;
        let offset = at + BLOCK_BYTES;
        assert_eq!((header[156], text(345, 500)), (b'0', String::new()));
        found.push(Member {
            name: text(0, 100),
            mode: octal(100, 108),
            uid: octal(108, 116),
            gid: octal(116, 124),
            mtime: octal(136, 148),
            offset,
            data: bytes[offset..offset + size].to_vec(),
        });
        at = offset + size.next_multiple_of(BLOCK_BYTES);
    }
    found
}

/// Number of samples: of runs of members that are equal up to the first dot of the file name.
pub(crate) fn samples(path: &Path) -> u64 {
    let mut keys: Vec<String> = members(path)
        .into_iter()
        .map(|member| member.name.split('.').next().unwrap_or_default().to_owned())
        .collect();
    keys.dedup();
    keys.len() as u64
}

/// The archive's index as DALI writes it, v1.2.
pub(crate) fn dali_idx(path: &Path) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for Member { name, offset, data, .. } in members(path) {
        let (key, field) = name.split_once('.').expect("a field");
        let entry = format!("{field} {offset} {} {name}", data.len());
        match lines.last_mut().filter(|(last, _)| last == key) {
            Some((_, line)) => *line += &format!(" {entry}"),
            None => lines.push((key.to_owned(), entry)),
        }
    }
    let head = format!("v1.2 {}\n", lines.len());
    lines.into_iter().fold(head, |text, (_, line)| text + &line + "\n")
}
