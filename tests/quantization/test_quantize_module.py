"""Torch modules and skorch nets whose layers are replaced by packed ones."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
from torch import nn  # noqa: E402

from skml.quantization import (  # noqa: E402
    GANQQuantizer,
    GPTQQuantizer,
    KMeansQuantizer,
    LUTLinear,
    QuantizedEstimator,
    RTNQuantizer,
    quantize_module,
)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Attention(nn.Module):
    """Query, key and value share their input; the output layer comes last but is defined first."""

    def __init__(self, width=24):
        super().__init__()
        self.output = nn.Linear(width, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.unused = nn.Linear(width, 7)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        return self.output(scores.softmax(-1) @ self.value(x))


@pytest.fixture
def attention():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Attention()


def mlp():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                             nn.Linear(32, 3))  # fmt: skip


def quiet(*args, **kwargs):
    with warnings.catch_warnings(action="ignore"):
        return quantize_module(*args, **kwargs)


def test_layers_are_replaced_in_a_copy_and_outputs_stay_close():
    network, X = mlp().train(), randn(300, 20)
    before = copy.deepcopy(network.state_dict())
    packed = quantize_module(network, GANQQuantizer(4), X)
    assert [type(layer) for layer in packed] == [LUTLinear, nn.ReLU] * 2 + [LUTLinear]
    assert packed.training
    assert packed[0].training
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert not network[0]._forward_pre_hooks
    with torch.no_grad():
        expected, found = network(X), packed(X)
        dense = copy.deepcopy(network)
        for number in (0, 2, 4):
            dense[number].weight.copy_(packed[number].dequantize())
        assert torch.allclose(found, dense(X), atol=1e-5)
    assert 0 < (found - expected).norm() < 0.1 * expected.norm()
    assert quantize_module(network, RTNQuantizer(), X, inplace=True) is network
    assert isinstance(network[0], LUTLinear)


def test_report_holds_the_layer_errors_on_quantised_inputs():
    network, X = mlp(), randn(300, 20)
    packed = quantize_module(network, GANQQuantizer(2), X)
    report = packed.quantization_report_
    assert [layer["name"] for layer in report] == ["0", "2", "4"]
    assert [layer["shape"] for layer in report] == [(32, 20), (32, 32), (3, 32)]
    with torch.no_grad():
        inputs = packed[:2](X)
    W = network[2].weight.detach().numpy()
    quantizer = GANQQuantizer(2).fit(inputs.numpy())
    assert report[1]["n_samples"] == 300
    assert report[1]["error"] == pytest.approx(quantizer.error(W, packed[2].weight), rel=1e-4)
    parallel = quantize_module(network, GANQQuantizer(2), X, sequential=False)
    with torch.no_grad():
        inputs = network[:2](X)
    quantizer = GANQQuantizer(2).fit(inputs.numpy())
    assert_array_equal(parallel[2].dequantize(), quantizer.quantize(W).dequantize())
    assert (parallel[2].dequantize() != packed[2].dequantize()).any()


def test_shared_inputs_share_a_gram_matrix(attention, monkeypatch):
    fitted = []
    original = GANQQuantizer._fit_gram

    def counting(self, gram, n_samples):
        fitted.append(gram.shape)
        return original(self, gram, n_samples)

    monkeypatch.setattr(GANQQuantizer, "_fit_gram", counting)
    X = [randn(5, 9, 24), randn(2, 9, 24, seed=1)]
    with pytest.warns(UserWarning, match=r"1 weights were left as they are: unused\.weight\."):
        packed = quantize_module(attention, GANQQuantizer(3), X)
    assert len(fitted) == 2
    names = [layer["name"] for layer in packed.quantization_report_]
    assert names == ["query", "key", "value", "output"]
    assert {layer["n_samples"] for layer in packed.quantization_report_} == {63}
    assert isinstance(packed.unused, nn.Linear)


def test_batches_as_tuples_dicts_and_arrays(attention):
    X = randn(6, 4, 24)
    packed = [
        quiet(attention, GANQQuantizer(3), batches)
        for batches in (X, X.numpy(), [X[:2], X[2:]], [{"x": X}], ((X,)), [(X,)])
    ]
    for other in packed[1:]:
        assert_allclose(other.query.dequantize(), packed[0].query.dequantize(), atol=1e-4)


def test_rules_choose_bits_by_name(attention):
    X = randn(6, 4, 24)
    rules = {"query|key": 2, "^output$": None, "unused": None}
    with warnings.catch_warnings(action="error"):
        packed = quantize_module(attention, GANQQuantizer(5), X, bits=rules)
    bits = {layer["name"]: layer["bits"] for layer in packed.quantization_report_}
    assert bits == {"query": 2, "key": 2, "value": 5}
    assert type(packed.output) is nn.Linear
    with warnings.catch_warnings(action="error"):
        packed = quantize_module(attention, RTNQuantizer(), X, modules=["value"], bits=3)
    assert [layer["name"] for layer in packed.quantization_report_] == ["value"]
    assert packed.value.bits == 3


def test_a_layer_that_is_called_twice_sees_all_its_inputs():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = nn.Linear(8, 8)
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.step(torch.tanh(self.step(x))))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Loop()
    packed = quantize_module(network, GANQQuantizer(2), randn(30, 8))
    assert [layer["n_samples"] for layer in packed.quantization_report_] == [60, 30]


@pytest.mark.parametrize(
    "conv",
    [
        {"kernel_size": 3},
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
        {"kernel_size": 5, "padding": "same"},
        {"kernel_size": 2, "padding": "valid", "bias": False},
    ],
)
def test_convolutions_are_linear_on_patches(conv):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 6, **conv), nn.ReLU())
    X = randn(4, 3, 11, 12)
    packed = quantize_module(network, KMeansQuantizer(8), X)
    with torch.no_grad():
        assert_allclose(packed(X), network(X), atol=1e-5)
        assert_allclose(packed(X[0]), network(X[0]), atol=1e-5)
    coarse = quantize_module(network, GANQQuantizer(2), X)
    patches = nn.functional.unfold(X, network[0].kernel_size, network[0].dilation,
                                   {"same": 2, "valid": 0}.get(conv.get("padding", 0),
                                                               network[0].padding),
                                   network[0].stride)  # fmt: skip
    rows = patches.transpose(1, 2).flatten(0, 1).numpy()
    quantizer = GANQQuantizer(2).fit(rows)
    W = network[0].weight.detach().flatten(1).numpy()
    assert_allclose(coarse[0].linear.dequantize(), quantizer.quantize(W).dequantize(), atol=1e-5)


def test_every_weight_that_is_left_alone_is_named():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(9, 8)
            self.experts = nn.Parameter(torch.zeros(2, 8, 8))
            self.grouped = nn.Conv2d(2, 2, 1, groups=2)
            self.uneven = nn.Conv2d(1, 1, 2, padding="same")
            self.head = nn.Linear(8, 9, bias=False)
            self.head.weight = self.embedding.weight
            self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
            self.plain = nn.Linear(8, 8)

        def forward(self, x):
            return self.head(self.normed(self.plain(self.embedding(x) @ self.experts[0])))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Odd()
    with pytest.warns(UserWarning, match="6 weights were left") as caught:
        packed = quantize_module(network, GANQQuantizer(3), torch.arange(9))
    (message,) = (str(warning.message) for warning in caught)
    named = message.split(": ")[1].split(". They")[0].split(", ")
    assert set(named) == {
        "experts",
        "embedding.weight",
        "grouped.weight",
        "uneven.weight",
        "normed.parametrizations.weight.original0",
        "normed.parametrizations.weight.original1",
    }
    assert isinstance(packed.plain, LUTLinear)
    assert packed.head.weight is packed.embedding.weight


def test_transformer_layers_work_in_evaluation_mode():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        network = nn.TransformerEncoder(layer, 2)
    X = randn(3, 5, 16)
    with pytest.warns(UserWarning, match=r"self_attn\.in_proj_weight"):
        packed = quantize_module(network.eval(), GANQQuantizer(6), X)
    with torch.no_grad():
        assert_allclose(packed(X), network(X), atol=0.05)


def test_a_single_layer_is_replaced_itself():
    layer = nn.Linear(6, 4)
    packed = quantize_module(layer, RTNQuantizer(8), randn(10, 6))
    assert isinstance(packed, LUTLinear)
    with torch.no_grad():
        assert_allclose(packed(randn(3, 6)), layer(randn(3, 6)), atol=0.02)


def test_state_dict_and_pickle_round_trips():
    network, X = mlp(), randn(100, 20)
    packed = quantize_module(network, GANQQuantizer(3, outlier_ratio=0.1), X)
    again = pickle.loads(pickle.dumps(packed))
    empty = copy.deepcopy(packed)
    for layer in (empty[0], empty[2], empty[4]):
        layer.codes.zero_()
        layer.codebook.data.zero_()
    with torch.no_grad():
        assert not torch.equal(empty(X), packed(X))
        empty.load_state_dict(packed.state_dict())
        assert torch.equal(empty(X), packed(X))
        assert torch.equal(again(X), packed(X))


def test_progress_is_shown_on_request(capsys):
    quantize_module(mlp(), RTNQuantizer(), randn(10, 20), verbose=1)
    assert "Quantising layers" in capsys.readouterr().err
    quantize_module(mlp(), RTNQuantizer(), randn(10, 20))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"quantizer": object()}, TypeError, "quantizer must be a BaseWeightQuantizer"),
        ({"quantizer": GPTQQuantizer(group_size=8)}, ValueError, "group_size must be None, got 8"),
        ({"module": 3}, TypeError, "module must be a torch.nn.Module, got int"),
        ({"X": []}, ValueError, "X holds no calibration batch"),
        ({"bits": 9}, ValueError, "bits must be integers from 1 to 8 or None, got 9"),
        ({"bits": {"0": 2.5}}, ValueError, "got 2.5"),
        ({"bits": {"attn": 2}}, ValueError, "The rule 'attn' in bits matches none"),
        ({"modules": ["1"]}, ValueError, "modules names '1', which is a ReLU"),
        ({"modules": ["9"]}, ValueError, "modules names '9', which is no module"),
    ],
)
def test_messages(changes, error, message):
    arguments = {"module": mlp(), "quantizer": GANQQuantizer(), "X": randn(5, 20), **changes}
    with pytest.raises(error, match=message):
        quantize_module(**arguments)


def test_a_failing_network_keeps_no_hooks():
    network = mlp()
    with pytest.raises(RuntimeError):
        quantize_module(network, GANQQuantizer(), randn(5, 19), inplace=True)
    assert not any(layer._forward_pre_hooks for layer in network)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return np.float32(X / 16), y


def test_skorch_nets_in_the_meta_estimator(digits):
    X, y = digits
    net = skorch.NeuralNetClassifier(
        mlp_of_digits, max_epochs=15, lr=0.2, criterion=nn.CrossEntropyLoss, verbose=0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = QuantizedEstimator(net, GANQQuantizer(3)).fit(X, y)
    assert model.score(X, y) > 0.85
    assert [weight.shape for weight in model.weights_] == [(64, 64), (10, 64)]
    assert len(model.layer_errors_) == 2
    assert model.compression_ratio_ > 2
    assert_array_equal(model.classes_, np.arange(10))
    assert model.estimator_.optimizer_ is None
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    fitted = net.fit(X, y)
    prefit = QuantizedEstimator(fitted, RTNQuantizer(8), prefit=True).fit(X)
    assert np.mean(prefit.predict(X) == fitted.predict(X)) > 0.98
    assert type(fitted.module_[0]) is nn.Linear


class mlp_of_digits(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def test_a_net_of_one_layer_says_what_to_do(digits):
    X, y = digits
    net = skorch.NeuralNetClassifier(
        nn.Linear, module__in_features=64, module__out_features=10, max_epochs=1, verbose=0,
        criterion=nn.CrossEntropyLoss,
    )  # fmt: skip
    with pytest.raises(TypeError, match="wrap it, for instance in torch.nn.Sequential"):
        QuantizedEstimator(net).fit(X, y)
