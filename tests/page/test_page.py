"""The monitor's page in Chromium: what it shows of a real service, that it needs no other server, how it looks.

The pictures that it takes are in $HEADWATER_PICTURES, where that names a folder.
"""

import json
import os
import urllib.request
from pathlib import Path

import pytest

import browser
from browser import Browser
from service import TOKEN, Service

pytestmark = pytest.mark.skipif(
    browser.program() is None, reason="no chromium: run scripts/install-system.sh page"
)

IS_LIVE = "document.querySelector('#live').textContent === 'live'"
# The rank has taken batches for a while: rates and a verdict are there.
HAS_RATES = IS_LIVE + " && state.report.summary.samples_per_s > 0 && state.report.history.samples_per_s.length > 3"
WIDTHS = {"wide": 1280, "phone": 360}


@pytest.fixture(scope="module")
def service():
    with Service(workers=2) as service:
        yield service


@pytest.fixture(scope="module")
def page(service):
    with Browser() as page:
        page.open(service.url)
        page.wait(HAS_RATES)
        yield page


def picture(page, name):
    folder = os.environ.get("HEADWATER_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.picture(Path(folder) / f"{name}.png")


def cells(page, table):
    return page.run(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))")


def test_the_page_shows_what_the_report_says(page, service):
    # One report at a time: what is shown and what was asked for are of the same moment.
    report = page.run("(() => { show(state.report); return state.report })()")
    shown = page.text()
    assert report["summary"]["verdict"]["text"] in shown
    assert page.run("document.querySelectorAll('#flow text.strong').length") == 5
    assert page.run("document.querySelector('#flow').textContent").startswith("1 storage node")
    assert "2 workers" in page.run("document.querySelector('#flow').textContent")
    for table in ("ranks", "workers", "storage"):
        names = [row["name"] for row in report[table]]
        rows = cells(page, table)
        assert len(rows) == len(names) > 0
        assert all(name in row[0] for name, row in zip(names, rows))
    assert page.run("document.querySelectorAll('#plot-rate path.line').length") >= 1
    causes = [each["cause"] for each in report["wait_by_cause"] if each["share_of_time"] > 0]
    legend = page.run("[...document.querySelectorAll('#legend li')].map((item) => item.childNodes[1].textContent)")
    assert set(causes) <= set(legend)
    with urllib.request.urlopen(f"{service.url}/report.json") as answer:
        assert json.load(answer).keys() == report.keys()


def test_the_page_asks_nobody_else_and_its_policy_is_kept(page, service):
    page.run("ask()")
    assert {url for url in page.requested() if not url.startswith(service.url)} <= {"data:,"}
    assert page.problems() == []


def test_values_appear_where_the_mouse_is(page):
    page.point("#plot-rate", across=0.97)
    tip = page.wait("!plots.rate.tip.hidden && plots.rate.tip.innerText")
    assert "samples/s" in tip and "waiting" in tip
    page.point("h1")
    page.wait("plots.rate.tip.hidden")
    page.run("document.querySelector('#plot-wait').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft")
    assert "now" in page.wait("!plots.wait.tip.hidden && plots.wait.tip.innerText")
    page.run("document.activeElement.blur()")


def test_the_next_batch_is_shown_with_keys_and_draws(page):
    page.run("document.querySelector('#batch-show').click()")
    page.wait("document.querySelectorAll('.sample').length === 16")
    note = page.run("document.querySelector('#batch-note').textContent")
    assert "the first 16 of 32 samples" in note and "missing" not in note
    keys = page.run("[...document.querySelectorAll('.sample .key')].map((key) => key.textContent)")
    assert len(set(keys)) == 16
    assert page.run("document.querySelectorAll('.sample details li').length") >= 16
    # Not one colour: there is a photograph in each strip.
    levels = page.run("""[...document.querySelectorAll('.sample canvas')].map((canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(data).size;
    })""")
    assert min(levels) > 32


