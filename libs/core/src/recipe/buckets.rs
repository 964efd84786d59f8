//! Sizes of an image tensor that batches choose from, by the group of their samples.

use super::error::{RecipeError, wrong};
use super::spec::{BucketsSpec, Recipe, TensorSpec};
use crate::geometry::Extent;

/// Largest number of sizes of a tensor.
pub const BUCKETS_MAX: usize = 256;
/// Operations and views of all sizes together: a worker keeps a plan of each size.
const OPS_OF_ALL_BUCKETS_MAX: usize = 1 << 16;

// === impl Recipe ===

impl Recipe {
    /// Whether batches differ in size, as groups of a list say.
    #[must_use]
    pub fn has_buckets(&self) -> bool {
        !self.aspect_buckets.is_empty()
    }

    /// Number of recipes in this one: the number of sizes of its tensors with `aspect_buckets`, or of the lengths of its
    /// sequences, and 1 without them.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        let of_sequences = self.sequences.as_ref().map(|spec| spec.lengths.len());
        let of_sizes = self.aspect_buckets.first().map(|spec| spec.sizes.len());
        of_sequences.or(of_sizes).unwrap_or(1) as u32
    }

    /// The bucket of batches of a group: the group if batches differ in size, and 0 otherwise.
    #[must_use]
    pub fn bucket_of(&self, group: Option<u32>) -> u32 {
        // A list may have groups of its own, beside sequences of one length.
        if self.has_buckets() || self.buckets() > 1 { group.unwrap_or(0) } else { 0 }
    }

    /// The recipe of batches of one bucket: the same with one size for each tensor. Tensors of other fields have the
    /// size of the tensor that they follow.
    ///
    /// # Panics
    /// There is no such bucket.
    #[must_use]
    pub fn in_bucket(&self, bucket: u32) -> Self {
        assert!(bucket < self.buckets(), "bucket {bucket} of {}", self.buckets());
        let mut recipe = self.clone();
        if let Some(spec) = &mut recipe.sequences {
            let length = spec.lengths[bucket as usize];
            let [height, width] = spec.extent(length);
            spec.lengths = vec![length];
            for image in recipe.tensors.iter_mut().filter(|image| image.name == spec.tensor) {
                (image.height, image.width) = (height, width);
            }
        }
        for BucketsSpec { tensor, sizes } in std::mem::take(&mut recipe.aspect_buckets) {
            let [height, width] = sizes[bucket as usize];
            for image in recipe.tensors.iter_mut().filter(|image| image.name == tensor) {
                (image.height, image.width) = (height, width);
            }
            for follower in recipe.aligned.iter_mut().filter(|follower| follower.like == tensor) {
                (follower.height, follower.width) = (height, width);
            }
        }
        recipe
    }

    /// The recipes of all buckets, in order.
    pub fn each_bucket(&self) -> impl ExactSizeIterator<Item = Self> {
        (0..self.buckets()).map(|bucket| self.in_bucket(bucket))
    }

    pub(super) fn validate_buckets(&self) -> Result<(), RecipeError> {
        for (number, spec) in self.aspect_buckets.iter().enumerate() {
            let key = format!("tensors.{}.aspect_buckets", spec.tensor);
            let tensor = self.tensors.iter().find(|tensor| tensor.name == spec.tensor);
            let Some(tensor) = tensor else {
                return Err(wrong(key, "given", "must belong to an image tensor of the recipe"));
            };
            let others = &self.aspect_buckets[..number];
            if others.iter().any(|other| other.tensor == spec.tensor) {
                return Err(wrong(key, "given twice", "must be given once for each tensor"));
            }
            self.validate_sizes(&key, tensor, &spec.sizes)?;
        }
        let views = self.tensors.iter().flat_map(|tensor| &tensor.views);
        let views = views.chain(self.bases.iter().map(|base| &base.view));
        let ops: usize = self.image_ops.len() + views.map(|view| 1 + view.ops.len()).sum::<usize>();
        if self.buckets() > 1 && ops * self.buckets() as usize > OPS_OF_ALL_BUCKETS_MAX {
            let of_sizes = self.aspect_buckets.first().map(|spec| (&spec.tensor, "aspect_buckets"));
            let of_lengths = self.sequences.as_ref().map(|spec| (&spec.tensor, "sequence_lengths"));
            let (tensor, list) = of_sizes.or(of_lengths).expect("one of both makes buckets");
            let key = format!("tensors.{tensor}.{list}");
            let rule = format!(
                "sizes times operations and views, {ops}, must be {OPS_OF_ALL_BUCKETS_MAX} at most"
            );
            return Err(wrong(key, format!("a list of {}", self.buckets()), rule));
        }
        for bucket in 0..self.buckets() {
            if let (Some(BucketsSpec { tensor, sizes }), Err(error)) =
                (self.aspect_buckets.first(), self.check_bucket(bucket))
            {
                let key = format!("tensors.{tensor}.aspect_buckets[{bucket}]");
                let rule = format!("with the sizes of this group {error}");
                return Err(wrong(key, format!("{:?}", sizes[bucket as usize]), rule));
            }
        }
        Ok(())
    }

    fn check_bucket(&self, bucket: u32) -> Result<(), RecipeError> {
        if self.has_buckets() { self.in_bucket(bucket).validate() } else { Ok(()) }
    }

    fn validate_sizes(
        &self,
        key: &str,
        tensor: &TensorSpec,
        sizes: &[[u32; 2]],
    ) -> Result<(), RecipeError> {
        let (count, first) = (sizes.len(), &self.aspect_buckets[0]);
        if !(1..=BUCKETS_MAX).contains(&count) {
            return Err(wrong(key.to_owned(), format!("a list of {count}"), "give 1 to 256 sizes"));
        }
        if count != first.sizes.len() {
            let rule = format!(
                "must have as many sizes as tensor `{}`, {}: group `g` chooses size `g` of each tensor",
                first.tensor,
                first.sizes.len()
            );
            return Err(wrong(key.to_owned(), format!("a list of {count}"), rule));
        }
        if sizes[0] != [tensor.height, tensor.width] {
            let rule = format!(
                "must begin with the tensor's own height and width, [{}, {}]",
                tensor.height, tensor.width
            );
            return Err(wrong(key.to_owned(), format!("a list from {:?}", sizes[0]), rule));
        }
        let has_own_size = |follower: &&super::AlignedSpec| {
            follower.like == tensor.name && follower.extent() != tensor.extent()
        };
        if let Some(follower) = self.aligned.iter().find(has_own_size) {
            let rule = format!(
                "must be left out, as width: `{}`, which it follows, has aspect_buckets, and it has the same \
                 size in each of them",
                tensor.name
            );
            let key = format!("tensors.{}.height", follower.name);
            return Err(wrong(key, follower.height, rule));
        }
        Ok(())
    }
}

