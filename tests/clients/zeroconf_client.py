"""Looks for services of the Wyoming protocol in the local network, as Home Assistant does.

Usage: zeroconf_client.py. Prints a line of JSON for each that comes, with its port, and for each that leaves.
"""

import json
import time

from zeroconf import ServiceBrowser, ServiceListener, Zeroconf


class Found(ServiceListener):
    def add_service(self, zeroconf, kind, name):
        info = zeroconf.get_service_info(kind, name)
        addresses = info.parsed_addresses() if info else []
        print(json.dumps({"came": name, "port": info and info.port, "addresses": addresses}), flush=True)

    def update_service(self, zeroconf, kind, name):
        pass

    def remove_service(self, zeroconf, kind, name):
        print(json.dumps({"left": name}), flush=True)


ServiceBrowser(Zeroconf(), "_wyoming._tcp.local.", Found())
time.sleep(600)
