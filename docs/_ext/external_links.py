"""Resolve references to scikit-learn, numpy and pandas without fetching an inventory.

Their documentation uses stable addresses that follow from the name of the object, so the
build needs no network.
"""

from docutils import nodes

_SKLEARN = "https://scikit-learn.org/stable"


def external_uri(reference_type, target):
    """Address of an object or glossary term of another library, or None.

    Parameters
    ----------
    reference_type : str
        Role of the reference: ``"class"``, ``"func"``, ``"meth"``, ``"term"`` …
    target : str
        Full name of the object, such as ``"sklearn.tree.DecisionTreeClassifier.fit"``.

    Returns
    -------
    str or None
        The address.
    """
    if reference_type == "term":
        return f"{_SKLEARN}/glossary.html#term-{target.replace(' ', '-')}"
    root = target.partition(".")[0]
    if root == "sklearn":
        owner = target.rpartition(".")[0] if reference_type in ("meth", "attr") else target
        anchor = f"#{target}" if owner != target else ""
        return f"{_SKLEARN}/modules/generated/{owner}.html{anchor}"
    if root == "numpy":
        return f"https://numpy.org/doc/stable/reference/generated/{target}.html"
    if root == "pandas":
        return f"https://pandas.pydata.org/docs/reference/api/{target}.html"
    return None


def _resolve(app, env, node, contnode):
    uri = external_uri(node.get("reftype"), node.get("reftarget", ""))
    if uri is None:
        return None
    return nodes.reference("", "", contnode.deepcopy(), internal=False, refuri=uri)


def setup(app):
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
