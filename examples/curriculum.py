"""Changes the mix of two datasets during training: first by a curriculum, then by hand.

    python examples/curriculum.py 'tests/data/photos/photos-00000[0-1].tar' 'tests/data/photos/photos-00000[2-3].tar'

It prints the share of the second dataset in the samples of each ten steps.
"""

from loading import arguments, open_loader

EVERY = 10


def parse():
    parser = arguments(__doc__)
    parser.add_argument("second", help="data of the second dataset, in the form of the first")
    parser.add_argument("--steps", type=int, default=100, help="steps from the first dataset to the second")
    parser.add_argument("--then", type=float, default=0.25, help="share of the second dataset after these steps")
    parser.add_argument("--then-steps", type=int, default=50, help="steps with that share")
    return parser.parse_args()


def open_mix(options):
    """A loader whose weights go from the first dataset to the second in `steps` steps."""
    named = {"first": options.data, "second": options.second}
    data = list(named.values()) if options.storage else named
    return open_loader(
        options,
        data,
        recipe="imagenet-train",
        dtype="u8",
        curriculum=[{"step": 0, "weights": [1, 0]}, {"step": options.steps, "weights": [0, 1]}],
        curriculum_between="linear",
        # A mix never ends by itself: its datasets begin again as often as needed.
        epoch_end={"steps": options.steps + options.then_steps},
    )


def main():
    options = parse()
    with open_mix(options) as loader:
        second = list(loader.weights)[1]
        of_second = samples = 0
        # One epoch has all steps.
        for batch in loader:
            # The training step would be here.
            of_second += sum(sample.dataset == second for sample in batch.samples)
            samples += len(batch)
            done = batch.step + 1
            if done % EVERY == 0:
                print(f"step {done:4}  share of the second dataset {of_second / samples:.2f}", flush=True)
                of_second = samples = 0
            if done == options.steps:
                # By hand: it applies from the next batch on. With several ranks, call it on all ranks at the same step.
                loader.set_weights([1 - options.then, options.then])


if __name__ == "__main__":
    main()
