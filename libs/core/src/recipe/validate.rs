//! What makes a recipe usable.

use super::error::{RecipeError, wrong};
use super::raw::RawSpec;
use super::spec::{BaseSpec, CropSpec, Recipe, TensorSpec, ViewSpec};
use crate::Dtype;
use crate::geometry::Extent;
use crate::op::{Erase, EraseMode, OpSpec, Reach, range};

/// Largest height or width of a view, in pixels.
pub(super) const VIEW_SIDE_MAX: u32 = 4096;
/// Largest number of views of a sample.
pub(super) const VIEWS_MAX: usize = 256;
/// Largest limit on the bytes of a sample.
const RAW_BYTES_LIMIT: u32 = 1 << 26;
/// Largest number of bases of a sample.
const BASES_MAX: usize = 16;

impl Recipe {
    /// Checks every value.
    ///
    /// # Errors
    /// The first key whose value is out of range.
    pub fn validate(&self) -> Result<(), RecipeError> {
        if let Some(RawSpec { bytes_max }) = self.raw
            && !(1..=RAW_BYTES_LIMIT).contains(&bytes_max)
        {
            return Err(wrong("raw_bytes_max".into(), bytes_max, "must be from 1 to 67108864"));
        }
        if self.tensors.is_empty() && self.raw.is_none() && self.fields.is_empty() {
            return Err(wrong("tensors".into(), "empty", "give one tensor at least"));
        }
        let views = self.views_per_sample();
        if views > VIEWS_MAX {
            return Err(wrong("tensors.views".into(), views, "at most 256 views in all"));
        }
        for (channel, (&mean, &std)) in self.mean.iter().zip(&self.std).enumerate() {
            // In the unit of pixels from 0 to 255 a whole training would see next to nothing.
            if !(mean.is_finite() && mean <= 1.0) {
                let rule = "must be a share of 255, 1 at most: divide it by 255";
                return Err(wrong(format!("mean[{channel}]"), mean, rule));
            }
            if !(std.is_finite() && std > 0.0) {
                return Err(wrong(format!("std[{channel}]"), std, "must be above 0"));
            }
        }
        self.fp8.validate()?;
        self.validate_decoder()?;
        self.decode_limits.validate()?;
        for (index, op) in self.image_ops.iter().enumerate() {
            validate_image_op(&format!("image_ops[{index}]"), op)?;
        }
        if self.bases.len() > BASES_MAX {
            return Err(wrong("bases".into(), self.bases.len(), "at most 16"));
        }
        for (index, base) in self.bases.iter().enumerate() {
            self.validate_base(index, base)?;
        }
        for (index, tensor) in self.tensors.iter().enumerate() {
            self.validate_tensor(&format!("tensors[{index}]"), tensor)?;
        }
        self.validate_fields()?;
        (0..self.bases.len()).try_for_each(|base| self.validate_use(base))?;
        self.validate_aligned()?;
        self.validate_boxes()?;
        self.geometry.iter().try_for_each(|spec| spec.validate(self))?;
        self.validate_names()?;
        self.validate_sequences()?;
        self.validate_buckets()
    }

    fn validate_decoder(&self) -> Result<(), RecipeError> {
        let wrong = |key: &str, value: String, rule| Err(wrong(key.into(), value, rule));
        let load = self.hw_decoder_load;
        if !(0.0..=1.0).contains(&load) {
            return wrong("hw_decoder_load", load.to_string(), "must be from 0 to 1");
        }
        if self.decoder.is_turbojpeg() && load > 0.0 {
            let rule = "is for decoder = \"nvjpeg\": the processor has no engines";
            return wrong("hw_decoder_load", load.to_string(), rule);
        }
        if !self.decoder.is_turbojpeg() && !self.decode_scaling.is_off() {
            let rule = "must be \"off\" with decoder = \"nvjpeg\", which decodes whole images";
            return wrong("decode_scaling", "auto".into(), rule);
        }
        Ok(())
    }

