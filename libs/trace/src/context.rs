//! Which lease a span belongs to, and which span it is part of: the same for all tiers.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The header that carries a context, as W3C's Trace Context names it.
pub const TRACEPARENT: &str = "traceparent";

/// A span that others may be part of. Its trace is one lease of one receiver, which every tier can
/// compute; a storage node, which knows no leases, hears of it in the header [`TRACEPARENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    trace: u128,
    span: u64,
}

// === impl Context ===

impl Context {
    /// A lease as the receiver sees it: the root of its trace. `receiver` is the receiver's name as
    /// workers hear it, `stream` the digest of its order of parts.
    #[must_use]
    pub fn of_lease(receiver: &str, stream: &[u8], lease: u64) -> Self {
        let mut hash = Xxh3Default::new();
        for part in [b"headwater lease 1".as_slice(), receiver.as_bytes(), stream] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(&lease.to_le_bytes());
        let trace = hash.digest128().max(1);
        Self { trace, span: derived(trace, b"receiver") }
    }

    /// The same lease as the worker sees it.
    #[must_use]
    pub fn at_worker(self) -> Self {
        Self { span: derived(self.trace, b"worker"), ..self }
    }

    /// A span of the same trace.
    pub(crate) fn with_span(self, span: u64) -> Self {
        Self { span, ..self }
    }

    /// A trace of its own.
    pub(crate) fn alone(span: u64) -> Self {
        Self { trace: u128::from(span) << 64 | u128::from(derived(span.into(), b"alone")), span }
    }

    /// Number of the trace; never 0.
    #[must_use]
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// Number of the span; never 0.
    #[must_use]
    pub fn span(self) -> u64 {
        self.span
    }

    /// Number of the lease's flow: what joins its spans in trace events.
    #[must_use]
    pub fn flow(self) -> u64 {
        self.trace as u64
    }

    /// The header's text, W3C Trace Context version 00, sampled.
    #[must_use]
    pub fn traceparent(self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace, self.span)
    }

    /// Reads the header's text; `None` where it is none of version 00.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |text: &str, digits: usize| {
            let written = text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            let number = (text.len() == digits && written).then(|| u128::from_str_radix(text, 16));
            number.and_then(Result::ok)
        };
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
        hex(flags, 2)?;
        let (trace, span) = (hex(trace, 32)?, hex(span, 16)? as u64);
        let known = version == "00" && parts.next().is_none() && trace != 0 && span != 0;
        known.then_some(Self { trace, span })
    }
}

fn derived(trace: u128, role: &[u8]) -> u64 {
    let mut bytes = trace.to_le_bytes().to_vec();
    bytes.extend_from_slice(role);
    xxh3_64(&bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_that_know_the_lease_know_its_context() {
        let lease = Context::of_lease("job/0", b"order", 7);
        assert_eq!(lease, Context::of_lease("job/0", b"order", 7));
        assert_eq!(lease.flow(), lease.at_worker().flow());
        assert_ne!(lease.span(), lease.at_worker().span());
        let others = [
            Context::of_lease("job/1", b"order", 7),
            Context::of_lease("job/0", b"order", 8),
            Context::of_lease("job/0", b"eval", 7),
            Context::of_lease("job/0o", b"rder", 7),
        ];
        assert!(others.iter().all(|other| other.flow() != lease.flow()), "{others:?}");
    }

    #[test]
    fn the_header_is_read_as_it_was_written_and_nothing_else_is() {
        let context = Context::of_lease("job/0", b"", 1).at_worker();
        assert_eq!(Context::parse(&context.traceparent()), Some(context));
        // The example of the W3C's text.
        let example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = Context::parse(example).unwrap();
        assert_eq!(read.trace(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(read.span(), 0xb7ad_6b71_6920_3331);
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-+7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(Context::parse(wrong), None, "{wrong}");
        }
    }
}
