"""Three steps in plain words: one sentence on whether an algorithm is needed, one per model, one on unseen rows."""

from __future__ import annotations

import math

from invariscope.auditing.algorithm_needed import index_words
from invariscope.results import Estimate
from invariscope.selection.steps import ModelSteps, ThreeSteps
from invariscope.wording import MINUS, clean, exactly, listed, number, outwards, percent, plural, points, pvalue, span

NO_PVALUE = "No p-value: "  # begins the note of an index that says why it has none


def sentences(found: ThreeSteps) -> tuple[str, ...]:
    """In the order of the steps; models in the order given, the reference first."""
    names = [found.reference, *(name for name in found.models if name != found.reference)]
    told = [needed(found), *(of_model(found, found[name]) for name in names), left(found)]
    if found[found.reference].unseen:
        told.append(oracle(found))
    return tuple(clean(sentence) for sentence in told if sentence)


def needed(found: ThreeSteps) -> str:
    """Is an OOD algorithm needed?"""
    reference, many = found[found.reference], plural(found.env_name)
    if found.needed is None:
        return f"Whether an OOD algorithm is needed cannot be told: {_why_not_told(found, reference)}."
    if found.needed:
        return (
            f"An OOD algorithm is worth trying: {reference.name} relies on what varies between the {many} "
            f"({index(found, reference)})."
        )
    return (
        f"No OOD algorithm is called for: the {many} pull {reference.name} apart no more than chance does "
        f"({index(found, reference)}); to do better elsewhere, collect more {many}."
    )


def of_model(found: ThreeSteps, model: ModelSteps) -> str:
    """What becomes of one model, and why."""
    one, two = first_step(found, model), second_step(found, model)
    if model.eliminated_at == 1:
        return f"Step 1 eliminates {model.name}: it {one}. Change how it is trained."
    if model.eliminated_at == 2:
        return f"Step 2 eliminates {model.name}: it {one}, but {two}."
    if model.ready:
        return f"{model.name} passes: it {one}, and {two}."
    return f"{model.name} is open: it {one}; {two}."


def first_step(found: ThreeSteps, model: ModelSteps) -> str:
    """Its accuracy beside the reference's and a constant's."""
    doubt = not model.above_constant.interval[0] > 0
    behind = model.behind.interval[0] > found.tolerance
    if doubt and not behind:
        return f"is not known to be better than a constant ({_ahead(found, model)})"
    if model.name == found.reference:
        return f"is better than a constant ({_ahead(found, model)})"
    if behind:
        return f"falls behind {found.reference} ({shortfall(found, model)})"
    if model.behind.interval[1] <= found.tolerance:
        return f"keeps up with {found.reference} ({shortfall(found, model)})"
    return f"may or may not keep up with {found.reference} ({shortfall(found, model)})"


def second_step(found: ThreeSteps, model: ModelSteps) -> str:
    """Its V beside its shuffles."""
    if model.unmoved == "open":
        return f"step 2 is open, since {_without_index(model)}"
    where = "at" if model.unmoved == "passed" else "above"
    refitted = "" if model.own_head else "; of a linear head refitted for it"
    return f"its V is {where} its shuffles ({index(found, model)}{refitted})"


def left(found: ThreeSteps) -> str:
    """Who is left."""
    if found.ready:
        return f"Left after two steps: {listed(found.ready)}."
    return "No model is left after two steps."


def oracle(found: ThreeSteps) -> str:
    """Step 3: what only unseen rows can tell."""
    parts = []
    for name in found.models:
        worst = found.unseen_worst(name)
        ends = _ends(found, worst)
        parts.append(f"{name} {_amount(found, worst.value)}{f' ({ends})' if ends else ''}")
    what = "lowest accuracy" if found.measure == "accuracy" else "highest loss"
    return f"Step 3, unseen rows: the {what} in an environment is {', '.join(parts)}."


def index(found: ThreeSteps, model: ModelSteps) -> str:
    """V, how far it goes for shuffled rows, and p."""
    if model.influence is None:
        return "V cannot be had"
    value, bound = index_words(model.influence, found.alpha)
    shuffled = f", {bound}; {pvalue(model.influence.pvalue, len(model.influence.null))}" if bound else ""
    return f"V {value}{shuffled}"


def shortfall(found: ThreeSteps, model: ModelSteps) -> str:
    """What it has more or less than the reference, the tolerance beside it."""
    if found.measure != "accuracy":
        low, high = outwards(model.behind.interval, found.tolerance) if _known(model.behind) else ("", "")
        ends = f", {low} to {high}" if low else ""
        return f"{percent(model.behind.value, signed=True)} loss{ends}; up to +{exactly(found.tolerance)} pass"
    ends = ""
    if _known(model.behind):
        low, high = outwards((-model.behind.interval[1], -model.behind.interval[0]), -found.tolerance)
        ends = f", {low} to {high}"
    more = percent(-model.behind.value, signed=True).removesuffix(" %")
    return f"{more} points of accuracy{ends}; down to {MINUS}{exactly(found.tolerance).removesuffix(' %')} pass"


def _ahead(found: ThreeSteps, model: ModelSteps) -> str:
    low, high = outwards(model.above_constant.interval, 0.0) if _known(model.above_constant) else ("", "")
    ends = f", {low} to {high}" if low else ""
    what = "points of accuracy ahead" if found.measure == "accuracy" else "% less loss"
    return f"{points(model.above_constant.value)} {what}{ends}"


def _why_not_told(found: ThreeSteps, reference: ModelSteps) -> str:
    """Why the reference says nothing about it."""
    if reference.trained_with != "erm":
        return f"{reference.name} was trained with {reference.trained_with}, and the question is put to ERM"
    if reference.reaches != "passed":
        return f"{reference.name} {first_step(found, reference)}"
    return _without_index(reference)


def _without_index(model: ModelSteps) -> str:
    if model.influence is None:
        return "V cannot be had"
    why = next((note.removeprefix(NO_PVALUE) for note in model.influence.notes if note.startswith(NO_PVALUE)), "")
    return "V has no shuffles to be compared with" + (f": {why.split('. ')[0].rstrip('.')}" if why else "")


def _amount(found: ThreeSteps, value: float) -> str:
    return percent(value) if found.measure == "accuracy" else number(value)


def _ends(found: ThreeSteps, estimate: Estimate) -> str:
    if not _known(estimate):
        return ""
    if found.measure != "accuracy":
        return span(estimate.interval)
    low, high = outwards(estimate.interval)
    return f"{low} to {high}"


def _known(estimate: Estimate) -> bool:
    return all(map(math.isfinite, estimate.interval))
