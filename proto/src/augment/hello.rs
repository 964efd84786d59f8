//! How a session between a receiver and a worker begins.

use headwater_core::sampler::DATASETS_MAX;
use headwater_core::{BadSamplePolicy, Digest, PartScope, PartSettings, Recipe};

use super::{MessageError, digest, fault, name, sentence};
use crate::v1;

/// Most milliseconds between heartbeats that a receiver may ask for: a worker keeps a silent one's
/// session for some heartbeats.
pub const HEARTBEAT_MS_MAX: u32 = 60_000;
/// Maximum bytes of a link's address.
const LINK_ADDRESS_MAX_BYTES: usize = 64 << 10;
/// Most links of a session: there are four kinds, and newer programs may know more.
const LINKS_MAX: usize = 64;

/// What a receiver wants of a worker, for all leases of the session.
#[derive(Clone, Debug)]
pub struct SessionHello {
    /// Version of the wire protocol the receiver speaks. To be compared, first of all.
    pub wire_version: u32,
    /// Name of the job and rank, for logs and metrics.
    pub receiver: String,
    /// Secret of the data path.
    pub session_key: [u8; 32],
    /// What is done to samples; validated, and its digest compared with the receiver's.
    pub recipe: Recipe,
    /// Seed of all draws.
    pub seed: u64,
    /// The job's datasets, in the order of `SampleRef::dataset`.
    pub datasets: Vec<DatasetRef>,
    /// Data links, best first.
    pub links: Vec<LinkOffer>,
    /// Time between heartbeats, in milliseconds; 1 to [`HEARTBEAT_MS_MAX`].
    pub heartbeat_ms: u32,
    /// What to do with a broken sample.
    pub on_bad_sample: BadSamplePolicy,
    /// Field that holds the image; `|` between alternatives.
    pub image_field: String,
    /// Field that holds the class index in ASCII; empty where there are no labels.
    pub label_field: String,
    /// Digest of everything that the order of this receiver's parts follows from: receivers with the same
    /// one want the same parts.
    pub stream: Digest,
    /// Sessions that the receiver holds with other workers; `None`: it does not say.
    pub sessions_held: Option<u32>,
}

/// A dataset and the manifest that gives its indices their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetRef {
    /// Name.
    pub name: String,
    /// Digest of the manifest.
    pub manifest: Digest,
}

/// One data link that a receiver offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOffer {
    /// `shm`, `rdma`, `ucx` or `tcp`; a kind that a worker does not know is passed over.
    pub kind: String,
    /// What the kind needs to connect.
    pub address: Vec<u8>,
}

/// What a worker's end of a link asks of the receiver's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRequest {
    /// Which link.
    pub kind: String,
    /// The link's own.
    pub request: Vec<u8>,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAnswer {
    /// The link's own.
    pub answer: Vec<u8>,
}

/// A worker's answer to [`SessionHello`].
#[derive(Clone, Debug)]
pub struct SessionWelcome {
    /// Version of the wire protocol the worker speaks.
    pub wire_version: u32,
    /// Name of the worker.
    pub worker: String,
    /// The link that was connected.
    pub link: String,
    /// Why each better link was not, one sentence each.
    pub refused_links: Vec<String>,
    /// Leases that may be open at once.
    pub credits: u32,
    /// What renders: `cpu avx512`, `cuda NVIDIA H200`.
    pub backend: String,
    /// Whether it keeps finished parts for other receivers that want the same.
    pub shares: bool,
}

// === impl SessionHello ===

impl SessionHello {
    /// What the parts of this session have in common.
    #[must_use]
    pub fn part_scope(&self) -> PartScope {
        // A worker knows nothing else about a job, and whoever adds a field decides here whether bytes
        // or labels follow from it.
        let Self {
            wire_version: _,
            receiver: _,
            session_key: _,
            recipe,
            seed,
            datasets,
            links: _,
            heartbeat_ms: _,
            on_bad_sample,
            image_field,
            label_field,
            // What a part is does not follow from who else wants it.
            stream: _,
            sessions_held: _,
        } = self;
        let manifests: Vec<Digest> = datasets.iter().map(|dataset| dataset.manifest).collect();
        PartScope::new(&PartSettings {
            recipe: recipe.digest(),
            manifests: &manifests,
            seed: *seed,
            image_field,
            label_field,
            on_bad_sample: *on_bad_sample,
        })
    }
}

impl TryFrom<v1::Hello> for SessionHello {
    type Error = MessageError;

