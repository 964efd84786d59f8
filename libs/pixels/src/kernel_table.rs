//! The numbers of kernels' operations, and their calls, from one table.

/// Constants for whoever writes operations, `CALLS` for who reads them.
macro_rules! kernels {
    ($($name:ident = $number:literal: $kind:ident $call:literal,)+) => {
        $(pub(crate) const $name: u32 = $number;)+

        /// The calls, after all operations.
        pub const CALLS: &str = concat!(
            "__device__ Pixel change_one(Pixel pixel, const Op& op, u8 mean) {\n",
            "    switch (op.kind) {\n",
            $(pixel_call!($kind $number $call),)+
            "    }\n    return pixel;\n}\n\n",
            "__device__ bool is_of_view(u32 kind) { return false",
            $(view_number!($kind $number),)+
            "; }\n\n",
            "__device__ bool needs_mean(u32 kind) { return false",
            $(mean_number!($kind $number),)+
            "; }\n\n",
            "__device__ void change_view(const u8* from, u8* to, u32 width, u32 height, const Op& op) {\n",
            "    switch (op.kind) {\n",
            $(view_call!($kind $number $call),)+
            "    }\n}\n\n",
        );

        impl KernelOp {
            /// Whether it looks at other pixels than its own, so that the view must be kept somewhere.
            #[must_use]
            pub fn looks_around(&self) -> bool {
                match self.kind {
                    $($number => looks_around!($kind),)+
                    _ => false,
                }
            }
        }
    };
}

macro_rules! pixel_call {
    (pixel $number:literal $call:literal) => {
        concat!("        case ", $number, "u: return ", $call, ";\n")
    };
    (mean $number:literal $call:literal) => {
        pixel_call!(pixel $number $call)
    };
    (view $number:literal $call:literal) => {
        ""
    };
}

macro_rules! view_call {
    (view $number:literal $call:literal) => {
        concat!("        case ", $number, "u: ", $call, "; break;\n")
    };
    (pixel $number:literal $call:literal) => {
        ""
    };
    (mean $number:literal $call:literal) => {
        ""
    };
}

macro_rules! view_number {
    (view $number:literal) => {
        concat!(" || kind == ", $number, "u")
    };
    (pixel $number:literal) => {
        ""
    };
    (mean $number:literal) => {
        ""
    };
}

macro_rules! mean_number {
    (mean $number:literal) => {
        concat!(" || kind == ", $number, "u")
    };
    (pixel $number:literal) => {
        ""
    };
    (view $number:literal) => {
        ""
    };
}

macro_rules! looks_around {
    (pixel) => {
        false
    };
    (mean) => {
        true
    };
    (view) => {
        true
    };
}
