"""Pictures of what the methods trade off; matplotlib is imported on use only."""

from ._cate_bounds import CATEBoundsDisplay
from ._feature_reliance import FeatureRelianceDisplay
from ._mode_discovery import ModeDiscoveryDisplay
from ._objective_curve import ObjectiveCurveDisplay
from ._partition import PartitionDisplay
from ._path_union import PathUnionDisplay
from ._quantization_error import QuantizationErrorDisplay
from ._reliance_curve import RelianceCurveDisplay
from ._sample_distribution import SampleDistributionDisplay
from ._spectrum import SpectrumDisplay
from ._time_encoding import TimeEncodingDisplay
from ._trap import TrapDisplay

__all__ = [
    "CATEBoundsDisplay",
    "FeatureRelianceDisplay",
    "ModeDiscoveryDisplay",
    "ObjectiveCurveDisplay",
    "PartitionDisplay",
    "PathUnionDisplay",
    "QuantizationErrorDisplay",
    "RelianceCurveDisplay",
    "SampleDistributionDisplay",
    "SpectrumDisplay",
    "TimeEncodingDisplay",
    "TrapDisplay",
]
