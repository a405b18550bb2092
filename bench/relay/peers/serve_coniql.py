"""Serves Coniql on loopback, at a given port. Its own command takes neither; all else
is as that has it.
"""

import sys
from importlib.metadata import version

from aiohttp import web
from coniql.app import configure_logger, create_app

print(f"Coniql {version('coniql')}")
configure_logger()
application = create_app(use_cors=False, debug=False, graphiql=False)
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]))
