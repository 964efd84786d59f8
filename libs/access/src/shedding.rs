//! Requests beyond what a server takes at a time are refused at once, instead of waiting in memory.

use tonic::Status;
use tower::layer::util::{Identity, Stack};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::load_shed::error::Overloaded;
use tower::util::MapErrLayer;
use tower::{BoxError, ServiceBuilder};

type Outermost = Stack<MapErrLayer<fn(BoxError) -> BoxError>, Identity>;

/// The layer that [`shedding`] makes.
pub type Shedding = Stack<GlobalConcurrencyLimitLayer, Stack<LoadShedLayer, Outermost>>;

/// Takes `requests_max` requests at a time over all connections; one more is answered
/// `RESOURCE_EXHAUSTED`, which callers take for a reason to come back later. A request counts until
/// the head of its answer goes out: what a stream may do after that is bounded by its service.
#[must_use]
pub fn shedding(requests_max: usize) -> Shedding {
    ServiceBuilder::new()
        .map_err(say_why as fn(BoxError) -> BoxError)
        .layer(LoadShedLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(requests_max))
        .into_inner()
}

fn say_why(error: BoxError) -> BoxError {
    if error.is::<Overloaded>() {
        return Status::resource_exhausted(
            "as many requests are being answered as may be: try again, or raise requests_max",
        )
        .into();
    }
    error
}
