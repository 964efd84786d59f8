//! What answers at an address: storage nodes and workers both say what they are.
//!
//! A caller that reached the wrong tier learns it here. So does the doctor, which asks nothing else.

use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, Bytes, StdError};
use tonic::{Code, Request, Response, Status};

use crate::v1::identity_client::IdentityClient;
use crate::v1::identity_server::{Identity as IdentityRpc, IdentityServer};
use crate::{WIRE_VERSION, v1};

/// A tier that serves gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The storage tier.
    Storage,
    /// The augment tier.
    Augment,
}

/// What answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its tier; `None`: one that this release does not know.
    pub tier: Option<Tier>,
    /// Its name in logs and metrics.
    pub name: String,
    /// See [`WIRE_VERSION`].
    pub wire_version: u32,
    /// Release of the program.
    pub release: String,
}

/// Answers for one process.
#[derive(Clone, Debug)]
pub struct Answerer {
    tier: Tier,
    name: String,
}

/// The service, for a process of `tier` that calls itself `name`.
#[must_use]
pub fn served(tier: Tier, name: &str) -> IdentityServer<Answerer> {
    IdentityServer::new(Answerer { tier, name: name.to_owned() })
}

/// Asks the server at the other end.
///
/// # Errors
/// It does not answer, refuses the caller, or does not know the question.
pub async fn who<C>(caller: C) -> Result<Identity, Status>
where
    C: GrpcService<Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <C::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let reply = IdentityClient::new(caller).who(v1::WhoRequest {}).await?.into_inner();
    let tier = [Tier::Storage, Tier::Augment].into_iter().find(|tier| tier.word() == reply.tier);
    let v1::WhoReply { name, wire_version, release, .. } = reply;
    Ok(Identity { tier, name, wire_version, release })
}

/// What answers in place of a tier that was called: the sentence for `refused`, or nothing where
/// that is an answer of the tier itself.
pub async fn instead<C>(caller: C, wanted: Tier, refused: &Status) -> Option<String>
where
    C: GrpcService<Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <C::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    if is_no_grpc(refused) {
        return Some(wanted.not_understood());
    }
    if !is_of_no_service(refused) {
        return None;
    }
    Some(wanted.mistaken_for(who(caller).await.ok().and_then(|identity| identity.tier)))
}

/// What a client makes of an answer that is no HTTP/2.
#[must_use]
pub fn is_no_grpc(refused: &Status) -> bool {
    refused.code() == Code::Internal && refused.message().starts_with("h2 protocol error")
}

/// What a server says of a service that it does not have, and a client of a page that a web server
/// does not have. An answer of the tier itself has a sentence.
fn is_of_no_service(refused: &Status) -> bool {
    let said = refused.message();
    refused.code() == Code::Unimplemented
        && (said.is_empty() || said.starts_with("grpc-status header missing"))
}

// === impl Tier ===

impl Tier {
    /// With its article.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Storage => "a storage node",
            Self::Augment => "an augment worker",
        }
    }

    /// What is wrong and what to do where `found` answers in place of this tier.
    #[must_use]
    pub fn mistaken_for(self, found: Option<Self>) -> String {
        let found = found.map_or("another program", Self::noun);
        let (wanted, verb) = (self.noun(), self.word());
        format!(
            "{found} answers there, not {wanted}: give the address that `headwater {verb}` listens on"
        )
    }

    /// What is wrong and what to do where what answers speaks no HTTP/2, or only within TLS.
    #[must_use]
    pub fn not_understood(self) -> String {
        let (wanted, verb) = (self.noun(), self.word());
        format!(
            "another program answers there, or {wanted} with TLS that this process has not: give the address that \
             `headwater {verb}` listens on, and the files of [security] that it has"
        )
    }

    /// In messages, and the verb of the program.
    const fn word(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Augment => "augment",
        }
    }
}

#[tonic::async_trait]
impl IdentityRpc for Answerer {
    async fn who(&self, _: Request<v1::WhoRequest>) -> Result<Response<v1::WhoReply>, Status> {
        Ok(Response::new(v1::WhoReply {
            tier: self.tier.word().to_owned(),
            name: self.name.clone(),
            wire_version: WIRE_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_tier_itself_is_told_from_that_of_another_program() {
        assert!(is_of_no_service(&Status::unimplemented("")));
        let page = "grpc-status header missing, mapped from HTTP status code 404";
        assert!(is_of_no_service(&Status::unimplemented(page)));
        let version = "caller speaks wire version 4, this node 3: use one release";
        assert!(!is_of_no_service(&Status::unimplemented(version)));
        assert!(!is_of_no_service(&Status::unavailable("")));
        assert!(is_no_grpc(&Status::internal("h2 protocol error: http2 error")));
        assert!(!is_no_grpc(&Status::internal("a fault of the node")));
        assert!(!is_no_grpc(&Status::unauthenticated("the caller has no token")));
    }

    #[test]
    fn what_answers_in_place_of_a_tier_is_named_with_the_remedy() {
        let storage_for_worker = "a storage node answers there, not an augment worker: give the \
                                  address that `headwater augment` listens on";
        assert_eq!(Tier::Augment.mistaken_for(Some(Tier::Storage)), storage_for_worker);
        let stranger = "another program answers there, not a storage node: give the address that \
                        `headwater storage` listens on";
        assert_eq!(Tier::Storage.mistaken_for(None), stranger);
    }
}
