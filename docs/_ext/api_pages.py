"""Write the API reference from the ``__all__`` of every sub-package.

The pages go to ``docs/api/generated`` before Sphinx looks for source files, so a new public
name needs no edit here.
"""

import importlib
import inspect
from functools import cached_property
from pathlib import Path

from public_api import own_members, public_names, subpackage_names

_HEADINGS = {"class": "Classes", "function": "Functions", "data": "Constants"}


def write_api_pages(folder):
    """Write all pages, drop the ones of names that are gone, return the public names."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages, names = {}, []
    for subpackage in subpackage_names():
        entries = public_names(subpackage)
        names += entries
        pages[f"skml.{subpackage}.rst"] = _subpackage_page(subpackage, entries)
        for entry in entries:
            if entry.kind in ("class", "function"):
                pages[f"{entry.path}.rst"] = _object_page(entry)
    for stale in folder.glob("*.rst"):
        if stale.name not in pages:
            stale.unlink()
    for file_name, text in pages.items():
        target = folder / file_name
        # An unchanged page keeps its time stamp: Sphinx does not read it again.
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    return names


def _title(text, line="="):
    return f"{text}\n{line * len(text)}\n\n"


def _subpackage_page(subpackage, entries):
    module = importlib.import_module(f"skml.{subpackage}")
    text = f".. _api_{subpackage}:\n\n" + _title(f"skml.{subpackage}")
    text += inspect.cleandoc(module.__doc__ or "") + "\n\n"
    text += f"User guide: :doc:`/user_guide/{subpackage}`.\n\n"
    text += f".. currentmodule:: skml.{subpackage}\n\n"
    for kind, heading in _HEADINGS.items():
        chosen = [entry for entry in entries if entry.kind == kind]
        if not chosen:
            continue
        text += _title(heading, "-")
        if kind == "data":
            text += "".join(f"- ``{entry.path}``\n" for entry in chosen) + "\n"
            continue
        text += ".. autosummary::\n   :nosignatures:\n\n"
        prefix = f"skml.{subpackage}."
        text += "".join(f"   {entry.path.removeprefix(prefix)}\n" for entry in chosen)
        text += "\n.. toctree::\n   :hidden:\n\n"
        text += "".join(f"   {entry.path}\n" for entry in chosen) + "\n"
    missing = [entry for entry in entries if entry.kind == "unavailable"]
    if missing:
        text += _title("Not installed where this page was built", "-")
        text += "".join(f"- ``{entry.path}``: {entry.missing}\n" for entry in missing) + "\n"
    return text


def _object_page(entry):
    text = _title(entry.name)
    text += f".. currentmodule:: {entry.module}\n\n"
    if entry.kind == "function":
        text += f".. autofunction:: {entry.path}\n"
    else:
        text += _class_body(entry)
    return text + f"\n.. minigallery:: {entry.path}\n   :add-heading: Gallery\n"


def _class_body(entry):
    ours, inherited = own_members(entry.value)
    text = f".. autoclass:: {entry.path}\n"
    for name in ours:
        member = inspect.getattr_static(entry.value, name)
        directive = (
            "autoproperty" if isinstance(member, property | cached_property) else "automethod"
        )
        text += f"\n   .. {directive}:: {entry.path}.{name}\n"
    if inherited:
        text += "\nInherited from scikit-learn or skorch: "
        text += ", ".join(f"``{name}``" for name in inherited) + ".\n"
    return text


def _before_reading(app, config):
    write_api_pages(Path(app.srcdir) / "api" / "generated")


def setup(app):
    app.connect("config-inited", _before_reading)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