def is_themed(page, theme):
    """The browser tells the page of the system's theme a moment after it has changed."""
    page.wait(f"document.documentElement.dataset.theme === '{theme}'")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_it_is_readable(page, size, dark):
    page.look(WIDTHS[size], 800, dark)
    page.run("document.querySelectorAll('.sample').length || document.querySelector('#batch-show').click()")
    page.wait("document.querySelectorAll('.sample').length === 16")
    page.wait(f"document.querySelector('#flow svg').clientWidth < {WIDTHS[size]}")
    picture(page, f"{size}-{'dark' if dark else 'light'}")
    assert page.run("document.documentElement.scrollWidth") <= WIDTHS[size], "it scrolls sideways"
    is_themed(page, "dark" if dark else "light")
    # Contrast of text and of what is muted, by the formula of WCAG 2: 4.5 for text.
    contrast = """(name, paper) => {
        const lightness = (name) => {
            const probe = document.createElement('i');
            probe.style.color = `var(${name})`;
            document.body.append(probe);
            const channels = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((level) => level / 255);
            probe.remove();
            const [r, g, b] = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const [a, b] = [lightness(name), lightness(paper)].sort((a, b) => b - a);
        return (a + 0.05) / (b + 0.05);
    }"""
    for name in ("--ink", "--muted", "--bad", "--good", "--accent"):
        for paper in ("--card", "--paper"):
            assert page.run(f"({contrast})('{name}', '{paper}')") >= 4.5, (name, paper)


# Texts of the flow that leave their box, or the picture, or lie on another text.
CROSSING = """(() => {
    const at = (node) => node.getBoundingClientRect();
    const texts = [...document.querySelectorAll('#flow text')].filter((text) => text.textContent);
    const boxes = [...document.querySelectorAll('#flow rect.box')].map(at);
    const picture = at(document.querySelector('#flow svg'));
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    const isWithin = (a, b) => a.left >= b.left && a.right <= b.right;
    return texts.filter((text, number) => !isWithin(at(text), picture)
        || boxes.some((box) => meet(at(text), box) && !isWithin(at(text), box))
        || texts.slice(number + 1).some((other) => meet(at(text), at(other)))).map((text) => text.textContent);
})()"""


@pytest.mark.parametrize("width", [320, 360, 768, 800, 905, 1280])
def test_texts_of_the_flow_do_not_cross(page, width):
    page.look(width, 800)
    page.wait(f"document.querySelector('#flow svg').clientWidth < {width} && document.querySelector('#flow').clientWidth < {width}")
    page.run("show(state.report)")
    assert page.run(CROSSING) == []


def test_the_switch_goes_before_the_system(page):
    page.look(1280, 800, dark=False)
    is_themed(page, "light")
    for theme in ("dark", "light"):
        page.run("document.querySelector('#theme').click()")
        is_themed(page, theme)
    page.run("localStorage.clear()")


def test_names_are_text(page):
    """What a process calls itself is not trusted."""
    name = "<img src=x onerror=alert(1)>"
    page.run(f"""(() => {{
        const report = structuredClone(state.report);
        report.job = report.ranks[0].name = report.workers[0].name = {name!r};
        report.troubles = [{name!r}];
        show(report);
    }})()""")
    assert page.run("document.querySelectorAll('#main img, header img').length") == 0
    assert name in page.text()


def test_with_a_token_the_page_asks_for_it(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    with Service(**{"security.token_file": tmp_path / "token"}) as service, Browser() as page:
        page.open(service.url)
        page.wait("!document.querySelector('#login').hidden && document.querySelector('#live').textContent === 'locked'")
        assert page.run("document.querySelector('#main').hidden")
        picture(page, "locked")
        give = "document.querySelector('#token').value = {!r}; document.querySelector('#login button').click()"
        page.run(give.format("a token of another service"))
        page.wait("document.querySelector('#refused').textContent.includes('not the job')")
        page.run(give.format(TOKEN))
        page.wait(HAS_RATES)
        assert page.run("document.cookie") == "", "scripts do not see the cookie"
        page.run("document.querySelector('#batch-show').click()")
        page.wait("document.querySelectorAll('.sample').length === 16")


def test_a_service_that_is_gone_is_not_shown_as_if_it_were_there():
    with Service() as service, Browser() as page:
        page.open(service.url)
        page.wait(HAS_RATES)
        service.rank.kill()
        page.wait("document.querySelectorAll('#ranks .down-tag').length === 1")
        service.monitor.kill()
        said = page.wait("!document.querySelector('#stale').hidden && document.querySelector('#stale').textContent")
        assert said.startswith("The monitor does not answer") and "old" in said
        assert page.run("document.body.classList.contains('stale')")
        picture(page, "gone")