    fn try_from(hello: v1::Hello) -> Result<Self, MessageError> {
        let recipe: Recipe = serde_json::from_str(&hello.recipe_json)
            .map_err(|error| fault("recipe_json", error.to_string()))?;
        recipe.validate().map_err(|error| fault("recipe_json", error.to_string()))?;
        if recipe.digest() != digest("recipe_digest", &hello.recipe_digest)? {
            let both = "differs from the recipe's: the two programs compute recipes differently";
            return Err(fault("recipe_digest", both));
        }
        let key: &[u8] = &hello.session_key;
        let session_key =
            key.try_into().map_err(|_| fault("session_key", "is not 32 bytes long"))?;
        if hello.datasets.is_empty() || hello.datasets.len() > DATASETS_MAX {
            let count = hello.datasets.len();
            return Err(fault("datasets", format!("has {count} entries, not 1 to {DATASETS_MAX}")));
        }
        if hello.links.len() > LINKS_MAX {
            return Err(fault("links", format!("has {} entries", hello.links.len())));
        }
        if !(1..=HEARTBEAT_MS_MAX).contains(&hello.heartbeat_ms) {
            let asked = format!("is {}, must be 1 to {HEARTBEAT_MS_MAX}", hello.heartbeat_ms);
            return Err(fault("heartbeat_ms", asked));
        }
        if hello.image_field.is_empty() {
            return Err(fault("image_field", "is empty"));
        }
        let on_bad_sample = match hello.on_bad_sample() {
            v1::BadSample::Substitute => BadSamplePolicy::Substitute,
            v1::BadSample::Fail => BadSamplePolicy::Fail,
            v1::BadSample::Unspecified => return Err(fault("on_bad_sample", "is unspecified")),
        };
        Ok(Self {
            wire_version: hello.wire_version,
            receiver: name("receiver", hello.receiver)?,
            session_key,
            recipe,
            seed: hello.seed,
            datasets: hello
                .datasets
                .into_iter()
                .map(TryFrom::try_from)
                .collect::<Result<_, _>>()?,
            links: hello.links.into_iter().map(TryFrom::try_from).collect::<Result<_, _>>()?,
            heartbeat_ms: hello.heartbeat_ms,
            on_bad_sample,
            image_field: name("image_field", hello.image_field)?,
            label_field: name("label_field", hello.label_field)?,
            stream: digest("stream", &hello.stream)?,
            sessions_held: hello.sessions_held,
        })
    }
}

impl From<SessionHello> for v1::Hello {
    fn from(hello: SessionHello) -> Self {
        let on_bad_sample = match hello.on_bad_sample {
            BadSamplePolicy::Substitute => v1::BadSample::Substitute,
            BadSamplePolicy::Fail => v1::BadSample::Fail,
        };
        Self {
            wire_version: hello.wire_version,
            receiver: hello.receiver,
            session_key: hello.session_key.to_vec().into(),
            recipe_json: serde_json::to_string(&hello.recipe).expect("a recipe is plain data"),
            recipe_digest: hello.recipe.digest().to_bytes().to_vec().into(),
            seed: hello.seed,
            datasets: hello.datasets.into_iter().map(Into::into).collect(),
            links: hello.links.into_iter().map(Into::into).collect(),
            heartbeat_ms: hello.heartbeat_ms,
            on_bad_sample: on_bad_sample.into(),
            image_field: hello.image_field,
            label_field: hello.label_field,
            stream: hello.stream.to_bytes().to_vec().into(),
            sessions_held: hello.sessions_held,
        }
    }
}

// === impl DatasetRef ===

impl TryFrom<v1::DatasetRef> for DatasetRef {
    type Error = MessageError;

    fn try_from(dataset: v1::DatasetRef) -> Result<Self, MessageError> {
        let manifest = digest("manifest_digest", &dataset.manifest_digest)?;
        Ok(Self { name: name("dataset", dataset.name)?, manifest })
    }
}

impl From<DatasetRef> for v1::DatasetRef {
    fn from(dataset: DatasetRef) -> Self {
        Self { name: dataset.name, manifest_digest: dataset.manifest.to_bytes().to_vec().into() }
    }
}

// === impl LinkOffer ===

impl TryFrom<v1::LinkOffer> for LinkOffer {
    type Error = MessageError;

    fn try_from(offer: v1::LinkOffer) -> Result<Self, MessageError> {
        if offer.address.len() > LINK_ADDRESS_MAX_BYTES {
            let rule = format!("has {} bytes, limit {LINK_ADDRESS_MAX_BYTES}", offer.address.len());
            return Err(fault("address", rule));
        }
        Ok(Self { kind: name("kind", offer.kind)?, address: offer.address.to_vec() })
    }
}

