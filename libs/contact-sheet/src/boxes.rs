//! Boxes on the views that they follow.

use headwater_core::Recipe;
use headwater_core::recipe::BoxesSpec;

use crate::Pictured;

/// Boxes of the views of one tensor, for all rows of the batch.
pub(crate) struct Boxes {
    most: usize,
    corners: Vec<u8>,
    counts: Vec<u8>,
    indices: Vec<u8>,
}

/// A box of a view.
pub(crate) struct Drawn {
    /// Which of the sample's boxes it is.
    pub(crate) index: i64,
    /// Left, top, right, bottom, in pixels of the view.
    pub(crate) corners: [f32; 4],
}

// === impl Boxes ===

impl Boxes {
    /// All boxes that follow the tensor `like`.
    ///
    /// # Errors
    /// The batch lies on a GPU that does not give it back.
    pub(crate) fn of<P: Pictured>(
        batch: &P,
        recipe: &Recipe,
        like: &str,
    ) -> Result<Vec<Self>, P::Error> {
        let bytes = |name: &str| {
            let tensor = batch.layout().tensors().iter().find(|tensor| tensor.name == name);
            tensor
                .map(|tensor| batch.tensor_bytes(tensor))
                .transpose()
                .map(Option::unwrap_or_default)
        };
        let followers = recipe.boxes.iter().filter(|spec| spec.like == like);
        let read = |spec: &BoxesSpec| {
            Ok(Self {
                most: spec.boxes_max as usize,
                corners: bytes(&spec.name)?,
                counts: bytes(&spec.count_name())?,
                indices: bytes(&spec.index_name())?,
            })
        };
        followers.map(read).collect()
    }

    /// The boxes of a row.
    pub(crate) fn in_row(&self, row: usize) -> impl Iterator<Item = Drawn> {
        let numbers = |bytes: &[u8], at: usize| {
            let number = bytes.as_chunks::<8>().0.get(at);
            number.map_or(0, |&number| i64::from_le_bytes(number))
        };
        let count = numbers(&self.counts, row).max(0) as usize;
        let values = self.corners.as_chunks::<4>().0;
        (0..count.min(self.most)).map(move |number| {
            let at = row * self.most + number;
            let corner = |corner: usize| values.get(4 * at + corner).copied().unwrap_or_default();
            let corners = std::array::from_fn(|at| f32::from_le_bytes(corner(at)));
            Drawn { index: numbers(&self.indices, at), corners }
        })
    }
}
