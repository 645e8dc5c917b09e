"""Are the numbers what they were? Records what audits and direct calls give, and compares two such records.

    python benchmarks/same_numbers.py record --src src --out after.json [--only SUBSTRING] [--jobs 2]
    python benchmarks/same_numbers.py compare before.json after.json [--texts]

A record is one JSON file: {case: {path within the result: number, text or list}}. A call that is refused is recorded as
{"error": type, "message": text}. Cases are written in today's names; where the package under ``--src`` is older, the
tables below translate the calls as they are made, and the fields of its record when it is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import importlib
import json
import math
import multiprocessing
import os
import re
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import same_numbers_audits
import same_numbers_calls

# --- how an older package says it -------------------------------------------------------------------------------------
#: The older package lacks this name at its top level.
NEWER_HAS = "worst_case_in_inputs"
#: name → module of the older package that holds it, where its top level does not
PLACES = {"worst_case_in_inputs": "criteria.worst_case_in_inputs"}
#: function → {parameter: the older name}
PARAMETERS = {
    "influence_index": {"n_boot": "shuffles", "task": "loss"},
    "dric": {"y": "target", "n_boot": "resamples"},
    "density_ratio": {"ratio": "estimator"},
}
#: function → {loss: the older name}
LOSSES = {
    "worst_case": {"log_loss": "cross_entropy"},
    "worst_case_in_inputs": {"log_loss": "cross_entropy"},
    "risk_variance": {"log_loss": "log"},
    "worst_environment_risk": {"log_loss": "log"},
}
#: pattern in "case:path" of an older record → what it is now; applied one after the other
FIELDS = {
    r"(^transport_gap/.*:|\btransport_gap\.)interval\b": r"\1pair_intervals",
    r"(^transport_gap/.*:|\btransport_gap\.)value_interval\b": r"\1interval",
    r"\bshuffled\b": "null",
    r"\bshuffled_numerator\b": "null_numerator",
    r"\bothers\.cross_entropy\b": "others.log_loss",
    r":frame\.loss$": ":frame.shared_head_loss",
}
#: text of a field "loss" or "of" in an older record → what it is now
LOSS_TEXTS = dict.fromkeys(("cross_entropy", "logistic", "softmax", "log"), "log_loss")

#: Differences that are meant: pattern (as in fnmatch) of a case, or of "case:path" → why.
#: {"dric/weighted*": "...", "*:null_numerator": "..."}
EXPECTED: dict[str, str] = {
    "audit/refused rows": "too few rows for heads of their own leave out criteria, no longer the audit",
    # with the older moments_of in its place, every bit is as before
    "audit/columns invariant:results.irm_penalty.worst": "a tie: at the minimum, two gradients differ by their sign",
    **dict.fromkeys(
        (f"audit/columns invariant:{path}" for path in ("results.dric.null", "results.regret.*", "frame.regret_*")),
        "sums over all rows are always those of five folds, added up: the last digit of the head",
    ),
    # with p − p² in its place, every bit is as before; an environment's Hessian has an eigenvalue of 2e-10
    "audit/InvariantClassifier:results.transport_gap.*": "curvature is p (1 − p), not p − p²: 1e-16 times 6e9",
}

TOLERANCE = 1e-12  # of the largest entry of an array
ROUNDING = 1e-13  # arrays without a larger entry hold nothing but rounding errors
LARGEST = 400  # entries beyond which sums and ends stand for an array
EXACT_TEXTS = ("state", "worst", "task", "verdicts", "error")  # texts that count as numbers do
ABOUT = "(about)"
SHOWN = 6  # lines of every case
KINDS = {"text": "texts that changed", "new": "only after", "expected": "differ, as expected"}
KINDS |= {"lost": "ONLY BEFORE", "number": "DIFFER"}
COUNTED = ("number", "lost")  # what makes the comparison fail


class Names:
    """The package under today's names; calls into an older one are translated."""

    def __init__(self, module: types.ModuleType, older: bool) -> None:
        self._module, self._older = module, older

    def __getattr__(self, name: str) -> Any:
        module = self._module
        translates = self._older and "." not in module.__name__
        if translates and name in PLACES:
            module = importlib.import_module(f"{module.__name__}.{PLACES[name]}")
        found = getattr(module, name, None) or partial(_missing, f"{module.__name__}.{name}")
        if isinstance(found, types.ModuleType):
            return Names(found, self._older)
        if translates and (name in PARAMETERS or name in LOSSES):
            return _translated(found, PARAMETERS.get(name, {}), LOSSES.get(name, {}))
        return found


def _missing(name: str, *arguments: Any, **options: Any) -> Any:
    raise AttributeError(f"there is no {name}")