impl From<LinkOffer> for v1::LinkOffer {
    fn from(offer: LinkOffer) -> Self {
        Self { kind: offer.kind, address: offer.address.into() }
    }
}

// === impl LinkRequest ===

impl TryFrom<v1::LinkRequest> for LinkRequest {
    type Error = MessageError;

    fn try_from(request: v1::LinkRequest) -> Result<Self, MessageError> {
        let bytes = link_bytes("request", &request.request)?;
        Ok(Self { kind: name("kind", request.kind)?, request: bytes })
    }
}

impl From<LinkRequest> for v1::LinkRequest {
    fn from(request: LinkRequest) -> Self {
        Self { kind: request.kind, request: request.request.into() }
    }
}

// === impl LinkAnswer ===

impl TryFrom<v1::LinkAnswer> for LinkAnswer {
    type Error = MessageError;

    fn try_from(answer: v1::LinkAnswer) -> Result<Self, MessageError> {
        Ok(Self { answer: link_bytes("answer", &answer.answer)? })
    }
}

impl From<LinkAnswer> for v1::LinkAnswer {
    fn from(answer: LinkAnswer) -> Self {
        Self { answer: answer.answer.into() }
    }
}

/// Bytes that only a link can read: bounded here.
fn link_bytes(field: &'static str, bytes: &[u8]) -> Result<Vec<u8>, MessageError> {
    if bytes.len() > LINK_ADDRESS_MAX_BYTES {
        return Err(fault(field, format!("has {} bytes", bytes.len())));
    }
    Ok(bytes.to_vec())
}

// === impl SessionWelcome ===

impl TryFrom<v1::Welcome> for SessionWelcome {
    type Error = MessageError;

    fn try_from(welcome: v1::Welcome) -> Result<Self, MessageError> {
        let refused = welcome.refused_links;
        if refused.len() > LINKS_MAX {
            return Err(fault("refused_links", format!("has {} entries", refused.len())));
        }
        Ok(Self {
            wire_version: welcome.wire_version,
            worker: name("worker", welcome.worker)?,
            link: name("link", welcome.link)?,
            refused_links: refused.into_iter().map(sentence).collect(),
            credits: welcome.credits,
            backend: name("backend", welcome.backend)?,
            shares: welcome.shares,
        })
    }
}

