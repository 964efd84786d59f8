"""README and its pictures say what the pages of figures say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SCRIPT = ROOT / "scripts" / "readme_figures.py"

# A figure stands alone: not in a version, a date, a name or a path.
NUMBER = re.compile(r"(?<![\w.,:/-])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?![\w:]|[.,-]\d)")
UNIT = re.compile(r"\d\s*(?:%|(?:times|images/s|images per second|ms|s|MB|GB|faults|batches|views)\b)")
CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+\.md)[^)]*\)")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def decimals(text: str) -> int:
    return len(text.partition(".")[2])


def table(page: str, column: str) -> "list[list[str]]":
    """Cells of the rows below the first heading row that has this column."""
    lines = (ROOT / page).read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|") and column in line)
    cells = []
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def throughput() -> "dict[str, list[str]]":
    """Rows of the recipe's table: decode, gain, `dinov2`, gain. Ours are `later` and `first`, as the epochs."""
    rows = {row[0]: row[1:] for row in table("docs/benchmarks/recipe.md", "`dinov2`, images/s")}
    later, first = (row for name, row in rows.items() if name.startswith("headwater"))
    library = next(row for name, row in rows.items() if "libjpeg-turbo" in name)
    # Entry points make a worker faster, and nothing else differs.
    assert number(later[2].split()[0]) > number(first[2].split()[0])
    return {**rows, "later": later, "first": first, "libjpeg-turbo": library}


def paragraphs(text: str) -> "list[str]":
    """Prose: paragraphs and points of lists, each with its links; no tables and no code."""
    prose = re.sub(r"<!--.*?-->", "", CODE.sub("", text), flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=- )", prose)
    return [part for part in parts if part.strip() and not part.lstrip().startswith(("|", "#", "<"))]


