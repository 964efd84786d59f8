//! Which source a URL is of; each bucket, host and revision is one, made when it is first named.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::distant::{Distant, Node, Remote};
use super::hub::Hub;
use super::url::{Scheme, SourceUrl};
use super::web::Web;
use super::web_server::WebServer;
use super::{Place, Source};
use crate::config::{HubAccess, SourceConfig};

/// The distant sources of a node.
#[derive(Debug)]
pub(crate) struct Registry {
    node: Arc<Node>,
    web: Arc<Web>,
    pub(super) hub: HubAccess,
    /// URLs below which objects may be read; none: anywhere.
    roots: Option<Vec<SourceUrl>>,
    /// By scheme and place.
    known: Mutex<HashMap<(Scheme, String), Arc<dyn Source>>>,
}

// === impl Registry ===

impl Registry {
    pub(crate) fn new(config: &SourceConfig) -> Self {
        let urls = config.roots.iter().filter_map(|root| root.to_str());
        let urls = urls.filter(|root| SourceUrl::is_one(root));
        // Those that cannot be read were refused with the configuration.
        let urls = urls.filter_map(|root| SourceUrl::parse(root).ok()).collect();
        Self {
            node: Arc::new(Node::new(config)),
            web: Arc::default(),
            hub: HubAccess::of(config),
            roots: (!config.roots.is_empty()).then_some(urls),
            known: Mutex::default(),
        }
    }

    /// The object or folder that a URL names. Nothing is asked yet.
    ///
    /// # Errors
    /// Says what is wrong with the URL, or with the environment, and the remedy.
    pub(crate) fn place(&self, url: &str) -> Result<Place, String> {
        let url = SourceUrl::parse(url)?;
        if let Some(roots) = &self.roots
            && !roots.iter().any(|root| root.holds(&url))
        {
            return Err("lies below no URL of `storage.roots`: add its bucket or folder".to_owned());
        }
        let SourceUrl { scheme, place, key } = url;
        let source = self.source(scheme, place)?;
        Ok(Place { source, path: key.into() })
    }

    fn source(&self, scheme: Scheme, place: String) -> Result<Arc<dyn Source>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = known.get(&(scheme, place.clone())) {
            return Ok(source.clone());
        }
        let remote = self.remote(scheme, &place)?;
        let source: Arc<dyn Source> = Arc::new(Distant::new(remote, self.node.clone()));
        known.insert((scheme, place), source.clone());
        Ok(source)
    }

    fn remote(&self, scheme: Scheme, place: &str) -> Result<Arc<dyn Remote>, String> {
        let web = &self.web;
        Ok(match scheme {
            Scheme::Http | Scheme::Https => {
                Arc::new(WebServer::new(web.clone(), format!("{}://{place}", scheme.name())))
            }
            Scheme::Hub => {
                let HubAccess { endpoint, token } = &self.hub;
                Arc::new(Hub::new(web.clone(), endpoint, token.as_deref(), place)?)
            }
            #[cfg(feature = "source-object-store")]
            _ => Arc::new(super::stores::Bucket::open(scheme, place, web)?),
            #[cfg(not(feature = "source-object-store"))]
            _ => {
                let why = "this program was built without it: build it with the feature \
                           `source-object-store`";
                return Err(format!("`{}` is not served: {why}", scheme.name()));
            }
        })
    }
}
