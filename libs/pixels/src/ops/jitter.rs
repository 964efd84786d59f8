//! Colour jitter: brightness, contrast, saturation and hue, each by itself or one after the other.

use headwater_core::op::{Enhanced, Jitter, JitterStep};

use super::apply::Apply;
use super::{brightness, contrast, hue, saturation};
use crate::image::Planes;
use crate::kernels::{self, KernelOp};
use crate::simd::Simd;

// === impl Jitter ===

impl Apply for Jitter {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        self.steps().for_each(|(step, by)| adjust(simd, view, step, by));
    }

    fn records(self, to: &mut Vec<KernelOp>) {
        to.extend(self.steps().map(|(step, by)| match step {
            JitterStep::Brightness => KernelOp::factor(kernels::BRIGHTNESS, by),
            JitterStep::Contrast => KernelOp::factor(kernels::CONTRAST, by),
            JitterStep::Saturation => KernelOp::factor(kernels::SATURATION, by),
            JitterStep::Hue => KernelOp::level(kernels::HUE, hue::plain::shift_of(by).into()),
        }));
    }
}

// === impl Enhanced ===

impl Apply for Enhanced {
    type Memory = ();

    fn apply(self, simd: Simd, view: &mut Planes, _memory: &mut Self::Memory) {
        adjust(simd, view, self.step, self.factor);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

fn adjust(simd: Simd, view: &mut Planes, step: JitterStep, by: f32) {
    match step {
        JitterStep::Brightness => brightness::apply(simd, view, by),
        JitterStep::Contrast => contrast::apply(simd, view, by),
        JitterStep::Saturation => saturation::apply(simd, view, by),
        JitterStep::Hue => hue::apply(simd, view, by),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::op::DrawnOp;

    use super::*;

    #[test]
    fn a_jitter_becomes_its_records_in_its_own_order() {
        let jitter = Jitter {
            order: [
                JitterStep::Hue,
                JitterStep::Contrast,
                JitterStep::Brightness,
                JitterStep::Saturation,
            ],
            brightness: Some(0.5),
            contrast: Some(0.75),
            saturation: Some(1.25),
            hue: Some(-0.1),
        };
        let records = |jitter| {
            let mut ops = Vec::new();
            KernelOp::push(&DrawnOp::ColorJitter(jitter), &mut ops);
            ops
        };
        let all = [
            KernelOp::level(kernels::HUE, 256 - 25),
            KernelOp::factor(kernels::CONTRAST, 0.75),
            KernelOp::factor(kernels::BRIGHTNESS, 0.5),
            KernelOp::factor(kernels::SATURATION, 1.25),
        ];
        assert_eq!(records(jitter), all);
        assert_eq!(records(Jitter { hue: None, contrast: None, ..jitter }), all[2..]);
    }
}
