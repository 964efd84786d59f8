"""docs/troubleshooting.md has every error text of the program, and no other one."""

import re

import errors


def faults(page: str, now: dict[str, str]) -> list[str]:
    """What a person has to do."""
    there = errors.entries(page)
    keys = [key for key, _, _ in there]
    found = [f"{key}: an entry is missing: {text}" for key, text in now.items() if key not in keys]
    found += [f"{key}: there is no such error any more" for key in keys if key not in now]
    found += [f"{key}: two entries" for key in sorted(set(keys)) if keys.count(key) > 1]
    found += [
        f"{key}: reworded, run `python tests/docs/errors.py --write`: {now[key]}"
        for key, text, _ in there
        if key in now and now[key] != text
    ]
    return found


def of_today() -> dict[str, str]:
    return {one.key: one.text for one in errors.texts() + errors.sentences()}


def test_every_error_text_has_an_entry():
    assert not faults(errors.PAGE.read_text(), of_today())


def test_no_key_stands_for_two_errors():
    keys = [one.key for one in errors.texts() + errors.sentences()]
    assert sorted(keys) == sorted(set(keys))


def test_no_attribute_is_overlooked():
    """Every attribute with letters outside of placeholders is read, however it is written."""
    written = 0
    for path in errors.sources():
        code = (errors.ROOT / path).read_text().split("#[cfg(test)]\nmod tests {")[0]
        for attribute in re.findall(r"#\[error\(\s*(.{0,11})", code):
            assert attribute.startswith(('"', "transparent")), f"{path}: {attribute}"
        literals = errors.ATTRIBUTE.findall(code)
        written += sum(errors.says_something(errors.unescaped(literal)) for literal in literals)
    assert written == len(errors.texts()) > 200


def test_what_is_missing_gone_or_reworded_is_found():
    page = errors.PAGE.read_text()
    now = of_today()
    key, text, _ = errors.entries(page)[0]
    assert faults(page, {**now, "core:New": "new {text}"}) == ["core:New: an entry is missing: new {text}"]
    without = {other: said for other, said in now.items() if other != key}
    assert faults(page, without) == [f"{key}: there is no such error any more"]
    reworded = {**now, key: text + " again"}
    assert len(faults(page, reworded)) == 1
    assert not faults(errors.refreshed(page, reworded), reworded)
