//! Opening a library under one of its names.

use std::error::Error as _;
use std::fmt;

use crate::error::DylibError;
use crate::signals::KeptSignals;

/// A library that some machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dylib {
    /// What people call it.
    pub what: &'static str,
    /// File names. The first that can be used is taken.
    pub sonames: &'static [&'static str],
    /// How to install it.
    pub remedy: &'static str,
}

/// A library that is open until the process ends.
#[derive(Clone, Copy)]
pub struct Opened {
    soname: &'static str,
    handle: &'static libloading::Library,
}

/// A struct with one field for each function of a library. [`functions!`](crate::functions)
/// declares such structs.
pub trait FunctionTable: Sized {
    /// Looks all functions up.
    ///
    /// # Errors
    /// The name of the first function that the library lacks.
    fn fill(library: &Opened) -> Result<Self, String>;
}

/// Why a file of a library cannot be used.
struct Refusal {
    is_absent: bool,
    reason: String,
}

// === impl Dylib ===

impl Dylib {
    /// Opens the first of its files that the system's loader takes.
    ///
    /// # Errors
    /// No file exists, or none opens.
    pub fn open(&self) -> Result<Opened, DylibError> {
        self.first(Ok)
    }

    /// Opens the first of its files that has all functions of a table.
    ///
    /// # Errors
    /// No file exists, or none opens and has all functions.
    pub fn load<T: FunctionTable>(&self) -> Result<(T, Opened), DylibError> {
        self.first(|opened| {
            let table = T::fill(&opened);
            table.map(|table| (table, opened)).map_err(|symbol| opened.lacks(&symbol))
        })
    }

    /// As [`Dylib::load`], of those files that `judge` has nothing to say against.
    ///
    /// # Errors
    /// No file exists, or none opens, has all functions, and is accepted.
    pub fn load_accepted<T: FunctionTable>(
        &self,
        judge: impl Fn(&T) -> Result<(), String>,
    ) -> Result<(T, Opened), DylibError> {
        self.first(|opened| {
            let table = T::fill(&opened).map_err(|symbol| opened.lacks(&symbol))?;
            judge(&table).map_err(|reason| format!("{}: {reason}", opened.soname))?;
            Ok((table, opened))
        })
    }

    /// Opens the file that [`Dylib::open`] opens, and checks that it has these functions. For
    /// libraries that somebody else opens by the same names in the same order.
    ///
    /// # Errors
    /// No file exists, none opens, or the one that opens lacks a function.
    pub fn open_with(&self, symbols: &[&str]) -> Result<Opened, DylibError> {
        let opened = self.open()?;
        let lacking = symbols.iter().find(|symbol| !opened.has(symbol));
        lacking.map_or(Ok(opened), |symbol| {
            let (what, remedy) = (self.what, self.remedy);
            Err(DylibError::Unusable { what, reason: opened.lacks(symbol), remedy })
        })
    }

    /// What `judge` makes of the first file that it accepts.
    fn first<T>(&self, judge: impl Fn(Opened) -> Result<T, String>) -> Result<T, DylibError> {
        let mut refusals = Vec::new();
        for soname in self.sonames {
            let broken = |reason| Refusal { is_absent: false, reason };
            match open(soname).and_then(|opened| judge(opened).map_err(broken)) {
                Ok(accepted) => return Ok(accepted),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let broken = refusals.iter().find(|refusal| !refusal.is_absent);
        let told = broken.or(refusals.first()).map(|refusal| refusal.reason.clone());
        let (what, remedy, reason) = (self.what, self.remedy, told.unwrap_or_default());
        Err(match broken {
            Some(_) => DylibError::Unusable { what, reason, remedy },
            None => DylibError::Absent { what, reason, remedy },
        })
    }
}

fn open(soname: &'static str) -> Result<Opened, Refusal> {
    let signals = KeptSignals::take();
    // SAFETY: this runs the library's initialisers. Those of the known libraries ask nothing of the
    // process but signal handlers (UCX), which are put back below. Whoever puts another library of
    // this name into the search path can run code in this process in any case.
    let opened = unsafe { libloading::Library::new(soname) };
    drop(signals);
    match opened {
        // Never closed: threads and memory hooks of these libraries outlive every handle.
        Ok(library) => Ok(Opened { soname, handle: Box::leak(Box::new(library)) }),
        Err(error) => {
            // The crate wraps what the loader said.
            let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            // The same words about another file mean that the library needs that file.
            let is_absent =
                said.starts_with(&format!("{soname}: ")) && said.contains("No such file");
            Err(Refusal { is_absent, reason: said })
        }
    }
}

// === impl Opened ===

impl Opened {
    /// The file name under which it was found.
    #[must_use]
    pub fn soname(&self) -> &'static str {
        self.soname
    }

    /// Whether it has a function of this name.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        // SAFETY: the address is only compared with null, never called.
        unsafe { self.function::<*const ()>(symbol) }.is_some()
    }

    /// The function of this name.
    ///
    /// # Safety
    /// `F` is a pointer to a function of the type that the library's header declares.
    #[must_use]
    pub unsafe fn function<F: Copy>(&self, symbol: &str) -> Option<F> {
        // SAFETY: the caller vouches for the type; the library stays open, so the pointer stays valid.
        unsafe { self.handle.get::<F>(symbol).ok().map(|found| *found) }
    }

    fn lacks(&self, symbol: &str) -> String {
        format!("{}: it has no {symbol}", self.soname)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.soname).finish()
    }
}
