"""Models of tensors that commute with easy groups and their quantum versions."""

from skml.utils._optional import lazy_exports

from ._basis import equivariant_basis
from ._diagrams import adjoint_partition, compose_partitions, tensor_partitions
from ._equivariance_error import equivariance_error
from ._formatting import format_basis, format_partition
from ._partitions import count_partitions
from ._polynomial_features import EquivariantPolynomialFeatures
from ._representations import quantum_representation, sample_group
from ._scaler import EquivariantScaler

__all__ = [
    "EquivariantLinear",
    "EquivariantNetwork",
    "EquivariantPolynomialFeatures",
    "EquivariantScaler",
    "QuantumGroupEquivariantClassifier",
    "QuantumGroupEquivariantRegressor",
    "adjoint_partition",
    "compose_partitions",
    "count_partitions",
    "equivariance_error",
    "equivariant_basis",
    "format_basis",
    "format_partition",
    "quantum_representation",
    "sample_group",
    "tensor_partitions",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EquivariantLinear": "_linear",
        "EquivariantNetwork": "_network",
        "QuantumGroupEquivariantClassifier": "_classifier",
        "QuantumGroupEquivariantRegressor": "_regressor",
    },
    extra="torch",
    namespace=globals(),
)
