"""Prints the records behind the table of 1,000 PVs: each counts up by one at 10 Hz.

A value that counts by one lets a test see from the value alone that none was missed. Each begins at
a different number, so that a cell that shows another PV's value would be seen.
"""

import argparse

RECORD = """record(calc, "$(P):N{number:04d}") {{
  field(SCAN, ".1 second")
  field(CALC, "VAL+1")
  field(VAL, "{first}")
}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many records (default 1000)")
    count = parser.parse_args().count
    for number in range(count):
        print(RECORD.format(number=number, first=number * 619 % 1000 * 10), end="")


if __name__ == "__main__":
    main()
