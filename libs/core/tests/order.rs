//! The order of the samples of one dataset.

mod support;

use headwater_core::sampler::{EpochEnd, Order, SamplerConfig};
use support::{counts, dataset, epoch, sampler};

#[test]
fn an_epoch_holds_each_sample_once() {
    let data = [dataset("a", &[5, 0, 1, 17, 300, 2])];
    let mut config = SamplerConfig::new(7, 1, 0, 4);
    config.epoch_end = EpochEnd::ShortLast;
    for (order, block) in [(Order::Global, 0), (Order::Global, 1), (Order::Global, 3), (Order::Global, 100)] {
        (config.order, config.shuffle_block) = (order, block);
        let mut sampler = sampler(&config, &data);
        let seen = counts(&epoch(&mut sampler, 2));
        assert_eq!(seen.len(), 325, "{order:?} {block}");
        assert!(seen.values().all(|&times| times == 1));
    }
}
