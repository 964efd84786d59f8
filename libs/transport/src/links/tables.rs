//! What follows from the table of links.

/// [`LinkKind`](super::LinkKind), in the order in which links are tried; each with its type and its name. A build
/// that leaves a link out knows its name all the same.
macro_rules! links {
    ($($(#[$built:meta])? $kind:ident($link:path) = $name:literal,)+) => {
        /// Which data path.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LinkKind {
            $(#[doc = concat!("The link `", $name, "`.")] $kind,)+
        }

        impl LinkKind {
            /// All, in the order in which they are tried.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Which names a list of links may have.
            const RULE: &'static str = concat!("must be one of", $(" \"", $name, "\""),+);

            /// Name in configuration, on the wire and in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// The kind of a given name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|kind| kind.name() == name)
            }

            /// The link; `None`: this program was built without it.
            fn link(self) -> Option<&'static dyn Link> {
                match self {
                    $($(#[$built])? Self::$kind => Some(&$link),)+
                    #[allow(unreachable_patterns)] // Unless a link was left out.
                    _ => None,
                }
            }
        }
    };
}
