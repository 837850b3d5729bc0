"""What the model gateway costs: calls through it against direct ones, in one run.

Direct calls and calls through the gateway take turns, so that a busy machine slows both.
The model is a scripted server in a process of its own, and so is the gateway.

    python benchmarks/model_gateway.py [--calls 300] [--streams 200] [--body-kb 40] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent))

TARGET_MS = 2.0
EVENTS = 50
PAUSE_SEC = 0.02
AT_ONCE = 16
"""Clients that call as fast as they are answered, for the throughput."""


def serve_model(channel: Connection) -> None:
    """A model that answers at once, and one that streams slowly where asked to."""
    from tests.model_server import ModelServer, Turn

    def turn(body: dict[str, Any]) -> Turn:
        slow = body.get("max_tokens") == EVENTS
        return Turn(text="word " * (EVENTS if slow else 10), pause_sec=PAUSE_SEC if slow else 0)

    class Endless(list):  # type: ignore[type-arg]
        def pop(self, index: int = 0) -> Any:
            return turn

    with ModelServer() as model:
        model.script._turns = Endless([turn])
        model.received = _Forgetful()
        channel.send(model.root)
        channel.recv()


class _Forgetful(list):  # type: ignore[type-arg]
    def append(self, item: Any) -> None:
        pass


def serve_gateway(channel: Connection, root: str, record: str, mode: str) -> None:
    from pytest_harbor.model_gateway.gateway import ModelGateway
    from pytest_harbor.model_gateway.providers import Provider, Providers, Upstream
    from pytest_harbor.task.network import network_policy

    upstream = Upstream("anthropic", root, "sk-a-key-that-is-masked")
    with ModelGateway(Providers({}, Provider("bench", {"anthropic": upstream}))) as gateway:
        session = gateway.open_session(
            model="bench/m",
            record=Path(record),
            policy=network_policy(mode),  # type: ignore[arg-type]
        )
        channel.send((session.base_url("anthropic", "127.0.0.1"), session.token))
        while channel.recv() == "memory":
            channel.send(memory())
        session.close()
        channel.send(session.usage.calls)


def memory() -> dict[str, float]:
    """This process's resident set in MB: now, and at its highest since the last look."""
    status = Path("/proc/self/status").read_text()
    found = {
        line.split()[0]: int(line.split()[1]) / 1024 for line in status.splitlines() if "kB" in line
    }
    Path("/proc/self/clear_refs").write_text("5")
    return {"rss_mb": found["VmRSS:"], "peak_mb": found["VmHWM:"]}


def asked(channel: Connection) -> dict[str, float]:
    channel.send("memory")
    return dict(channel.recv())


def body_of(size_kb: int, *, slow: bool) -> bytes:
    """A request as agents send them: a history, and tools."""
    tools = [{"name": f"tool_{n}", "description": "d" * 200, "input_schema": {}} for n in range(20)]
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": "word " * 200}
        for n in range(max(size_kb - 6, 1))
    ]
    limit = EVENTS if slow else 100
    body = {"model": "m", "max_tokens": limit, "stream": True, "tools": tools}
    return json.dumps({**body, "messages": messages}).encode()


async def call(
    client: aiohttp.ClientSession, place: tuple[str, str], body: bytes
) -> tuple[float, float]:
    """Seconds to the first byte and to the last."""
    url, token = place
    began = time.perf_counter()
    headers = {"x-api-key": token, "anthropic-version": "2023-06-01"}
    async with client.post(f"{url}/v1/messages", data=body, headers=headers) as answer:
        answer.raise_for_status()
        first = None
        async for piece in answer.content.iter_any():
            first = first or time.perf_counter() - began
            last = piece
    assert b"message_stop" in last, last[-200:]
    return first or 0.0, time.perf_counter() - began


async def one_by_one(
    direct: tuple[str, str], gateway: tuple[str, str], calls: int, body: bytes
) -> dict[str, float]:
    """Calls in turns: the median that the gateway adds."""
    async with aiohttp.ClientSession() as client:
        for place in (direct, gateway) * 5:
            await call(client, place, body)  # connections are open from here on
        pairs = [
            ((await call(client, direct, body))[1], (await call(client, gateway, body))[1])
            for _ in range(calls)
        ]
    plain, through = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    added = [b - a for a, b in pairs]
    return {
        "direct_ms": median(plain) * 1e3,
        "gateway_ms": median(through) * 1e3,
        "added_ms": median(added) * 1e3,
        "added_p95_ms": quantiles(added, n=20)[-1] * 1e3,
        "ratio": median(through) / median(plain),
    }


