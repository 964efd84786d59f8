//! A collector of spans: the service that OTLP describes, which keeps what it is sent.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// A span, and the service that sent it.
#[derive(Clone, Debug)]
pub(crate) struct SpanSeen {
    pub(crate) service: String,
    pub(crate) span: Span,
}

/// Listens until it is dropped.
pub(crate) struct Collector {
    endpoint: String,
    kept: Kept,
    _runtime: Runtime,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanSeen>>>);

// === impl Collector ===

impl Collector {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("threads");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let kept = Kept::default();
        let service = TraceServiceServer::new(kept.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await
        });
        Self { endpoint, kept, _runtime: runtime }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All that was sent so far.
    pub(crate) fn spans(&self) -> Vec<SpanSeen> {
        self.kept.0.lock().expect("no panic").clone()
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let attributes = of_resource.resource.unwrap_or_default().attributes;
            let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let name = name.and_then(|name| name.value).and_then(|value| value.value);
            let Some(Value::StringValue(service)) = name else {
                return Err(Status::invalid_argument("a resource without service.name"));
            };
            for of_scope in of_resource.scope_spans {
                let seen = of_scope.spans.into_iter();
                let seen = seen.map(|span| SpanSeen { service: service.clone(), span });
                self.0.lock().expect("no panic").extend(seen);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}
