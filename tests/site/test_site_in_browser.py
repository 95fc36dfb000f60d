"""The built documentation in a browser: no errors, no dead links, a search that finds.

``make docs`` runs these tests on what it has built. They need Chromium; without it, or without a
built site, they are skipped and say so.
"""

import functools
import http.server
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import pytest

from skml.utils.discovery import all_estimators

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
PHONE = {"width": 390, "height": 800}

pytestmark = [
    pytest.mark.skipif(not SITE.exists(), reason="the site is not built: make docs"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
PAGES = sorted(
    str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(QuietHandler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    switches = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
        yield browser
        browser.close()


def test_pages_load_without_an_error(browser, address):
    page, faults = browser.new_page(), []
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    # Going on to the next page breaks off what the last one was still loading.
    page.on(
        "requestfailed",
        lambda request: (
            request.failure == "net::ERR_ABORTED" or faults.append(f"{page.url}: no {request.url}")
        ),
    )
    page.on(
        "console",
        lambda message: message.type == "error" and faults.append(f"{page.url}: {message.text}"),
    )
    page.on(
        "response",
        lambda answer: answer.status >= 400 and faults.append(f"{answer.status}: {answer.url}"),
    )
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address, "data:"))
            or faults.append(f"{page.url} asks the network for {request.url}")
        ),
    )
    for name in PAGES:
        page.goto(address + name)
        assert page.title(), name
    page.close()
    assert not faults, "\n".join(faults)


class Anchors(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        for key in ("href", "src"):
            if attrs.get(key):
                self.links.add(attrs[key])


def test_internal_links_lead_somewhere():
    pages = {name: Anchors(SITE / name) for name in PAGES}
    broken = []
    for name, page in pages.items():
        for link in page.links:
            target, fragment = urldefrag(urljoin(f"site:///{name}", link))
            if urlparse(target).scheme != "site":
                continue
            path = unquote(urlparse(target).path).lstrip("/")
            known = pages.get(path)
            if not (SITE / path).exists():
                broken.append(f"{name}: {link}")
            elif fragment and known and unquote(fragment) not in known.places:
                broken.append(f"{name}: {link} (no such place)")
    assert not broken, "\n".join(broken)


def test_search_finds_every_estimator(browser, address):
    page, missed = browser.new_page(), []
    for name, _ in all_estimators():
        page.goto(f"{address}search.html?q={name}")
        page.wait_for_function(
            "/found|did not match/.test(document.querySelector('.search-summary')?.innerText)"
        )
        found = page.locator("#search-results a").evaluate_all("all => all.map(a => a.href)")
        if not any(f".{name}.html" in link for link in found):
            missed.append(name)
    page.close()
    assert not missed


# Text that is cut off by the edge of the page, and not in a box that scrolls.
CUT_OFF = """() => [...document.querySelectorAll("main h1, main h2, main h3, main p, main dt")]
  .filter(e => !e.closest(".pst-scrollable-table-container, pre, math, .sphx-glr-thumbnails"))
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0
               || e.getBoundingClientRect().right > window.innerWidth)
  .map(e => e.textContent.trim().slice(0, 60))"""
# Bars of a chart that lie on their own label.
COVERED = """() => [...document.querySelectorAll(".ratio-chart .bar")]
  .filter(e => e.querySelector("span").getBoundingClientRect().bottom
               > e.querySelector(".track").getBoundingClientRect().top + 1)
  .map(e => e.textContent)"""


def test_pages_fit_a_phone(browser, address):
    page, wide = browser.new_page(viewport=PHONE), []
    for name in PAGES:
        page.goto(address + name)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide.append(f"{name}: {width} px")
        if cut := page.evaluate(CUT_OFF):
            wide.append(f"{name}: {cut}")
    page.close()
    assert not wide, "\n".join(wide)


def test_bars_of_a_chart_leave_their_labels_free(browser, address):
    page = browser.new_page(viewport=PHONE)
    page.goto(address + "benchmarks.html")
    assert page.locator(".ratio-chart .bar").count()
    covered = page.evaluate(COVERED)
    page.close()
    assert not covered
