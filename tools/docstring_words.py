"""What the entries of a docstring must say in one way all over the library.

A parameter that many classes share begins with the same words in all of them, a default that is
written down is the one of the signature, and types have one form and say what validation takes.
"""

import ast
import fractions
import pydoc
import re

from sklearn.utils._param_validation import StrOptions

# Name of a parameter or attribute: how its description begins, wherever it is documented.
BEGINNINGS = {
    "classes_": "Class labels",
    # A layer is no estimator: it lies somewhere and trains nothing.
    "device": ('Where to train: "cpu", "auto" or a torch device string.', "Device of the weights"),
    "feature_names_in_": "Names of the features seen during `fit`, if all are strings.",
    "loss_curve_": "Loss of ",
    "max_epochs": ("Number of passes", "Largest number of passes"),
    "max_iter": ("Number of ", "Largest number of "),
    "missing_mask": "Cells that count as missing although X holds a value",
    "n_features_in_": "Number of features seen during `fit`",
    "n_iter_": ("Number of ", "Largest number of "),
    "n_iter_no_change": "Stop ",
    "random_state": "Source of ",
    "sample_weight": "Weights of the rows",
    "validation_fraction": "Share of the rows held out",
    "verbose": "0 is silent, 1 ",
}
_DEFAULT = re.compile(r", default=(.+)$")
_DTYPE_FIRST = re.compile(
    r"\b(?:ndarray|array-like|Tensor|Parameter) of \w+(?:,| of) shape|bool ndarray of shape"
)
_MEANS_NONE_TOO = ("random_state", "cv_object")
_TAKES_ARRAYS = re.compile(r"\{?array-like")


def words_problems(docstring, signature, is_method=False):
    """Yield (code, message) for each entry of a docstring that has words of its own.

    Parameters
    ----------
    docstring : numpydoc.docscrape.NumpyDocString
        The parsed docstring.
    signature : inspect.Signature
        Where the defaults come from.
    is_method : bool
        A method may leave out the default None: metadata routing needs it in the signature, also
        where `fit` cannot do without the argument.
    """
    for section in ("Parameters", "Attributes"):
        for entry in docstring[section]:
            yield from _type_problems(entry, is_attribute=section == "Attributes")
            yield from _beginning_problems(entry)
    for entry in docstring["Parameters"]:
        yield from _default_problems(entry, signature, is_method)
    for entry in docstring["Returns"]:
        yield from _type_problems(entry)


def constraint_problems(docstring, constraints):
    """Yield (code, message) for each parameter whose type is not what validation takes.

    Parameters
    ----------
    docstring : numpydoc.docscrape.NumpyDocString
        The parsed docstring of an estimator.
    constraints : dict of str to list
        Its ``_parameter_constraints``.
    """
    for entry in docstring["Parameters"]:
        kinds = _DEFAULT.sub("", entry.type)
        for name in entry.name.split(", "):
            allowed = constraints.get(name)
            if not isinstance(allowed, list):  # "no_validation", or no constraint
                continue
            takes_none = any(kind is None or kind in _MEANS_NONE_TOO for kind in allowed)
            if takes_none != ("None" in kinds):
                verb = "takes" if takes_none else "refuses"
                yield "SK08", f"{name!r} {verb} None, unlike its type says"
            options = [kind.options for kind in allowed if isinstance(kind, StrOptions)]
            unknown = set(re.findall(r'"(\w+)"', kinds)).difference(*options)
            if options and unknown:
                yield "SK08", f"{name!r} refuses {sorted(unknown)}, which its type lists"


def _beginning_problems(entry):
    expected = BEGINNINGS.get(entry.name, "")
    text = " ".join(line.strip() for line in entry.desc)
    if not text.startswith(expected):
        yield "SK07", f"{entry.name!r} does not begin with {expected!r}, as it does elsewhere"


def _type_problems(entry, is_attribute=False):
    where = f"The type of {entry.name!r}" if entry.name else "The type that is returned"
    if _DTYPE_FIRST.search(entry.type):
        yield "SK06", f"{where} is not of the form 'ndarray of shape (...), dtype ...'"
    default = _DEFAULT.search(entry.type)
    if default is None:
        return
    if is_attribute:
        yield "SK06", f"{where} has a default, which attributes have not"
    kinds = entry.type[: default.start()]
    if default[1] == "None" and "None" not in kinds and not _TAKES_ARRAYS.match(kinds):
        yield "SK06", f"{where} does not say 'or None', which is the default"
    if re.search(r"(?<!\w)'\w+'", entry.type):
        yield "SK06", f"{where} has strings in single quotes"


def _default_problems(entry, signature, is_method):
    written = _DEFAULT.search(entry.type)
    for name in entry.name.split(", "):
        parameter = signature.parameters.get(name)
        if parameter is None or entry.type == "None":
            continue
        default = parameter.default
        # The repr of a dataclass field with default_factory.
        if default is parameter.empty or repr(default) == "<factory>":
            continue
        if written is None:
            if not (is_method and default is None):
                yield "SK05", f"The type of {name!r} does not end in 'default={default!r}'"
        elif _value(written[1]) != default:
            yield "SK05", f"The default of {name!r} is {default!r}, not {written[1]}"


def _value(text):
    """Value of a default as it is written in a docstring: 1e-3, "auto", 1/3, numpy.float64."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        return float(fractions.Fraction(text))
    except ValueError:
        return pydoc.locate(text)
