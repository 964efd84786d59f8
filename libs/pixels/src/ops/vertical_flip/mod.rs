//! Vertical flip.

pub mod plain;

use headwater_core::op::FlippedDown;

use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::ops::context::{Apply, OpContext};

// === impl FlippedDown ===

impl Apply for FlippedDown {
    /// Rows are moved as they are: there is nothing that other instructions would do faster.
    fn apply(self, _context: &mut OpContext, view: &mut Planes) {
        plain::apply(view);
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.push(KernelOp::plain(kernels::VERTICAL_FLIP));
    }
}
