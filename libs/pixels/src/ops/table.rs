//! Which operations there are, from one table.

/// The two questions, handed on to the operation.
macro_rules! operations {
    ($($name:ident: $memory:ident,)+) => {
        impl OpContext {
            /// Does an operation to a view. Not those of others: boxes are erased from normalised values, by the cast, and
            /// functions in Python are called by the renderer.
            pub fn apply(&mut self, op: &DrawnOp, view: &mut Planes) {
                match *op {
                    $(DrawnOp::$name(op) => op.apply(self.simd, view, &mut self.$memory),)+
                    DrawnOp::Erase(_) | DrawnOp::Python(_) => {}
                }
            }
        }

        impl KernelOp {
            /// Appends the records of an operation for kernels: nothing where GPUs cannot do it, and up to four records
            /// of a jitter.
            pub fn push(op: &DrawnOp, to: &mut Vec<Self>) {
                match *op {
                    $(DrawnOp::$name(op) => op.records(to),)+
                    DrawnOp::Erase(_) | DrawnOp::Python(_) => {}
                }
            }
        }
    };
}
