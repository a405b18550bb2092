"""Which records stand behind the table of 1,000 PVs? Prints them: each counts up by one at 10 Hz.

A value that counts by one lets a test see from the value alone that none was missed.
"""

import argparse

RECORD = """record(calc, "$(P):N{number:04d}") {{
  field(SCAN, ".1 second")
  field(CALC, "VAL+1")
}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many records (default 1000)")
    count = parser.parse_args().count
    print("".join(RECORD.format(number=number) for number in range(count)), end="")


if __name__ == "__main__":
    main()