async def all_at_once(place: tuple[str, str], streams: int, body: bytes) -> dict[str, float]:
    """So many slow streams at once: seconds for all of them, and to their first bytes."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        began = time.perf_counter()
        times = await asyncio.gather(*(call(client, place, body) for _ in range(streams)))
        wall = time.perf_counter() - began
    return {"wall_sec": wall, "first_byte_ms": median(first for first, _ in times) * 1e3}


async def as_fast_as_answered(place: tuple[str, str], calls: int, body: bytes) -> float:
    """Calls per second, some at once."""
    async with aiohttp.ClientSession() as client:
        left = iter(range(calls))

        async def work() -> None:
            for _ in left:
                await call(client, place, body)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return calls / (time.perf_counter() - began)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    report: dict[str, Any] = {"calls": arguments.calls, "streams": arguments.streams}
    with tempfile.TemporaryDirectory() as folder:
        model, far_model = context.Pipe()
        context.Process(target=serve_model, args=(far_model,), daemon=True).start()
        root = model.recv()
        for mode in ("public", "no-network"):
            near, far = context.Pipe()
            record = str(Path(folder) / f"{mode}.jsonl")
            process = context.Process(target=serve_gateway, args=(far, root, record, mode))
            process.start()
            gateway = near.recv()
            body = body_of(arguments.body_kb, slow=False)
            report[mode] = asyncio.run(one_by_one((root, "x"), gateway, arguments.calls, body))
            if mode == "no-network":
                report |= many(arguments, (root, "x"), gateway, near)
            near.send("end")
            report[f"recorded_{mode}"] = near.recv()
            process.join()
        model.send("end")
    return report


def many(
    arguments: argparse.Namespace,
    direct: tuple[str, str],
    gateway: tuple[str, str],
    channel: Connection,
) -> dict[str, Any]:
    """Many calls at once: slow streams, and as many as there can be."""
    slow = body_of(arguments.body_kb, slow=True)
    fast = body_of(arguments.body_kb, slow=False)
    before = asked(channel)
    found: dict[str, Any] = {
        "streams_direct": asyncio.run(all_at_once(direct, arguments.streams, slow)),
        "streams_gateway": asyncio.run(all_at_once(gateway, arguments.streams, slow)),
    }
    found["memory"] = {"before_mb": before["rss_mb"], **asked(channel)}
    walls = [found[f"streams_{name}"]["wall_sec"] for name in ("gateway", "direct")]
    found["streams_ratio"] = walls[0] / walls[1]
    found["calls_per_sec"] = {
        name: asyncio.run(as_fast_as_answered(place, 2 * arguments.calls, fast))
        for name, place in (("direct", direct), ("gateway", gateway))
    }
    return found


def show(report: dict[str, Any]) -> None:
    print(f"Added per call, median of {report['calls']} (target: under {TARGET_MS} ms)")
    for mode in ("public", "no-network"):
        row = report[mode]
        print(
            f"  {mode:<11} direct {row['direct_ms']:6.2f} ms   gateway {row['gateway_ms']:6.2f} ms"
            f"   added {row['added_ms']:5.2f} ms   p95 {row['added_p95_ms']:5.2f} ms"
            f"   ratio {row['ratio']:.2f}"
        )
    print(f"{report['streams']} streams at once, {EVENTS} events {PAUSE_SEC * 1e3:.0f} ms apart")
    for name in ("direct", "gateway"):
        row = report[f"streams_{name}"]
        print(f"  {name:<8} {row['wall_sec']:.2f} s   first byte {row['first_byte_ms']:.0f} ms")
    used = report["memory"]
    print(
        f"  ratio {report['streams_ratio']:.2f}   the gateway's memory {used['before_mb']:.0f} MB"
        f" before, {used['peak_mb']:.0f} MB at its highest, {used['rss_mb']:.0f} MB after"
    )
    rates = report["calls_per_sec"]
    print(
        f"{AT_ONCE} clients without a pause: direct {rates['direct']:.0f} calls/s,"
        f" gateway {rates['gateway']:.0f} calls/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--body-kb", type=int, default=40)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = run(arguments)
    show(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
