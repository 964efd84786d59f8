//! What every source is held to: the contracts of [`Source`] and of
//! [`Object`](headwater_storage_client::Object).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use headwater_storage_client::ObjectError;

use super::{Source, Stat, Version, Wanted};

/// Writes the bytes of an object of that name.
pub(super) type Put = Box<dyn Fn(&str, &[u8])>;

/// A source, and a way to change what is in it.
pub(super) struct World {
    pub(super) source: Arc<dyn Source>,
    /// Folder of the source in which everything happens.
    pub(super) root: PathBuf,
    /// Writes an object, in place of the one that has that name; below `root`.
    pub(super) put: Put,
    /// Whether it can list.
    pub(super) lists: bool,
    /// Of which no message may speak.
    pub(super) secrets: Vec<&'static str>,
}

/// Bytes that differ from place to place.
pub(super) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(next).collect()
}

impl World {
    /// Holds the source to all of it.
    pub(super) fn conforms(&self) {
        self.what_is_there_is_told();
        self.listings_are_ordered_and_have_the_versions_of_open_objects();
        self.ranges_are_those_of_the_bytes();
        self.many_threads_read_one_object();
        self.ranges_of_several_objects_are_read_at_once();
        self.a_changed_object_never_gives_other_bytes();
    }

    fn what_is_there_is_told(&self) {
        (self.put)("told/a.tar", b"abc");
        (self.put)("told/sub/b c+ü.tar", b"defg");
        (self.put)("told/empty", b"");
        let at = |name: &str| self.root.join("told").join(name);
        let stat = |name: &str| self.source.stat(&at(name));
        assert!(matches!(stat("a.tar"), Ok(Stat::Object(Version { bytes: 3, .. }))));
        for missing in ["b", "a.ta", "a.tar/x", "sub/b"] {
            let error = stat(missing).unwrap_err();
            assert!(matches!(error, ObjectError::NotFound { .. }), "{missing}: {error:?}");
            let error = self.source.open(&at(missing)).unwrap_err();
            assert!(matches!(error, ObjectError::NotFound { .. }), "{missing}: {error:?}");
            assert!(error.to_string().contains(&self.source.name(&at(missing))), "{error}");
            self.tells_no_secret(&format!("{error} {error:?}"));
        }
        if self.lists {
            assert_eq!(stat("sub").unwrap(), Stat::Folder);
            assert_eq!(self.source.stat(&self.root).unwrap(), Stat::Folder);
        }
        let odd = self.source.open(&at("sub/b c+ü.tar")).unwrap();
        assert_eq!(odd.read(0..4).unwrap(), b"defg"[..]);
        let empty = self.source.open(&at("empty")).unwrap();
        assert_eq!((empty.bytes(), empty.read(0..0).unwrap().len()), (0, 0));
    }

    fn listings_are_ordered_and_have_the_versions_of_open_objects(&self) {
        if !self.lists {
            return;
        }
        let names = ["b.tar", "a-1.tar", "a.tar", "a/z.tar", "Z.tar", "deep/er/x.bin"];
        for (at, name) in names.iter().enumerate() {
            (self.put)(&format!("listed/{name}"), &bytes(at as u64, 10 + at));
        }
        for hidden in [".git", "deep/.x/y", "a/.z"] {
            (self.put)(&format!("listed/{hidden}"), b"x");
        }
        (self.put)("listed2/no.tar", b"x");
        let folder = self.root.join("listed");
        let listed = self.source.list(&folder).unwrap();
        let found: Vec<_> = listed.iter().map(|l| l.path.strip_prefix(&folder).unwrap()).collect();
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(found.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(), sorted);
        for object in listed {
            let open = self.source.open(&object.path).unwrap();
            assert_eq!(Version::of(&*open), object.version, "{:?}", object.path);
            assert_eq!(self.source.stat(&object.path).unwrap(), Stat::Object(object.version));
        }
        assert!(matches!(
            self.source.list(&self.root.join("nothing")).map(|l| l.len()),
            Ok(0) | Err(ObjectError::NotFound { .. })
        ));
    }

