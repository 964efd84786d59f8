"""docs/keywords.md says of each keyword of another loader what the code says of it."""

import inspect
import re

import keywords
import pytest

#: Words that people search for, in the headings.
SEARCHED = ("torch DataLoader", "DALI", "WebDataset", "LitData", "dino_loader", "num_workers", "drop_last", "shuffle", "nodesplitter")


def page() -> str:
    return keywords.PAGE.read_text()


def test_the_tables_are_those_of_the_code():
    assert keywords.refreshed(page()) == page(), "run `python tests/docs/keywords.py --write`"


def test_each_loader_has_a_table_and_search_words_are_in_headings():
    assert keywords.loaders(page()) == [*keywords.module("_words").LOADERS, keywords.DINO_LOADER]
    headings = "\n".join(re.findall(r"^#+ .*$", page(), re.MULTILINE))
    assert [word for word in SEARCHED if word not in headings] == []


def test_what_the_page_says_to_type_is_there():
    assert keywords.unknown(page()) == []


def test_what_is_not_there_is_found():
    text = "| `a` | `seed=`, `sead=1`, `storage.readers` and `storage.reeders`, `Loader(data, orders=x)` |\n"
    assert keywords.unknown(text) == ["orders", "sead", "storage.reeders"]


def test_a_table_that_differs_from_the_code_is_found():
    words = keywords.module("_words")
    assert keywords.refreshed(page().replace(words.REFUSED["urls"], "another text", 1)) == page()


def test_no_keyword_of_ours_is_refused_and_none_has_two_meanings():
    words = keywords.module("_words")
    assert set(words.REFUSED) & keywords.of_the_loader() == set()
    assert set(words.MEANINGS) & set(words.REFUSED) == set()
    assert set(words.MEANINGS) == set(keywords.module("_keywords").ACCEPTED)


@pytest.mark.parametrize("loader", keywords.module("_words").LOADERS)
def test_every_keyword_of_a_loader_is_taken_or_refused(loader):
    words = keywords.module("_words")
    names = words.LOADERS[loader]
    assert len(names) == len(set(names)) >= 17
    assert set(names) <= set(words.MEANINGS) | set(words.REFUSED) | keywords.of_the_loader()


def test_every_keyword_of_pytorchs_own_dataloader_is_on_the_page():
    data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
    own = [name for name in inspect.signature(data.DataLoader.__init__).parameters if name != "self"]
    assert len(own) > 10
    assert set(own) == set(keywords.module("_words").LOADERS["torch DataLoader"])
