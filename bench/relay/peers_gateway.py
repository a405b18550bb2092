"""Configuration of p4p's gateway, between one IOC and clients on loopback."""

import processes  # noqa: F401 (the folder of ports)
from ports import free_port


def gateway_settings(port, servers):
    """The gateway's own configuration: its port for clients, and the servers behind it."""
    return {
        "version": 2,
        "clients": [
            {
                "name": "iocs",
                "provider": "pva",
                "autoaddrlist": False,
                "EPICS_PVA_NAME_SERVERS": servers,
            }
        ],
        "servers": [
            {
                "name": "clients",
                "clients": ["iocs"],
                "interface": ["127.0.0.1"],
                "serverport": port,
                "bcastport": free_port(),
                "autoaddrlist": False,
            }
        ],
    }
