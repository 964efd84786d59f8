//! One shard.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use headwater_core::pluralize;
use headwater_storage::InspectedShard;
use headwater_storage_client::ObjectReader;

use super::{Image, ShardPlan};
use crate::hub::sha256;

const WRITE_BYTES: usize = 1 << 20;

/// What is known of a shard that was written.
pub(crate) struct Written {
    pub(crate) sha256: String,
    /// DALI's index, v1.2.
    pub(crate) idx: String,
}

/// Writes a shard and reads it back.
///
/// # Errors
/// An image has changed since the planning, the disk is full, or the shard does not read back as
/// it was written.
pub(crate) fn write_shard(plan: &ShardPlan<'_>, path: &Path) -> Result<Written> {
    let what = || format!("cannot write shard `{}`", plan.name);
    // A link that others have put there is not followed.
    let file = File::create_new(path).with_context(what)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(WRITE_BYTES, file));
    for image in plan.images {
        if let Some(label) = image.label {
            add(&mut archive, &image.key, "cls", label.to_string().as_bytes())
                .with_context(what)?;
        }
        add(&mut archive, &image.key, image.field, &read(image)?).with_context(what)?;
    }
    let file = archive.into_inner().with_context(what)?;
    let file = file.into_inner().map_err(|error| error.into_error()).with_context(what)?;
    file.sync_all().with_context(what)?;

    let shard = InspectedShard::open(path).with_context(what)?;
    let samples = shard.shard().index().samples() as usize;
    let bytes = shard.shard().object().bytes();
    if shard.fault().is_some() || samples != plan.images.len() || bytes != plan.bytes {
        let (planned, name) = (plan.images.len(), &plan.name);
        let planned = pluralize(planned, "sample");
        bail!("shard `{name}` reads back as {samples} of {planned}: is the disk sound");
    }
    let sha256 = sha256(&ObjectReader::new(shard.shard().object(), 0)).with_context(what)?;
    Ok(Written { sha256, idx: shard.dali_idx() })
}

fn read(image: &Image) -> Result<Vec<u8>> {
    let path = image.path.display();
    let data = fs::read(&image.path).with_context(|| format!("cannot read image `{path}`"))?;
    if data.len() as u64 != image.bytes {
        bail!("image `{path}` changed while it was packed: run the command again");
    }
    Ok(data)
}

/// A member with nothing in its header that differs from one run to the next.
fn add(
    archive: &mut tar::Builder<impl Write>,
    key: &str,
    field: &str,
    data: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(&mut header, format!("{key}.{field}"), data)
}