    fn validate_base(&self, index: usize, base: &BaseSpec) -> Result<(), RecipeError> {
        let at = format!("bases[{index}]");
        validate_sides(&at, base.height, base.width)?;
        if base.view.crop.base().is_some() {
            let rule = "must be cut from the image: a base is not made of another one";
            return Err(wrong(format!("{at}.view.crop.base"), "given", rule));
        }
        if let Some(number) = base.view.ops.iter().position(is_erase) {
            let rule = "belongs to views of tensors: a base is not normalised";
            return Err(wrong(format!("{at}.view.ops[{number}].op"), "erase", rule));
        }
        self.validate_view(&format!("{at}.view"), &base.view, base.extent())
    }

    /// A base without views would cost its work for nothing.
    fn validate_use(&self, base: usize) -> Result<(), RecipeError> {
        let mut views = self.tensors.iter().flat_map(|tensor| &tensor.views);
        if views.any(|view| view.crop.base() == Some(base)) {
            return Ok(());
        }
        let rule = "must be named by the crop of a view at least";
        Err(wrong(format!("bases[{base}]"), "not used", rule))
    }

    fn validate_view(&self, at: &str, view: &ViewSpec, extent: Extent) -> Result<(), RecipeError> {
        self.validate_crop(&format!("{at}.crop"), &view.crop, extent)?;
        for (number, op) in view.ops.iter().enumerate() {
            op.validate(&format!("{at}.ops[{number}]"))?;
        }
        Ok(())
    }

    fn validate_tensor(&self, at: &str, tensor: &TensorSpec) -> Result<(), RecipeError> {
        validate_name(&format!("{at}.name"), &tensor.name)?;
        if !tensor.dtype.is_for_images() {
            return Err(wrong(format!("{at}.dtype"), tensor.dtype, "not a dtype for images"));
        }
        // Sequences are not views of that size; their own rules are checked with them.
        if self.sequences_of(&tensor.name).is_none() {
            validate_sides(at, tensor.height, tensor.width)?;
        }
        if tensor.views.is_empty() {
            return Err(wrong(format!("{at}.views"), "empty", "give one view at least"));
        }
        for (index, view) in tensor.views.iter().enumerate() {
            validate_erasing(&format!("{at}.views[{index}]"), &view.ops, tensor.dtype)?;
            self.validate_view(&format!("{at}.views[{index}]"), view, tensor.extent())?;
        }
        Ok(())
    }

    fn validate_crop(&self, at: &str, crop: &CropSpec, view: Extent) -> Result<(), RecipeError> {
        let side = view.width.max(view.height);
        match *crop {
            CropSpec::RandomResized { scale, ratio } => {
                range(format!("{at}.scale"), scale, [f64::MIN_POSITIVE, 1.0])?;
                range(format!("{at}.ratio"), ratio, [1e-3, 1e3])
            }
            CropSpec::Sequence { max_ratio } => validate_max_ratio(at, max_ratio),
            CropSpec::RandomResizedSequence { scale, ratio, max_ratio } => {
                range(format!("{at}.scale"), scale, [f64::MIN_POSITIVE, 1.0])?;
                range(format!("{at}.ratio"), ratio, [1e-3, 1e3])?;
                validate_max_ratio(at, max_ratio)
            }
            CropSpec::Resize {} | CropSpec::Center { .. } => Ok(()),
            CropSpec::Random { padding, .. } if padding > VIEW_SIDE_MAX => {
                Err(wrong(format!("{at}.padding"), padding, "must be from 0 to 4096"))
            }
            CropSpec::Random { .. } => Ok(()),
            CropSpec::CenterAfterResize { resize } | CropSpec::RandomAfterResize { resize }
                if !(1..=VIEW_SIDE_MAX).contains(&resize) =>
            {
                Err(wrong(format!("{at}.resize"), resize, "must be from 1 to 4096"))
            }
            CropSpec::CenterAfterResize { resize } | CropSpec::RandomAfterResize { resize }
                if resize < side =>
            {
                let rule = format!(
                    "must be at least {side}, the longer side of the tensor: a view is never padded"
                );
                Err(wrong(format!("{at}.resize"), resize, rule))
            }
            CropSpec::CenterAfterResize { .. } | CropSpec::RandomAfterResize { .. } => Ok(()),
            CropSpec::Base { base } => self.base(at, base).map(drop),
            CropSpec::WindowOfBase { base, within, stride } => {
                let Extent { width, height } = self.base(at, base)?.extent();
                let shorter = width.min(height);
                if within > shorter {
                    let rule = format!("must be at most {shorter}, the shorter side of the base");
                    return Err(wrong(format!("{at}.within"), within, rule));
                }
                let most = within.saturating_sub(side);
                if stride == 0 || most < stride {
                    let rule = format!(
                        "must be from 1 to {most}, `within` less the longer side of the tensor"
                    );
                    return Err(wrong(format!("{at}.stride"), stride, rule));
                }
                Ok(())
            }
        }
    }

