"""The drawings of partitions show each block, and refuse what is no partition."""

import numpy as np
import pytest

from skml.equivariant import QuantumGroupEquivariantRegressor
from skml.inspection import PartitionDisplay


def test_lines_join_the_points_of_each_block():
    display = PartitionDisplay([((0, 1, 3), (2,))], order_in=2, order_out=2).plot()
    assert len(display.lines_) == 3 + 1
    ends = {tuple(line.get_xydata()[0]) for line in display.lines_}
    assert ends == {(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (1.0, 0.0)}
    middles = {tuple(np.round(line.get_xydata()[1], 6)) for line in display.lines_[:3]}
    assert len(middles) == 1


def test_two_arcs_of_a_row_do_not_coincide():
    display = PartitionDisplay([((0, 3), (1, 2))], order_in=4, order_out=0).plot(labels=False)
    depths = {round(float(line.get_ydata()[1]), 3) for line in display.lines_}
    assert len(depths) == 2
    assert not display.ax_.texts


def test_from_group_draws_a_basis():
    display = PartitionDisplay.from_group("O", 3, 2, 2, n_columns=3, color="C1")
    assert [text.get_text() for text in display.ax_.texts] == [
        "{1,2}{1',2'}",
        "{1,1'}{2,2'}",
        "{1,2'}{2,1'}",
    ]
    assert {line.get_color() for line in display.lines_} == {"C1"}
    assert display.figure_ is display.ax_.figure
    assert len(PartitionDisplay.from_group("S", 2, 2, 2, independent=False).partitions) == 15


def test_from_estimator_shows_the_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5))
    model = QuantumGroupEquivariantRegressor(
        "S", input_power=2, hidden_layer_sizes=(), alpha=1e-9
    ).fit(X, (X**2).sum(axis=1))
    display = PartitionDisplay.from_estimator(model, orders=(2, 0))
    assert display.partitions == [((0, 1),), ((0,), (1,))]
    np.testing.assert_allclose(display.weights, [np.sqrt(5), 0], atol=1e-6)
    opacities = [line.get_alpha() for line in display.lines_]
    assert max(opacities) == pytest.approx(1.0)
    assert min(opacities) < 0.1
    with pytest.raises(ValueError, match=r"orders must be one of \[\(1, 0\), \(2, 0\)\]"):
        PartitionDisplay.from_estimator(model, orders=(3, 0))
    with pytest.raises(ValueError, match="layer must be from 0 to 0, got 1"):
        PartitionDisplay.from_estimator(model, layer=1)


def test_what_is_no_partition_is_refused():
    with pytest.raises(ValueError, match=r"hold the points \[0, 1\] once"):
        PartitionDisplay([((0,),)], order_in=1, order_out=1)
    with pytest.raises(ValueError, match=r"weights must have the shape \(1,\)"):
        PartitionDisplay([((0, 1),)], order_in=1, order_out=1, weights=[1, 2])
