//! The definition: `normalise(to_tensor(view)).abs().max()`.

use crate::image::Planes;
use crate::ops::cast::Normalise;

/// The largest magnitude of the view's normalised values; 0 for a view without pixels.
#[must_use]
pub fn of_view(view: &Planes, normalise: &Normalise) -> f32 {
    let planes = view.planes().into_iter().enumerate();
    let values = planes.flat_map(|(channel, plane)| {
        plane.iter().map(move |&level| normalise.value(channel, level).abs())
    });
    values.fold(0.0, f32::max)
}
