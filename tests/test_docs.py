"""What the documentation says must be true: code runs, links lead somewhere, tables match."""

import doctest
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from api_pages import write_api_pages
from external_links import external_uri
from method_table import method_table, readme_rows
from public_api import public_names, subpackage_names
from ratio_chart import ratio_chart
from result_files import read_benchmarks, read_reproductions
from result_pages import format_value, heading_and_story

import skml
from skml.utils.discovery import all_estimators

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(
    path
    for path in DOCS.rglob("*.rst")
    if not {"_build", "auto_examples", "generated"} & set(path.relative_to(DOCS).parts)
)
REPRODUCTION = {
    "page": "some_method",
    "table": [
        {"model": "ours", "auroc": 0.712345, "spread": None, "r2": 0.512345, "r2_sd": 0.0123}
    ],
    "gates": [
        {"name": "kept claim", "value": 0.9, "bound": 0.8, "holds": True},
        {"name": "lost claim", "value": 0.7, "bound": 0.8, "holds": False},
    ],
    "seeds": [0, 1],
    "versions": {"numpy": "2.0"},
    "machine": "two cores",
    "seconds": 1.5,
}
BENCHMARK = {
    "page": "some_method",
    "rows": [
        {
            "name": "fit",
            "ours_s": 0.1,
            "peer": "a peer",
            "peer_s": 0.25,
            "ratio": 2.5,
            "goal": 5,
            "holds": False,
        }
    ],
    "versions": {},
    "machine": "two cores",
}


def method_rows():
    """Rows of the README's table: (method, sub-package, names, status)."""
    return [
        (method, subpackage.strip("`"), re.findall(r"`(\w+)`", names), status)
        for method, _, subpackage, names, status in readme_rows(README)
    ]


def is_importable(subpackage, name):
    try:
        return hasattr(importlib.import_module(subpackage), name)
    except ImportError:
        return False


def test_readme_code_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert re.search(r"\{'alpha': .*\} 0\.\d+", capsys.readouterr().out)


def test_readme_lists_nineteen_methods_and_each_status_is_known():
    rows = method_rows()
    # The parts of one paper follow its first row and start with a dash.
    assert len([row for row in rows if not row[0].startswith("–")]) == 19
    assert {status for *_, status in rows} <= {"available", "planned"}


@pytest.mark.parametrize("row", method_rows(), ids=lambda row: row[0])
def test_readme_status_of_a_method_is_true(row):
    _, subpackage, names, status = row
    assert names
    for name in names:
        assert is_importable(subpackage, name) == (status == "available"), name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_relative_links_of_markdown_pages_exist(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path = target.partition("#")[0]
            assert not path or (ROOT / page).parent.joinpath(path).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_doc_references_lead_to_pages(page):
    for match in re.findall(r":doc:`([^`]+)`", page.read_text(encoding="utf-8")):
        target = re.sub(r".*<(.*)>", r"\1", match)
        if "auto_examples" in target or "generated" in target:
            continue
        base = DOCS if target.startswith("/") else page.parent
        assert (base / (target.lstrip("/") + ".rst")).exists(), match


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_examples_of_documentation_pages_run(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert failed == 0


def test_the_guide_of_the_trees_has_examples_that_run():
    parser = doctest.DocTestParser()
    guide = (DOCS / "user_guide" / "tree.rst").read_text(encoding="utf-8")
    assert len(parser.get_examples(guide)) > 5


@pytest.mark.parametrize("subpackage", subpackage_names())
def test_every_subpackage_has_a_user_guide_page(subpackage):
    assert (DOCS / "user_guide" / f"{subpackage}.rst").exists()


@pytest.mark.parametrize("subpackage", subpackage_names())
def test_every_public_name_is_in_the_user_guide(subpackage):
    guide = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("user_guide/**/*.rst"))
    words = set(re.findall(r"\w+", guide))
    assert {entry.name for entry in public_names(subpackage)} <= words


@pytest.mark.parametrize("subpackage", subpackage_names())
def test_every_subpackage_says_what_is_public(subpackage):
    module = importlib.import_module(f"skml.{subpackage}")
    assert module.__all__
    assert module.__doc__
    assert public_names(subpackage)


def test_api_pages_list_every_public_estimator(tmp_path):
    write_api_pages(tmp_path)
    listings = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("skml.*.rst"))
    estimators = all_estimators()
    assert len(estimators) > 0
    for name, _ in estimators:
        assert re.search(rf"autoclass:: skml\.[\w.]+\.{name}\n", listings), name


def test_api_pages_of_vanished_names_are_removed_and_others_left_alone(tmp_path):
    write_api_pages(tmp_path)
    (tmp_path / "skml.tree.Gone.rst").write_text("x", encoding="utf-8")
    kept = tmp_path / "skml.tree.rst"
    before = kept.stat().st_mtime_ns
    write_api_pages(tmp_path)
    assert not (tmp_path / "skml.tree.Gone.rst").exists()
    assert kept.stat().st_mtime_ns == before