def _translated(function: Callable[..., Any], parameters: dict[str, str], losses: dict[str, str]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        loss = options.get("loss")
        if loss is not None:
            named = losses.get(loss, loss) if isinstance(loss, str) else [losses.get(one, one) for one in loss]
            options["loss"] = named
        return function(*arguments, **{parameters.get(name, name): value for name, value in options.items()})

    return call


# --- from results to plain data ---------------------------------------------------------------------------------------
def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers, texts and lists of them by their place; fitted objects and functions are passed over."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        yield path, value
    elif isinstance(value, np.ndarray):
        yield from _array(value, path)
    elif hasattr(value, "to_numpy"):  # pandas
        if getattr(value, "ndim", 1) == 1:
            yield from _array(value.to_numpy(), path)
        else:
            yield from flattened({name: value[name] for name in value.columns}, path)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from flattened(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        if all(isinstance(part, str) for part in value):
            yield path, list(value)
        elif all(isinstance(part, bool | int | float | np.number) for part in value):
            yield from _array(np.array(value), path)
        else:
            yield from flattened(dict(enumerate(value)), path)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from flattened(_parts(value), path)


def _parts(value: Any) -> dict[str, Any]:
    """Public fields of a dataclass, and those of its properties that are numbers."""
    names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    parts = {name: getattr(value, name) for name in names}
    for name in dir(type(value)):
        if not name.startswith("_") and isinstance(getattr(type(value), name), property):
            with contextlib.suppress(Exception):  # of some objects it does not exist
                found = getattr(value, name)
                parts |= {name: found} if isinstance(found, int | float | np.number | np.ndarray) else {}
    return parts


def _array(values: np.ndarray[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    if values.dtype.kind not in "biuf":
        texts = [str(value) for value in values.ravel().tolist()]
        yield path, texts if len(texts) <= LARGEST else [*texts[:5], f"... {len(texts)} in all", *texts[-5:]]
        return
    if values.ndim != 1 or values.size > LARGEST:
        yield f"{path}.shape", list(values.shape)
    flat = values.ravel()
    if values.size <= LARGEST:
        yield path, flat.tolist()
        return
    flat = flat.astype(np.float64)
    yield f"{path}.sums", [float(flat.sum()), float(flat.mean()), float(np.abs(flat).sum())]
    yield f"{path}.ends", [float(flat[0]), float(flat[-1]), float(flat.min()), float(flat.max())]


# --- recording --------------------------------------------------------------------------------------------------------
_CASES: dict[str, Callable[[], Any]] = {}
_TROUBLE: list[str] = []


def _start(src: str) -> None:
    """In every process: the package from ``src``, one thread, and the list of cases; or why there is none."""
    try:
        _fill(src)
    except Exception:  # a process that ends here would be started again and again
        _TROUBLE.append(traceback.format_exc())


def _fill(src: str) -> None:
    sys.path.insert(0, src)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    package = importlib.import_module("invariscope")
    if not Path(str(package.__file__)).resolve().is_relative_to(Path(src).resolve()):
        raise ImportError(f"invariscope was imported from {package.__file__}, not from {src}")
    names = Names(package, older=not hasattr(package, NEWER_HAS))
    _CASES.update({**same_numbers_audits.cases(names), **same_numbers_calls.cases(names)})


def _about() -> tuple[list[str], bool]:
    if _TROUBLE:
        raise RuntimeError(_TROUBLE[0])
    return list(_CASES), not hasattr(sys.modules["invariscope"], NEWER_HAS)


def _run(case: str) -> tuple[str, dict[str, Any], float]:
    import torch

    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  (models of other packages may draw from it)
    started = time.perf_counter()
    try:
        found = dict(flattened(_CASES[case]()))
    except Exception as error:  # what is refused is recorded too
        found = {"error": type(error).__name__, "message": str(error)}
    return case, found, time.perf_counter() - started


def record(src: str, out: str, only: str, jobs: int) -> int:
    """Run the cases whose name contains ``only`` and write what they give."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    started = time.perf_counter()
    results, seconds = {}, {}
    with multiprocessing.get_context("spawn").Pool(jobs, _start, (src,)) as pool:
        names, older = pool.apply(_about)
        chosen = [name for name in names if only in name]
        for done, (case, found, took) in enumerate(pool.imap_unordered(_run, chosen), 1):
            results[case], seconds[case] = found, took
            print(f"\r{done}/{len(chosen)} {case:60.60}", end="", flush=True)
    record = {case: results[case] for case in chosen} | {ABOUT: {"older": older, "only": only}}
    Path(out).write_text(json.dumps(record, ensure_ascii=False, indent=0) + "\n")
    errors = {case: found for case, found in results.items() if "error" in found}
    print(f"\r{len(chosen)} cases in {time.perf_counter() - started:.0f} s{'':60}")
    print(f"{len(errors)} refused:", *(f"  {case}: {found['error']}" for case, found in errors.items()), sep="\n")
    print("slowest:", ", ".join(f"{case} {seconds[case]:.1f} s" for case in sorted(seconds, key=seconds.get)[:-9:-1]))
    return 0


# --- comparing --------------------------------------------------------------------------------------------------------
def read_record(path: str) -> tuple[dict[str, dict[str, Any]], str]:
    """A record in today's names, and which cases it was limited to."""
    found = json.loads(Path(path).read_text())
    about = found.pop(ABOUT, {})
    if about.get("older"):
        found = {case: _renamed(case, fields) for case, fields in found.items()}
    return found, about.get("only", "")


def _renamed(case: str, fields: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for path, value in fields.items():
        place = f"{case}:{path}"
        for pattern, name in FIELDS.items():
            place = re.sub(pattern, name, place)
        if path.rpartition(".")[2] in ("loss", "of") and isinstance(value, str):
            value = LOSS_TEXTS.get(value, value)
        out[place.partition(":")[2]] = value
    return out


def distance(before: Any, after: Any) -> float:
    """The largest difference of two numbers or lists, in units of the largest entry; infinite where they do not fit."""
    first, second = (np.atleast_1d(np.array(value, dtype=np.float64)) for value in (before, after))
    if first.shape != second.shape:
        return math.inf
    usual = np.isfinite(first) & np.isfinite(second)
    if not np.array_equal(first[~usual], second[~usual], equal_nan=True):
        return math.inf
    largest = np.abs(np.concatenate([first[usual], second[usual]])).max(initial=0.0)
    return float(np.abs(first[usual] - second[usual]).max() / largest) if largest > ROUNDING else 0.0


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(path, kind, words) of what is not the same; kinds are "number", "text", "lost" and "new"."""
    if ("error" in before) != ("error" in after):
        given = [fields.get("error", "a result") for fields in (before, after)]
        yield "error", "number", f"{given[0]} before, {given[1]} after: {(before | after).get('message')}"
        return
    for path in before | after:
        if path not in after or path not in before:
            yield path, "lost" if path in before else "new", _short(before.get(path, after.get(path)))
            continue
        old, new = before[path], after[path]
        words = f"{_short(old)} → {_short(new)}"
        if _is_text(old) or _is_text(new):
            if old != new:
                yield path, "number" if path.rpartition(".")[2] in EXACT_TEXTS else "text", words
        elif old is None or new is None:
            if old is not new:
                yield path, "number", words
        elif (far := distance(old, new)) > TOLERANCE:
            yield path, "number", f"{far:.1e}  {words}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(isinstance(part, str) for part in value))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 90 else f"{text[:87]}..."


def compare(before_file: str, after_file: str, texts: bool) -> int:
    """Print what differs; 1 if something does that is not expected."""
    (before, only), (after, also_only) = read_record(before_file), read_record(after_file)
    names = [case for case in before | after if only in case and also_only in case]
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    for case in names:
        if case not in before or case not in after:
            found["lost" if case in before else "new"][case] = ["the whole case"]
            continue
        for path, kind, words in differences(before[case], after[case]):
            reasons = [why for form, why in EXPECTED.items() if _fits(form, case, f"{case}:{path}")]
            if reasons and kind in COUNTED:
                kind, words = "expected", f"{words}  ({reasons[0]})"
            found[kind].setdefault(case, []).append(f"{path}  {words}")
    for kind, heading in KINDS.items():
        if found[kind]:
            print(f"{heading}: {sum(map(len, found[kind].values()))} in {len(found[kind])} cases")
        for case, lines in found[kind].items():
            more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
            print(f"  {case}", *(f"      {line}" for line in lines[:SHOWN] + more), sep="\n")
    differ = {case for kind in COUNTED for case in found[kind]}
    expected = len(found["expected"].keys() - differ)
    equal = len(names) - len(differ) - expected
    fields = sum(len(before[case]) for case in names if case in before)
    print(f"{len(names)} cases, {fields:,} fields: {equal} equal, {expected} differ as expected, {len(differ)} differ")
    return int(bool(differ or (texts and found["text"])))


def _fits(form: str, case: str, place: str) -> bool:
    return fnmatch.fnmatchcase(case, form) or fnmatch.fnmatchcase(place, form)


def main() -> int:
    parser = argparse.ArgumentParser(description="Are the numbers what they were?")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run all cases and write what they give")
    recording.add_argument("--src", required=True, help="the src folder of a checkout")
    recording.add_argument("--out", required=True, help="JSON file to write")
    recording.add_argument("--only", default="", help="only cases whose name contains this")
    recording.add_argument("--jobs", type=int, default=2)
    comparing = commands.add_parser("compare", help="compare two records")
    comparing.add_argument("before")
    comparing.add_argument("after")
    comparing.add_argument("--texts", action="store_true", help="changed texts count as differences too")
    given = parser.parse_args()
    if given.command == "record":
        return record(given.src, given.out, given.only, given.jobs)
    return compare(given.before, given.after, given.texts)


if __name__ == "__main__":
    sys.exit(main())
