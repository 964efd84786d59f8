//! Where the Hugging Face hub is reached.

use std::path::PathBuf;

use super::SourceConfig;

const HUB: &str = "https://huggingface.co";

/// Where the hub is, and what opens it.
#[derive(Clone)]
pub(crate) struct HubAccess {
    /// As `https://host`.
    pub(crate) endpoint: String,
    /// Never in a message.
    pub(crate) token: Option<String>,
}

// === impl HubAccess ===

impl HubAccess {
    /// By the configuration, then by what the hub's own tools read: `HF_ENDPOINT`; `HF_TOKEN`, or the
    /// file that `huggingface-cli login` writes.
    pub(crate) fn of(config: &SourceConfig) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let own = Some(config.hub_endpoint.clone()).filter(|endpoint| !endpoint.is_empty());
        let endpoint = own.or_else(|| variable("HF_ENDPOINT")).unwrap_or_else(|| HUB.to_owned());
        let home = || {
            let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
            variable("HF_HOME").map(PathBuf::from).or_else(|| Some(cache?.join("huggingface")))
        };
        let file =
            || variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(home()?.join("token")));
        let read =
            || std::fs::read_to_string(file()?).ok().filter(|token| !token.trim().is_empty());
        let token = variable("HF_TOKEN").or_else(read).map(|token| token.trim().to_owned());
        Self { endpoint, token }
    }
}

impl std::fmt::Debug for HubAccess {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = if self.token.is_some() { "some" } else { "none" };
        write!(out, "HubAccess({}, token: {token})", self.endpoint)
    }
}
