"""Lets the EPICS libraries of the virtual environment start without setuptools.

They only ask `setuptools_dso` where their shared libraries are. But that package imports setuptools, which
takes twice as long as an IOC takes to start. This module puts a package without setuptools in its place.
tools/setup.sh copies it into the environment, where Python imports it at each start (quick_start.pth).
"""

import os.path
import sys
from importlib import import_module


def package_without_setuptools():
    package = type(sys)("setuptools_dso")
    package.__path__ = [os.path.join(os.path.dirname(__file__), "setuptools_dso")]
    package.__getattr__ = of_runtime
    return package


def of_runtime(name):
    """What the package takes from its module `runtime`, which is imported when it is first needed."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("setuptools_dso.runtime"), name)


sys.modules.setdefault("setuptools_dso", package_without_setuptools())
