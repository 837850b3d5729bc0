"""The harbour office's register as an MCP server: JSON-RPC, one message per line, on stdio.

Written without the SDK, so that the image needs nothing but Python.
"""

import json
import sys
from pathlib import Path

SHIPS = json.loads(Path("/opt/registry/ships.json").read_text())
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

TOOLS = [
    {
        "name": "search_ships",
        "description": "Ships whose name contains a text, in any case: name and IMO number.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
    {
        "name": "berth_of",
        "description": "The berth where a ship ties up.",
        "inputSchema": {
            "type": "object",
            "properties": {"imo": {"type": "string", "description": "IMO number"}},
            "required": ["imo"],
        },
    },
]


def search_ships(text: str) -> list[dict[str, str]]:
    found = [ship for ship in SHIPS if text.casefold() in ship["name"].casefold()]
    return [{"name": ship["name"], "imo": ship["imo"]} for ship in found]


def berth_of(imo: str) -> str:
    ship = next((ship for ship in SHIPS if ship["imo"] == imo), None)
    if ship is None:
        raise ValueError(f"no ship has IMO number {imo}")
    if ship["draught_m"] > 10 or ship["length_m"] > 200:
        return "deep-water"
    quay = "north" if ship["draught_m"] > 5 else "south"
    return f"{quay}-{1 + int(imo) % 4}"


def call(name: str, arguments: dict[str, str]) -> dict[str, object]:
    try:
        answer = {"search_ships": search_ships, "berth_of": berth_of}[name](**arguments)
    except (KeyError, TypeError, ValueError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return {"content": [{"type": "text", "text": text}], "isError": False}


def answer(method: str, params: dict) -> dict[str, object] | None:
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "registry", "version": "1.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params.get("name", ""), params.get("arguments") or {})
    return None


def main() -> None:
    print("register open", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message.get("method", ""), message.get("params") or {})
        if result is None:
            reply["error"] = {"code": -32601, "message": "no such method"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)


main()
