"""How much pytest-harbor adds: to a trial's container calls, to collection, to plain pytest.

    python benchmarks/overhead.py                    # everything, some minutes
    python benchmarks/overhead.py trials collection  # parts of it
    python benchmarks/overhead.py --json out.json

All that is compared is measured in one run and alternates, so that a noisy machine is
as noisy for both; the tables show medians, and ratios of them.

*Trials.* The floor (``floor.py``) makes a trial's container calls with nothing but the
docker SDK: create, start, upload, exec, upload, exec, download, remove. It is compared in
two ways.

- *Trial by trial*: after each item, the process that ran it makes the same calls bare.
  The table shows medians; what is done once per run (imports, the run's network) is not
  in them. With ``-n``, all workers do so at once. The floor's container is on the
  engine's default bridge. The plugin gives each run a network of its own, on which
  trials cannot reach each other, and a container starts more slowly there: so a second
  floor is on that network.
- *Whole runs*: the floor in as many processes, started and connected before its clock
  runs, against pytest's wall clock, which has pytest's start, the workers' start and
  collection in it as well. So the same pytest run is made again with everything but the
  trials (the items are reported and not run), and the ratio is

      (wall with trials - wall without) / (wall of the floor)

  What stays in it is all that trials cause, once per run or for each: planning, imports
  at a worker's first trial, the run's network made and removed, the trial's files,
  reports. The whole wall clock is shown beside it. CPU is taken likewise: the difference
  of both runs, of all their processes.

*Networks* are trials under each kind of network policy, by turns in one run. The allowlist
begins with the agent. The run's first gateway is made while the trial before it runs; later
trials are given one that has served. Where there is no trial before it, it is made beside its
own: so whole runs of one trial are compared as well, wall clock, with the end of all that was made.

Images are built before anything is measured.

*Processes* are those that Python starts while trials run, seen by an audit hook in
every process of the run, less those of the run without trials (xdist's workers).

*Collection* is ``--collect-only -q`` of generated tasks, against as many Python files of
one line: at their first collection, when pytest compiles them, and at later ones, when
their bytecode is cached. Tasks have no such cache: every collection reads them.

*Memory* is the resident set of an xdist worker at its end, after its trials, against a
worker of a run without the plugin. *Plain* is one trivial test, with and without.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from floor import run_floor
from inputs import (
    NETWORKS,
    write_flat_tasks,
    write_network_task,
    write_network_tasks,
    write_tasks,
    write_test_files,
)
from measure import Usage, probed, pytest, scratch

TARGETS = {
    "trial": "at most 1.15 x the floor",
    "cpu": "at most 0.1 s a trial",
    "network": "no-network no slower than public, allowlist + 0.3 s cold, + 0.15 s after that",
    "collection": "10,000 tasks no slower than as many test files, growth linear",
    "memory": "at most 60 MB a worker",
    "plain": "at most 20 ms",
}


PLUGIN = ("-p", "harbor")
WITHOUT_PLUGIN = ("-p", "no:harbor")


WORKERS = (1, 2, 4)


def workers_option(workers: int) -> tuple[str, ...]:
    """No xdist at all for one worker."""
    return () if workers == 1 else ("-p", "xdist", "-n", str(workers))


# -- trials -----------------------------------------------------------------------


def measure_trials(image: str, count: int) -> list[dict[str, Any]]:
    """Trial by trial against the floor, for each number of workers."""
    with scratch() as folder:
        tasks = write_tasks(folder / "tasks", count, image)
        probed(tasks, *PLUGIN)  # builds the image
        return [_trials_row(tasks, image, workers) for workers in WORKERS]


def _trials_row(tasks: Path, image: str, workers: int) -> dict[str, Any]:
    trials = probed(tasks, *PLUGIN, *workers_option(workers), PROBE_FLOOR=image).trials
    item, bridge, own = (
        median(trial[name] for trial in trials) for name in ("item", "bridge", "own")
    )
    return {
        "trials": len(trials),
        "workers": workers,
        "item": item,
        "floor": bridge,
        "floor_own_network": own,
        "ratio": item / bridge,
        "ratio_own_network": item / own,
    }


def show_trials(rows: list[dict[str, Any]]) -> None:
    """Print the table of trials."""
    print(f"\nTrial by trial, median seconds; a trial {TARGETS['trial']}")
    _row("trials", "-n", "plugin", "floor", "ratio", "floor, net", "ratio, net")
    for row in rows:
        _row(
            row["trials"],
            row["workers"],
            f"{row['item']:.3f}",
            f"{row['floor']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['floor_own_network']:.3f}",
            f"{row['ratio_own_network']:.2f}",
        )


# -- whole runs -------------------------------------------------------------------


def measure_runs(image: str, rounds: dict[int, int]) -> list[dict[str, Any]]:
    """Whole runs against the floor, for each number of trials and workers."""
    rows = []
    for count, repeats in rounds.items():
        with scratch() as folder:
            tasks = write_tasks(folder / "tasks", count, image)
            probed(tasks, *PLUGIN)  # builds the image
            rows += [_runs_row(tasks, image, count, workers, repeats) for workers in WORKERS]
    return rows


def _runs_row(tasks: Path, image: str, count: int, workers: int, repeats: int) -> dict[str, Any]:
    options = (*PLUGIN, *workers_option(workers))
    rounds = [
        (
            run_floor(image, count, workers),
            probed(tasks, *options, PROBE_WITHOUT_TRIALS="1"),
            probed(tasks, *options),
        )
        for _ in range(repeats)
    ]
    walls = [(floor.wall, full.usage.wall - empty.usage.wall) for floor, empty, full in rounds]
    cpu = [(floor.cpu, full.usage.cpu - empty.usage.cpu) for floor, empty, full in rounds]
    return {
        "trials": count,
        "workers": workers,
        "floor": median(floor for floor, _ in walls) / count,
        "plugin": median(plugin for _, plugin in walls) / count,
        # Of neighbours: what slows the machine down for a while slows down both.
        "ratio": median(plugin / floor for floor, plugin in walls),
        "whole_wall": median(full.usage.wall for *_, full in rounds) / count,
        "cpu": median(plugin for _, plugin in cpu) / count,
        "floor_cpu": median(floor for floor, _ in cpu) / count,
        "processes": max(full.processes - empty.processes for _, empty, full in rounds),
    }


def show_runs(rows: list[dict[str, Any]]) -> None:
    """Print the table of whole runs."""
    print(f"\nWhole runs, seconds per trial; a trial {TARGETS['trial']}, CPU {TARGETS['cpu']}")
    _row("trials", "-n", "plugin", "floor", "ratio", "wall", "CPU", "floor's CPU", "processes")
    for row in rows:
        _row(
            row["trials"],
            row["workers"],
            f"{row['plugin']:.3f}",
            f"{row['floor']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['whole_wall']:.3f}",
            f"{row['cpu']:.3f}",
            f"{row['floor_cpu']:.3f}",
            row["processes"],
        )


# -- networks ---------------------------------------------------------------------


def measure_networks(image: str, rounds: int) -> dict[str, dict[str, float]]:
    """Trials of each kind of network by turns, in one run; and whole runs of one trial."""
    return {
        "Trials": _networks_in_one_run(image, rounds),
        "Whole runs of one trial": _networks_alone(image, rounds),
    }


def _networks_in_one_run(image: str, rounds: int) -> dict[str, float]:
    with scratch() as folder:
        tasks = write_network_tasks(folder / "tasks", rounds, image)
        probed(tasks, *PLUGIN)  # builds the image, and the gateway's
        runs = [[trial["item"] for trial in probed(tasks, *PLUGIN).trials] for _ in range(3)]
    kinds = list(NETWORKS)
    # Of the first round only the gateway: what a run does once is in its first trial.
    later = [run[len(kinds) :] for run in runs]
    taken = {
        kind: median(one for run in later for one in run[place :: len(kinds)])
        for place, kind in enumerate(kinds)
    }
    first = median(run[kinds.index("allowlist")] for run in runs)
    return {**taken, "allowlist, its run's first": first}


def _networks_alone(image: str, rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = defaultdict(list)
    with scratch() as folder:
        tasks = {kind: write_network_task(folder / kind, kind, image) for kind in NETWORKS}
        for _ in range(rounds):
            for kind, path in tasks.items():
                taken[kind].append(probed(path, *PLUGIN).usage.wall)
    return {kind: median(walls) for kind, walls in taken.items()}


def show_networks(tables: dict[str, dict[str, float]]) -> None:
    """Print the tables of networks."""
    for title, taken in tables.items():
        print(f"\n{title} by network, median seconds; {TARGETS['network']}")
        _row("seconds", "ratio", "more", "network")
        for kind, seconds in taken.items():
            more = seconds - taken["public"]
            ratio = seconds / taken["public"]
            _row(f"{seconds:.3f}", f"{ratio:.2f}", f"{more:+.3f}", f"  {kind}")


# -- calls ------------------------------------------------------------------------


def measure_calls(image: str) -> list[tuple[str, str, float]]:
    """Every request to the engine in a run of two trials."""
    with scratch() as folder:
        tasks = write_tasks(folder / "tasks", 2, image)
        probed(tasks, *PLUGIN)
        (record,) = probed(tasks, *PLUGIN, PROBE_CALLS="1").records
        return [tuple(call) for call in record["calls"]]


def show_calls(calls: list[tuple[str, str, float]]) -> None:
    """Print the requests in their order, with the milliseconds until the answer began."""
    print("\nRequests to the engine, two trials")
    for method, address, seconds in calls:
        print(f"  {seconds * 1000:6.0f} ms  {method:6} {address}")


# -- collection -------------------------------------------------------------------


def measure_collection(image: str, rounds: dict[int, int]) -> list[dict[str, Any]]:
    """Tasks against Python files."""
    return [_collection_row(image, count, repeats) for count, repeats in rounds.items()]


def _collection_row(image: str, count: int, repeats: int) -> dict[str, Any]:
    taken: dict[str, list[Usage]] = defaultdict(list)
    with scratch() as folder:
        inputs = {
            "files": write_test_files(folder / "files", count),
            "tasks": write_flat_tasks(folder / "tasks", count, image),
        }
        first = _collect(inputs["files"])  # compiles, and caches the bytecode
        for _ in range(repeats):
            for name, path in inputs.items():
                taken[name].append(_collect(path))
    row: dict[str, Any] = {"count": count, "files_first": first.wall, "files_first_cpu": first.cpu}
    for name, usages in taken.items():
        row[name] = median(usage.wall for usage in usages)
        row[f"{name}_cpu"] = median(usage.cpu for usage in usages)
        row[f"{name}_mb"] = median(usage.peak_mb for usage in usages)
    row["ratio"] = row["tasks"] / row["files"]
    row["cpu_ratio"] = row["tasks_cpu"] / row["files_cpu"]
    row["first_ratio"] = row["tasks"] / row["files_first"]
    return row


def _collect(folder: Path) -> Usage:
    return pytest(folder, *PLUGIN, "--collect-only")


def show_collection(rows: list[dict[str, Any]]) -> None:
    """Print the table of collection."""
    print(f"\nCollection, seconds and peak MB; {TARGETS['collection']}")
    _row("count", "tasks", "ms/task", "files, new", "ratio", "files", "ratio", "CPU ratio", "MB")
    for row in rows:
        _row(
            f"{row['count']:,}",
            f"{row['tasks']:.2f}",
            f"{row['tasks'] / row['count'] * 1000:.2f}",
            f"{row['files_first']:.2f}",
            f"{row['first_ratio']:.2f}",
            f"{row['files']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['cpu_ratio']:.2f}",
            f"{row['tasks_mb']:.0f} / {row['files_mb']:.0f}",
        )


# -- memory -----------------------------------------------------------------------


def measure_memory(image: str) -> dict[str, float]:
    """A worker that ran trials, one with the plugin and no task, one without the plugin."""
    with scratch() as folder:
        tasks = write_tasks(folder / "tasks", 6, image)
        files = write_test_files(folder / "files", 6)
        two = workers_option(2)
        return {
            "trials": probed(tasks, *PLUGIN, *two).worker_mb,
            "no_tasks": probed(files, *PLUGIN, *two).worker_mb,
            "no_plugin": probed(files, *WITHOUT_PLUGIN, *two).worker_mb,
        }


def show_memory(memory: dict[str, float]) -> None:
    """Print the memory of workers."""
    print(f"\nMemory of an xdist worker, MB; {TARGETS['memory']}")
    _row("with trials", "no tasks", "no plugin")
    _row(*(f"{memory[name]:.1f}" for name in ("trials", "no_tasks", "no_plugin")))


# -- plain ------------------------------------------------------------------------


def measure_plain(repeats: int) -> dict[str, float]:
    """One trivial test, with and without the plugin."""
    taken: dict[str, list[float]] = defaultdict(list)
    with scratch() as folder:
        files = write_test_files(folder / "files", 1)
        pytest(files, *PLUGIN)
        for _ in range(repeats):
            for name, options in {"with": PLUGIN, "without": WITHOUT_PLUGIN}.items():
                usage = pytest(files, *options)
                taken[name].append(usage.wall)
                taken[f"{name}_cpu"].append(usage.cpu)
    return {name: median(values) for name, values in taken.items()}


def show_plain(plain: dict[str, float]) -> None:
    """Print what the plugin costs a run without tasks."""
    print(f"\nA run of one trivial test, ms; {TARGETS['plain']} more")
    _row("", "with", "without", "more")
    for label, suffix in {"wall clock": "", "CPU": "_cpu"}.items():
        with_plugin, without = plain[f"with{suffix}"] * 1000, plain[f"without{suffix}"] * 1000
        _row(label, f"{with_plugin:.0f}", f"{without:.0f}", f"{with_plugin - without:.1f}")


# -- the script -------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """How often things are measured."""

    trials: int
    runs: dict[int, int]
    networks: int
    collection: dict[int, int]
    plain: int


THOROUGH = Effort(
    16, runs={1: 3, 16: 1}, networks=8, collection={100: 5, 1_000: 3, 10_000: 1}, plain=25
)
QUICK = Effort(8, runs={1: 1, 4: 1}, networks=3, collection={100: 3, 1_000: 1}, plain=20)

PARTS = ("trials", "runs", "networks", "calls", "collection", "memory", "plain")


def measure(part: str, image: str, effort: Effort) -> Any:
    """Measure and show one part."""
    match part:
        case "trials":
            show_trials(rows := measure_trials(image, effort.trials))
            return rows
        case "runs":
            show_runs(rows := measure_runs(image, effort.runs))
            return rows
        case "networks":
            show_networks(taken := measure_networks(image, effort.networks))
            return taken
        case "calls":
            show_calls(calls := measure_calls(image))
            return calls
        case "collection":
            show_collection(rows := measure_collection(image, effort.collection))
            return rows
        case "memory":
            show_memory(memory := measure_memory(image))
            return memory
        case _:
            show_plain(plain := measure_plain(effort.plain))
            return plain


def _row(*cells: object) -> None:
    print("".join(f"{cell!s:>12}" for cell in cells), flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--image", default="debian:bookworm-slim", help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to a file")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    effort = QUICK if arguments.quick else THOROUGH
    numbers: dict[str, Any] = {"effort": asdict(effort)}
    for part in arguments.parts or PARTS:
        numbers[part] = measure(part, arguments.image, effort)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
