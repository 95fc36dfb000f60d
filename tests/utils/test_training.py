"""Devices, seeds, saved state and training shared by the torch methods."""

import copy
import io
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
pytest.importorskip("safetensors")

from skml.utils import _torch as utils_torch  # noqa: E402
from skml.utils import _training as training  # noqa: E402
from skml.utils._progress import progress  # noqa: E402


def make_module(n_inputs=3, n_outputs=1, dropout=0.0):
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(8, n_outputs),
    )


class Net(torch.nn.Module):
    def __init__(self, dropout=0.2):
        super().__init__()
        self.layers = make_module(dropout=dropout)

    def forward(self, X):
        return self.layers(X)


@pytest.fixture
def data():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    return X, (X[:, :1] - X[:, 1:2]).astype(np.float32)


@pytest.fixture
def global_state():
    """Fails the test when it changes torch's global state."""
    before = torch.random.get_rng_state(), torch.get_num_threads(), torch.is_grad_enabled()
    yield
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (torch.get_num_threads(), torch.is_grad_enabled())


def test_resolve_device_takes_torch_strings():
    assert utils_torch.resolve_device("cpu") == torch.device("cpu")
    assert utils_torch.resolve_device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(ValueError, match="device='meta' holds shapes without numbers"):
        utils_torch.resolve_device("meta")
    expected = "cuda" if torch.cuda.is_available() else None
    assert expected is None or utils_torch.resolve_device("auto").type == expected


def test_resolve_device_auto_without_accelerator_is_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert utils_torch.resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="device='cuda:0', but torch finds no cuda"):
        utils_torch.resolve_device("cuda:0")
    with pytest.raises(ValueError, match="device='mps', but torch finds no mps"):
        utils_torch.resolve_device("mps")


def test_resolve_device_checks_the_index(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert utils_torch.resolve_device("cuda:1").index == 1
    with pytest.raises(ValueError, match="there are only 2 cuda devices"):
        utils_torch.resolve_device("cuda:2")


@pytest.mark.parametrize("device", ["gpu", "", 1.5, None])
def test_resolve_device_names_bad_values(device):
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or another torch device"):
        utils_torch.resolve_device(device)


def test_make_generator_follows_random_state(global_state):
    def draws(random_state):
        return torch.rand(4, generator=utils_torch.make_generator(random_state)).tolist()

    assert draws(3) == draws(3) == draws(np.random.RandomState(3))
    assert draws(3) != draws(4)
    rng = np.random.RandomState(3)
    assert draws(rng) != draws(rng)


def test_local_seed_seeds_and_restores(global_state):
    weights = []
    for seed in (0, 0, 1):
        with utils_torch.local_seed(seed, n_threads=1):
            assert torch.get_num_threads() == 1
            torch.set_grad_enabled(False)
            weights.append(torch.nn.Linear(2, 2).weight.clone())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_local_seed_in_threads_draws_what_one_thread_draws():
    def draw(seed):
        with utils_torch.local_seed(seed):
            values = []
            for _ in range(20):
                values.append(torch.rand(3))
                time.sleep(1e-4)  # lets another thread in, if one may come
            with utils_torch.local_seed(seed + 1):  # blocks may be nested
                values.append(torch.rand(3))
        return torch.stack(values)

    expected = [draw(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(draw, range(8)))
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other)


def test_local_seed_restores_after_an_error(global_state):
    @utils_torch.local_seed(0, n_threads=1)
    def fail():
        torch.rand(3)
        raise KeyError

    with pytest.raises(KeyError):
        fail()


def test_as_tensor_copies_anything():
    array = np.arange(6.0).reshape(2, 3)
    array.setflags(write=False)
    tensor = utils_torch.as_tensor(array)
    assert tensor.dtype == torch.float32
    tensor[0, 0] = 9
    assert array[0, 0] == 0
    assert utils_torch.as_tensor(array[::-1, ::-1]).tolist() == array[::-1, ::-1].tolist()
    assert utils_torch.as_tensor(array.astype(">f8"), dtype=None).tolist() == array.tolist()
    assert utils_torch.as_tensor(tensor).data_ptr() != tensor.data_ptr()
    np.testing.assert_array_equal(utils_torch.to_numpy(utils_torch.as_tensor(array)), array)


def test_module_round_trip_through_a_file(tmp_path):
    module, other = make_module(), make_module()
    utils_torch.save_module(module, tmp_path / "weights.safetensors")
    utils_torch.load_module(other, tmp_path / "weights.safetensors")
    for name, value in module.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])


def test_module_with_tied_weights_round_trips():
    def tied():
        module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        module[1].weight = module[0].weight
        return module

    module, other = tied(), tied()
    utils_torch.load_module_bytes(other, utils_torch.module_to_bytes(module))
    assert torch.equal(other[1].weight, module[0].weight)
    assert other[1].weight is other[0].weight


