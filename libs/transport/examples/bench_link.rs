//! Prints how fast links are here: `cargo run --release -p headwater-transport --example bench_link
//! [batches] [rounds] [socket buffer bytes, 0: the kernel's] [links, comma-separated]
//! [samples of a batch]`.

use std::process::{Command, Stdio};

use headwater_transport::LinkKind;
use headwater_transport::bench::{self, Plan, WorkerPlan};
use headwater_transport::rdma::RdmaPort;

const WORKER: &str = "worker";

#[tokio::main(worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, invitation] = &args[..]
        && role == WORKER
    {
        let (tls, rdma_port) = (None, RdmaPort::default());
        return bench::worker(invitation, &WorkerPlan { tls, rdma_port, rdma_queue_pairs: 1 })
            .await;
    }
    let number = |i: usize| args.get(i).and_then(|arg| arg.parse::<u32>().ok());
    let mut plan = Plan::default();
    plan.batches = number(0).unwrap_or(plan.batches);
    plan.rounds = number(1).unwrap_or(plan.rounds);
    plan.socket_buffer_bytes = number(2).filter(|&bytes| bytes > 0).map(|bytes| bytes as usize);
    if let Some(names) = args.get(3) {
        plan.links = names.split(',').filter_map(LinkKind::from_name).collect();
    }
    plan.batch_samples = number(4).unwrap_or(plan.batch_samples);
    let report = bench::receiver(&plan, 1, |invitation| {
        Command::new(std::env::current_exe()?)
            .args([WORKER, invitation])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    })
    .await?;
    println!("{report}");
    Ok(())
}
