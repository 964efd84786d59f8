//! Which image goes into which shard. Known before the first byte is written, so that shards can
//! be written side by side.

use anyhow::{Result, bail};

use super::Image;

const BLOCK_BYTES: u64 = 512;
/// Two empty blocks end an archive.
pub(super) const END_BYTES: u64 = 2 * BLOCK_BYTES;

/// How large a shard may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) samples: usize,
    /// Of the file.
    pub(crate) bytes: u64,
}

/// One shard to write.
#[derive(Clone, Debug)]
pub(crate) struct ShardPlan<'a> {
    pub(crate) name: String,
    pub(crate) images: &'a [Image],
    /// Size of the file.
    pub(crate) bytes: u64,
}

/// Fills shards one after the other.
///
/// # Errors
/// An image that fits no shard.
pub(crate) fn plan<'a>(
    images: &'a [Image],
    prefix: &str,
    limits: Limits,
) -> Result<Vec<ShardPlan<'a>>> {
    let mut plans = Vec::new();
    let (mut start, mut bytes) = (0, END_BYTES);
    let mut close = |range: std::ops::Range<usize>, bytes| {
        let name = format!("{prefix}-{:06}.tar", plans.len());
        plans.push(ShardPlan { name, images: &images[range], bytes });
    };
    for (at, image) in images.iter().enumerate() {
        let size = tar_bytes(image);
        if END_BYTES + size > limits.bytes {
            let name = image.path.display();
            bail!("`{name}` needs a shard of {} bytes: raise --max-bytes", END_BYTES + size);
        }
        if at - start == limits.samples || bytes + size > limits.bytes {
            close(start..at, bytes);
            (start, bytes) = (at, END_BYTES);
        }
        bytes += size;
    }
    close(start..images.len(), bytes);
    Ok(plans)
}

/// Bytes of a sample in the archive: headers and data, in whole blocks.
fn tar_bytes(image: &Image) -> u64 {
    let label = image.label.map_or(0, |_| 2 * BLOCK_BYTES);
    label + BLOCK_BYTES + image.bytes.next_multiple_of(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(sizes: &[u64]) -> Vec<Image> {
        let image = |&bytes: &u64| Image {
            path: "a.jpg".into(),
            bytes,
            key: String::new(),
            field: "jpg",
            label: Some(0),
        };
        sizes.iter().map(image).collect()
    }

    fn shards(sizes: &[u64], samples: usize, bytes: u64) -> Result<Vec<(usize, u64)>> {
        let images = images(sizes);
        let plans = plan(&images, "s", Limits { samples, bytes })?;
        assert!(plans.iter().enumerate().all(|(at, p)| p.name == format!("s-{at:06}.tar")));
        Ok(plans.iter().map(|plan| (plan.images.len(), plan.bytes)).collect())
    }

    #[test]
    fn shards_are_filled_up_to_either_limit() {
        // Each image is 512 bytes in 4 blocks: 2048.
        let sizes = [512; 5];
        assert_eq!(shards(&sizes, 2, 1 << 20).unwrap(), [(2, 5120), (2, 5120), (1, 3072)]);
        assert_eq!(shards(&sizes, 9, 1024 + 3 * 2048).unwrap(), [(3, 7168), (2, 5120)]);
        assert_eq!(shards(&sizes, 9, 1023 + 3 * 2048).unwrap(), [(2, 5120), (2, 5120), (1, 3072)]);
        let error = shards(&[512, 5000], 9, 4096).unwrap_err().to_string();
        assert!(error.contains("--max-bytes"), "{error}");
    }
}
