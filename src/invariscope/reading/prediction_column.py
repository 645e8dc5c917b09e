"""A model known only by its predictions, which stand in one column of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invariscope.errors import InputError
from invariscope.models.splits import Split
from invariscope.rows.environments import Environments
from invariscope.rows.targets import target_of

if TYPE_CHECKING:
    from invariscope.reading.dataset import Dataset
    from invariscope.reading.options import ReadOptions


def model_of_predictions(data: Dataset, options: ReadOptions, task: str = "auto") -> Split:
    """The predictions that were read along with the rows, as a model of these rows.

    Parameters
    ----------
    data : rows that were read with the options
    options : ``prediction`` names the column: numbers, or for two classes the probability of the second
    task : "auto", "regression" or "classification"

    Raises
    ------
    InputError : the target has more than two classes, or what should be probabilities is not between 0 and 1
    """
    column, option = data.others["prediction"].to_frame(), options.spell("prediction")
    name = str(options.prediction)
    rows = Environments(column, data.y, data.env, target_name=data.target_name, env_name=data.env_name)
    target = target_of(rows, task)
    words = f'the predictions in column "{name}"'
    predictions = rows.original(rows.X[:, 0])
    if target.task == "regression":
        return Split(predict=predictions, columns=[name], task="regression", name=words)
    labels = ", ".join(map(str, target.classes))
    if target.task != "binary":
        raise InputError(
            f'{option} is one column, but target "{data.target_name}" has {len(target.classes)} classes ({labels}): '
            f"give the model itself with {options.spell('model')}, or {options.spell('task', 'regression')} if these "
            "are amounts"
        )
    low, high = float(rows.X.min()), float(rows.X.max())
    if low < 0 or high > 1:
        raise InputError(
            f'column "{name}" ({option}) runs from {low:g} to {high:g}: for target "{data.target_name}" with the '
            f'classes {labels} it must hold the probability of "{target.classes[1]}", from 0 to 1'
        )
    return Split(predict=predictions, task="classification", classes=target.classes, name=words)
