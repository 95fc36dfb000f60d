"""TrapDisplay: what it draws is what the distiller sees."""

import matplotlib as mpl
import numpy as np
import pytest

pytest.importorskip("torch")

from skml.distillation import (
    ATEscDistiller,
    DataFreeDistiller,
    NonTransferableClassifier,
)
from skml.inspection import TrapDisplay

QUICK = {"max_iter": 2, "generator_steps": 3, "distill_steps": 3, "pool_size": 32, "batch_size": 16}
pytestmark = pytest.mark.filterwarnings("ignore:The teacher takes:UserWarning")


def distil(cls, shape, **options):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.clip(rng.normal(0.3 + 0.4 * y[:, None], 0.1, size=(40, int(np.prod(shape)))), 0, 1)
    image_shape = shape if len(shape) == 3 else None
    teacher = NonTransferableClassifier(max_epochs=3, image_shape=image_shape, random_state=0)
    return cls(teacher.fit(X, y), random_state=0, **QUICK, **options).fit(), X


@pytest.fixture(scope="module")
def images():
    return distil(ATEscDistiller, (1, 4, 4), eps=0.1)


@pytest.fixture(scope="module")
def vectors():
    return distil(ATEscDistiller, (5,), eps=0.1)


def test_shares_are_those_of_the_distiller(images):
    distiller, X = images
    display = TrapDisplay.from_estimator(
        distiller, {"task": X}, eps_range=(0.01, 0.3), n_radii=3, n_samples=20
    )
    np.testing.assert_allclose(display.eps, [0.01, np.sqrt(0.003), 0.3])
    lines = {line.get_label(): line.get_ydata() for line in display.ax_.get_lines()}
    for name, rows in (("synthetic", distiller.sample(20)), ("task", X)):
        expected = [distiller.is_fragile(rows, eps=eps).mean() for eps in display.eps]
        np.testing.assert_array_equal(lines[name], expected)
    assert lines["fitted radius"] == [0, 1]
    assert display.figure_ is display.ax_.figure
    assert "data" in TrapDisplay.from_estimator(distiller, X, n_radii=2, n_samples=4).shares


def test_images_are_framed_by_group_fragile_first(images):
    distiller, _ = images
    display = TrapDisplay.from_estimator(
        distiller, n_radii=2, n_samples=10, kind="samples", n_columns=4
    )
    display.fragile = np.arange(10) % 2 == 0
    display.plot(kind="samples", n_columns=4)
    canvas = np.asarray(display.ax_.get_images()[0].get_array())
    assert canvas.shape == (3 * 6, 4 * 6, 3)
    blue, red = (mpl.colors.to_rgb(name) for name in ("tab:blue", "tab:red"))
    np.testing.assert_allclose(canvas[0, 0], blue)
    np.testing.assert_allclose(canvas[6 * 1, 6 * 1], red)  # the sixth
    np.testing.assert_allclose(canvas[-1, -1], 1)  # an empty place
    first = display.samples[0].reshape(4, 4)
    low, high = display.samples.min(), display.samples.max()
    np.testing.assert_allclose(
        canvas[1:5, 1:5, 0], (first - low) / (high - low), rtol=1e-4, atol=1e-5
    )
    assert "50% fragile" in display.ax_.get_title()


def test_vectors_are_drawn_by_principal_components(vectors):
    distiller, _ = vectors
    display = TrapDisplay.from_estimator(distiller, n_radii=2, n_samples=30, kind="samples")
    points = display.ax_.collections
    assert sum(len(group.get_offsets()) for group in points) == 30
    assert len(points[0].get_offsets()) == display.fragile.sum()


def test_given_axes_are_used_and_colours_kept(images):
    import matplotlib.pyplot as plt

    distiller, _ = images
    _, ax = plt.subplots()
    display = TrapDisplay.from_estimator(distiller, n_radii=2, n_samples=4, ax=ax)
    assert display.ax_ is ax
    colour = TrapDisplay(
        samples=np.eye(12)[:2], fragile=[True, False], eps=[1], shares={}, input_shape=(3, 2, 2)
    )
    canvas = colour.plot(kind="samples", n_columns=2).ax_.get_images()[0].get_array()
    assert not np.allclose(canvas[1, 1, 0], canvas[1, 1, 1])


def test_bad_arguments_are_named(images):
    distiller, _ = images
    plain, _ = distil(DataFreeDistiller, (5,))
    with pytest.raises(TypeError, match="as ATEscDistiller does, got DataFreeDistiller"):
        TrapDisplay.from_estimator(plain)
    with pytest.raises(ValueError, match="eps_range must be positive and ascending"):
        TrapDisplay.from_estimator(distiller, eps_range=(0.1, 0.1))
    with pytest.raises(ValueError, match="kind must be one of"):
        TrapDisplay.from_estimator(distiller, n_radii=2, n_samples=4, kind="pie")
    with pytest.raises(ValueError, match="samples must have the shape"):
        TrapDisplay(samples=[1, 2], fragile=[True, False], eps=[1], shares={})
    with pytest.raises(ValueError, match=r"shares\['a'\] must have one entry for each of the 1"):
        TrapDisplay(samples=[[1]], fragile=[True], eps=[1], shares={"a": [0, 1]})
