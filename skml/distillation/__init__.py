"""Small students from networks without their data, also where the network is not to be trusted."""

from skml.utils._optional import lazy_exports

__all__ = ["ATEscDistiller", "DataFreeDistiller", "NonTransferableClassifier"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ATEscDistiller": "_atesc",
        "DataFreeDistiller": "_data_free",
        "NonTransferableClassifier": "_non_transferable",
    },
    extra="torch",
    namespace=globals(),
)
