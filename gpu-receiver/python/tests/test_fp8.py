"""FP8: scales and amaxes, delayed scaling, blocks, and the way into Transformer Engine."""

import sys

import headwater
import numpy
import pytest
import stand_in_engine
from headwater import fp8

MEAN, STD = numpy.float32([0.485, 0.456, 0.406]), numpy.float32([0.229, 0.224, 0.225])
STATIC = numpy.float32(448) / ((1 - MEAN[2]) / STD[2])


def recipe(dtype="fp8_e4m3", **scaling):
    """Views of one pixel: the largest magnitude is another one in each batch."""
    crop = {"kind": "center_after_resize", "resize": 8}
    tensor = {"name": "crops", "dtype": dtype, "height": 1, "width": 1, "views": [{"crop": crop}]}
    return {"tensors": [tensor], **({"fp8": scaling} if scaling else {})}


def delayed(**rule):
    return recipe(scaling="delayed", **rule)


def exact_amaxes(make):
    return [abs(batch.crops.numpy()).max() for batch in make(recipe=recipe("f32"))]


def test_a_static_scale_follows_from_mean_and_deviation_and_the_amax_from_the_values(make):
    amaxes = exact_amaxes(make)
    assert len(set(amaxes)) > 4
    for batch, amax in zip(make(recipe=recipe()), amaxes):
        assert batch.crops.scale == STATIC
        assert batch.crops.scale_inv == numpy.float32(1) / STATIC
        assert batch.crops.amax == amax
        assert (batch.labels.scale, batch.labels.scale_inv, batch.labels.amax) == (1, 1, None)


def scales_of(amaxes, window, margin, delay):
    """By the rule of Transformer Engine, as docs/recipes.md has it."""
    scales = []
    for step in range(len(amaxes)):
        counted = amaxes[max(step - delay - window + 1, 0) : max(step - delay + 1, 0)]
        before = scales[-1] if scales else numpy.float32(1)
        scales.append(numpy.float32(448) / max(counted) / 2**margin if counted else before)
    return scales


@pytest.mark.parametrize("rule", [(1, 0, 2), (3, 2, 5)])
def test_delayed_scales_follow_from_the_amaxes_of_earlier_batches(make, rule):
    window, margin, delay = rule
    loader = make(recipe=delayed(window=window, margin=margin, delay=delay), window_batches=2)
    exact = make(recipe=recipe("f32"))
    for epoch in range(2):
        amaxes = [abs(batch.crops.numpy()).max() for batch in exact]
        expected = scales_of(amaxes, window, margin, delay)
        assert [batch.crops.scale for batch in loader] == expected, f"epoch {epoch}"


def test_a_loader_with_delayed_scales_resumes_within_an_epoch(make):
    options = {"recipe": delayed(window=3, delay=2), "window_batches": 2}
    whole = [batch.digest for batch in make(**options)]
    loader = make(**options)
    for batch in loader:
        if batch.step == 6:
            break
    state = loader.state_dict()
    assert len(state["fp8"]["amaxes"]) == 4
    resumed = make(**options)
    resumed.load_state_dict(state)
    assert [batch.digest for batch in resumed] == whole[7:]
    del state["fp8"]
    with pytest.raises(headwater.StateError, match="`fp8` is missing"):
        resumed.load_state_dict(state)
    with pytest.raises(headwater.StateError, match="go to the start of an epoch"):
        resumed.seek(0, 5)


def test_amax_reduce_is_asked_once_for_each_batch(make):
    asked = []

    def reduce(amaxes):
        asked.append(amaxes)
        return [amax + 1 for amax in amaxes]

    rule = {"window": 1, "margin": 0, "delay": 2}
    loader = make(recipe=delayed(**rule), window_batches=2, amax_reduce=reduce)
    batches = [(batch.crops.scale, batch.crops.amax) for batch in loader]
    assert asked == [[amax] for _, amax in batches]
    larger = [numpy.float32(amax + 1) for _, amax in batches]
    assert [scale for scale, _ in batches] == scales_of(larger, **rule)


def test_ranks_without_amax_reduce_are_refused(make):
    ranks = {"rank": 0, "world_size": 2, "batch_size": 2, "window_batches": 2}
    with pytest.raises(headwater.ConfigError, match="give the loader an amax_reduce"):
        make(recipe=delayed(), **ranks)
    with pytest.raises(headwater.ConfigError, match="at most recipe.fp8.delay"):
        make(recipe=delayed(delay=3), window_batches=4)
    with pytest.raises(TypeError, match="must be a function"):
        make(recipe=delayed(), amax_reduce=7)
    make(recipe=recipe(), **ranks)