class LineFitter(utils_torch.TorchStateMixin, BaseEstimator):
    _torch_modules = {"module_": "_build_module", "net_": "_build_net"}

    def __init__(self, random_state=None, callbacks=None):
        self.random_state = random_state
        self.callbacks = callbacks

    def fit(self, X, y):
        with utils_torch.local_seed(self.random_state):
            self.module_ = self._build_module().eval()
        self.net_ = training.make_net(
            skorch.NeuralNetRegressor,
            Net,
            random_state=self.random_state,
            max_epochs=3,
            batch_size=16,
            validation_fraction=0.25,
            callbacks=self.callbacks,
        )
        training.fit_net(self.net_, X, y, random_state=self.random_state)
        return self

    def _build_module(self):
        return make_module()

    def _build_net(self):
        return training.make_net(skorch.NeuralNetRegressor, Net).initialize()

    def predict(self, X):
        check_is_fitted(self)
        with torch.no_grad():
            return self.module_(utils_torch.as_tensor(X)).numpy(), self.net_.predict(X)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda est: pickle.loads(pickle.dumps(est))])
def test_estimator_with_nets_round_trips(data, copied, global_state):
    estimator = LineFitter(random_state=0).fit(*data)
    other = copied(estimator)
    for one, two in zip(estimator.predict(data[0]), other.predict(data[0]), strict=True):
        np.testing.assert_array_equal(one, two)
    assert training.loss_curve(other.net_) == training.loss_curve(estimator.net_)
    assert copied(LineFitter(random_state=1)).random_state == 1


def test_estimator_with_nets_round_trips_through_skops(data):
    skops_io = pytest.importorskip("skops.io")
    estimator = LineFitter(random_state=0).fit(*data)
    dumped = skops_io.dumps(estimator)
    trusted = skops_io.get_untrusted_types(data=dumped)
    assert not [name for name in trusted if name.startswith(("torch", "skorch"))]
    other = skops_io.loads(dumped, trusted=trusted)
    for one, two in zip(estimator.predict(data[0]), other.predict(data[0]), strict=True):
        np.testing.assert_array_equal(one, two)


def test_pickle_holds_no_module(data):
    class Finder(pickle.Unpickler):
        def find_class(self, module, name):
            assert not module.startswith(("torch", "skorch")), module
            return super().find_class(module, name)

    state = LineFitter(random_state=0).fit(*data).__getstate__()
    Finder(io.BytesIO(pickle.dumps(state))).load()


