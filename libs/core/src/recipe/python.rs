//! The user's own Python functions as operations.

use super::spec::Recipe;
use crate::op::{FunctionId, OpSpec, Python};

/// A function that a recipe calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonFunction<'a> {
    /// Its name, `package.module:function`.
    pub name: &'a str,
    /// SHA-256 of the module's source, in hexadecimal digits; empty until the source is read.
    pub sha256: &'a str,
}

// === impl PythonFunction ===

impl<'a> PythonFunction<'a> {
    /// The module, as it is imported.
    #[must_use]
    pub fn module(&self) -> &'a str {
        self.name.split_once(':').map_or(self.name, |(module, _)| module)
    }

    /// Its name within the module.
    #[must_use]
    pub fn function(&self) -> &'a str {
        self.name.split_once(':').map_or("", |(_, function)| function)
    }
}

// === impl Recipe ===

impl Recipe {
    /// The Python functions that it calls, as often as it names them.
    pub fn python_functions(&self) -> impl Iterator<Item = PythonFunction<'_>> {
        self.ops().filter_map(|op| match op {
            OpSpec::Python(Python { function, sha256, .. }) => {
                Some(PythonFunction { name: function, sha256 })
            }
            _ => None,
        })
    }

    /// A function that was drawn.
    #[must_use]
    pub fn python_function(&self, id: FunctionId) -> Option<PythonFunction<'_>> {
        self.python_functions().find(|found| FunctionId::of(found.name) == id)
    }

    /// Writes the digest of a module's source into all of its functions that do not have one.
    pub fn set_python_source(&mut self, module: &str, source: &str) {
        let bases = self.bases.iter_mut().map(|base| &mut base.view.ops);
        let views = self.tensors.iter_mut().flat_map(|tensor| &mut tensor.views);
        let ops = bases.chain(views.map(|view| &mut view.ops)).flatten();
        for op in ops.chain(&mut self.image_ops) {
            if let OpSpec::Python(Python { function, sha256, .. }) = op
                && sha256.is_empty()
                && function.split_once(':').is_some_and(|(found, _)| found == module)
            {
                source.clone_into(sha256);
            }
        }
    }

    fn ops(&self) -> impl Iterator<Item = &OpSpec> {
        let bases = self.bases.iter().map(|base| &base.view.ops);
        let views = self.tensors.iter().flat_map(|tensor| &tensor.views);
        let ops = bases.chain(views.map(|view| &view.ops)).flatten();
        ops.chain(&self.image_ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    fn recipe(function: &str, sha256: &str) -> Recipe {
        let mut recipe = Recipe::preset("imagenet-train", Dtype::U8).expect("a preset");
        let (function, sha256) = (function.to_owned(), sha256.to_owned());
        recipe.tensors[0].views[0].ops.push(OpSpec::Python(Python { p: 1.0, function, sha256 }));
        recipe
    }

    #[test]
    fn a_function_has_a_module_and_a_name() {
        for good in ["m:f", "a.b.c:f", "mine_2:Class.method", "_m:_f"] {
            assert!(recipe(good, "").validate().is_ok(), "{good}");
        }
        for bad in ["", "f", "m:", ":f", "m:f:g", "m.:f", "m:2f", "m f:g", "../m:f", "m:f()"] {
            let error = recipe(bad, "").validate().expect_err("not a function").to_string();
            assert!(error.starts_with("`recipe.tensors[0].views[0].ops[1].function`"), "{error}");
        }
        for bad in ["ab", &"A".repeat(64), &"g".repeat(64)] {
            let error = recipe("m:f", bad).validate().expect_err("no digest").to_string();
            assert!(error.contains("].sha256` is"), "{error}");
        }
    }

    #[test]
    fn the_source_of_its_module_is_part_of_what_a_recipe_is() {
        let bare = recipe("a.b:f", "");
        let written = serde_json::to_string(&bare).expect("plain data");
        assert!(!written.contains("sha256"), "{written}");
        let mut sourced = bare.clone();
        sourced.set_python_source("a", &"1".repeat(64));
        assert_eq!(sourced, bare, "another module");
        sourced.set_python_source("a.b", &"1".repeat(64));
        sourced.set_python_source("a.b", &"2".repeat(64));
        assert_eq!(sourced, recipe("a.b:f", &"1".repeat(64)), "what is written stays");
        assert_ne!(sourced.digest(), bare.digest());
        let drawn = |name| sourced.python_function(FunctionId::of(name)).map(|found| found.name);
        assert_eq!((drawn("a.b:f"), drawn("a.b:g")), (Some("a.b:f"), None));
        assert_eq!(sourced.python_functions().next().map(|found| found.module()), Some("a.b"));
    }
}
