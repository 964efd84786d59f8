//! What can go wrong in a receiver.

use headwater_core::RecipeError;

/// Why a receiver cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// A configuration value is out of range; names the key.
    #[error("receiver.{key} is {value}: {rule}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// A list of samples is not available; names the key and the file.
    #[error("receiver.{key} ({place}): {reason}")]
    OrderList {
        /// The key.
        key: &'static str,
        /// Path of the file, or that it is an array.
        place: String,
        /// What is wrong and where.
        reason: String,
    },
    /// The source of a Python function is not found.
    #[error("the recipe calls functions of `{module}`, which cannot be used: {reason}")]
    Python {
        /// The module.
        module: String,
        /// What was said.
        reason: String,
    },
    /// A number is out of range; names the key and the range.
    #[error("receiver.{key} is {value}: must be from 1 to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u32,
        /// The largest that it may be.
        most: u32,
    },
    /// An entry of a list of addresses cannot be understood; names the key and the entry.
    #[error("receiver.{key} has {source}")]
    Places {
        /// The key.
        key: &'static str,
        /// The entry and the remedy.
        source: headwater_discovery::DiscoveryError,
    },
    /// Masks are not possible as they are asked for; names the key.
    #[error("receiver.{0}")]
    Masks(#[from] headwater_core::masks::MaskError),
    /// Patches are not possible as they are asked for; names the key.
    #[error("receiver.{0}")]
    Patches(#[from] headwater_core::patches::PatchError),
    /// Mixing is not possible as it is asked for; names the key.
    #[error("receiver.{0}")]
    Mixing(#[from] headwater_core::mixing::MixError),
    /// The recipe is not usable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The order, weights or epochs that are asked for are not possible.
    #[error(transparent)]
    Sampler(#[from] headwater_core::sampler::SamplerError),
    /// The history of delayed scaling is not in a state, or not one of this recipe and place.
    #[error(transparent)]
    AmaxState(#[from] headwater_core::fp8::AmaxStateError),
    /// The ranks' amaxes could not be brought together.
    #[error("amax_reduce failed at epoch {epoch} step {step}: {reason}")]
    AmaxReduce {
        /// Epoch of the batch that was taken.
        epoch: u32,
        /// Its step.
        step: u64,
        /// What went wrong.
        #[source]
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A dataset that the job does not have.
    #[error("the job has no dataset `{name}`: it has {known}")]
    NoDataset {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No sample of a dataset has an image.
    #[error(
        "no sample of dataset `{dataset}` has an image `{wanted}` (receiver.image_field), only \
         {found}: name one of these, or rename the files"
    )]
    NoImages {
        /// Name of the dataset.
        dataset: String,
        /// The names wanted.
        wanted: String,
        /// The fields that its samples have.
        found: String,
    },
    /// No sample of any dataset has a label.
    #[error(
        "no sample of dataset `{dataset}` has a label `{wanted}` (receiver.label_field), only \
         {found}: name one of these, or set receiver.label_field to \"\" to do without labels"
    )]
    NoLabels {
        /// Name of the first dataset.
        dataset: String,
        /// The names wanted.
        wanted: String,
        /// The fields that its samples have.
        found: String,
    },
    /// A tokenizer of the recipe cannot be read.
    #[error(
        "cannot read tokenizer `{path}` of recipe.fields: {reason}; name a file of this host, or give its sha256"
    )]
    Tokenizer {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// No sample of a dataset has a field that the recipe reads.
    #[error(
        "no sample of dataset `{dataset}` has a field `{wanted}` (`{name}` of the recipe), only {found}: \
         name one of these as its `field`, or leave the field out"
    )]
    NoField {
        /// Name of the dataset.
        dataset: String,
        /// Name of the field in the recipe.
        name: String,
        /// The names wanted.
        wanted: String,
        /// The fields that its samples have.
        found: String,
    },
    /// Certificates or token cannot be used.
    #[error(transparent)]
    Access(#[from] headwater_access::AccessError),
    /// The storage tier cannot be reached or does not have the data.
    #[error(transparent)]
    Storage(#[from] headwater_storage_client::StorageClientError),
    /// No link can be offered, or slots are not available.
    #[error(transparent)]
    Link(#[from] headwater_transport::LinkError),
    /// No augment worker came within the limit.
    #[error(
        "no augment worker for {waited_s} s: {awaited}; start one there, correct receiver.workers, or raise \
         receiver.worker_wait_ms"
    )]
    NoWorker {
        /// Seconds waited.
        waited_s: u64,
        /// The addresses that were tried, each with what came of it.
        awaited: String,
    },
    /// One part failed too often, or for good.
    #[error(
        "epoch {epoch} step {step} samples {first}..{end} failed {attempts} time(s), \
         last at worker `{worker}`: {message}"
    )]
    Part {
        /// Epoch.
        epoch: u32,
        /// Step.
        step: u64,
        /// First sample of the part within the batch.
        first: u32,
        /// One past its last sample.
        end: u32,
        /// How often.
        attempts: u32,
        /// Where it failed last.
        worker: String,
        /// How it failed last.
        message: String,
    },
    /// Two workers made different bytes of one part.
    #[error(
        "epoch {epoch} step {step} samples {first}..{end}: worker `{other_from}` made other bytes \
         than worker `{taken_from}` (checksums {other:016x} and {taken:016x}): workers must run the \
         same version; report this if they do"
    )]
    Disagreement {
        /// Epoch.
        epoch: u32,
        /// Step.
        step: u64,
        /// First sample of the part within the batch.
        first: u32,
        /// One past its last sample.
        end: u32,
        /// Who made the copy that stands in the batch.
        taken_from: String,
        /// Its checksum.
        taken: u64,
        /// Who made the other.
        other_from: String,
        /// Its checksum.
        other: u64,
    },
    /// A batch was changed while the trainer had it.
    #[error(
        "epoch {epoch} step {step} changed while the trainer had it (digest {given} when it was given, {found} when \
         it was released): if the training loop writes to its tensors, let it copy them first, or set \
         receiver.verify_held to false; otherwise report this"
    )]
    HeldChanged {
        /// Epoch.
        epoch: u32,
        /// Step.
        step: u64,
        /// Identity of its bytes when it was given.
        given: headwater_core::Digest,
        /// The same when it was released.
        found: headwater_core::Digest,
    },
    /// The trainer holds every slot there may be.
    #[error(
        "the trainer holds all {slots} slots: let go of earlier batches (copy what you keep), or \
         raise receiver.slots_max"
    )]
    SlotsHeld {
        /// Slots there are.
        slots: usize,
    },
    /// Workers still write to slots that were taken back from them, and no other slot is free.
    #[error(
        "none of {slots} slots is free: {kept} of them wait for workers that may still write \
         withdrawn parts to them ({workers}): restart these workers, or raise receiver.slots_max"
    )]
    SlotsKept {
        /// Slots there are.
        slots: usize,
        /// Those that nobody may use.
        kept: usize,
        /// The workers' names.
        workers: String,
    },
    /// Slots that were given up with a lost worker cannot be made anew, and no other slot is free.
    #[error(
        "none of {slots} slots is free, and {missing} cannot be made anew after the loss of worker {workers}: {reason}; \
         end the processes that hold this memory, or let go of earlier batches (copy what you keep)"
    )]
    SlotsMissing {
        /// Slots there are.
        slots: usize,
        /// Those that were given up.
        missing: usize,
        /// Names of the workers that could write to them when they were lost.
        workers: String,
        /// Why the last try to make one failed.
        reason: String,
    },
    /// The slots have no room.
    #[error(
        "{slots} slots of {slot_bytes} bytes do not fit in memory, which has {free_bytes} bytes free (by {}): \
         lower {lower}receiver.window_batches or receiver.slots_max, or give it more", from.display()
    )]
    Room {
        /// Slots there may be.
        slots: u64,
        /// Bytes of each.
        slot_bytes: u64,
        /// Bytes that may still be taken.
        free_bytes: u64,
        /// The file that says so.
        from: std::path::PathBuf,
        /// `receiver.batch_samples` and what would fit, where anything would; with a comma.
        lower: String,
    },
    /// Used in a process forked after it was made.
    #[error(
        "this receiver was made in process {made_in}, not here: make it after fork, or use the \
         spawn start method"
    )]
    Forked {
        /// Process id of the maker.
        made_in: u32,
    },
    /// No checkpoint to go on from, or none that can be read or written.
    #[error(transparent)]
    Checkpoint(#[from] crate::checkpoint::CheckpointError),
    /// Called by the trainer's own `amax_reduce`, for whose end it would wait.
    #[error(
        "this call would wait for the `amax_reduce` that is running on this thread: call it between batches"
    )]
    Busy,
    /// Batches cannot be put on the GPU.
    #[error("receiver.device: {0}")]
    Device(#[from] headwater_cuda::CudaError),
    /// The receiver was closed, or its own thread has ended.
    #[error("the receiver is closed: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
}