/// The size, height and width, whose aspect ratio is nearest to an image's: the least `|ln(width / height of the
/// image) - ln(width / height of the size)|`, and of equal ones the first.
///
/// Compared as fractions of whole numbers, so every machine finds the same one.
///
/// # Panics
/// There is no size, or a side is 0.
#[must_use]
pub fn nearest_bucket(image: Extent, sizes: &[[u32; 2]]) -> u32 {
    // The absolute logarithm of a ratio grows with the larger of the ratio and its inverse.
    let unlike = |&[height, width]: &[u32; 2]| {
        let wide = u128::from(image.width) * u128::from(height);
        let tall = u128::from(image.height) * u128::from(width);
        assert!(wide > 0 && tall > 0, "an image and a size have no side of 0");
        (wide.max(tall), wide.min(tall))
    };
    let less = |one: (u128, u128), other: (u128, u128)| one.0 * other.1 < other.0 * one.1;
    let mut best = (0, unlike(&sizes[0]));
    for (at, size) in (0..).zip(sizes) {
        let found = unlike(size);
        if less(found, best.1) {
            best = (at, found);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::super::{AlignedSpec, Interpolation};
    use super::*;
    use crate::{Dtype, Layout};

    fn with_sizes(preset: &str, sizes: &[[u32; 2]]) -> Recipe {
        let mut recipe = Recipe::preset(preset, Dtype::U8).expect("a preset");
        let tensor = &mut recipe.tensors[0];
        [tensor.height, tensor.width] = sizes.first().copied().unwrap_or([224, 224]);
        let tensor = tensor.name.clone();
        recipe.aspect_buckets = vec![BucketsSpec { tensor, sizes: sizes.to_vec() }];
        recipe
    }

    fn mask(height: u32, width: u32) -> AlignedSpec {
        AlignedSpec {
            name: "mask".into(),
            field: "png".into(),
            like: "images".into(),
            channels: 1,
            dtype: Dtype::U8,
            height,
            width,
            interpolation: Interpolation::Nearest,
            scale: 1.0,
            offset: 0.0,
            fill: 0,
        }
    }

    fn refused(recipe: &Recipe) -> String {
        recipe.validate().expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_recipe_that_would_fill_a_worker_with_plans_is_refused() {
        let sizes: Vec<[u32; 2]> = (0..256).map(|at| [64 + at, 64]).collect();
        let mut recipe = with_sizes("imagenet-train", &sizes);
        recipe.validate().expect("it is right");
        let ops = &mut recipe.tensors[0].views[0].ops;
        let op = ops[0].clone();
        ops.resize(256, op);
        let said = refused(&recipe);
        assert!(said.contains("aspect_buckets") && said.contains("65536 at most"), "{said}");
    }

    #[test]
    fn a_bucket_is_the_same_recipe_with_its_own_size() {
        let sizes = [[64, 96], [96, 64], [80, 80]];
        let mut recipe = with_sizes("imagenet-train", &sizes);
        recipe.aligned.push(mask(64, 96));
        recipe.validate().expect("it is right");
        assert_eq!((recipe.has_buckets(), recipe.buckets()), (true, 3));
        let plain = Recipe { aspect_buckets: Vec::new(), ..recipe.clone() };
        assert_eq!(recipe.in_bucket(0), plain);
        for (bucket, [height, width]) in (0..).zip(sizes) {
            let mut expected = plain.clone();
            (expected.tensors[0].height, expected.tensors[0].width) = (height, width);
            (expected.aligned[0].height, expected.aligned[0].width) = (height, width);
            assert_eq!(recipe.in_bucket(bucket), expected);
            assert_eq!(recipe.bucket_of(Some(bucket)), bucket);
        }
        assert_eq!(recipe.each_bucket().len(), 3);
        // A recipe of one size has one bucket, whatever the group is.
        assert_eq!((plain.buckets(), plain.bucket_of(Some(7))), (1, 0));
        assert_eq!(plain.in_bucket(0), plain);
        assert_eq!(plain.bucket_of(None), 0);
    }

    #[test]
    fn the_sizes_are_in_the_digest_and_their_order_is_too() {
        let digest = |sizes: &[[u32; 2]]| with_sizes("imagenet-train", sizes).digest();
        let plain = with_sizes("imagenet-train", &[[64, 96]]).in_bucket(0).digest();
        let digests = [
            plain,
            digest(&[[64, 96]]),
            digest(&[[64, 96], [96, 64]]),
            digest(&[[64, 96], [96, 64], [80, 80]]),
            digest(&[[64, 96], [80, 80], [96, 64]]),
        ];
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "digest {at} came before");
        }
        let recipe = with_sizes("imagenet-train", &[[64, 96], [96, 64]]);
        let json = serde_json::to_string(&recipe).expect("plain data");
        assert_eq!(serde_json::from_str::<Recipe>(&json).expect("a recipe"), recipe);
    }

    #[test]
    fn the_largest_layout_holds_every_bucket() {
        let recipe = with_sizes("imagenet-train", &[[64, 96], [96, 128], [80, 80]]);
        let largest = Layout::largest(&recipe, 5);
        assert_eq!(largest, Layout::new(&recipe.in_bucket(1), 5));
        for bucket in recipe.each_bucket() {
            assert!(Layout::new(&bucket, 5).len_bytes() <= largest.len_bytes());
        }
        let plain = recipe.in_bucket(2);
        assert_eq!(Layout::largest(&plain, 5), Layout::new(&plain, 5));
    }

    #[test]
    fn an_image_has_the_size_of_the_nearest_aspect_ratio() {
        let sizes = [[512, 512], [384, 640], [640, 384], [256, 256]];
        let nearest = |width, height| nearest_bucket(Extent { width, height }, &sizes);
        assert_eq!([nearest(100, 100), nearest(640, 384), nearest(3, 5)], [0, 1, 2]);
        assert_eq!([nearest(10_000, 1), nearest(1, 10_000)], [1, 2]);
        // Halfway between 1 and 5 / 3 is their geometric mean, 1.29099.
        assert_eq!([nearest(1290, 1000), nearest(1291, 1000)], [0, 1]);
        assert_eq!([nearest(1000, 1290), nearest(1000, 1291)], [0, 2]);
        // Halfway between two sizes the first one is taken, for all sizes.
        let sizes = [[1, 1], [1, 4], [2, 1]];
        assert_eq!(
            nearest_bucket(Extent { width: u32::MAX - 1, height: (u32::MAX - 1) / 2 }, &sizes),
            0
        );
        for width in 1..60_u32 {
            for height in 1..60 {
                let log = |width: f64, height: f64| (width / height).ln();
                let image = log(width.into(), height.into());
                let apart = sizes.map(|[h, w]| (image - log(w.into(), h.into())).abs());
                let found = apart[nearest_bucket(Extent { width, height }, &sizes) as usize];
                let least = apart.iter().copied().fold(f64::INFINITY, f64::min);
                assert!(found - least < 1e-12, "{width} x {height}: {found}, not {least}");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_by_name() {
        let wrong = |sizes: &[[u32; 2]]| refused(&with_sizes("imagenet-train", sizes));
        assert!(wrong(&[]).contains("give 1 to 256 sizes"));
        assert!(wrong(&[[8, 8]; 257]).contains("is a list of 257"));
        let said = wrong(&[[64, 96], [4097, 8]]);
        assert!(said.contains("aspect_buckets[1]` is [4097, 8]"), "{said}");
        assert!(said.contains("`recipe.tensors[0].height` is 4097"), "{said}");
        // imagenet-eval resizes the shorter side to 256 and cuts the centre.
        let said = refused(&with_sizes("imagenet-eval", &[[224, 224], [224, 288]]));
        assert!(said.contains("aspect_buckets[1]` is [224, 288]"), "{said}");
        assert!(said.contains("must be at least 288"), "{said}");

        let good = with_sizes("imagenet-train", &[[64, 96], [96, 64]]);
        let mut other = good.clone();
        other.tensors[0].height = 65;
        assert!(
            refused(&other).contains("must begin with the tensor's own height and width, [65, 96]")
        );
        let mut other = good.clone();
        other.aspect_buckets[0].tensor = "photos".into();
        assert!(refused(&other).contains("tensors.photos.aspect_buckets` is given: must belong"));
        let mut other = good.clone();
        other.aspect_buckets.push(good.aspect_buckets[0].clone());
        assert!(refused(&other).contains("is given twice"));
        let mut other = good.clone();
        other.aligned.push(mask(32, 48));
        assert!(refused(&other).contains("tensors.mask.height` is 32: must be left out"));

        let mut two = with_sizes("dinov2", &[[64, 96], [96, 64]]);
        let sizes = vec![[32, 32]];
        (two.tensors[1].height, two.tensors[1].width) = (32, 32);
        two.aspect_buckets.push(BucketsSpec { tensor: two.tensors[1].name.clone(), sizes });
        let said = refused(&two);
        assert!(said.contains("must have as many sizes as tensor `global_crops`, 2"), "{said}");
    }
}
