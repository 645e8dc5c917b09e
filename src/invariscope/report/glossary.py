"""The words of a report, explained in plain ones."""

from __future__ import annotations

GLOSSARY = {
    "environment": "Where or when rows come from: a hospital, a season, a camera. The audit asks whether they agree.",
    "representation": "What the model makes of its inputs before the last step: the numbers its final layer sees.",
    "head": "The last step, from representation to prediction. The shared head serves all environments; "
    "an own head is fitted to one.",
    "regret": "How much more loss an environment has with the shared head than with its own. "
    "Zero everywhere means that one head is enough.",
    "margin": "The regret that would not matter in practice. The verdict compares intervals with it.",
    "interval": "The 95 % interval: values that the data are compatible with. More rows make it narrower.",
    "p-value": "How often chance alone would show a difference this large if there were none. "
    "Small means surely different, not very different.",
    "influence index": "V: how far apart the environments would pull the head if each were given more weight, "
    "on a logarithmic scale. It is read against the same number for shuffled rows.",
    "DRIC": "A published criterion that compares predictions between environments after reweighting inputs, "
    "relative to a baseline model (1 = like the baseline).",
    "ECE": "Expected calibration error: how far stated probabilities are from the frequencies observed.",
    "overlap": "Whether environments have similar inputs. Effective rows are those left over once rows are weighted "
    "to look like the other environments.",
}
