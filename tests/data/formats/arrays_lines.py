"""CSV, TSV, JSON and text."""

import csv
import gzip
import json

from arrays_expected import expect, path, refuse


def numbered(stem, records):
    """Samples of records."""
    return [
        (f"{stem}/{at:08}", {name: value.encode() for name, value in record.items()})
        for at, record in enumerate(records)
    ]


def json_records(opened):
    """JSON as Python's json reads it, numbers as they are written."""
    class Number(str):
        pass

    def text(value):
        if isinstance(value, (str, Number)):
            return str(value)
        return value

    # Nested values stay as they are written: the fixtures write them as json.dumps does.
    for line in opened:
        if line.strip():
            record = json.loads(line, parse_int=Number, parse_float=Number)
            plain = json.loads(line)
            yield {
                name: text(value) if isinstance(value, str) else json.dumps(plain[name])
                for name, value in record.items()
                if value is not None
            }


def make():
    table = [
        {"name": "tench", "class": "0", "score": "0.50", "note": 'a "quoted", word'},
        {"name": "\u00e9t\u00e9", "class": "-3", "score": "1e-7", "note": "two\r\nlines"},
        {"name": "", "class": "12345678901234567890", "score": "+1", "note": " space "},
        {"name": "last", "class": "1", "score": "3.", "note": ""},
    ]
    for name, dialect in (("plain.csv", "excel"), ("plain.tsv", "excel-tab"), ("unix.csv", "unix")):
        with open(path("lines/" + name), "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table[0], dialect=dialect)
            writer.writeheader()
            writer.writerows(table)
        with open(path("lines/" + name), newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file, dialect=dialect))
        expect("lines/" + name, numbered(name[:-4], read))
        expect("lines/" + name, numbered(name[:-4], read), shard_samples=3)
        some = [{"note": row["note"], "name": row["name"]} for row in read]
        expect("lines/" + name, numbered(name[:-4], some), columns=["note", "name"])
        refuse("lines/" + name, "`columns` names `nam`", columns=["nam"])
    with open(path("lines/plain.csv"), "rb") as file:
        plain = file.read()
    with open(path("lines/marked.csv"), "wb") as file:
        file.write(b"\xef\xbb\xbf" + plain)
    with open(path("lines/marked.csv"), newline="", encoding="utf-8-sig") as file:
        expect("lines/marked.csv", numbered("marked", csv.DictReader(file)))
    with open(path("lines/zipped.csv.gz"), "wb") as file:
        file.write(gzip.compress(plain, mtime=0))
    with gzip.open(path("lines/zipped.csv.gz"), "rt", newline="", encoding="utf-8") as file:
        expect("lines/zipped.csv.gz", numbered("zipped", csv.DictReader(file)), shard_samples=2)
    objects = [
        {"text": "a \"b\"\n\u00e9", "label": 7, "box": [1.5, {"x": None}], "ok": True},
        {"text": "", "label": 1e300, "none": None},
        {"label": -2, "text": "\U0001f600", "extra": {}},
    ]
    with open(path("lines/plain.jsonl"), "w", encoding="utf-8") as file:
        for at, record in enumerate(objects):
            file.write(json.dumps(record, ensure_ascii=at == 0) + ("\r\n" if at else "\n\n"))
    with open(path("lines/plain.jsonl"), newline="", encoding="utf-8") as file:
        read = list(json_records(file))
    expect("lines/plain.jsonl", numbered("plain", read))
    expect("lines/plain.jsonl", numbered("plain", read), shard_samples=1)
    some = [{"label": record["label"]} for record in read]
    expect("lines/plain.jsonl", numbered("plain", some), columns=["label"])
    with open(path("lines/plain.txt"), "wb") as file:
        file.write("one\r\n\n two \u00e9\nthree".encode())
    with open(path("lines/plain.txt"), encoding="utf-8") as file:
        read = [{"txt": line.rstrip("\n")} for line in file]
    expect("lines/plain.txt", numbered("plain", read))
    expect("lines/plain.txt", numbered("plain", read), shard_samples=3)
