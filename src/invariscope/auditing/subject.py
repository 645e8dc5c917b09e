"""What is audited, in the words of the record: the model, the level it is looked at, and what to know about that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.criteria.material import Material, Missing, fittable
from invariscope.models.splits import Split
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target

#: Rows per weight of a head below which a learned representation is judged by its predictions. With fewer, classes can
#: often be separated without error (no loss is left to compare), and numbers are mostly fitted to noise.
ROWS_PER_WEIGHT = {"numbers": 2, "classes": 5}


@dataclass(frozen=True)
class Subject:
    """What is audited; ``learned`` columns are made by the model, not by the user."""

    model: str
    representation: str
    columns: tuple[str, ...]
    learned: bool
    notes: tuple[str, ...]


def subject_of(split_model: Split | None, material: Material, learned: bool, why_not_inputs: str) -> Subject:
    """The words for what was gathered; ``why_not_inputs`` says why density ratios do not look at the inputs."""
    narrowed = material.compared is not material.representation
    notes = []
    if narrowed and not isinstance(material.own_heads, Missing):
        notes.append(_narrowed(material.representation, material.compared, material.target))
    if why_not_inputs:
        notes.append(f"DRIC and overlap are measured on the representation: {why_not_inputs}")
    return Subject(
        model="linear head fitted on the columns" if split_model is None else split_model.description,
        representation=_level(split_model, narrowed),
        columns=material.compared.columns,
        learned=learned,
        notes=(*notes, *_notes_on_head(split_model, material, learned)),
    )


def too_wide(data: Environments, target: Target) -> bool:
    """Whether heads of the environments' own on these columns would mostly fit noise, or take too long."""
    return _short_of_rows(data, target) or isinstance(fittable(data, target), Missing)


def _short_of_rows(data: Environments, target: Target) -> bool:
    few = ROWS_PER_WEIGHT["numbers" if target.task == "regression" else "classes"]
    return bool(data.rows.min() < few * data.blocks.width * max(1, len(target.classes) - 1))


def _level(split_model: Split | None, narrowed: bool) -> str:
    if split_model is None:
        return "the columns themselves"
    if narrowed:
        return f"prediction level: {split_model.by_predictions().description}"
    return f"{split_model.level} level: {split_model.description}"


def _narrowed(full: Environments, compared: Environments, target: Target) -> str:
    heads = "heads of the environments' own"
    if _short_of_rows(full, target):
        least = int(np.argmin(full.rows))
        heads = f"a head of its own in {full.name(full.labels[least])} ({full.rows[least]:,.0f} rows)"
    left = wording.count(compared.X.shape[1], "column")
    return (
        f"The representation has {full.X.shape[1]:,} columns, too many for {heads}: what needs such heads (regret, "
        f"transport gap) looks at the predictions ({left}). The influence index and the worst case look at all of it."
    )


def _notes_on_head(split_model: Split | None, material: Material, learned: bool) -> tuple[str, ...]:
    if split_model is None:
        if isinstance(fittable(material.representation, material.target), Missing):
            return ()
        return ("No model was given: predictions are those of a linear head fitted on all rows.",)
    if learned and material.representation.columns == ("score",):
        return (
            "The representation of this linear model is its score, which heads can only rescale and shift. How each "
            "column relates to the target is told by an audit without a model.",
        )
    if split_model.level == "representation" and split_model.head is None:
        return (
            "The model's last step is not linear. The regret is that of a linear head on its inputs; risks are those "
            "of the model itself.",
        )
    return ()
