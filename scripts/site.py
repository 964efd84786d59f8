"""What `make site` does around mdBook: gathers the pages and checks the built site.

`stage FOLDER` copies book.toml, docs/, and what docs link to elsewhere in the tree: README.md becomes the first page, other
files lie in docs/repository of FOLDER. Links are changed to fit. `check FOLDER` fails if a link of a built page leads to
no file or no anchor.
"""

import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
sys.dont_write_bytecode = True

from documents import LINK, listed, split, without_code  # noqa: E402

# A folder that is linked to gets a page that lists it.
FOLDER_PAGE = "README.md"
OUTSIDE = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#|$)", re.IGNORECASE)
ATTRIBUTE = re.compile(r"(?<=[\s<])((?:src|srcset|href)=\")([^\"\s]+)")


def staged(path: str) -> str:
    """Where a file of the tree lies in the source of the site."""
    if Path(path).name == FOLDER_PAGE:
        # mdBook would make `index.html` of it, without a change of the links that lead there.
        path = str(Path(path).with_name("index.md"))
    if path.startswith("docs/"):
        return path[len("docs/") :]
    return path if path == "index.md" else f"repository/{path}"


class Stage:
    """Copies files, and what they link to, until nothing is missing."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.tracked = listed("*")
        self.folders = {str(parent) for path in self.tracked for parent in Path(path).parents}
        self.done: set[str] = set()
        self.waiting = [path for path in self.tracked if path.startswith("docs/")] + ["README.md"]

    def run(self):
        while self.waiting:
            path = self.waiting.pop()
            if path not in self.done:
                self.done.add(path)
                self.copy(path)
        self.add_to_summary()

    def copy(self, path: str):
        to = self.folder / staged(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).exists():
            if path.endswith(".md"):
                to.write_text(self.with_links(path, (ROOT / path).read_text()))
            else:
                shutil.copyfile(ROOT / path, to)
        elif Path(path).name == FOLDER_PAGE and str(Path(path).parent) in self.folders:
            to.write_text(self.with_links(path, self.listing(path)))

    def listing(self, path: str) -> str:
        """A page for a folder that has no README.md."""
        folder = str(Path(path).parent)
        inside = sorted({Path(one).relative_to(folder).parts[0] for one in self.tracked if one.startswith(f"{folder}/")})
        entries = [f"- [{name}]({name})" for name in inside if f"{folder}/{name}" in self.tracked]
        return "\n".join([f"# {folder}", "", *entries, ""])

    def with_links(self, path: str, text: str) -> str:
        prose, _ = split(text)
        lines = text.splitlines()
        for at, line in enumerate(prose):
            # A line of code is blank in `prose`, and code within a line has no links.
            for target in LINK.findall(without_code(line)):
                lines[at] = lines[at].replace(f"]({target}", f"]({self.moved(path, target)}")
            if line:
                lines[at] = ATTRIBUTE.sub(lambda found: found[1] + self.moved(path, found[2]), lines[at])
        return "\n".join(lines) + "\n"

    def moved(self, path: str, target: str) -> str:
        """The target of a link of one file, as it has to be in the source of the site."""
        if OUTSIDE.match(target):
            return target
        name, hash_sign, anchor = target.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(path), name))
        if to in self.folders:
            to = f"{to}/{FOLDER_PAGE}"
        self.waiting.append(to)
        return os.path.relpath(staged(to), os.path.dirname(staged(path)) or ".") + hash_sign + anchor

    def add_to_summary(self):
        """Pages that docs/SUMMARY.md does not have: the decisions, and pages outside of docs."""
        summary = self.folder / "SUMMARY.md"
        text = summary.read_text()
        there = {os.path.normpath(target) for target in LINK.findall(text)}
        gathered = [path for path in sorted(self.done) if path.endswith(".md") and (self.folder / staged(path)).exists()]
        more = [path for path in gathered if staged(path) not in there | {"SUMMARY.md"}]
        decisions = [path for path in more if path.startswith("docs/adr/")]
        others = [path for path in more if path not in decisions]
        text += "\n# Appendix\n\n"
        for name, paths in (("Decisions", decisions), ("Elsewhere in the tree", others)):
            text += f"- [{name}]()\n" + "".join(f"  - [{self.title(path)}]({staged(path)})\n" for path in paths)
        summary.write_text(text)

    def title(self, path: str) -> str:
        lines = (self.folder / staged(path)).read_text().splitlines()
        heading = next((line for line in lines if line.startswith("# ")), f"# {path}")
        return re.sub(r"[`\[\]]", "", heading[2:]).strip()


class Page(HTMLParser):
    """Links and anchors of a built page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "srcset" and value:
                self.links += [one.split()[0] for one in value.split(",")]
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


def dead_links(site: Path) -> list[str]:
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name in ("404.html", "toc.html"):
            continue
        for link in page.links:
            if re.match(r"^([a-z][a-z0-9+.-]*:|//)", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            to = (path.parent / name).resolve() if name else path
            if to.is_dir():
                to = to / "index.html"
            if not to.exists():
                found.append(f"{path.relative_to(site)}: there is no file {link}")
            elif anchor and to in pages and anchor not in pages[to].anchors:
                found.append(f"{path.relative_to(site)}: there is no anchor {link}")
    return found


def main():
    verb, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    if verb == "stage":
        Stage(folder / "docs").run()
        shutil.copyfile(ROOT / "book.toml", folder / "book.toml")
    else:
        found = dead_links(folder)
        print("\n".join(found), file=sys.stderr)
        print(f"{len(list(folder.rglob('*.html')))} pages, {len(found)} dead links")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
