"""The documentation's site in Chromium, as `make site` builds it into out/site: pages fit a screen and a phone, and search finds.

The pictures that it takes are in $HEADWATER_PICTURES, where that names a folder.
"""

import functools
import http.server
import os
import threading
from pathlib import Path

import pytest

import browser
from browser import Browser

SITE = Path(__file__).resolve().parents[2] / "out" / "site"

pytestmark = [
    pytest.mark.skipif(browser.program() is None, reason="no chromium: run scripts/install-system.sh page"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no out/site: run make site"),
]

WIDTHS = {"wide": 1280, "phone": 360}
PAGES = ["index", "python", "configuration", "keywords", "troubleshooting"]
# Texts and pictures that leave the window sideways. What lies in a part that scrolls by itself, as wide tables and code do, is not lost.
OUTSIDE = """(() => {
    const scrolls = (node) => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
    const isReached = (node, part) => part.contains(node) && node !== part && (scrolls(node) || isReached(node.parentElement, part));
    const isOut = ({ left, right, width }) => width > 0 && (left < -1 || right > innerWidth + 1);
    const range = document.createRange();
    const found = [];
    for (const part of document.querySelectorAll('main, #mdbook-search-wrapper')) {
        const nodes = document.createTreeWalker(part, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
        for (let node = nodes.currentNode; node; node = nodes.nextNode()) {
            // The box of an element may be narrower than a word in it.
            range.selectNodeContents(node);
            const boxes = node.nodeType === Node.TEXT_NODE ? [...range.getClientRects()] : [node.getBoundingClientRect()];
            if (boxes.some(isOut) && !isReached(node.parentElement, part)) found.push(`${node.nodeName} ${node.textContent.trim().slice(0, 80)}`);
        }
    }
    return found;
})()"""


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(url):
    with Browser() as page:
        yield page


def show(page, url, name, size):
    page.look(WIDTHS[size], 900)
    page.open(f"{url}/{name}.html")
    page.wait(f"document.readyState === 'complete' && location.pathname === '/{name}.html'")
    page.wait(f"innerWidth === {WIDTHS[size]}")


def fits(page, size, picture):
    folder = os.environ.get("HEADWATER_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.picture(Path(folder) / f"site-{picture}-{size}.png", whole=False)
    assert page.run(OUTSIDE) == []
    assert page.run("document.documentElement.scrollWidth") <= WIDTHS[size], "it scrolls sideways"


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_window(page, url, name, size):
    show(page, url, name, size)
    assert page.run("document.querySelector('main h1') !== null")
    fits(page, size, name)


@pytest.mark.parametrize("size", WIDTHS)
def test_search_for_a_keyword_finds_the_page_of_keywords(page, url, size):
    show(page, url, "index", size)
    page.run("document.querySelector('#mdbook-search-toggle').click()")
    # The index is loaded with the first search.
    page.wait("document.activeElement.id === 'mdbook-searchbar'")
    for letter in "num_workers":
        page.call("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
        page.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
    results = "[...document.querySelectorAll('#mdbook-searchresults li > a')].map((link) => link.getAttribute('href'))"
    # Results of `num_worker` may be there a moment earlier.
    found = page.wait(f"document.querySelector('#mdbook-searchresults-header').innerText.includes(\"'num_workers'\") && {results}")
    first = next((link for link in found[:3] if link.startswith("keywords.html?")), None)
    assert first, found
    fits(page, size, "search")
    # The link leads to where the keyword stands, which is marked.
    page.open(f"{url}/{first}")
    page.wait("location.pathname === '/keywords.html' && document.querySelectorAll('main mark').length > 0")
    assert page.problems() == []