@pytest.mark.parametrize(
    "reduce, problem",
    [(lambda amaxes: [], "0 numbers for 1"), (lambda amaxes: [0.0], "below this rank's")],
)
def test_an_amax_reduce_that_fails_ends_the_stream(make, reduce, problem):
    iteration = iter(make(recipe=delayed(), amax_reduce=reduce))
    for _ in range(2):
        with pytest.raises(headwater.ClosedError, match=f"epoch 0 step 0: .*{problem}"):
            next(iteration)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_what_amax_reduce_raises_comes_out_of_the_iteration(make, kind):
    problem = kind("from the trainer")

    def reduce(amaxes):
        raise problem

    iteration = iter(make(recipe=delayed(), amax_reduce=reduce))
    with pytest.raises(kind) as raised:
        next(iteration)
    assert raised.value is problem
    assert "reduce" in [entry.name for entry in raised.traceback]
    with pytest.raises(headwater.ClosedError, match=f"epoch 0 step 0: {kind.__name__}: from the trainer"):
        next(iteration)


def test_a_stop_iteration_of_amax_reduce_does_not_look_like_the_end_of_an_epoch(make):
    # As in a generator (PEP 479).
    problem = StopIteration("from the trainer")

    def reduce(amaxes):
        raise problem

    with pytest.raises(headwater.ClosedError, match="StopIteration") as raised:
        list(make(recipe=delayed(), amax_reduce=reduce))
    assert raised.value.__cause__ is problem


def test_elements_in_blocks_come_with_their_scales(make):
    pytest.importorskip("ml_dtypes")
    options = {"recipe": "imagenet-eval", "batch_size": 4}
    exact = next(iter(make(dtype="f32", **options))).images.numpy()
    batch = next(iter(make(dtype="mxfp8_e4m3", **options)))
    assert (batch.images.dtype, batch.images_scales.dtype) == ("mxfp8_e4m3", "e8m0")
    assert batch.images_scales.shape == (4, 3, 224, 7)
    assert batch.images.amax is None and batch.images.scale == 1
    blocks = exact.reshape(4, 3, 224, 7, 32)
    scales = batch.images_scales.numpy().astype("f4")
    largest = abs(blocks).max(-1)
    assert (scales == 2.0 ** (numpy.frexp(largest)[1] - 9)).all()
    values = batch.images.numpy().astype("f4").reshape(blocks.shape) * scales[..., None]
    # Four bits of a significand, and nothing above 448 times the scale.
    assert numpy.allclose(values, blocks, rtol=1 / 8, atol=0)


def test_a_float8_tensor_is_made_of_fp8_only_and_says_what_is_missing(make, monkeypatch):
    batch = next(iter(make(recipe=recipe())))
    with pytest.raises(TypeError, match="`labels` is i64"):
        fp8.to_transformer_engine(batch.labels)
    monkeypatch.setitem(sys.modules, "transformer_engine_torch", None)
    with pytest.raises(ImportError, match="not installed.*scale_inv"):
        fp8.to_transformer_engine(batch.crops)


def test_a_stand_in_for_transformer_engine_is_given_elements_scale_and_amax(make, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    stand_in_engine.install(monkeypatch)
    exact = next(iter(make(recipe=recipe("f32")))).crops.torch()
    crops = next(iter(make(recipe=recipe()))).crops
    made = fp8.to_transformer_engine(crops, device="cpu", dtype=torch.bfloat16)
    assert made.quantizer.scale.tolist() == [crops.scale]
    assert made.quantizer.amax.tolist() == [crops.amax]
    assert (made.quantizer.dtype, made.quantizer.columnwise) == ("kFloat8E4M3", False)
    assert made.values.dtype == torch.bfloat16
    assert torch.equal(made.data, crops.torch().view(torch.uint8))
    assert torch.allclose(made.values.to(torch.float32), exact, rtol=1 / 8, atol=0.01)


def test_blocks_come_as_torchs_types(make):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    batch = next(iter(make(recipe="imagenet-eval", dtype="mxfp8_e4m3", batch_size=2)))
    assert batch.images.torch().dtype == torch.float8_e4m3fn
    assert batch.images_scales.torch().dtype == torch.float8_e8m0fnu
    assert batch.images_scales.torch().shape == (2, 3, 224, 7)
