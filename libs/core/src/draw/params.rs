//! What was drawn for a view.

use serde::{Deserialize, Serialize};

use crate::filter::Filter;
use crate::geometry::{CropBox, Extent, Origin};
use crate::op::DrawnOp;
use crate::padding::Padding;

/// All that is random about one view of one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewParams {
    /// Number of the base from which the view is made, in place of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<usize>,
    /// The box that is cut.
    pub crop: CropBox,
    /// Size to which the whole box is resized.
    pub resized: Extent,
    /// Position of the view in the resized box. The view's size is the tensor's, or that of the box in a tensor of
    /// patches; it ends within the resized box. Pixels outside the view are never computed.
    pub window: Origin,
    /// The operations whose gate opened, in order, with their drawn values.
    pub ops: Vec<DrawnOp>,
    /// Where the view is cut out after the operations, which are then done to all of the resized
    /// box; `window` is its top left corner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Origin>,
    /// The filter of the resize.
    #[serde(default, skip_serializing_if = "Filter::is_bicubic")]
    pub filter: Filter,
    /// The area around the box, if the view is larger than the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
}

// === impl ViewParams ===

impl ViewParams {
    /// The whole image at its own size, unchanged: a place for [`crate::recipe::ViewSpec::draw_into`].
    #[must_use]
    pub fn whole(image: Extent) -> Self {
        Self {
            base: None,
            crop: CropBox::whole(image),
            resized: image,
            window: Origin::default(),
            ops: Vec::new(),
            cut: None,
            filter: Filter::Bicubic,
            padding: None,
        }
    }
}
