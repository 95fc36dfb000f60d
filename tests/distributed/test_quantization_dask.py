"""Quantization on two worker processes: layers side by side, Gram matrices chunk by chunk."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from torch import nn

from skml.quantization import GANQQuantizer, QuantizedEstimator, quantize_module

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.distributed


def test_layers_are_quantised_side_by_side(on_workers):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    X = torch.randn(300, 24)
    bits = {"4": 3}
    here = quantize_module(network, GANQQuantizer(2), X, bits=bits, sequential=False)
    with on_workers():
        there = quantize_module(network, GANQQuantizer(2), X, bits=bits, sequential=False)
    assert here.quantization_report_ == there.quantization_report_
    assert [layer["bits"] for layer in there.quantization_report_] == [2, 2, 3]
    with torch.no_grad():
        assert torch.equal(here(X), there(X))


def test_gram_matrix_of_many_chunks_is_that_of_the_whole(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 32)) @ rng.normal(size=(32, 32))
    weight = rng.random(len(X))
    chunked = da.from_array(X, chunks=(1500, 10))
    with distributed.get_task_stream(client) as stream:
        there = GANQQuantizer(3).fit(chunked, sample_weight=weight)
    assert len(stream.data) > 10
    here = GANQQuantizer(3).fit(X, sample_weight=weight)
    assert_allclose(there.gram_, here.gram_, rtol=1e-10)
    W = rng.normal(size=(8, 32))
    assert_array_equal(there.quantize(W).unpack(), here.quantize(W).unpack())


def test_search_over_bits_finds_the_same_scores(on_workers):
    X, y = load_digits(n_class=4, return_X_y=True)
    network = MLPClassifier((16,), max_iter=30, random_state=0)
    search = GridSearchCV(
        QuantizedEstimator(network, GANQQuantizer()), {"quantizer__bits": [1, 3]}, cv=3
    )
    with pytest.warns(match="converge"):
        here = search.fit(X, y).cv_results_["mean_test_score"]
    with on_workers(), pytest.warns(match="converge"):
        there = search.fit(X, y).cv_results_["mean_test_score"]
    assert_array_equal(here, there)
    assert here[0] < here[1]
