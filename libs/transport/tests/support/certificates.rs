//! Both ends of an encrypted link, with certificates made for the occasion.

use std::sync::Arc;

use headwater_transport::links::tcp::{ConnectTls, ListenTls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority that signs for 127.0.0.1.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A receiver that asks for a certificate of this authority.
    pub(crate) fn listen(&self) -> ListenTls {
        let (chain, key) = self.sign();
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots(), provider());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("TLS 1.3")
            .with_client_cert_verifier(verifier.build().expect("a verifier"))
            .with_single_cert(chain, key);
        let config = Arc::new(config.expect("a pair"));
        ListenTls::new(move || Arc::clone(&config))
    }

    /// A worker that trusts this authority and shows a certificate of `own`, or none.
    pub(crate) fn connect(&self, own: Option<&Self>) -> ConnectTls {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("TLS 1.3")
            .with_root_certificates(self.roots());
        let config = match own.map(Self::sign) {
            None => config.with_no_client_auth(),
            Some((chain, key)) => config.with_client_auth_cert(chain, key).expect("a pair"),
        };
        let config = Arc::new(config);
        ConnectTls::new(move || Arc::clone(&config), None)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a root");
        Arc::new(roots)
    }

    fn sign(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        (vec![certificate.der().clone()], key)
    }
}

fn provider() -> Arc<tokio_rustls::rustls::crypto::CryptoProvider> {
    Arc::new(ring::default_provider())
}
