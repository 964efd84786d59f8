//! What of a batch is drawn: of its own memory, and of the copy that people are shown.

use headwater_contact_sheet::Pictured;
use headwater_core::{Layout, TensorLayout};

use crate::batch::Batch;
use crate::error::ReceiverError;
use crate::peek::Peeked;

impl Pictured for Batch {
    type Error = ReceiverError;

    fn layout(&self) -> &Layout {
        Batch::layout(self)
    }

    fn tensor_bytes(&self, tensor: &TensorLayout) -> Result<Vec<u8>, ReceiverError> {
        Batch::tensor_bytes(self, tensor)
    }

    fn fp8_scale_inv(&self, tensor: &TensorLayout) -> Option<f32> {
        self.fp8(tensor).map(|fp8| fp8.scale_inv())
    }
}

impl Pictured for Peeked {
    type Error = ReceiverError;

    fn layout(&self) -> &Layout {
        Peeked::layout(self)
    }

    fn tensor_bytes(&self, tensor: &TensorLayout) -> Result<Vec<u8>, ReceiverError> {
        Ok(Peeked::tensor_bytes(self, tensor).to_vec())
    }

    fn fp8_scale_inv(&self, tensor: &TensorLayout) -> Option<f32> {
        Peeked::fp8_scale_inv(self, tensor)
    }
}
