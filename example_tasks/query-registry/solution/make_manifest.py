"""A small MCP client: asks the register for every ship on the list."""

import csv
import json
import re
import subprocess
from pathlib import Path

SERVER = ["python3", "-I", "/opt/registry/server.py"]


class Register:
    """The server, started and greeted."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.number = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.request("initialize", {**hello, "clientInfo": {"name": "oracle", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict) -> dict:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return json.loads(self.process.stdout.readline())["result"]

    def call(self, tool: str, **arguments: str) -> str:
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert not result["isError"], result
        return result["content"][0]["text"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def ships(register: Register, line: str) -> list[tuple[str, str]]:
    """Name and IMO number of the ship on one line; nothing where none arrives."""
    match = re.fullmatch(r"(.+?)\s*(?:\((\d)\)|([?*]))?", line.strip())
    if match is None or line.startswith("#") or match[3] == "*":
        return []
    name, number = match[1], int(match[2] or 1)
    found = json.loads(register.call("search_ships", text=name))
    same = sorted(s["imo"] for s in found if s["name"].casefold() == name.casefold())
    spelt = next((s["name"] for s in found if s["name"].casefold() == name.casefold()), "")
    return [(spelt, same[number - 1])] if same else []


def main() -> None:
    register = Register()
    lines = Path("/app/arrivals.txt").read_text().splitlines()
    arriving = sorted({ship for line in lines for ship in ships(register, line)})
    with Path("/app/manifest.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["name", "imo", "berth"])
        for name, imo in arriving:
            table.writerow([name, imo, register.call("berth_of", imo=imo)])
    register.close()


main()
