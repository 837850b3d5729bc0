"""The stock service: how many of each item there are, and taking one away."""

import configparser
import csv
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

WHEN_EMPTY = ("refuse", "below-zero")


class Stock:
    """The counts, in memory; the file is only read."""

    def __init__(self, path, when_empty):
        if when_empty not in WHEN_EMPTY:
            sys.exit(f"when_empty must be one of {WHEN_EMPTY}, not {when_empty!r}")
        self.when_empty = when_empty
        with open(path, newline="") as file:
            self.counts = {row["name"]: int(row["count"]) for row in csv.DictReader(file)}

    def take(self, name):
        """Take one away; False if there is none to take."""
        if self.counts[name] < 1 and self.when_empty == "refuse":
            return False
        self.counts[name] -= 1
        return True


class Handler(BaseHTTPRequestHandler):
    stock: Stock

    def do_GET(self):
        match self.path.split("/"):
            case ["", "items", name] if name in self.stock.counts:
                self.answer(200, self.item(name))
            case _:
                self.answer(404, {"error": "no such item"})

    def do_POST(self):
        match self.path.split("/"):
            case ["", "items", name, "take"] if name in self.stock.counts:
                taken = self.stock.take(name)
                self.answer(200 if taken else 409, self.item(name))
            case _:
                self.answer(404, {"error": "no such item"})

    def item(self, name):
        return {"name": name, "count": self.stock.counts[name]}

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    config = configparser.ConfigParser()
    config.read("/app/server.ini")
    Handler.stock = Stock(config["stock"]["file"], config["stock"]["when_empty"])
    address = (config["server"]["host"], config["server"].getint("port"))
    HTTPServer(address, Handler).serve_forever()


if __name__ == "__main__":
    main()
