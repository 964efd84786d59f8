//! `[hub]`, and where the hub is when the section does not say.

use std::path::{Path, PathBuf};

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// The hub of datasets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct HubConfig {
    /// Folder with the datasets `CONFIDENTIALITY/MODALITY/NAME/SPLIT`. Not set: `root` under
    /// `[tool.headwater.datasets]` in `pyproject.toml`, or else the variable
    /// `HEADWATER_DATASETS_ROOT` or `DINO_DATASETS_ROOT`, or else `~/.headwater`.
    pub root: Option<PathBuf>,
}

/// Where the hub is, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubRoot {
    /// Its folder.
    pub path: PathBuf,
    /// The key, file or variable that named it.
    pub origin: String,
}

/// Where to look.
pub struct Surroundings<'a> {
    /// Working directory.
    pub folder: &'a Path,
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// dino_loader's variable comes last.
const VARIABLES: [&str; 2] = ["HEADWATER_DATASETS_ROOT", "DINO_DATASETS_ROOT"];
const PYPROJECT: &str = "pyproject.toml";
/// In the home folder.
const FOLDER_DEFAULT: &str = ".headwater";

/// `[tool.headwater.datasets]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PyprojectTable {
    root: PathBuf,
}

// === impl HubConfig ===

impl HubConfig {
    /// Where the hub is; `origin` says where `hub.root` was set, if it was.
    ///
    /// # Errors
    /// Nothing says where it is, or the `pyproject.toml` that should cannot be understood.
    pub fn root(&self, origin: &str, around: &Surroundings<'_>) -> Result<HubRoot, ConfigError> {
        let variable = |name| (around.variable)(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let at = |folder: &Path, path: &Path, origin: String| {
            let path = match (path.strip_prefix("~"), &home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => path.to_owned(),
            };
            let path = std::path::absolute(folder.join(path))
                .map_err(|error| ConfigError::Hub(format!("hub root: {error}")))?;
            Ok(HubRoot { path, origin })
        };
        if let Some(root) = &self.root {
            return at(around.folder, root, origin.to_owned());
        }
        if let Some((file, root)) = in_pyproject(around.folder)? {
            let folder = file.parent().unwrap_or(around.folder);
            return at(folder, &root, file.display().to_string());
        }
        for name in VARIABLES {
            if let Some(root) = variable(name) {
                return at(around.folder, Path::new(&root), name.to_owned());
            }
        }
        match &home {
            Some(home) => at(home, Path::new(FOLDER_DEFAULT), "default".to_owned()),
            None => Err(ConfigError::Hub(
                "no hub: there is no home folder; give `--root DIR` or set HEADWATER_DATASETS_ROOT"
                    .to_owned(),
            )),
        }
    }
}

/// The root in the nearest `pyproject.toml`, upwards, that has the table.
fn in_pyproject(folder: &Path) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    for folder in folder.ancestors() {
        let file = folder.join(PYPROJECT);
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.display();
        let document: toml::Table = toml::from_str(&text)
            .map_err(|error| ConfigError::Hub(format!("{name}: {}", error.message())))?;
        let table = ["tool", "headwater", "datasets"]
            .iter()
            .try_fold(&toml::Value::Table(document), |value, key| value.get(key).ok_or(()))
            .cloned();
        if let Ok(table) = table {
            let table: PyprojectTable = table.try_into().map_err(|error: toml::de::Error| {
                let problem = error.message();
                ConfigError::Hub(format!("{name}: [tool.headwater.datasets]: {problem}"))
            })?;
            return Ok(Some((file, table.root)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: (&str, &str) = ("HOME", "/home/u");

    fn root(
        config: Option<&str>,
        folder: &Path,
        env: &[(&str, &str)],
    ) -> Result<HubRoot, ConfigError> {
        let variable = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let config = HubConfig { root: config.map(PathBuf::from) };
        config.root("--root", &Surroundings { folder, variable: &variable })
    }

    fn found(config: Option<&str>, folder: &Path, env: &[(&str, &str)]) -> (String, String) {
        let HubRoot { path, origin } = root(config, folder, env).unwrap();
        (path.display().to_string(), origin)
    }

    #[test]
    fn the_places_are_asked_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("src/deep");
        std::fs::create_dir_all(&inner).unwrap();
        let ours = ("HEADWATER_DATASETS_ROOT", "/ours");
        let seeds = ("DINO_DATASETS_ROOT", "/seeds");
        let is = |path: &str, origin: &str| (path.to_owned(), origin.to_owned());
        assert_eq!(found(None, &inner, &[HOME]), is("/home/u/.headwater", "default"));
        assert_eq!(found(None, &inner, &[HOME, seeds]), is("/seeds", "DINO_DATASETS_ROOT"));
        let both = [HOME, seeds, ours];
        assert_eq!(found(None, &inner, &both), is("/ours", "HEADWATER_DATASETS_ROOT"));

        let pyproject = folder.path().join("pyproject.toml");
        std::fs::write(&pyproject, "[tool.headwater.datasets]\nroot = \"data\"\n").unwrap();
        // One without the table is passed by.
        std::fs::write(inner.join("pyproject.toml"), "[project]\nname = \"x\"\n").unwrap();
        let expected = folder.path().join("data").display().to_string();
        assert_eq!(found(None, &inner, &both), is(&expected, &pyproject.display().to_string()));

        let here = inner.join("hub").display().to_string();
        assert_eq!(found(Some("hub"), &inner, &both), is(&here, "--root"));
        assert_eq!(found(Some("~/d"), &inner, &both), is("/home/u/d", "--root"));
    }

    #[test]
    fn an_empty_variable_is_none_and_no_home_is_told() {
        let folder = Path::new("/");
        let empty = ("HEADWATER_DATASETS_ROOT", "");
        assert_eq!(found(None, folder, &[empty, HOME]).1, "default");
        assert!(root(None, folder, &[]).unwrap_err().to_string().contains("--root"));
    }

    #[test]
    fn an_unknown_key_in_pyproject_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[tool.headwater.datasets]\nroots = \"data\"\n";
        std::fs::write(folder.path().join("pyproject.toml"), text).unwrap();
        let error = root(None, folder.path(), &[HOME]).unwrap_err().to_string();
        assert!(error.contains("pyproject.toml") && error.contains("roots"), "{error}");
    }
}
