"""Contract checks of a class's surface: constructor, parameters, signatures, docstring.

Each check is called as ``check(name, estimator, make_inputs=...)`` and raises AssertionError.
"""

import inspect
import re

from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from ._contract_compare import digest, raises
from ._contract_inputs import fitted, fresh

_POSITIONAL_METHOD_ARGUMENTS = {"X", "y", "sample_weight", "classes"}
# Positional in the scikit-learn classes that some of ours stand beside.
_POSITIONAL_METHOD_ARGUMENTS |= {"check_input", "coef_init", "intercept_init"}


def _constructor_signature(estimator):
    """All parameters of the constructor but self; none for a class that does not define one."""
    if type(estimator).__init__ is object.__init__:
        return []
    return list(inspect.signature(type(estimator).__init__).parameters.values())[1:]


def _constructor_parameters(estimator):
    """Named parameters of the constructor; those that arrive by ``**kwargs`` have no contract."""
    parameters = _constructor_signature(estimator)
    return [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def check_constructor(name, estimator_orig, *, make_inputs=None):
    """The constructor stores what it gets, takes no ``*args``, and is keyword-only after two."""
    kinds = {parameter.kind for parameter in _constructor_signature(estimator_orig)}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds, f"{name}.__init__ takes *args."
    if inspect.Parameter.VAR_KEYWORD in kinds:  # skorch nets; keywords there are double-underscored
        return
    parameters = _constructor_parameters(estimator_orig)
    for parameter in parameters[2:]:
        assert parameter.kind is parameter.KEYWORD_ONLY, (
            f"{name}: the parameter {parameter.name!r} must be keyword-only."
        )
    given = {p.name: getattr(estimator_orig, p.name) for p in parameters}
    estimator = type(estimator_orig)(**given)
    for key, value in given.items():
        assert getattr(estimator, key) is value, f"{name}.__init__ does not store {key!r} as given."
    extra = {key for key in vars(estimator) if not key.startswith("_")} - _inherited_names(
        estimator
    )
    assert not extra, f"{name}.__init__ sets {sorted(extra)}, which are no parameters."
    sentinels = {p.name: object() for p in parameters}
    try:
        estimator = type(estimator_orig)(**sentinels)
    except Exception as error:
        raise AssertionError(f"{name}.__init__ validates its parameters: {error!r}") from error
    for key, value in sentinels.items():
        assert getattr(estimator, key) is value, f"{name}.__init__ changes {key!r}."


def _inherited_names(estimator):
    """Parameters of the constructor and of those of the base classes."""
    constructors = (
        vars(base)["__init__"] for base in type(estimator).__mro__[:-1] if "__init__" in vars(base)
    )
    return {key for init in constructors for key in inspect.signature(init).parameters}


def check_clone(name, estimator_orig, *, make_inputs=None):
    """A clone has the same parameters and nothing that was fitted."""
    estimator = clone(estimator_orig)
    if make_inputs is not None:
        estimator, _ = fitted(estimator, make_inputs)
    copy = clone(estimator)
    before, after = estimator.get_params(deep=False), copy.get_params(deep=False)
    assert list(before) == list(after), f"{name}: clone has the parameters {list(after)}."
    for key, value in before.items():
        same = digest(value) == digest(after[key]) or type(value) is type(after[key])
        assert same, f"{name}: clone changes {key!r} from {value!r} to {after[key]!r}."
    left = [key for key in vars(copy) if key.endswith("_") and not key.startswith("_")]
    assert not left, f"{name}: clone keeps the fitted attributes {left}."


def check_get_set_params(name, estimator_orig, *, make_inputs=None):
    """``set_params(**get_params())`` changes nothing, and unknown names are refused."""
    estimator = clone(estimator_orig)
    parameters = estimator.get_params(deep=False)
    assert set(parameters) >= {p.name for p in _constructor_parameters(estimator)}, (
        f"{name}: get_params leaves out constructor parameters."
    )
    for key, value in parameters.items():
        marker = object()
        estimator.set_params(**{key: marker})
        assert getattr(estimator, key) is marker, f"{name}: set_params does not set {key!r}."
        assert estimator.get_params(deep=False)[key] is marker, f"{name}: get_params hides {key!r}."
        returned = estimator.set_params(**{key: value})
        assert returned is estimator, f"{name}: set_params must return self."
    after = estimator.get_params(deep=False)
    assert all(after[key] is value for key, value in parameters.items()), (
        f"{name}: set_params(**get_params()) changes the parameters."
    )
    with raises((ValueError,), "no_such_parameter", f"{name}.set_params(no_such_parameter=0)"):
        estimator.set_params(no_such_parameter=0)


def check_parameter_validation(name, estimator_orig, *, make_inputs):
    """Every parameter has constraints, and ``fit`` refuses a bad value through them."""
    constraints = getattr(estimator_orig, "_parameter_constraints", {})
    class_name = type(estimator_orig).__name__
    for parameter in _constructor_parameters(estimator_orig):
        key = parameter.name
        assert key in constraints, f"{name}._parameter_constraints lacks {key!r}."
        if constraints[key] == "no_validation":
            continue
        estimator = fresh(estimator_orig).set_params(**{key: _InvalidValue()})
        with raises(
            (InvalidParameterError,),
            rf"The {key!r} parameter of {class_name}",
            f"{name}(invalid {key}).fit",
        ):
            make_inputs("small").fit(estimator)


class _InvalidValue:
    def __repr__(self):
        return "<a value that no parameter accepts>"


def check_extra_arrays_keyword_only(name, estimator_orig, *, make_inputs=None):
    """Extra arrays are keyword-only in ``fit`` and ``score``."""
    for method in ("fit", "partial_fit", "score"):
        if not hasattr(estimator_orig, method):
            continue
        for parameter in inspect.signature(getattr(estimator_orig, method)).parameters.values():
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                continue
            is_usual = parameter.name in _POSITIONAL_METHOD_ARGUMENTS
            assert is_usual, f"{name}.{method}: {parameter.name!r} must be keyword-only."


def docstring_sections(cls):
    """Sections of a numpydoc docstring: name to text; the summary is under ``""``."""
    text = inspect.getdoc(cls) or ""
    pieces = re.split(r"^(\S[^\n]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def _documented_names(section):
    found = set()
    for line in section.splitlines():
        if match := re.match(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) ?(?::|$)", line):
            found |= {name.strip().lstrip("*") for name in match[1].split(",")}
    return found


def check_docstring(name, estimator_orig, *, make_inputs=None):
    """The docstring has the numpydoc sections, with every parameter and fitted attribute."""
    sections = docstring_sections(type(estimator_orig))
    assert sections[""].strip(), f"{name} has no docstring summary."
    required = ["Examples"]
    has_fit = hasattr(estimator_orig, "fit")
    if _constructor_parameters(estimator_orig):
        required.append("Parameters")
    if has_fit:
        required += ["Attributes", "Notes", "References"]
    missing = [section for section in required if section not in sections]
    assert not missing, f"The docstring of {name} lacks the sections {missing}."
    documented = _documented_names(sections.get("Parameters", ""))
    missing = {p.name for p in _constructor_parameters(estimator_orig)} - documented
    assert not missing, f"The docstring of {name} lacks the parameters {sorted(missing)}."
    assert ">>>" in sections["Examples"], f"The Examples of {name} hold no doctest."
    if make_inputs is None or not has_fit:
        return
    estimator, _ = fitted(estimator_orig, make_inputs)
    public = {key for key in vars(estimator) if key.endswith("_") and not key.startswith("_")}
    missing = public - _documented_names(sections["Attributes"])
    assert not missing, f"The docstring of {name} lacks the attributes {sorted(missing)}."
