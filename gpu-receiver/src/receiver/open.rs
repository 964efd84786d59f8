//! Opening a receiver: manifests, the order of samples, links, slots, the driver.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_access::Access;
use headwater_core::{Layout, Recipe, hex};
use headwater_cuda::DeviceAllocator;
use headwater_interpreter::{Interpreter, SettingKeys, Settings, Trusted};
use headwater_inventory::{Cores, Machine};
use headwater_storage_client::Dataset;
use headwater_transport::ReceiverLink;
use sha2::{Digest as _, Sha256};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;

use super::{Callbacks, Receiver};
use headwater_transport::LinkKind;

use crate::autosave::{AutoSave, resumed};
use crate::client::GrpcDial;
use crate::config::{DatasetUse, ReceiverConfig, keep_to, on_cores, places};
use crate::device::DeviceSlots;
use crate::driver::{ASKS_AHEAD, Driver, DriverParts, HostLink, on_a_thread};
use crate::error::ReceiverError;
use crate::events::{DriverInbox, ways};
use crate::host::{ConnectionGuard, follow as follow_host};
use crate::identity_metrics::IdentityMetrics;
use crate::label_mix::LabelMix;
use crate::mailbox::Mailbox;
use crate::order_list::open_sampler;
use crate::peek::Peek;
use crate::position::Position;
use crate::prefetch_plan::tell_storage;
use crate::room::check_room;
use crate::sample_order::SampleOrder;
use crate::scaling::Scaling;
use crate::setup::{fetch_datasets, open_links};
use crate::slots::{SlotMaker, SlotPool};
use crate::stats::Stats;

impl Receiver {
    /// Fetches the manifests, makes slots and links, and begins to lease parts.
    ///
    /// Blocks until the storage tier has answered; not to be called on an async thread.
    ///
    /// # Errors
    /// A wrong configuration, no room for the slots, no storage tier within its limit, no link.
    pub fn open(
        config: ReceiverConfig,
        recipe: Recipe,
        datasets: &[DatasetUse],
    ) -> Result<Self, ReceiverError> {
        Self::open_with(config, recipe, datasets, Callbacks::default())
    }

    /// As [`Receiver::open`], with the trainer's help.
    ///
    /// # Errors
    /// As for [`Receiver::open`].
    pub fn open_with(
        config: ReceiverConfig,
        mut recipe: Recipe,
        datasets: &[DatasetUse],
        callbacks: Callbacks,
    ) -> Result<Self, ReceiverError> {
        let Callbacks { amax_reduce: reduce, device_allocator, order, host } = callbacks;
        config.validate()?;
        recipe.validate()?;
        find_sources(&config, &mut recipe)?;
        recipe.set_tokenizers(sha256_of)?;
        config.drawn.mask_plan(&recipe)?;
        match &host {
            // It has no slots of its own as long as it needs none.
            Some(_) => check_scaling(&recipe)?,
            None => check_room(&Machine::this(), &config, &recipe)?,
        }
        let cores = config.own_cores()?;
        let runtime = runtime(&config, cores.clone())?;
        let (manifests, handles) = runtime.block_on(fetch_datasets(&config, &recipe, datasets))?;
        let held = config.samples.verify_held.then(Arc::default);
        let sampler = open_sampler(&config, &recipe, datasets, manifests.clone(), order)?;
        let folder = config.checkpoints.folder();
        let (sampler, start, amaxes) = resumed(sampler, &config.checkpoints, config.rank, &folder)?;
        let scaling = Scaling::open(&config, &recipe, reduce, start, amaxes.as_ref())?;
        let order = Arc::new(SampleOrder::new(sampler));
        let first = order.batch_number(start.epoch, start.step);
        let autosave = AutoSave::new(&config.checkpoints, config.rank, folder, first);
        let names = manifests.iter().map(|manifest| manifest.dataset().to_owned());
        let shown = IdentityMetrics::open(&config, names.collect());
        shown.place(start);
        let (driver, inbox) = ways();
        let mut receiver = Self {
            mailbox: Arc::new(Mailbox::new(start)),
            order,
            stats: Arc::new(Stats::of(shown)),
            manifests,
            peek: Peek::new(recipe.clone()),
            label_mix: LabelMix::new(&config),
            recipe,
            scaling: Arc::new(scaling),
            config,
            driver,
            commanding: Mutex::new(()),
            autosave,
            held,
            runtime: None,
            ended: Mutex::new(None),
            following: Mutex::new(None),
            waits_since: Mutex::new(None),
            made_in: std::process::id(),
        };
        on_cores(cores.as_ref(), || {
            runtime.block_on(receiver.start(start, inbox, handles, device_allocator, host))
        })?;
        receiver.runtime = Some(runtime);
        Ok(receiver)
    }