impl From<SessionWelcome> for v1::Welcome {
    fn from(welcome: SessionWelcome) -> Self {
        Self {
            wire_version: welcome.wire_version,
            worker: welcome.worker,
            link: welcome.link,
            refused_links: welcome.refused_links,
            credits: welcome.credits,
            backend: welcome.backend,
            shares: welcome.shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::Dtype;
    use headwater_core::recipe::{Dinov3, PRESETS};

    use super::super::SENTENCE_MAX_BYTES;
    use super::*;

    fn hello(recipe: Recipe) -> v1::Hello {
        v1::Hello::from(SessionHello {
            wire_version: crate::WIRE_VERSION,
            receiver: "job/0".into(),
            session_key: [7; 32],
            recipe,
            seed: 1,
            datasets: vec![DatasetRef { name: "a".into(), manifest: Digest(5) }],
            links: Vec::new(),
            heartbeat_ms: 1000,
            on_bad_sample: BadSamplePolicy::Fail,
            image_field: "jpg".into(),
            label_field: String::new(),
            stream: Digest(9),
            sessions_held: None,
        })
    }

    #[test]
    fn a_recipe_arrives_as_it_was_sent() {
        let options = Dinov3 {
            gram_crops_size: Some(512),
            share_color_jitter: Some(true),
            localcrops_subset_of_globalcrops: Some(true),
            ..Dinov3::default()
        };
        let all = Recipe::dinov3("dinov3", &options, Dtype::Bf16).unwrap();
        let presets = PRESETS.iter().map(|(name, _)| Recipe::preset(name, Dtype::U8).unwrap());
        for recipe in presets.chain([all]) {
            let arrived = SessionHello::try_from(hello(recipe.clone())).unwrap().recipe;
            assert_eq!(arrived, recipe);
        }
    }

    #[test]
    fn names_longer_than_a_log_line_should_have_are_refused_at_the_door() {
        let recipe = Recipe::preset("dinov2", headwater_core::Dtype::Bf16).unwrap();
        let long = "n".repeat(10 << 20);
        let refused = |change: &dyn Fn(&mut v1::Hello)| {
            let mut hello = hello(recipe.clone());
            change(&mut hello);
            SessionHello::try_from(hello).expect_err("refused").to_string()
        };
        for (field, said) in [
            ("receiver", refused(&|hello| hello.receiver = long.clone())),
            ("image_field", refused(&|hello| hello.image_field = long.clone())),
            ("label_field", refused(&|hello| hello.label_field = long.clone())),
            ("dataset", refused(&|hello| hello.datasets[0].name = long.clone())),
        ] {
            assert!(said.contains(field) && said.contains("10485760 bytes"), "{said}");
            assert!(said.len() < 200, "{} bytes", said.len());
        }
        let welcome = v1::Welcome { worker: "w".into(), link: "tcp".into(), ..Default::default() };
        let long_worker = v1::Welcome { worker: long.clone(), ..welcome.clone() };
        assert!(SessionWelcome::try_from(long_worker).is_err());
        let sentences = v1::Welcome { refused_links: vec![long], ..welcome };
        let kept = SessionWelcome::try_from(sentences).expect("the beginning of a sentence");
        assert_eq!(kept.refused_links[0].len(), SENTENCE_MAX_BYTES + 2);
    }

    #[test]
    fn what_links_say_to_each_other_is_passed_on_within_bounds() {
        let request = LinkRequest { kind: "rdma".into(), request: vec![7; LINK_ADDRESS_MAX_BYTES] };
        let sent = v1::LinkRequest::from(request.clone());
        assert_eq!(LinkRequest::try_from(sent).unwrap(), request);
        let answer = LinkAnswer { answer: vec![9; LINK_ADDRESS_MAX_BYTES] };
        assert_eq!(LinkAnswer::try_from(v1::LinkAnswer::from(answer.clone())).unwrap(), answer);
        let long = v1::LinkAnswer { answer: vec![9; LINK_ADDRESS_MAX_BYTES + 1].into() };
        let error = LinkAnswer::try_from(long).unwrap_err().to_string();
        assert!(error.contains("`answer`") && error.contains("65537"), "{error}");
    }

    #[test]
    fn a_hello_with_more_datasets_than_a_sampler_may_have_is_refused() {
        let recipe = Recipe::preset("dinov2", Dtype::U8).unwrap();
        let with = |count: usize| {
            let mut hello = hello(recipe.clone());
            hello.datasets = vec![hello.datasets[0].clone(); count];
            SessionHello::try_from(hello).map(|hello| hello.datasets.len())
        };
        assert_eq!(with(4096).unwrap(), 4096);
        for count in [0, 4097] {
            let error = with(count).unwrap_err().to_string();
            assert!(error.contains(&format!("`datasets` has {count} entries")), "{error}");
        }
    }

    #[test]
    fn nobody_may_be_silent_for_longer_than_a_minute_between_heartbeats() {
        let with = |heartbeat_ms: u32| {
            let hello =
                v1::Hello { heartbeat_ms, ..hello(Recipe::preset("dinov2", Dtype::U8).unwrap()) };
            SessionHello::try_from(hello).map(|hello| hello.heartbeat_ms)
        };
        assert_eq!(with(60_000).unwrap(), 60_000);
        for asked in [0, 60_001, u32::MAX] {
            let error = with(asked).unwrap_err().to_string();
            assert!(error.contains(&format!("`heartbeat_ms` is {asked}")), "{error}");
        }
    }

    #[test]
    fn a_recipe_that_cannot_be_used_is_refused_on_arrival() {
        let recipe = Recipe::preset("dinov3-gram", Dtype::U8).unwrap();
        let refused = |from: &str, to: &str| {
            let mut hello = hello(recipe.clone());
            assert!(hello.recipe_json.contains(from));
            hello.recipe_json = hello.recipe_json.replace(from, to);
            SessionHello::try_from(hello).unwrap_err().to_string()
        };
        let error = refused(r#""base":1"#, r#""base":2"#);
        assert!(error.contains("recipe_json") && error.contains("crop.base"), "{error}");
        let error = refused(r#""kind":"base""#, r#""kind":"bass""#);
        assert!(error.contains("bass"), "{error}");
        let error = refused(r#""bases":"#, r#""basses":"#);
        assert!(error.contains("basses"), "{error}");
        let error = refused(r#""height":112"#, r#""height":113"#);
        assert!(error.contains("recipe_digest"), "{error}");
    }
}
