"""A private EPICS network, in which only the IOCs and clients of one run find each other."""

from ports import free_port


def private_network():
    """EPICS environment variables for all processes of a new network: loopback only, on private ports."""
    access, repeater, pva, broadcast = (str(free_port()) for _ in range(4))
    return {
        "EPICS_CA_ADDR_LIST": "127.0.0.1",
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": access,
        "EPICS_CA_REPEATER_PORT": repeater,
        "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CAS_BEACON_PORT": repeater,
        "EPICS_PVA_ADDR_LIST": "",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        # A UDP search reaches only one of several processes that share a port, so clients use TCP.
        "EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{pva}",
        "EPICS_PVA_SERVER_PORT": pva,
        "EPICS_PVA_BROADCAST_PORT": broadcast,
        "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
    }