def descend(module, X, y, learning_rate=0.05):
    optimizer = torch.optim.SGD(module.parameters(), lr=learning_rate)

    def step(iteration):
        optimizer.zero_grad()
        loss = ((module(X) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def test_fit_loop_descends(data, global_state):
    X, y = map(torch.from_numpy, data)
    with utils_torch.local_seed(0):
        module = torch.nn.Linear(3, 1)
    record = training.fit_loop(descend(module, X, y), max_iter=200, modules=[module])
    assert record.n_iter == len(record.loss_curve) == 200
    assert record.loss_curve[-1] < 1e-3 < record.loss_curve[0]
    assert not record.stopped_early
    assert record.validation_curve == []


def test_fit_loop_restores_the_weights_that_gave_the_best_loss():
    weight = torch.nn.Linear(1, 1, bias=False)
    values = iter([3.0, 1.0, 2.0, 5.0])

    def step(iteration):
        loss = next(values)
        with torch.no_grad():
            weight.weight.fill_(float(iteration + 1))
        return loss

    with torch.no_grad():
        weight.weight.fill_(0.0)
    record = training.fit_loop(step, max_iter=4, modules=[weight])
    assert (record.best_iter, record.best_value) == (1, 1.0)
    assert weight.weight.item() == 1.0  # before the update of iteration 1


def test_fit_loop_restores_the_weights_after_the_best_validation():
    weight = torch.nn.Linear(1, 1, bias=False)

    def step(iteration):
        with torch.no_grad():
            weight.weight.fill_(float(iteration + 1))
        return 0.0

    scores = [3.0, 1.0, 2.0, 5.0]
    record = training.fit_loop(step, max_iter=4, modules=[weight], validate=scores.__getitem__)
    assert record.validation_curve == scores
    assert weight.weight.item() == 2.0


def test_fit_loop_stops_when_nothing_improves_by_more_than_tol():
    losses = [1.0, 0.5, 0.49, 0.48, 0.47, 0.1]
    run = training.fit_loop
    record = run(losses.__getitem__, max_iter=6, tol=0.1, n_iter_no_change=3)
    assert record.stopped_early
    assert record.n_iter == 5
    assert record.best_value == 0.47
    # Slow progress adds up to an improvement.
    assert not run(losses.__getitem__, max_iter=6, tol=0.025, n_iter_no_change=3).stopped_early
    assert not run(losses.__getitem__, max_iter=6, tol=0.1).stopped_early


def test_fit_loop_shows_what_the_caller_describes(capsys):
    pytest.importorskip("tqdm")
    losses = [0.5, 0.25, 0.75].__getitem__
    training.fit_loop(losses, max_iter=3, verbose=1)
    assert "best=0.25" in capsys.readouterr().err

    def describe(loss, best):
        return {"halves": f"{2 * loss} of {2 * best}"}

    training.fit_loop(losses, max_iter=3, verbose=1, describe=describe)
    shown = capsys.readouterr().err
    assert "halves=1.5 of 0.5" in shown
    assert "loss=" not in shown


def test_fit_loop_refuses_nan():
    with pytest.raises(ValueError, match="loss became nan in iteration 2; .*learning_rate"):
        training.fit_loop([1.0, 0.5, np.nan].__getitem__, max_iter=3)


def test_minibatches_cover_each_row_once():
    generator = utils_torch.make_generator(0)
    batches = list(training.minibatches(10, 4, generator))
    assert [len(rows) for rows in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    assert torch.cat(list(training.minibatches(10, 4, generator))).tolist() != list(range(10))
    assert [len(rows) for rows in training.minibatches(10, 4, generator, drop_last=True)] == [4, 4]
    (rows,) = training.minibatches(3, None, generator, shuffle=False)
    assert rows.tolist() == [0, 1, 2]
    assert [len(rows) for rows in training.minibatches(3, 9, generator, drop_last=True)] == [3]


@pytest.mark.usefixtures("global_state")
def test_nets_are_deterministic_and_quiet(data, capsys):
    first, second, other = (LineFitter(random_state=s).fit(*data).net_ for s in (0, 0, 1))
    np.testing.assert_array_equal(first.predict(data[0]), second.predict(data[0]))
    assert not np.array_equal(first.predict(data[0]), other.predict(data[0]))
    assert len(training.loss_curve(first)) == len(training.loss_curve(first, "valid_loss")) == 3
    assert capsys.readouterr().out == ""


def test_net_stops_early_and_returns_to_the_best_weights(data):
    net = training.make_net(
        skorch.NeuralNetRegressor,
        Net,
        random_state=0,
        learning_rate=1.0,
        max_epochs=50,
        validation_fraction=0.3,
        n_iter_no_change=2,
    )
    training.fit_net(net, *data, random_state=0)
    losses = training.loss_curve(net, "valid_loss")
    assert len(losses) < 50
    assert np.argmin(losses) < len(losses) - 1
    _, held_out = net.train_split(skorch.dataset.Dataset(*data), data[1])
    X_held, y_held = map(np.stack, zip(*(held_out[i] for i in range(len(held_out))), strict=True))
    reached = np.mean((net.predict(X_held) - y_held) ** 2)
    assert reached == pytest.approx(min(losses), rel=1e-4)


def test_interrupt_of_the_user_ends_the_fit_and_one_of_a_callback_the_training(data):
    class Raises(skorch.callbacks.Callback):
        def on_epoch_end(self, net, **kwargs):
            raise KeyboardInterrupt

    stopped = LineFitter(random_state=0, callbacks=[("raises", Raises())]).fit(*data)
    assert len(stopped.net_.history) == 1

    class Interrupted(Net):
        def forward(self, X):
            raise KeyboardInterrupt

    net = training.make_net(skorch.NeuralNetRegressor, Interrupted, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        training.fit_net(net, *data, random_state=0)


def test_net_can_be_stored_while_it_is_trained(data, tmp_path):
    checkpoint = skorch.callbacks.Checkpoint(
        monitor=None,
        f_params=None,
        f_optimizer=None,
        f_criterion=None,
        f_history=None,
        f_pickle=tmp_path / "net.pkl",
    )
    net = training.make_net(
        skorch.NeuralNetRegressor,
        torch.nn.Linear,
        module__in_features=data[0].shape[1],
        module__out_features=1,
        max_epochs=2,
        callbacks=[("checkpoint", checkpoint)],
        random_state=0,
    )
    training.fit_net(net, *data, random_state=0)
    assert len(pickle.loads((tmp_path / "net.pkl").read_bytes()).history) == 2


def test_user_callbacks_are_copied(data):
    class Counter(skorch.callbacks.Callback):
        n_epochs = 0

        def on_epoch_end(self, net, **kwargs):
            self.n_epochs += 1

    counter = Counter()
    estimator = LineFitter(random_state=0, callbacks=[("counter", counter)]).fit(*data)
    assert counter.n_epochs == 0
    assert dict(estimator.net_.callbacks_)["counter"].n_epochs == 3


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_progress_shows_all_items(with_tqdm, monkeypatch, capsys):
    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr("skml.utils._progress.tqdm", None)
    assert list(progress(range(3), "count", verbose=1)) == [0, 1, 2]
    shown = capsys.readouterr().err
    assert "count" in shown
    assert "3/3" in shown


def test_progress_is_silent_when_not_verbose(capsys):
    items = range(3)
    assert progress(items, "count", verbose=0) is items
    assert list(progress(iter("ab"), "letters", verbose=1)) == ["a", "b"]
    assert "letters" in capsys.readouterr().err
