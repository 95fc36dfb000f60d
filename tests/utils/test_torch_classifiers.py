"""Logits, modes and features of torch classifiers."""

import contextlib

import pytest

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skml.utils._torch_classifiers import (  # noqa: E402
    LogitModule,
    PenultimateFeatures,
    evaluation_mode,
    frozen_copy,
    logit_module,
)


class Fixed(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.out


P = torch.tensor([[0.25, 0.75], [1.0, 0.0]])


def test_probabilities_become_logarithms_that_are_clipped():
    seen = LogitModule(Fixed(P), "probabilities")(None)
    assert seen[1].tolist() == pytest.approx([0.0, -69.0776], abs=1e-3)
    assert torch.allclose(seen[0].softmax(0), P[0])


@pytest.mark.parametrize("out", [torch.tensor([1.5, -2.0]), torch.tensor([[1.5], [-2.0]])])
def test_single_output_is_the_second_of_two_classes(out):
    assert LogitModule(Fixed(out))(None).tolist() == [[0.0, 1.5], [0.0, -2.0]]
    p = LogitModule(Fixed(out.sigmoid()), "probabilities")(None)
    assert torch.allclose(p.softmax(1)[:, 1], out.ravel().sigmoid())


def test_first_of_several_outputs_counts():
    assert LogitModule(Fixed((P, None)))(None) is P


@pytest.mark.parametrize(
    ("criterion", "output"),
    [
        (torch.nn.CrossEntropyLoss, "logits"),
        (torch.nn.BCEWithLogitsLoss, "logits"),
        (torch.nn.NLLLoss, "probabilities"),
        (torch.nn.BCELoss, "probabilities"),
    ],
)
def test_criterion_of_a_net_says_what_its_module_gives(criterion, output):
    net = skorch.NeuralNet(Fixed(P), criterion=criterion).initialize()
    logits = logit_module(net, needed_by="teacher")
    assert logits.output == output
    assert logits.module is net.module_


def test_other_criteria_and_classes_are_refused():
    net = skorch.NeuralNet(Fixed(P), criterion=torch.nn.MSELoss).initialize()
    with pytest.raises(TypeError, match="teacher is a skorch net with the criterion MSELoss"):
        logit_module(net, needed_by="teacher")
    with pytest.raises(TypeError, match="teacher must be a torch module .* got object"):
        logit_module(object(), needed_by="teacher")


def test_modes_come_back_part_by_part():
    module = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.BatchNorm1d(2))
    module[1].eval()

    class Stop(Exception):
        pass

    with contextlib.suppress(Stop), evaluation_mode(module):
        assert not module[0].training
        raise Stop
    assert [module.training, module[0].training, module[1].training] == [True, True, False]


def test_frozen_copy_is_apart():
    module = torch.nn.Linear(2, 2)
    copy = frozen_copy(module, "cpu")
    assert not copy.weight.requires_grad
    assert not copy.training
    assert module.weight.requires_grad
    assert module.training
    assert copy.weight.data_ptr() != module.weight.data_ptr()


def test_features_are_those_of_the_linear_layer_that_runs_last():
    class Crossed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(3, 2)
            self.first = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.first(x))

    module, x = Crossed(), torch.ones(5, 4)
    with PenultimateFeatures(module) as features:
        module(x)
        assert torch.equal(features.take(), module.first(x))
    assert not module.last._forward_pre_hooks
    with pytest.raises(ValueError, match=r"module must contain an nn\.Linear"):
        PenultimateFeatures(torch.nn.ReLU()).__enter__()