def test_api_page_of_a_name_without_its_extra_shows_the_command(tmp_path, monkeypatch):
    def refuse(name):
        if name == "Absent":
            raise ImportError("skml.tree.Absent needs torch: pip install 'skml[torch]'")
        raise AttributeError(name)

    monkeypatch.setattr(skml.tree, "__getattr__", refuse, raising=False)
    monkeypatch.setattr(skml.tree, "__all__", [*skml.tree.__all__, "Absent"])
    write_api_pages(tmp_path)
    page = (tmp_path / "skml.tree.rst").read_text(encoding="utf-8")
    assert "pip install 'skml[torch]'" in page
    assert not (tmp_path / "skml.tree.Absent.rst").exists()


def test_gallery_folders_have_a_header():
    for script in (ROOT / "examples").rglob("plot_*.py"):
        assert (script.parent / "GALLERY_HEADER.rst").exists(), script


def test_recorded_results_follow_the_schema():
    for result in read_reproductions(DOCS / "reproductions"):
        assert result["table"], result["page"]
        assert result["gates"], result["page"]
    for result in read_benchmarks(DOCS / "benchmarks"):
        assert result["rows"], result["page"]


@pytest.mark.parametrize(
    ("content", "read"), [(REPRODUCTION, read_reproductions), (BENCHMARK, read_benchmarks)]
)
def test_malformed_results_are_refused(content, read, tmp_path):
    field = "gates" if read is read_reproductions else "rows"
    target = tmp_path / "some_method.json"
    target.write_text(json.dumps({k: v for k, v in content.items() if k != "machine"}))
    with pytest.raises(ValueError, match=r"some_method.json lacks \['machine'\]"):
        read(tmp_path)
    target.write_text(json.dumps(content | {field: [{"name": "x"}]}))
    with pytest.raises(ValueError, match=f"an entry of '{field}' lacks"):
        read(tmp_path)


def test_result_pages_show_what_does_not_hold(tmp_path):
    for folder, content in (("reproductions", REPRODUCTION), ("benchmarks", BENCHMARK)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some_method.json").write_text(json.dumps(content))
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS / '_ext')!r})\nextensions = ['result_pages']\n"
    )
    (tmp_path / "index.rst").write_text(
        "Results\n=======\n\nA\n-\n\n.. reproduction-results::\n\nB\n-\n\n.. benchmark-results::\n"
    )
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html"]
    subprocess.run([*command, str(tmp_path), str(tmp_path / "html")], check=True)
    html = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr class=\"([^\"]*)\">(.*?)</tr>", html, re.DOTALL)
    failed = [re.sub(r"<.*?>", " ", body) for classes, body in rows if "failed" in classes]
    assert len(failed) == 2
    assert "lost claim" in failed[0]
    assert "a peer" in failed[1]
    assert "beside a peer" in re.search(r'<div class="ratio-chart">.*', html, re.DOTALL).group()
    assert "0.7123" in html
    assert "0.512\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.012" in html
    assert "r2_sd" not in html
    assert "two cores" in html


def test_result_pages_explain_themselves_by_the_docstring_of_the_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text('"""A claim: it holds.\n\nTwo parts:\n\nA   first\n    part\n- a list\n"""\n')
    heading, story = heading_and_story(script)
    assert heading == "A claim: it holds"
    assert story == "Two parts:\n\nA\n   first\n   part\n- a list"


def test_method_table_links_into_the_documentation():
    rows = (
        "| [A: b](docs/user_guide/a.rst) | C, [1](https://x.org/1) | `skml.a` | `A`, `b` "
        "| available |\n"
        "| D | E | `skml.d` | `D` | planned |\n"
    )
    table = method_table(rows)
    assert ":doc:`A: b </user_guide/a>`" in table
    assert "`1 <https://x.org/1>`__" in table
    assert ":py:obj:`~skml.a.A`, :py:obj:`~skml.a.b`" in table
    assert table.endswith("not there yet: D.\n")


def test_bars_reach_from_the_peer_to_the_ratio():
    row = {"name": "a < b", "peer": "a peer", "goal": 2.0}
    html = ratio_chart([row | {"ratio": 4.0}, row | {"ratio": 0.5}])
    assert "a &lt; b beside a peer" in html
    # From 0.5 to 4: 1 lies at a third, 2 at two thirds.
    assert 'class="faster" style="left: 33.33%; width: 66.67%"' in html
    assert 'class="slower" style="left: 0.00%; width: 33.33%"' in html
    assert html.count('class="goal" style="left: 66.67%"') == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.1235"), (True, "yes"), (None, "–"), ([1, 0.5], "1, 0.5"), ({"a": 1}, "a 1")],
)
def test_values_of_result_tables_are_written_plainly(value, text):
    assert format_value(value) == text


def test_external_references_resolve_without_an_inventory():
    uri = external_uri("class", "sklearn.tree.DecisionTreeClassifier")
    assert uri.endswith("/modules/generated/sklearn.tree.DecisionTreeClassifier.html")
    uri = external_uri("meth", "sklearn.tree.DecisionTreeClassifier.fit")
    assert uri.endswith("DecisionTreeClassifier.html#sklearn.tree.DecisionTreeClassifier.fit")
    assert external_uri("class", "skml.tree.MADecisionTreeClassifier") is None


def test_citation_and_workflows_are_valid_yaml():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    # One place holds the version.
    assert "version" not in citation
    for path in [*(ROOT / ".github/workflows").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert "jobs" in content or "repos" in content, path
    ci = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    for target in ("test", "demo", "docs"):
        assert f"make {target}" in ci
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