    async fn start(
        &self,
        start: Position,
        inbox: DriverInbox,
        datasets: Vec<Dataset>,
        allocator: Option<Box<dyn DeviceAllocator>>,
        host: Option<OwnedFd>,
    ) -> Result<(), ReceiverError> {
        let access = Access::open(&self.config.security)?;
        if access.encrypts_data()
            && self.config.links.iter().any(|link| link == LinkKind::Tcp.name())
            && let Err(reason) = access.check_name(&self.config.link_settings.tcp_host())
        {
            tracing::warn!(reason, "no worker will accept this receiver's tcp link");
        }
        let layout = Layout::largest(&self.recipe, self.config.batch_samples);
        let slots_bytes = layout.len_bytes() * self.config.window.slots_limit() as u64;
        let twins = DeviceSlots::open(
            &self.config.device,
            &self.recipe,
            self.config.batch_samples,
            allocator,
        )?;
        let open = open_links(&self.config, &access, slots_bytes, &self.driver.events).await?;
        let mut slots = self.slots(&layout, twins, open);
        let window = self.config.window.window_batches as usize + 1;
        let host = match host {
            Some(connection) => Some(self.join_host(connection)?),
            None => {
                slots.reserve(window)?;
                None
            }
        };
        let links = slots.offer();
        let parts = DriverParts {
            recipe: self.recipe.clone(),
            manifests: self.manifests.clone(),
            order: Arc::clone(&self.order),
            mailbox: Arc::clone(&self.mailbox),
            stats: Arc::clone(&self.stats),
            scaling: Arc::clone(&self.scaling),
            links,
            slots,
            dial: Arc::new(GrpcDial { access }),
            events: self.driver.events.clone(),
            start_cpu: on_a_thread,
            start,
            host,
        };
        let driver = Driver::new(&self.config, parts)?;
        tokio::spawn(tell_storage(Arc::clone(&self.order), datasets, driver.ordered()));
        let (end, ended) = std::sync::mpsc::channel();
        tokio::spawn(async move {
            driver.run(inbox).await;
            let _ = end.send(());
        });
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        self.follow(places("workers", &self.config.workers)?, &Handle::current());
        Ok(())
    }

    /// Begins to ask the service of this host.
    fn join_host(&self, connection: OwnedFd) -> Result<HostLink, ReceiverError> {
        let failed = |error: std::io::Error| ReceiverError::Closed { reason: error.to_string() };
        let tie = ConnectionGuard::new(&connection).map_err(failed)?;
        let (words, said) = mpsc::channel(ASKS_AHEAD);
        let events = self.driver.events.clone();
        tokio::spawn(follow_host(connection, tie, said, events));
        let (config, recipe) = (self.config.clone(), self.recipe.clone());
        let make_room = move |slots: &mut SlotPool| {
            check_room(&Machine::this(), &config, &recipe)?;
            slots.reserve(config.window.window_batches as usize + 1)
        };
        Ok(HostLink { words, make_room: Box::new(make_room) })
    }

    /// Slots for batches of this layout or a smaller one; none is made yet.
    fn slots(
        &self,
        layout: &Layout,
        twins: Option<DeviceSlots>,
        links: Vec<Arc<dyn ReceiverLink>>,
    ) -> SlotPool {
        let make = SlotMaker {
            len_bytes: layout.len_bytes(),
            // The service of a host hands its slots out.
            shared: self.config.window.host_share
                || links.iter().any(|link| link.kind().facts().needs_shared_slots),
            huge_pages: self.config.window.huge_pages,
            twins,
            exportable: links.iter().any(|link| link.kind().facts().imports_slots),
            gpudirect: self.config.device.gpudirect,
        };
        SlotPool::new(make, links, self.config.window.slots_limit())
    }
}

/// The receiver's own threads, kept to `cores`.
fn runtime(config: &ReceiverConfig, cores: Option<Cores>) -> Result<Runtime, ReceiverError> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(config.threads as usize).thread_name("hw-receiver").enable_all();
    if let Some(cores) = cores {
        threads.on_thread_start(move || keep_to(&cores));
    }
    let failed = |error| ReceiverError::Closed { reason: format!("no threads: {error}") };
    threads.build().map_err(failed)
}

/// Writes the sources of Python functions into the recipe, where it does not say what they are.
fn find_sources(config: &ReceiverConfig, recipe: &mut Recipe) -> Result<(), ReceiverError> {
    let mut modules = BTreeMap::<String, Vec<String>>::new();
    for found in recipe.python_functions().filter(|function| function.sha256.is_empty()) {
        modules.entry(found.module().to_owned()).or_default().push(found.function().to_owned());
    }
    let settings = Settings {
        python: config.samples.python.clone(),
        folders: config.samples.python_path.clone(),
        // The recipe is this process's own.
        trusted: Trusted::new(modules.keys().cloned().collect(), "the recipe"),
        timeout: Duration::from_millis(config.leases.worker_wait_ms.into()),
        // No function is called.
        bad_sample_errors: Vec::new(),
        keys: SettingKeys {
            python: "receiver.python",
            timeout: "receiver.worker_wait_ms",
            bad_sample_errors: "augment.python_bad_sample_errors",
        },
    };
    let mut python = Interpreter::new(settings);
    for (module, functions) in modules {
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        let source = python.source(&module, &functions).map_err(|error| ReceiverError::Python {
            module: module.clone(),
            reason: error.to_string(),
        })?;
        recipe.set_python_source(&module, &source.sha256);
    }
    Ok(())
}

/// SHA-256 of a tokenizer's file, by which workers know theirs.
fn sha256_of(path: &str) -> Result<String, ReceiverError> {
    let file = std::fs::read(path).map_err(|error| ReceiverError::Tokenizer {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(hex(&Sha256::digest(&file)))
}

/// Delayed scales follow from what one trial has taken: no other one has the same.
fn check_scaling(recipe: &Recipe) -> Result<(), ReceiverError> {
    if recipe.delayed_scaling().is_none() {
        return Ok(());
    }
    let rule = "with recipe.fp8.scaling = \"delayed\" scales follow from each trial's own batches: set \
                it to false, or use scaling = \"static\"";
    Err(ReceiverError::Config { key: "host_share", value: "true".into(), rule })
}
