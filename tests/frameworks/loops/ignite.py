"""Ignite's Engine. The control is its DeterministicEngine, which is how ignite resumes a DataLoader."""

import torch
from ignite.engine import DeterministicEngine, Engine, Events
from images import Images, dataloader, identities, loader, ranks, unpacked
from scenarios import Plan, Step
from torch import distributed

NAME = "ignite"
PACKAGES = ("ignite",)


def opened(kind, folder):
    return loader(folder) if kind == "headwater" else dataloader(Images(folder))


def train(loader, plan: Plan) -> list[Step]:
    steps = []
    is_ours = hasattr(loader, "state_dict")

    def step(engine, batch):
        images, labels = unpacked(batch)
        steps.append(Step(engine.state.epoch - 1, identities(images, labels)))

    trainer = Engine(step) if is_ours else DeterministicEngine(step)

    @trainer.on(Events.EPOCH_STARTED)
    def set_epoch(engine):
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(engine.state.epoch - 1)

    def save(engine):
        rank, world_size = ranks()
        if rank == 0:
            torch.save({"trainer": engine.state_dict(), "loader": loader.state_dict() if is_ours else None}, plan.checkpoint)
        if world_size > 1:
            distributed.barrier()

    def leave(engine):
        if plan.checkpoint:
            save(engine)
        engine.terminate()

    if plan.leave_after:
        trainer.add_event_handler(Events.ITERATION_COMPLETED(once=plan.leave_after), leave)
    elif plan.checkpoint:
        trainer.add_event_handler(Events.EPOCH_COMPLETED, save)
    if plan.resume:
        state = torch.load(plan.resume, weights_only=False)
        trainer.load_state_dict(state["trainer"])
        if is_ours:
            loader.load_state_dict(state["loader"])
    trainer.run(loader, max_epochs=plan.epochs, epoch_length=plan.limit)
    return steps
