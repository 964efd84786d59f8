//! Which modules may be imported.

use crate::CallError;

/// Names of modules. What is in a package that is named may be imported too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    modules: Vec<String>,
    /// The key that lists them, for errors.
    key: &'static str,
}

// === impl Trusted ===

impl Trusted {
    /// The modules that a key of the configuration names.
    #[must_use]
    pub fn new(modules: Vec<String>, key: &'static str) -> Self {
        Self { modules, key }
    }

    pub(crate) fn modules(&self) -> &[String] {
        &self.modules
    }

    /// Checks the module of a name `package.module:function`.
    ///
    /// # Errors
    /// It is not named.
    pub fn check(&self, name: &str) -> Result<(), CallError> {
        let module = name.split_once(':').map_or(name, |(module, _)| module);
        let holds = |named: &String| {
            let rest = module.strip_prefix(named.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.modules.iter().any(holds) {
            return Ok(());
        }
        Err(CallError::NotNamed { module: module.to_owned(), key: self.key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_trusted_by_its_own_name_or_its_packages() {
        let trusted =
            Trusted::new(vec!["mine.ops".into(), "other".into()], "augment.python_modules");
        for good in ["mine.ops:f", "mine.ops.deep:f", "other:f", "other.x:A.f"] {
            assert!(trusted.check(good).is_ok(), "{good}");
        }
        for bad in ["mine:f", "mine.ops2:f", "os:system", "", ":f", "others:f"] {
            assert!(trusted.check(bad).is_err(), "{bad}");
        }
        let refused = trusted.check("os:system").expect_err("not named").to_string();
        assert_eq!(
            refused,
            "module `os` is not in augment.python_modules: name it there if you trust it"
        );
    }
}
