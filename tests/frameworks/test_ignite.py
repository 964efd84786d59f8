"""ignite's DeterministicEngine over the loader: it reads what it has trained on again, and drops it."""

import pytest

pytestmark = pytest.mark.long


def test_a_deterministic_engine_resumes_without_the_loaders_state(loop, images):
    module = loop("ignite")
    from images import loader, unpacked

    def run(state=None, leave_after=None):
        steps = []
        trainer = module.DeterministicEngine(lambda engine, batch: steps.append(unpacked(batch)[1].tolist()))
        with loader(images) as data:

            @trainer.on(module.Events.EPOCH_STARTED)
            def set_epoch(engine):
                data.sampler.set_epoch(engine.state.epoch - 1)

            if leave_after:
                trainer.add_event_handler(module.Events.ITERATION_COMPLETED(once=leave_after), trainer.terminate)
            if state:
                trainer.load_state_dict(state)
            trainer.run(data, max_epochs=3)
        return steps, trainer.state_dict()

    whole, _ = run()
    left, state = run(leave_after=21)
    resumed, _ = run(state)
    assert len(whole) == 48 and len(left) == 21
    assert left + resumed == whole