    fn base(&self, at: &str, base: usize) -> Result<&BaseSpec, RecipeError> {
        let missing = || wrong(format!("{at}.base"), base, "must be the number of one of `bases`");
        self.bases.get(base).ok_or_else(missing)
    }
}

/// Names of tensors are identifiers.
pub(super) fn validate_name(key: &str, name: &str) -> Result<(), RecipeError> {
    let identifier = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if identifier {
        return Ok(());
    }
    Err(wrong(key.to_owned(), name, "letters, digits and _ only"))
}

pub(super) fn validate_sides(at: &str, height: u32, width: u32) -> Result<(), RecipeError> {
    for (key, side) in [("height", height), ("width", width)] {
        if !(1..=VIEW_SIDE_MAX).contains(&side) {
            return Err(wrong(format!("{at}.{key}"), side, "must be from 1 to 4096"));
        }
    }
    Ok(())
}

fn validate_max_ratio(at: &str, max_ratio: Option<f64>) -> Result<(), RecipeError> {
    match max_ratio.filter(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        Some(ratio) => Err(wrong(format!("{at}.max_ratio"), ratio, "must be above 0")),
        None => Ok(()),
    }
}

/// Operations on the whole image change only colours. Others depend on a view's size.
fn validate_image_op(at: &str, op: &OpSpec) -> Result<(), RecipeError> {
    if matches!(op.reach(), Reach::Colours | Reach::Unknown) {
        return op.validate(at);
    }
    let rule =
        "must change colours alone, as color_jitter, grayscale or solarize: others belong to views";
    Err(wrong(format!("{at}.op"), op.name(), rule))
}

/// Boxes are erased after the view has been normalised, so nothing comes after them; noise needs a type
/// that has its values.
fn validate_erasing(at: &str, ops: &[OpSpec], dtype: Dtype) -> Result<(), RecipeError> {
    for (number, op) in ops.iter().enumerate() {
        let OpSpec::Erase(Erase { mode, .. }) = op else { continue };
        if !ops[number..].iter().all(is_erase) {
            let rule = "must be the last of the view's operations: it works on the normalised view";
            return Err(wrong(format!("{at}.ops[{number}].op"), "erase", rule));
        }
        let floats = [Dtype::F32, Dtype::Bf16, Dtype::F16];
        if *mode != EraseMode::Zero && !floats.contains(&dtype) {
            let rule =
                format!("must be zero in a tensor of {dtype}: use f32, bf16 or f16 for noise");
            return Err(wrong(format!("{at}.ops[{number}].mode"), "a noise", rule));
        }
    }
    Ok(())
}

fn is_erase(op: &OpSpec) -> bool {
    op.reach() == Reach::Normalised
}
