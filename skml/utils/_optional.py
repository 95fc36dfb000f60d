"""Access to what an optional extra provides."""

import importlib


def import_optional(module, *, extra, needed_by):
    """Import an optional module, or say which pip command brings it.

    Parameters
    ----------
    module : str
        Name of the module, such as ``"torch"``.
    extra : str
        The extra of skml that installs it, such as ``"torch"``; a string that contains a
        space is taken as the whole pip command.
    needed_by : str
        What the caller was asked to do; it opens the error message.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        command = extra if " " in extra else f"pip install 'skml[{extra}]'"
        raise ImportError(f"{needed_by} needs {module}: {command}") from error


def lazy_exports(package, modules, *, extra=None, namespace=None):
    """Make ``__getattr__`` and ``__dir__`` for a package whose names load on first access.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    modules : dict of str to str
        For each public name, the sub-module that defines it (``{"LeTEEncoding": "_lete"}``).
    extra : str or None
        The extra of skml that these names need, for the error message.
    namespace : dict or None
        ``globals()`` of the package, to which loaded names are added.

    Returns
    -------
    tuple of (callable, callable)
        The two functions to assign to ``__getattr__`` and ``__dir__``.
    """
    namespace = {} if namespace is None else namespace

    def __getattr__(name):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{modules[name]}")
        except ModuleNotFoundError as error:
            if extra is None or (error.name or "").startswith("skml"):
                raise
            raise ImportError(
                f"{package}.{name} needs {error.name}: pip install 'skml[{extra}]'"
            ) from error
        value = getattr(module, name)
        namespace[name] = value
        return value

    def __dir__():
        return sorted(set(namespace) | set(modules))

    return __getattr__, __dir__
