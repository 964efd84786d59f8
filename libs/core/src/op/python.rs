//! A function of the user's own in Python.

use serde::{Deserialize, Serialize};

use super::{Drawn, DrawnOp, Motion, Operation, Reach};
use crate::Digester;
use crate::draw::DrawRng;
use crate::geometry::Extent;
use crate::recipe::{RecipeError, wrong};

/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// The user's own Python function, `function(array, rng)`, with the view as a uint8 array
/// `[height, width, 3]` and numpy's `default_rng`, seeded from the coordinates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Python {
    /// Probability.
    pub p: f64,
    /// Its name, `package.module:function`. Workers call it if they trust its module.
    pub function: String,
    /// SHA-256 of the module's source, in hexadecimal digits. The receiver writes it if it is
    /// left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

/// A call of one of the recipe's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonCall {
    /// Which one.
    pub function: FunctionId,
    /// What its generator is seeded with.
    pub seed: [u64; 2],
}

/// Which function of a recipe a draw is for: a digest of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FunctionId(u64);

// === impl Python ===

impl Operation for Python {
    fn example() -> Self {
        Self { p: 1.0, function: "package.module:function".to_owned(), sha256: String::new() }
    }

    fn reach(&self) -> Reach {
        Reach::Unknown
    }

    fn has_kernel(&self) -> bool {
        false
    }

    fn probability(&self) -> Option<f64> {
        Some(self.p)
    }

    fn validate(&self, at: &str) -> Result<(), RecipeError> {
        let Self { function, sha256, .. } = self;
        let is_identifier = |part: &str| {
            !part.is_empty()
                && !part.starts_with(|c: char| c.is_ascii_digit())
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let is_path = |path: &str| path.split('.').all(is_identifier);
        if !function.split_once(':').is_some_and(|(module, name)| is_path(module) && is_path(name))
        {
            let rule = "must be \"package.module:function\"";
            return Err(wrong(format!("{at}.function"), function, rule));
        }
        if !sha256.is_empty() && !is_sha256(sha256) {
            let rule = "must be 64 hexadecimal digits, or left out";
            return Err(wrong(format!("{at}.sha256"), sha256, rule));
        }
        Ok(())
    }

    fn draw(&self, _view: Extent, rng: &mut DrawRng, to: &mut Vec<DrawnOp>) {
        let function = FunctionId::of(&self.function);
        to.push(PythonCall { function, seed: [rng.word(), rng.word()] }.into());
    }
}

/// Whether it is a SHA-256 in hexadecimal digits, small letters.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == SHA256_DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

// === impl PythonCall ===

impl Drawn for PythonCall {
    fn text(&self) -> String {
        let [high, low] = self.seed;
        format!("python (default_rng([{high}, {low}]))")
    }

    fn motion(&self) -> Motion {
        Motion::Stays
    }
}

// === impl FunctionId ===

impl FunctionId {
    /// The function of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let mut digester = Digester::new("headwater python function 1");
        digester.bytes(name.as_bytes());
        Self(digester.finish().0 as u64)
    }
}
