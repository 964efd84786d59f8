//! Declares tables of a library's functions.

/// Declares a table of C functions, each with its name in the library.
///
/// Tests fill such a struct with functions of their own: the code above it cannot tell.
///
/// # Safety
/// Each type is the one that the library's header declares for that name. `unsafe extern "C"`
/// claims that, and a SAFETY note above it says from which header the types are.
///
/// ```
/// headwater_dylib::functions! {
///     /// What is used of the C library.
///     #[derive(Clone, Debug)]
///     pub(crate) struct Functions;
///     // SAFETY: the types are those of `stdlib.h`.
///     unsafe extern "C" {
///         /// The absolute value.
///         abs: fn(i32) -> i32 = "abs";
///     }
///     optional {
///         /// Not in every version.
///         fresh: fn(i32) -> i32 = "a_function_of_next_year";
///     }
/// }
///
/// let libc = headwater_dylib::Dylib { what: "libc", sonames: &["libc.so.6"], remedy: "" };
/// let (functions, _) = libc.load::<Functions>().unwrap();
/// // SAFETY: any number may be given.
/// assert_eq!(unsafe { (functions.abs)(-3) }, 3);
/// assert!(functions.fresh.is_none());
/// ```
#[macro_export]
macro_rules! functions {
    (
        $(#[$table_doc:meta])*
        $vis:vis struct $Table:ident;
        unsafe extern "C" {
            $($(#[$doc:meta])* $name:ident: fn($($arg:ty),* $(,)?) $(-> $ret:ty)? = $symbol:literal;)+
        }
        $(optional {
            $($(#[$odoc:meta])* $oname:ident: fn($($oarg:ty),* $(,)?) $(-> $oret:ty)? = $osymbol:literal;)+
        })?
    ) => {
        $(#[$table_doc])*
        $vis struct $Table {
            $($(#[$doc])* $vis $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)+
            $($($(#[$odoc])* $vis $oname: Option<unsafe extern "C" fn($($oarg),*) $(-> $oret)?>,)+)?
        }

        impl $crate::FunctionTable for $Table {
            fn fill(library: &$crate::Opened) -> Result<Self, String> {
                // SAFETY: the types are those of the library's header, as whoever declares the table
                // claims with `unsafe extern "C"`.
                unsafe {
                    Ok(Self {
                        $($name: library.function($symbol).ok_or_else(|| $symbol.to_owned())?,)+
                        $($($oname: library.function($osymbol),)+)?
                    })
                }
            }
        }
    };
}