def bare(paragraph: str) -> str:
    """Without code, targets of links and names of files."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\[?\S+\.(?:md|rs)\b", " ", paragraph)


def unsupported(paragraph: str) -> "list[str]":
    """Figures of a paragraph that no page to which it links has, exact or rounded."""
    pages = [ROOT / target for target in LINK.findall(paragraph)]
    there = [found for page in pages if page.exists() for found in NUMBER.findall(page.read_text())]
    figures = NUMBER.findall(bare(paragraph))
    return [one for one in figures if not any(is_same(one, other) for other in there)]


def is_same(figure: str, other: str) -> bool:
    if decimals(other) > decimals(figure):
        return round(number(other), decimals(figure)) == number(figure)
    digits = figure.replace(",", "")
    # Thousands may be rounded to their leading digits.
    zeros = len(digits) - len(digits.rstrip("0")) if len(digits) > 3 and "." not in digits else 0
    return number(figure) == (round(number(other), -zeros) if zeros else number(other))


def with_figures() -> "list[str]":
    return [one for one in paragraphs(README) if UNIT.search(bare(one))]


def measured() -> "list[list[str]]":
    """Rows of the table that says how the figures of the first screen were measured."""
    return table("README.md", "| figure | pass |")


def test_there_are_figures_to_check():
    assert len(with_figures()) >= 5


@pytest.mark.parametrize("paragraph", with_figures(), ids=lambda one: " ".join(one.split()[:6]))
def test_each_figure_stands_in_a_page_that_its_paragraph_links_to(paragraph):
    assert LINK.findall(paragraph), f"name the page that has these figures: {paragraph}"
    assert not unsupported(paragraph), paragraph


@pytest.mark.parametrize("row", measured(), ids=lambda row: row[0])
def test_a_row_of_the_first_table_says_how_it_was_measured_and_its_figure_stands_there(row):
    assert len(row) == 6 and all(row), "pass, batch and type, machine, table and command"
    assert LINK.findall(row[4]) and not unsupported(f"{row[0]} {row[4]}"), row


def test_each_figure_of_the_first_screen_has_a_row():
    screen = README[: README.index("| figure | pass |")]
    said = {figure for one in paragraphs(screen) if UNIT.search(bare(one)) for figure in NUMBER.findall(bare(one))}
    rows = {figure for row in measured() for figure in NUMBER.findall(row[0])}
    # Sides of the crops.
    assert said - {"224", "96"} <= rows


def test_another_figure_is_found():
    paragraph = next(one for one in with_figures() if "10,018 batches" in one)
    assert unsupported(paragraph.replace("10,018", "10,019")) == ["10,019"]
    assert unsupported(paragraph.replace("1,161", "1,162")) == ["1,162"]
    pipeline = next(one for one in with_figures() if "1.42 ms" in one)
    assert unsupported(pipeline.replace("1.42", "1.43")) == ["1.43"]
    gpu = next(one for one in with_figures() if "39,600" in one)
    assert unsupported(gpu.replace("39,600", "39,500").replace("2,860", "2,870")) == ["39,500", "2,870"]


def test_the_gains_are_those_of_the_recipes_table():
    rows = throughput()
    for system, name in {"torchvision + Pillow": "torchvision + Pillow", "DALI, CPU": "DALI on the CPU",
                         "albumentations + OpenCV": "albumentations"}.items():
        # A busy machine's second figure after the point says nothing.
        gain = f"{number(rows[system][3].removesuffix(' x')):.0f}"
        assert re.search(rf"\b{re.escape(gain)} times as fast\s+as\s+{re.escape(name)}", README), (system, gain)
    new = number(rows["first"][2].split()[0])
    others = ("torchvision + Pillow", "DALI, CPU", "albumentations + OpenCV")
    gains = [f"{new / number(rows[system][2].split()[0]):.0f}" for system in others]
    assert "In the first epoch it is {}, {} and {} times as fast".format(*gains) in " ".join(README.split())
    ours = number(rows["later"][2].split()[0])
    theirs = number(rows["torchvision + Pillow"][2].split()[0])
    # The page's own columns fit each other, as far as they are rounded.
    assert ours / theirs == pytest.approx(number(rows["torchvision + Pillow"][3].split()[0]), rel=0.01)


def test_single_figures_are_those_of_their_rows():
    first = next(row for row in table("docs/benchmarks/first_batch.md", "median of five") if row[0] in ("all of it", "total"))
    assert f"it takes {first[1].split()[0]} s" in " ".join(README.split())
    core = next(row for row in table("docs/benchmarks/pipeline.md", "preset") if row[0] == "`dinov2`")
    worker, receiver = (number(cell.split()[0]) for cell in core[3:5])
    assert f"the worker spent {worker:.2f} ms of CPU time on an image of a first epoch, and the rank {receiver:.2f} ms" in " ".join(README.split())
    rows = throughput()
    later, first, theirs = (number(rows[name][0].split()[0]) for name in ("later", "first", "libjpeg-turbo"))
    said = f"{later / theirs:.1f} times as fast as libjpeg-turbo from the second epoch on, and {first / theirs:.1f} times in the first"
    assert said in " ".join(README.split())


def test_presets_that_are_said_to_be_certified_are():
    rows = table("docs/recipes.md", "views equal")
    names = [name for row in rows for name in re.findall(r"`([\w-]+)`", row[0])]
    assert all(len(set(row[3].split(" of "))) == 1 and row[4] == "0" for row in rows)
    assert f"{len(names)} presets have a certificate" in README


def values(picture: str) -> "list[str]":
    text = (ROOT / "docs" / "images" / picture).read_text()
    return re.findall(r'class="(?:small )?value"[^>]*>([^<]+)<', text)


def test_the_chart_shows_the_recipes_table():
    rows = throughput()
    systems = ["later", "first", "albumentations + OpenCV", "DALI, CPU", "torchvision + Pillow"]
    drawn = values("throughput.svg")
    assert [number(one) for one in drawn] == [
        pytest.approx(number(rows[system][2].split()[0]), rel=0.005) for system in systems
    ]
    text = (ROOT / "docs" / "images" / "throughput.svg").read_text()
    # The first two are the legend's.
    widths = [float(one) for one in re.findall(r'<rect [^>]*width="([\d.]+)"', text)][2:]
    exact = [number(rows[system][2].split()[0]) for system in systems]
    assert [one / widths[0] for one in widths] == pytest.approx([one / exact[0] for one in exact], abs=0.001)
    assert "docs/images/throughput.svg" in README


def test_badges_say_what_the_files_say():
    rows = table("docs/benchmarks/soak.md", "number, 2211")
    *faults, total = rows
    # Each of the two runs of the newest table: the sum of its kinds, and the sum of both.
    runs = [sum(int(row[at]) for row in faults) for at in (1, 4)]
    assert runs == [int(total[1]), int(total[4])]
    said = re.fullmatch(r"([\d,]+), (\d+) of ([\d,]+) batches differ", values("badge-faults.svg")[0])
    assert number(said[1]) == sum(runs)
    assert f"{said[3]} batches compared, {said[2]} differ" in (ROOT / "docs/benchmarks/soak.md").read_text()
    presets = [name for row in table("docs/recipes.md", "views equal") for name in re.findall(r"`([\w-]+)`", row[0])]
    assert values("badge-presets.svg") == [f"{len(presets)}, every byte"]
    assert values("badge-python.svg") == ["3.9+"]
    assert 'requires-python = ">=3.9"' in (ROOT / "gpu-receiver/python/pyproject.toml").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text() and values("badge-license.svg") == ["Apache-2.0"]


def test_the_badge_of_tests_counts_those_of_the_tree():
    found = subprocess.run(["git", "grep", "-hE", r"^\s*(#\[(tokio::)?test\b|(async )?def test_)", "--", "*.rs", "*.py"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.count("\n")
    stated = number(values("badge-tests.svg")[0].rstrip("+"))
    assert stated <= found <= stated + 500, f"there are {found} tests: run scripts/readme_figures.py"


def copy_of_the_pages(folder: Path) -> Path:
    """The script, what it reads and what it draws, in a tree of its own."""
    names = ["docs/benchmarks/recipe.md", "docs/benchmarks/soak.md", "docs/recipes.md", "Cargo.toml",
             "gpu-receiver/python/pyproject.toml", "scripts/readme_figures.py", "benches/peers/drawing.py"]
    pictures = [str(path.relative_to(ROOT)) for path in (ROOT / "docs/images").glob("*.svg")]
    for name in names + pictures:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def check(folder: Path) -> "tuple[int, str]":
    done = subprocess.run([sys.executable, "scripts/readme_figures.py", "--check"], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_pictures_are_up_to_date():
    assert check(ROOT) == (0, "")


@pytest.mark.parametrize("page, before, after, picture", [
    ("docs/benchmarks/recipe.md", "| 63.1 (", "| 65.6 (", "throughput.svg"),
    ("docs/benchmarks/soak.md", "10,018 batches compared, 0 differ", "10,018 batches compared, 1 differ", "badge-faults.svg"),
    ("docs/recipes.md", "| 64 | 64 of 64 | 0 |", "| 64 | 63 of 64 | 0 |", "badge-presets.svg"),
])
def test_a_figure_that_changes_makes_a_picture_stale(tmp_path, page, before, after, picture):
    folder = copy_of_the_pages(tmp_path)
    text = (folder / page).read_text()
    assert before in text
    (folder / page).write_text(text.replace(before, after))
    status, said = check(folder)
    assert status == 1 and picture in said


def test_a_page_without_the_figure_is_an_error(tmp_path):
    folder = copy_of_the_pages(tmp_path)
    page = folder / "docs/benchmarks/recipe.md"
    page.write_text(page.read_text().replace("| DALI, CPU |", "| another |"))
    status, said = check(folder)
    assert status == 1 and "has no row DALI, CPU" in said
