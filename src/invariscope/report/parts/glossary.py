"""The words of a report, explained in plain ones."""

from __future__ import annotations

from invariscope.auditing.record import Audit
from invariscope.report.markup import Figure, escaped, section

GLOSSARY = {
    "environment": "Where or when rows come from: a hospital, a season, a camera. The audit asks whether they agree.",
    "representation": "What the model makes of its inputs before the last step: the numbers its final layer sees.",
    "head": "The last step, from representation to prediction. The shared head serves all environments; "
    "an own head is fitted to one.",
    "loss": "What predictions miss, per row. The model loss is that of the model's own predictions; shared head loss "
    "and own head loss are those of linear heads fitted on these rows, for all environments or for one.",
    "regret": "How much more loss an environment has with the shared head than with its own. "
    "Zero everywhere means that one head is enough.",
    "margin": "The regret that would not matter in practice. The verdict compares intervals with it.",
    "interval": "The 95 % interval: values that the data are compatible with. More rows make it narrower. Lower ends "
    "of regrets allow for having looked at all environments, so that the state can be read from them.",
    "p-value": "How often chance alone would show a difference this large if there were none. "
    "Small means surely different, not very different.",
    "influence index": "V: how far apart the environments would pull the head if each were given more weight, "
    "on a logarithmic scale. It is read against the same number for shuffled rows.",
    "DRIC": "A published criterion that compares predictions between environments after reweighting inputs, "
    "relative to a baseline model (1 = like the baseline).",
    "ECE": "Expected calibration error: how far stated probabilities are from the frequencies observed.",
    "transport gap": "How far the mean of one environment would move if the relation between representation and target "
    "were that of another, on the same rows. Zero for every pair if all share one relation.",
    "density ratio": "How much more likely a row is in one environment than in another. It serves as a weight that "
    "makes the rows of one look like those of the other.",
    "overlap": "Whether environments have similar rows. Without it, one cannot be made to look like the other, and "
    "comparing them is guesswork. Measured on the representation, which is what heads see; DRIC, and its notes, look "
    "at the inputs where these are numbers.",
    "effective rows": "How many rows still count once they are weighted to look like another environment. Few, when a "
    "handful of rows has to stand for all.",
}


def markup(audit: Audit, figure: Figure) -> str:
    """The words, in plain ones."""
    pairs = "".join(f"<div><dt>{escaped(k)}</dt><dd>{escaped(v)}</dd></div>\n" for k, v in GLOSSARY.items())
    return section("Glossary", "The words on this page", f'<dl class="words">\n{pairs}</dl>\n')
