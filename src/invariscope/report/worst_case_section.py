"""The part of the page on the worst case: the curve, the environments' own distances, all losses side by side."""

from __future__ import annotations

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report import record
from invariscope.report.sections import Draw, escaped, note, section
from invariscope.report.worst_case import reached
from invariscope.report.worst_case import worst_case as plot_data

KICKER = "How bad it can get in an environment nobody has seen"


def worst_case(audit: Audit, figure: Draw) -> str:
    """The worst-case curve with its band and ticks; then the other losses."""
    found = plot_data(audit)
    if found is None:
        return ""
    caption = (
        "Line: the largest mean loss that any shift of the representation of this size could cause, labels unchanged; "
        f"band: 95 %, from rows drawn again. R, one unit, is {found.unit}. "
    )
    if found.ticks:
        caption += (
            f"Dots and dashed lines: how far each {audit.data.env_name} is from all others together, label by label, "
            "in the directions that the head looks at, without the distance that chance alone makes."
        )
    if found.others:
        caption += f" {wording.count(found.others, 'further environment')} closer than these not shown."
    body = figure("main_curve", found, caption)
    if len(found.curves) > 1:
        body += figure(
            "side_by_side", found, found.told + (f" Dashed: the furthest {audit.data.env_name}." if found.ticks else "")
        )
    inputs = reached(audit)
    if inputs is not None:
        body += f"<h3>{escaped(inputs.finding)}</h3>\n" + figure(
            "from_inputs",
            inputs,
            "Orange: the loss after the inputs of some rows were moved by gradient ascent, over the distance their "
            "representation moved. Blue: the worst case in the representation at the same distance, which nothing can "
            "exceed. The nearer the two, the less the representation's worst case exaggerates.",
        )
    known = record.words_of("worst_case")
    if known is not None:
        body += note(f"{known.tells} Cannot tell: {known.cannot_tell}")
    return section(KICKER, found.finding, body)
