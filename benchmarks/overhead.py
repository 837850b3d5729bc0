"""How much pytest-harbor adds: to a trial's container calls, to collection, to plain pytest.

    python benchmarks/overhead.py                    # everything, some minutes
    python benchmarks/overhead.py trials collection  # parts of it
    python benchmarks/overhead.py --json out.json

All that is compared is measured in one run and alternates, so that a noisy machine is
as noisy for both; the tables show medians, and ratios of them.

*Trials.* The floor (``floor.py``) makes a trial's container calls with nothing but the
docker SDK, in as many processes at once, which are started and connected before its
clock runs. The plugin's wall clock has pytest's start, the workers' start and
collection in it as well. So the same pytest run is made a second time with everything
but the trials (the items are reported and not run), and the difference is held against
the floor:

    (wall with trials - wall without) / (wall of the floor)

What stays in the difference is all that trials cause: planning, the run's network made
and removed, imports at the first trial of each worker, the trial's files, reports. The
whole wall clock is shown beside it, and the median of single trials (set-up, call and
teardown of an item) against single trials of the floor, which leaves out what is done
once per run. CPU is taken as the wall clock is: the difference of both pytest runs, of
all their processes. Images are built before anything is measured.

*Processes* are those that Python starts while trials run, seen by an audit hook in
every process of the run, less those of the run without trials (xdist's workers).

*Collection* is ``--collect-only -q`` of generated tasks, against as many Python files of
one line whose bytecode is cached.

*Memory* is the resident set of an xdist worker at its end, after its trials, against a
worker of a run without the plugin. *Plain* is one trivial test, with and without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from floor import FloorRun, run_floor
from inputs import write_flat_tasks, write_tasks, write_test_files
from measure import Usage, pytest

TARGETS = {
    "trial": "at most 1.15 x the floor",
    "cpu": "at most 0.1 s a trial",
    "collection": "10,000 tasks no slower than as many test files, growth linear",
    "memory": "at most 60 MB a worker",
    "plain": "at most 20 ms",
}


@dataclass(frozen=True)
class ProbedRun:
    """A pytest run and what its processes told."""

    usage: Usage
    records: list[dict[str, Any]]

    @property
    def processes(self) -> int:
        """Processes started by Python."""
        return sum(len(record["processes"]) for record in self.records)

    @property
    def durations(self) -> list[float]:
        """Seconds of each item, as reported to the process that the user started."""
        return [
            seconds
            for record in self.records
            if not record["worker"]
            for seconds in record["durations"].values()
        ]

    @property
    def worker_mb(self) -> float:
        """Resident memory of the largest worker at its end."""
        return max(record["rss_mb"] for record in self.records if record["worker"])


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one measurement."""
    path = Path(tempfile.mkdtemp(prefix="overhead-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def probed(cwd: Path, *arguments: str, **switches: str) -> ProbedRun:
    """Run pytest with the probe in each of its processes."""
    with scratch() as records:
        search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = {"PYTHONPATH": os.pathsep.join(search), "PROBE_DIR": str(records), **switches}
        usage = pytest(cwd, "-p", "probe", *arguments, env=env)
        found = [json.loads(path.read_text()) for path in records.iterdir()]
    shutil.rmtree(cwd / "jobs", ignore_errors=True)
    return ProbedRun(usage, found)


PLUGIN = ("-p", "harbor")
WITHOUT_PLUGIN = ("-p", "no:harbor")


def workers_option(workers: int) -> tuple[str, ...]:
    """No xdist at all for one worker."""
    return () if workers == 1 else ("-p", "xdist", "-n", str(workers))


# -- trials -----------------------------------------------------------------------


def measure_trials(image: str, rounds: dict[int, int]) -> list[dict[str, Any]]:
    """Trials against the floor, for each number of trials and workers."""
    rows = []
    for count, repeats in rounds.items():
        with scratch() as folder:
            tasks = write_tasks(folder / "tasks", count, image)
            probed(tasks, *PLUGIN)  # builds the image
            rows += [_trials_row(tasks, image, count, workers, repeats) for workers in (1, 2, 4)]
    return rows


def _trials_row(tasks: Path, image: str, count: int, workers: int, repeats: int) -> dict[str, Any]:
    options = (*PLUGIN, *workers_option(workers))
    floors: list[FloorRun] = []
    without: list[ProbedRun] = []
    full: list[ProbedRun] = []
    for _ in range(repeats):
        floors.append(run_floor(image, count, workers))
        without.append(probed(tasks, *options, PROBE_WITHOUT_TRIALS="1"))
        full.append(probed(tasks, *options))
    # Of neighbours: what slows the machine down for a while slows down both.
    differences = [
        run.usage.wall - empty.usage.wall for run, empty in zip(full, without, strict=True)
    ]
    ratios = [took / floor.wall for took, floor in zip(differences, floors, strict=True)]
    single = [seconds for run in full for seconds in run.durations]
    floor_single = [seconds for floor in floors for seconds in floor.trials]
    cpu = median(run.usage.cpu for run in full) - median(run.usage.cpu for run in without)
    return {
        "trials": count,
        "workers": workers,
        "floor": median(floor.wall for floor in floors) / count,
        "plugin": median(differences) / count,
        "ratio": median(ratios),
        "whole_wall": median(run.usage.wall for run in full) / count,
        "item_ratio": median(single) / median(floor_single),
        "cpu": cpu / count,
        "floor_cpu": median(floor.cpu for floor in floors) / count,
        "processes": full[-1].processes - without[-1].processes,
    }


def show_trials(rows: list[dict[str, Any]]) -> None:
    """Print the table of trials."""
    print(f"\nTrials, seconds per trial; a trial {TARGETS['trial']}, CPU {TARGETS['cpu']}")
    head = ("trials", "-n", "floor", "plugin", "ratio", "item", "whole", "CPU", "floor", "started")
    _row(*head)
    for row in rows:
        _row(
            row["trials"],
            row["workers"],
            f"{row['floor']:.3f}",
            f"{row['plugin']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['item_ratio']:.2f}",
            f"{row['whole_wall']:.3f}",
            f"{row['cpu']:.3f}",
            f"{row['floor_cpu']:.3f}",
            row["processes"],
        )


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
        _collect(inputs["files"])  # writes the bytecode
        for _ in range(repeats):
            for name, path in inputs.items():
                taken[name].append(_collect(path))
    row: dict[str, Any] = {"count": count}
    for name, usages in taken.items():
        row[name] = median(usage.wall for usage in usages)
        row[f"{name}_mb"] = median(usage.peak_mb for usage in usages)
    row["ratio"] = row["tasks"] / row["files"]
    return row


def _collect(folder: Path) -> Usage:
    return pytest(folder, *PLUGIN, "--collect-only")


def show_collection(rows: list[dict[str, Any]]) -> None:
    """Print the table of collection."""
    print(f"\nCollection, seconds and peak MB; {TARGETS['collection']}")
    _row("count", "tasks", "files", "ratio", "ms/task", "tasks MB", "files MB")
    for row in rows:
        _row(
            f"{row['count']:,}",
            f"{row['tasks']:.2f}",
            f"{row['files']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['tasks'] / row['count'] * 1000:.2f}",
            f"{row['tasks_mb']:.0f}",
            f"{row['files_mb']:.0f}",
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

    trials: dict[int, int]
    collection: dict[int, int]
    plain: int


THOROUGH = Effort(trials={1: 5, 16: 3}, collection={100: 5, 1_000: 3, 10_000: 1}, plain=25)
QUICK = Effort(trials={1: 3, 16: 1}, collection={100: 3, 1_000: 1}, plain=20)

PARTS = ("trials", "calls", "collection", "memory", "plain")


def measure(part: str, image: str, effort: Effort) -> Any:
    """Measure and show one part."""
    match part:
        case "trials":
            show_trials(rows := measure_trials(image, effort.trials))
            return rows
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
