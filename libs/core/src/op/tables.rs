//! The enums of operations, from the tables beside their questions.

/// The enum of what recipes ask for, from a table.
macro_rules! operations {
    ($($name:ident = $key:literal,)+) => {
        /// One operation on a uint8 RGB view. Each is drawn from its own gate with probability `p`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op", deny_unknown_fields)]
        pub enum OpSpec {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                #[serde(rename = $key)]
                $name($name),
            )+
        }

        impl OpSpec {
            /// Its name in a recipe.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $key,)+
                }
            }

            /// One of each operation, in order.
            #[must_use]
            pub fn examples() -> Vec<Self> {
                vec![$(Self::$name($name::example()),)+]
            }

            fn asked(&self) -> &dyn Operation {
                match self {
                    $(Self::$name(op) => op,)+
                }
            }
        }

        $(impl From<$name> for OpSpec {
            fn from(op: $name) -> Self {
                Self::$name(op)
            }
        })+
    };
}

/// The enum of what is drawn, from a table.
macro_rules! drawn {
    ($($name:ident($drawn:ident) = $key:literal,)+) => {
        /// An operation with its drawn values.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op")]
        pub enum DrawnOp {
            $(
                #[doc = concat!("See [`", stringify!($drawn), "`].")]
                #[serde(rename = $key)]
                $name($drawn),
            )+
        }

        impl DrawnOp {
            fn drawn(&self) -> &dyn Drawn {
                match self {
                    $(Self::$name(op) => op,)+
                }
            }
        }

        $(impl From<$drawn> for DrawnOp {
            fn from(op: $drawn) -> Self {
                Self::$name(op)
            }
        })+
    };
}