    fn ranges_are_those_of_the_bytes(&self) {
        let content = bytes(7, (17 << 20) + 13);
        (self.put)("ranges.tar", &content);
        let object = self.source.open(&self.root.join("ranges.tar")).unwrap();
        let size = content.len() as u64;
        assert_eq!(object.bytes(), size);
        let wanted: Vec<Range<u64>> = vec![
            size - 1..size,
            100..200,
            200..300,
            150..250,
            7..7,
            (1 << 20)..(1 << 20) + 5,
            (12 << 20)..size,
            0..size,
        ];
        let slice = |range: &Range<u64>| &content[range.start as usize..range.end as usize];
        let read = object.read_many(&wanted).unwrap();
        assert_eq!(read.len(), wanted.len());
        for (range, read) in wanted.iter().zip(&read) {
            assert!(**read == *slice(range), "{range:?}");
            assert!(object.read(range.clone()).unwrap() == *slice(range), "{range:?}");
        }
        assert!(object.read_many(&[]).unwrap().is_empty());
        // As whoever goes through a tar does.
        for at in (0..size - 512).step_by(100_000) {
            assert!(object.read(at..at + 512).unwrap() == *slice(&(at..at + 512)), "{at}");
        }
        object.check_unchanged().unwrap();
        for beyond in [size..size + 1, 0..size + 1, size + 5..size + 6] {
            let error = object.read(beyond.clone()).unwrap_err();
            assert!(!matches!(error, ObjectError::NotFound { .. }), "{error:?}");
            assert!(error.to_string().contains("ranges.tar"), "{beyond:?}: {error}");
        }
        // Advice and fetching change nothing.
        object.will_need(&wanted);
        assert!(object.fetch(std::slice::from_ref(&(0..object.bytes())), &|| true).unwrap());
        assert!(object.read(100..200).unwrap() == *slice(&(100..200)));
    }

    fn ranges_of_several_objects_are_read_at_once(&self) {
        let contents: Vec<_> = (0..40).map(|seed| bytes(seed, 1000 + seed as usize)).collect();
        let mut wanted = Vec::new();
        for (at, content) in contents.iter().enumerate() {
            let name = format!("each/{at}.bin");
            (self.put)(&name, content);
            let path = self.root.join(name);
            let Stat::Object(version) = self.source.stat(&path).unwrap() else { panic!() };
            wanted.push(Wanted { path, version, range: at as u64..1000 });
        }
        let read = self.source.read_each(&wanted).unwrap();
        for (at, (read, content)) in read.iter().zip(&contents).enumerate() {
            assert!(*read == content[at..1000], "{at}");
        }
        assert_eq!(read.len(), 40);
        (self.put)("each/7.bin", &bytes(99, 1007));
        let error = self.source.read_each(&wanted).unwrap_err();
        assert!(error.to_string().contains("each/7.bin"), "{error}");
        assert!(error.to_string().contains("changed"), "{error}");
    }

    fn many_threads_read_one_object(&self) {
        let content = bytes(9, 3 << 20);
        (self.put)("shared.tar", &content);
        let object = self.source.open(&self.root.join("shared.tar")).unwrap();
        thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (object, content) = (&object, &content);
                scope.spawn(move || {
                    for at in 0..20 {
                        let start = (thread * 50_000 + at * 131_071) % (2 << 20);
                        let range = start..start + 10_000 * (1 + at % 3);
                        let wanted = &content[range.start as usize..range.end as usize];
                        assert!(object.read(range).unwrap() == *wanted);
                    }
                });
            }
        });
    }

    fn a_changed_object_never_gives_other_bytes(&self) {
        let path = self.root.join("changing.tar");
        let (old, new) = (bytes(1, 500_000), bytes(2, 500_000));
        (self.put)("changing.tar", &old);
        let object = self.source.open(&path).unwrap();
        assert!(object.read(0..100).unwrap() == old[..100]);
        (self.put)("changing.tar", &new);
        for range in [0..100, 400_000..400_100] {
            let read = object.read(range.clone());
            let checked = object.check_unchanged();
            match (read, checked) {
                (Ok(read), Ok(())) => {
                    assert!(read == old[range.start as usize..range.end as usize], "{range:?}");
                }
                (Err(error), _) | (_, Err(error)) => {
                    let text = error.to_string();
                    assert!(text.contains("changing.tar") && text.contains("changed"), "{text}");
                }
            }
        }
        let again = self.source.open(&path).unwrap();
        assert_ne!(again.version(), object.version());
        assert!(again.read(0..500_000).unwrap() == new[..]);
    }

    fn tells_no_secret(&self, text: &str) {
        for secret in &self.secrets {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
