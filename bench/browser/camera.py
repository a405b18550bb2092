"""A camera as areaDetector serves it: an NTNDArray of 16 bits whose frames are numbered and stamped.

`camera.py PV SIZE RATE_HZ`, until its input ends. The first pixels of a frame tell its number, modulo 255,
as the grey that a picture from 0 to 65535 has there.
"""

import itertools
import sys
import threading
import time

import numpy
from p4p.nt import NTNDArray
from p4p.server import Server
from p4p.server.thread import SharedPV

TELLING_PIXELS = 8


def scene(size):
    """A spot on a dark ground, with the least and the greatest level that there is."""
    at = numpy.linspace(-3, 3, size)
    line = numpy.exp(-at * at)
    picture = (65535 * numpy.outer(line, line)).astype(numpy.uint16)
    picture[-1, 0], picture[-1, 1] = 0, 65535
    return picture


def main():
    name, size, rate_hz = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    nt = NTNDArray()
    picture = scene(size)

    def frame(number):
        picture[0, :TELLING_PIXELS] = 257 * (number % 255) + 128
        value = nt.wrap(picture, timestamp=time.time())
        value["uniqueId"] = number
        return value

    camera = SharedPV(initial=frame(0))
    ended = threading.Event()

    def take():
        began = time.monotonic()
        for number in itertools.count(1):
            if ended.wait(max(0, began + number / rate_hz - time.monotonic())):
                return
            camera.post(frame(number))

    with Server(providers=[{name: camera}]):
        taker = threading.Thread(target=take)
        taker.start()
        print("serving", flush=True)
        sys.stdin.read()
        ended.set()
        taker.join()


if __name__ == "__main__":
    main()
