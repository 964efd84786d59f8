//! DLPack: memory handed to other array libraries without a copy.
//!
//! Layouts and rules: <https://dmlc.github.io/dlpack/latest/c_api.html> and `python_spec.html`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use headwater_core::Dtype;
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// `DLDevice`: type and number.
pub(crate) type Device = (i32, i32);
/// `kDLCPU`; there is one such device.
pub(crate) const CPU: Device = (1, 0);
/// `kDLCUDA`.
pub(crate) const CUDA: i32 = 2;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const FLAG_READ_ONLY: u64 = 1;
/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
const FLAG_IS_COPIED: u64 = 2;
/// The first version with FP8 types; consumers compare the major number.
const VERSION: Version = Version { major: 1, minor: 1 };

const NAME_VERSIONED: &CStr = c"dltensor_versioned";
const NAME_LEGACY: &CStr = c"dltensor";

/// Memory to hand out, and what keeps it valid. Both are dropped by the consumer, on any thread,
/// with or without the interpreter's lock: so the keeper may hold nothing of Python's.
pub(crate) struct Export {
    /// Address of the first element, on `device`.
    pub(crate) data: *mut u8,
    /// Whose memory it is.
    pub(crate) device: Device,
    /// Elements along each axis, C order.
    pub(crate) shape: Vec<i64>,
    /// Type of the elements.
    pub(crate) dtype: Dtype,
    /// Keeps the memory.
    pub(crate) keeper: Box<dyn Send + Sync>,
    /// The memory is the consumer's own.
    pub(crate) copied: bool,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Legacy {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What `context` points to: the arrays that the tensor points to, and the keeper.
struct Context {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _keeper: Box<dyn Send + Sync>,
}

// === impl Export ===

impl Export {
    /// A capsule that a consumer takes over; what nobody takes over is freed with the capsule.
    ///
    /// # Errors
    /// Python has no memory for it.
    pub(crate) fn into_capsule(
        self,
        py: Python<'_>,
        versioned: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        let read_only = if self.copied { FLAG_IS_COPIED } else { FLAG_READ_ONLY };
        let (tensor, context) = self.into_tensor();
        let context = Box::into_raw(context).cast();
        if versioned {
            let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
            let managed =
                Versioned { version: VERSION, context, deleter, flags: read_only, tensor };
            let pointer = NonNull::from(Box::leak(Box::new(managed))).cast();
            // SAFETY: `pointer` stays valid until `drop_versioned` or the consumer calls the
            // deleter; both may run on any thread, as `Context` is `Send`.
            unsafe {
                let end = Some(drop_versioned as _);
                PyCapsule::new_with_pointer_and_destructor(py, pointer, NAME_VERSIONED, end)
            }
        } else {
            let deleter = Some(delete_legacy as unsafe extern "C" fn(_));
            let managed = Legacy { tensor, context, deleter };
            let pointer = NonNull::from(Box::leak(Box::new(managed))).cast();
            // SAFETY: as above, with `drop_legacy`.
            unsafe {
                let end = Some(drop_legacy as _);
                PyCapsule::new_with_pointer_and_destructor(py, pointer, NAME_LEGACY, end)
            }
        }
        .map(Bound::into_any)
    }

    fn into_tensor(self) -> (Tensor, Box<Context>) {
        let mut strides: Vec<i64> = Vec::with_capacity(self.shape.len());
        let mut elements = 1;
        for &dim in self.shape.iter().rev() {
            strides.push(elements);
            elements *= dim;
        }
        strides.reverse();
        let mut context = Box::new(Context { shape: self.shape, strides, _keeper: self.keeper });
        let (code, bits) = code_and_bits(self.dtype);
        let tensor = Tensor {
            data: self.data.cast(),
            device_type: self.device.0,
            device_id: self.device.1,
            ndim: context.shape.len() as i32,
            code,
            bits,
            lanes: 1,
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        (tensor, context)
    }
}

/// `DLDataTypeCode` and bits: kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6,
/// kDLFloat8_e4m3fn 10, kDLFloat8_e8m0fnu 14.
fn code_and_bits(dtype: Dtype) -> (u8, u8) {
    match dtype {
        Dtype::I8 => (0, 8),
        Dtype::I16 => (0, 16),
        Dtype::I32 => (0, 32),
        Dtype::I64 => (0, 64),
        Dtype::U8 => (1, 8),
        Dtype::U16 => (1, 16),
        Dtype::U32 => (1, 32),
        Dtype::F16 => (2, 16),
        Dtype::F32 => (2, 32),
        Dtype::F64 => (2, 64),
        Dtype::Bf16 => (4, 16),
        Dtype::Bool => (6, 8),
        Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 => (10, 8),
        Dtype::E8m0 => (14, 8),
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: the protocol calls a deleter once, with the pointer it came with, which
    // `into_capsule` made with `Box`, as it did the context.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    // SAFETY: as in `delete_versioned`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut PyObject) {
    // SAFETY: Python calls this with the lock held and a live capsule; a pointer that the function
    // returns was put there by `into_capsule`.
    unsafe {
        if let Some(managed) = untaken(capsule, NAME_VERSIONED) {
            delete_versioned(managed.cast());
        }
    }
}

unsafe extern "C" fn drop_legacy(capsule: *mut PyObject) {
    // SAFETY: as in `drop_versioned`.
    unsafe {
        if let Some(managed) = untaken(capsule, NAME_LEGACY) {
            delete_legacy(managed.cast());
        }
    }
}

/// What the capsule still owns: a consumer that takes it over renames the capsule.
///
/// # Safety
/// `capsule` is a live capsule, and the interpreter's lock is held.
unsafe fn untaken(capsule: *mut PyObject, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: both functions only read the capsule, which the caller vouches for; asking
    // `IsValid` first keeps `GetPointer` from setting an exception.
    let pointer = unsafe {
        match PyCapsule_IsValid(capsule, name.as_ptr()) {
            0 => ptr::null_mut(),
            _ => PyCapsule_GetPointer(capsule, name.as_ptr()),
        }
    };
    (!pointer.is_null()).then_some(pointer)
}
