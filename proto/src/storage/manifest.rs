//! A manifest in pieces, and put together again.

use headwater_core::{Digest, Manifest, ShardEntry};

use crate::augment::{MessageError, digest, fault};
use crate::v1;

/// Shards in one piece: a piece of long names stays far below any message limit.
const PIECE_SHARDS: usize = 4096;

/// Puts a manifest together from its pieces, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct ManifestAssembly {
    head: Option<Head>,
    shards: Vec<ShardEntry>,
}

#[derive(Debug)]
struct Head {
    dataset: String,
    fields: Vec<String>,
    digest: Digest,
    shards: u64,
    of_files: bool,
    in_order: bool,
    classes: Vec<String>,
}

/// The pieces of a manifest, in order.
pub fn manifest_pieces(manifest: &Manifest) -> impl Iterator<Item = v1::ManifestPiece> + '_ {
    manifest.shards().chunks(PIECE_SHARDS).enumerate().map(move |(at, shards)| {
        let head = (at == 0).then(|| v1::ManifestHead {
            dataset: manifest.dataset().to_owned(),
            fields: manifest.fields().to_vec(),
            digest: manifest.digest().to_bytes().to_vec().into(),
            shards: manifest.shards().len() as u64,
            of_files: manifest.is_of_files(),
            in_order: manifest.is_in_order(),
            classes: manifest.classes().to_vec(),
        });
        v1::ManifestPiece { head, shards: shards.iter().map(wire_shard).collect() }
    })
}

fn wire_shard(shard: &ShardEntry) -> v1::Shard {
    v1::Shard {
        name: shard.name.clone(),
        samples: shard.samples,
        bytes: shard.bytes,
        digest: shard.digest.to_bytes().to_vec().into(),
    }
}

// === impl ManifestAssembly ===

impl ManifestAssembly {
    /// Adds the next piece.
    ///
    /// # Errors
    /// A piece out of order, more shards than announced, or a digest of another length.
    pub fn push(&mut self, piece: v1::ManifestPiece) -> Result<(), MessageError> {
        match (&self.head, piece.head) {
            (None, Some(head)) => {
                self.head = Some(Head {
                    digest: digest("head.digest", &head.digest)?,
                    dataset: head.dataset,
                    fields: head.fields,
                    shards: head.shards,
                    of_files: head.of_files,
                    in_order: head.in_order,
                    classes: head.classes,
                });
            }
            (Some(_), None) => {}
            (None, None) => return Err(fault("head", "is missing in the first piece")),
            (Some(_), Some(_)) => return Err(fault("head", "came twice")),
        }
        for shard in piece.shards {
            self.shards.push(ShardEntry {
                digest: digest("shards.digest", &shard.digest)?,
                name: shard.name,
                samples: shard.samples,
                bytes: shard.bytes,
            });
        }
        let announced = self.head.as_ref().map_or(0, |head| head.shards);
        if self.shards.len() as u64 > announced {
            return Err(fault("shards", format!("has more than the {announced} announced")));
        }
        Ok(())
    }

    /// The manifest, its digest computed anew and compared.
    ///
    /// # Errors
    /// Pieces are missing, the shards make no manifest, or the digest is not the one announced.
    pub fn finish(self) -> Result<Manifest, MessageError> {
        let head = self.head.ok_or_else(|| fault("head", "is missing"))?;
        if self.shards.len() as u64 != head.shards {
            let text = format!("has {} of the {} announced", self.shards.len(), head.shards);
            return Err(fault("shards", text));
        }
        let manifest = Manifest::new(head.dataset, head.fields, self.shards)
            .map_err(|error| fault("shards", format!("make no manifest: {error}")))?
            .with_classes(head.classes);
        if manifest.digest() != head.digest {
            let text = format!("is {}, but the shards make {}", head.digest, manifest.digest());
            return Err(fault("head.digest", text));
        }
        let manifest = if head.of_files { manifest.of_files() } else { manifest };
        Ok(if head.in_order { manifest.in_order() } else { manifest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(shards: u32) -> Manifest {
        let shard = |i: u32| ShardEntry {
            name: format!("{i:06}.tar"),
            samples: i + 1,
            bytes: 1024,
            digest: Digest(i.into()),
        };
        Manifest::new("d".to_owned(), vec!["jpg".to_owned()], (0..shards).map(shard).collect())
            .unwrap()
    }

    #[test]
    fn what_is_said_of_the_order_of_samples_survives_the_wire() {
        for manifest in [manifest(2), manifest(2).of_files(), manifest(2).in_order()] {
            assert_eq!(assemble(manifest_pieces(&manifest)).unwrap(), manifest);
        }
    }

    fn assemble(
        pieces: impl IntoIterator<Item = v1::ManifestPiece>,
    ) -> Result<Manifest, MessageError> {
        let mut assembly = ManifestAssembly::default();
        pieces.into_iter().try_for_each(|piece| assembly.push(piece))?;
        assembly.finish()
    }

    #[test]
    fn a_manifest_of_several_pieces_survives_the_wire() {
        let classes = vec!["cat".to_owned(), "dog".to_owned()];
        let manifest = manifest(PIECE_SHARDS as u32 * 2 + 1).with_classes(classes);
        let pieces: Vec<_> = manifest_pieces(&manifest).collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!(assemble(pieces).unwrap(), manifest);
    }

    #[test]
    fn a_lost_or_doubled_piece_is_refused() {
        let pieces: Vec<_> = manifest_pieces(&manifest(PIECE_SHARDS as u32 + 1)).collect();
        assert_eq!(assemble(pieces[..1].to_vec()).unwrap_err().field, "shards");
        assert_eq!(assemble(pieces[1..].to_vec()).unwrap_err().field, "head");
        let doubled = [&pieces[..], &pieces[1..]].concat();
        assert_eq!(assemble(doubled).unwrap_err().field, "shards");
    }

    #[test]
    fn a_changed_shard_does_not_pass_under_the_old_digest() {
        let mut pieces: Vec<_> = manifest_pieces(&manifest(3)).collect();
        pieces[0].shards[1].samples += 1;
        assert_eq!(assemble(pieces).unwrap_err().field, "head.digest");
    }
}
