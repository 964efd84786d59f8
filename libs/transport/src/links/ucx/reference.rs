//! UCX's own `ucx_perftest`.

use crate::links::{Moved, Reference, ReferenceRun, Workload};

/// Bytes of one put; parts are written in pieces of this order.
const MESSAGE_BYTES: u64 = 1 << 20;

/// UCX's put, over the transports that the environment's `UCX_*` choose, with the link's error
/// handling.
pub(super) const PUT: Reference = Reference {
    name: "ucx_perftest",
    program: "ucx_perftest",
    package: "ucx-utils",
    counts_cpu: true,
    run: |work| Ok(run(work)),
};

fn run(work: &Workload<'_>) -> ReferenceRun {
    let puts = (work.bytes / MESSAGE_BYTES).max(5);
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let figures = move |said: &str| {
        let gb_per_s = overall(said)? * f64::from(1 << 20) / 1e9;
        Some(Moved { bytes: puts * MESSAGE_BYTES, gb_per_s })
    };
    ReferenceRun {
        arguments: words(format!("-e -f -v -p {}", work.tcp_port)),
        calling: words(format!("127.0.0.1 -t ucp_put_bw -w 2 -s {MESSAGE_BYTES} -n {puts}")),
        about: None,
        figures: Box::new(figures),
    }
}

/// `overall_bw` in MiB/s, the sixth column of comma-separated figures.
fn overall(said: &str) -> Option<f64> {
    let last = said.lines().rfind(|line| line.split(',').count() == 8)?;
    last.split(',').nth(5)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_program_prints() {
        let ucx = "\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
 300,0.242,74103.166,18907.266,13.49,52.89,13,53";
        assert_eq!(overall(ucx), Some(52.89));
        assert_eq!(overall(""), None);
    }
}
