//! One sample of a batch as people see it: where it is from, and how each of its views is made.

use headwater_core::draw::{Extent, SampleParams, ViewParams};
use headwater_core::op::DrawnOp;
use headwater_core::{Manifest, Recipe, SampleRef};
use headwater_render::RenderKey;
use headwater_render::boxes::{BoxView, SampleBoxes};
use serde::Serialize;

/// One sample.
#[derive(Clone, Debug, Serialize)]
pub struct SampleView {
    /// Name of its dataset.
    pub dataset: String,
    /// File name of its shard.
    pub shard: String,
    /// Number in the shard of the sample that was asked for, from 0.
    pub index: u32,
    /// How often its dataset had been gone through in the epoch before.
    pub pass: u32,
    /// Key of the sample that is there.
    pub key: String,
    /// Its label; -1 where it has none.
    pub label: i64,
    /// Why the sample that was asked for is not the one that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substitution: Option<Substitution>,
    /// Size of the whole image; none where it is not decoded, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Extent>,
    /// What is done to all of it first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_ops: Vec<DrawnOp>,
    /// Cuts that views are made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ViewParams>,
    /// Its views, over all tensors.
    pub views: Vec<NamedView>,
    /// What follows these views: masks, depth and boxes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<Follower>,
}

/// A view of another field, or the boxes of a view.
#[derive(Clone, Debug, Serialize)]
pub struct Follower {
    /// Name of its tensor.
    pub tensor: String,
    /// Its number in the tensor, from 0: that of the view that it follows.
    pub view: usize,
    /// The sample's field.
    pub field: String,
    /// The tensor whose views it follows.
    pub like: String,
    /// Size of the view of another image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Extent>,
    /// Which of the sample's boxes are in the view, where they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boxes: Option<Vec<usize>>,
}

/// One sample stands for another.
#[derive(Clone, Debug, Serialize)]
pub struct Substitution {
    /// Number in the shard of the sample that is there.
    pub used_index: u32,
    /// What is wrong with the one that was asked for.
    pub reason: String,
}

/// One view.
#[derive(Clone, Debug, Serialize)]
pub struct NamedView {
    /// Name of its tensor.
    pub tensor: String,
    /// Its number in the tensor, from 0.
    pub view: usize,
    /// How it is made.
    #[serde(flatten)]
    pub params: ViewParams,
}

/// What a sample's draws follow from, besides the sample.
#[derive(Clone, Copy, Debug)]
pub struct DrawSource<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// `receiver.seed`.
    pub seed: u64,
    /// The epoch.
    pub epoch: u32,
}

// === impl SampleView ===

impl SampleView {
    /// The sample `asked` without its draws.
    ///
    /// # Panics
    /// It is not in the manifest.
    #[must_use]
    pub fn new(manifest: &Manifest, asked: &SampleRef, key: String, label: i64) -> Self {
        Self {
            dataset: manifest.dataset().to_owned(),
            shard: manifest.shards()[asked.shard as usize].name.clone(),
            index: asked.index,
            pass: asked.pass,
            key,
            label,
            substitution: None,
            image: None,
            image_ops: Vec::new(),
            bases: Vec::new(),
            views: Vec::new(),
            followers: Vec::new(),
        }
    }

    /// Draws the views of an image of size `image`, as a worker does.
    ///
    /// # Panics
    /// The sample is not in the manifest.
    pub fn draw(
        &mut self,
        source: DrawSource<'_>,
        manifest: &Manifest,
        asked: &SampleRef,
        image: Extent,
    ) {
        let DrawSource { recipe, seed, epoch } = source;
        let sample = manifest.sample_id(asked).expect("its manifest has it");
        let key = RenderKey { seed, epoch, pass: asked.pass, sample };
        let mut drawn = SampleParams::default();
        drawn.draw(recipe, image, |stream| key.view(stream).rng());
        self.image = Some(image);
        self.image_ops = drawn.image_ops().to_vec();
        self.bases = drawn.bases().to_vec();
        let names = recipe.tensors.iter().flat_map(|tensor| {
            (0..tensor.views.len()).map(move |view| (tensor.name.clone(), view))
        });
        let views = names.zip(drawn.views().iter().cloned());
        self.views =
            views.map(|((tensor, view), params)| NamedView { tensor, view, params }).collect();
        self.follow(recipe, &[]);
    }

    /// Lists what follows the views that were drawn. `boxes` are those of the sample, one entry for each of the
    /// recipe's; empty where they were not read.
    pub fn follow(&mut self, recipe: &Recipe, boxes: &[SampleBoxes]) {
        self.followers.clear();
        for spec in &recipe.aligned {
            let (field, size) = (&spec.field, Some(spec.extent()));
            for view in 0..recipe.views_of(&spec.like).len() {
                let (tensor, field, like) = (spec.name.clone(), field.clone(), spec.like.clone());
                self.followers.push(Follower { tensor, view, field, like, size, boxes: None });
            }
        }
        for (number, spec) in recipe.boxes.iter().enumerate() {
            let of = |view: &NamedView| {
                let tensor = recipe.tensors.iter().find(|tensor| tensor.name == view.tensor)?;
                let (crop, extent) = (&tensor.views.get(view.view)?.crop, tensor.extent());
                let place = BoxView { crop, params: &view.params, extent };
                let found = boxes.get(number)?.in_view(spec, &place);
                Some(found.map(|found| found.index).collect())
            };
            for view in self.views.iter().filter(|view| view.tensor == spec.like) {
                self.followers.push(Follower {
                    tensor: spec.name.clone(),
                    view: view.view,
                    field: spec.field.clone(),
                    like: spec.like.clone(),
                    size: None,
                    boxes: of(view),
                });
            }
        }
    }
}
