"""The longest launch of each kernel that Nsight Compute has seen: ncu_table.py FILE

FILE is what `ncu --csv --page details` wrote, with lines of ncu before the table. Prints Markdown; exits with 1 where
FILE has no kernel.
"""

import csv
import sys

# Metric -> a column's head; a metric in several units is taken in the unit that is named.
COLUMNS = {
    ("Duration", None): "duration",
    ("Registers Per Thread", None): "registers",
    ("Theoretical Occupancy", None): "occupancy, possible",
    ("Achieved Occupancy", None): "achieved",
    ("Compute (SM) Throughput", None): "of SMs' peak",
    ("Memory Throughput", "%"): "of memory's peak",
    ("DRAM Throughput", None): "of DRAM's peak",
    ("Issued Warp Per Scheduler", None): "issued a cycle",
    ("Warp Cycles Per Issued Instruction", None): "cycles an instruction",
}
NANOSECONDS = {"nsecond": 1, "ns": 1, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}


def number(text):
    return float(text.replace(",", ""))


def launches(lines):
    """Name, block, grid, and a dict of values with their units, of each launch that has a duration."""
    begin = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found = {}
    for row in csv.DictReader(lines[begin:]):
        # Lines of the program that was looked at come between.
        if not row.get("Metric Name") or row.get("Metric Value") is None:
            continue
        kernel = (row["Kernel Name"].split("(")[0], row["Block Size"], row["Grid Size"])
        _, values = found.setdefault(row["ID"], (kernel, {}))
        unit = row["Metric Unit"]
        for wanted, in_unit in COLUMNS:
            if row["Metric Name"] == wanted and in_unit in (None, unit):
                values[wanted] = (row["Metric Value"], unit)
    return [(kernel, values) for kernel, values in found.values() if "Duration" in values]


def nanoseconds(values):
    value, unit = values["Duration"]
    return number(value) * NANOSECONDS.get(unit, 1)


def main():
    with open(sys.argv[1], errors="replace") as file:
        seen = launches(file.read().splitlines())
    if not seen:
        sys.exit("ncu has seen no kernel")
    longest = {}
    for kernel, values in seen:
        name = kernel[0]
        if name not in longest or nanoseconds(values) > nanoseconds(longest[name][1]):
            longest[name] = (kernel, values)
    print(f"{len(seen)} launches; the longest one of each kernel:\n")
    print(f"| kernel | blocks x threads | {' | '.join(COLUMNS.values())} |")
    print(f"| --- | --- |{' ---: |' * len(COLUMNS)}")
    for (name, block, grid), values in sorted(longest.values(), key=lambda one: -nanoseconds(one[1])):
        cells = [" ".join(values.get(metric, ("-",))) for metric, _ in COLUMNS]
        print(f"| `{name}` | {grid} x {block} | {' | '.join(cells)} |")


main()
