//! Normal noise on levels.

pub mod plain;

use headwater_core::op::Noised;

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::context::{Apply, OpContext};

// === impl Noised ===

impl Apply for Noised {
    fn apply(self, _context: &mut OpContext, view: &mut Planes) {
        plain::apply(view, self.mean, self.sigma, self.seed);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
