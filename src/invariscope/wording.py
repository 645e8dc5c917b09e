"""Numbers and names as a person wants to read them, the same on the page and on the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

#: Shown where a number does not exist; the reason stands in the notes.
MISSING = "–"
MINUS = "−"
#: Losses of the worst case in the middle of a sentence.
LOSS_NAMES = {
    "zero_one": "share of wrong rows",
    "log_loss": "cross-entropy",
    "hinge": "hinge loss",
    "squared": "squared error",
}
#: A share that may be above this (1,000 %), and is not known to within a factor of two, is of no known size.
UNBOUNDED = 10.0
NO_BOUND = "cannot be bounded"
#: Powers of ten between numbers of one column up to which they share their decimals.
FAR_APART = 5
#: Where a name can be cut without cutting a word or a number.
SEAM = re.compile(r"[^\w.,]+|_")
#: Letters in words, as in "VA Long Beach", "Saint-Denis", "東京" or a name that was cut short.
_PROPER_NAME = re.compile(r"[^\W\d_]+(?:[ '’.…-]+[^\W\d_]+)*[.…]?")
#: A word that may be an English noun, or stand before one: no abbreviation, no identifier, no other language.
_NOUN = re.compile(r"[A-Za-z]?[a-z]{2,}")
#: What makes a name more than a noun.
NO_NOUNS = frozenset({"at", "by", "data", "for", "has", "in", "is", "of", "on", "per", "to", "was", "with"})
IRREGULAR = {"child": "children", "gas": "gases", "person": "people"}
#: Words that a sentence reads as its own even with a capital.
NO_NAMES = frozenset({"a", "all", "any", "both", "each", "i", "it", "no", "none", "one", "some", "their", "they"})
#: A sentence up to its full stop; one within quotes or brackets does not end it.
_SENTENCE = re.compile(r"""(?:"[^"]*"|\([^()]*\)|(?!\.\s).)+\.?\s*""", re.DOTALL)
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def clean(text: Any) -> str:
    """A user's text on one line: whatever cannot be printed becomes a blank.

    >>> clean("Zürich\\n(north)")
    'Zürich (north)'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or "(blank)"


def short(text: Any, limit: int = 40) -> str:
    """A name that fits into a heading: its beginning, an ellipsis, and its last words or numbers if there is room.

    >>> short("a very long name of a hospital", 12), short("age at admission (years) in (70.0, 80.0]", 30)
    ('a very long…', 'age at admission…70.0, 80.0]')
    """
    line = clean(text)
    if len(line) <= limit:
        return line
    end = line[-(limit // 2) :]
    seam = SEAM.search(end, 0, len(end) - 1)  # what tells bins or wards of one name apart stands at their end
    last = end[seam.end() :] if seam else ""
    return line[: limit - 1 - len(last)].rstrip(" (") + "…" + last


def names(labels: Iterable[Any]) -> tuple[str, ...]:
    """The user's labels as text, told apart where two of them read the same (1 and "1").

    >>> names([1, "1", "b"])
    ('1', '1 (2)', 'b')
    """
    return numbered(map(clean, labels))


def numbered(texts: Iterable[str], cut: Callable[[str, int], str] = lambda text, room: text) -> tuple[str, ...]:
    """Texts, numbered where they would read the same; ``cut`` makes room for so many letters of a number."""
    taken: dict[str, None] = {}
    for text in texts:
        name, count = text, 1
        while name in taken:
            count += 1
            number = f" ({count})"
            name = cut(text, len(number)) + number
        taken[name] = None
    return tuple(taken)


def number(value: float, digits: int = 3) -> str:
    """A number to ``digits`` significant digits.

    >>> number(0.41234), number(-1.2), number(123456.7), number(0.0000214), number(float("nan"))
    ('0.412', '−1.20', '123,457', '2.14 × 10⁻⁵', '–')
    """
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if -4 < exponent < 9:
        return f"{value:,.{max(0, digits - 1 - exponent)}f}".replace("-", MINUS)
    mantissa = rounded / 10.0**exponent
    return f"{mantissa:.{digits - 1}f} × 10{str(exponent).translate(_SUPERSCRIPT)}".replace("-", MINUS)


def apart(value: float, other: float, digits: int = 3) -> tuple[str, str]:
    """Two numbers, with as many digits as it takes to tell them apart.

    >>> apart(8.02, 4.69), apart(4.6912, 4.6941)
    (('8.02', '4.69'), ('4.691', '4.694'))
    """
    texts = number(value, digits), number(other, digits)
    return texts if texts[0] != texts[1] or value == other or digits > 12 else apart(value, other, digits + 1)


def aligned(values: Sequence[float], digits: int = 3) -> list[str]:
    """Numbers of one column with the same decimals, so that they can be compared by eye; the smallest loses one digit.

    Where they are too far apart for that, each has digits of its own.

    >>> aligned([0.5812, 0.0404]), aligned([12.345, 0.0213]), aligned([81000.0, 0.0000123])
    (['0.581', '0.040'], ['12.345', '0.021'], ['81,000', '1.23 × 10⁻⁵'])
    """
    powers = [math.floor(math.log10(abs(v))) for v in values if math.isfinite(v) and v != 0]
    largest, smallest = max(powers, default=0), min(powers, default=0)
    if not (-4 < largest < 9 and largest - smallest <= FAR_APART):
        return [number(v, digits) for v in values]
    decimals = max(0, digits - 1 - largest, digits - 2 - smallest)
    return [f"{v:,.{decimals}f}".replace("-", MINUS) if math.isfinite(v) else MISSING for v in values]


def span(interval: tuple[float, float], digits: int = 3) -> str:
    """An interval of plain numbers, or nothing where there is none.

    >>> span((0.012, 0.3)), span((1.47e-5, 3.36e-5)), span((float("nan"), 1.0))
    ('0.0120 … 0.300', '1.47 … 3.36 × 10⁻⁵', '')
    """
    low, high = interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    left, right = number(low, digits), number(high, digits)
    _, power, exponent = right.partition(" × ")
    return f"{left.removesuffix(power + exponent)} … {right}"


def percent(share: float, *, signed: bool = False) -> str:
    """A share as a percentage: whole from 10 % on, one decimal below, two below 1 %.

    >>> percent(0.384), percent(0.0213), percent(0.384, signed=True), percent(-0.0321), percent(12.4)
    ('38 %', '2.1 %', '+38 %', '−3.2 %', '1,240 %')
    """
    bare = points(share)
    if bare == MISSING:
        return MISSING
    sign = "+" if signed and bare != "0" and not bare.startswith(MINUS) else ""
    return f"{sign}{bare} %"


def exactly(share: float) -> str:
    """A limit as a percentage with all of its digits, so that what is compared with it can be compared by eye.

    >>> exactly(0.02), exactly(0.0234567)
    ('2 %', '2.34567 %')
    """
    return f"{100 * share:.10g} %"


def points(share: float) -> str:
    """A percentage without its sign, for cells and intervals.

    >>> points(0.6), points(0.0004), points(0.052), points(0.00001)
    ('60', '0.04', '5.2', '0')
    """
    return _decimal(100 * share, _decimals(100 * share)) if math.isfinite(share) else MISSING


def _decimals(value: float) -> int:
    """How many decimals a percentage of this size is told with."""
    size = abs(float(f"{value:.1f}"))
    return 0 if size >= 10 else 2 if size < 1 else 1


def _decimal(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    text = (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)
    return "0" if text == f"{MINUS}0" else text


def bounded(interval: tuple[float, float]) -> bool:
    """Whether an interval of a share says how large it may be.

    >>> bounded((0.02, 0.6)), bounded((0.017, 40.93)), bounded((48.0, 52.0))
    (True, False, True)
    """
    low, high = interval
    return not high > max(UNBOUNDED, 2 * low)


def outwards(interval: tuple[float, float], limit: float = math.nan) -> tuple[str, str]:
    """Both ends as percentages without their sign, rounded away from each other.

    Where that would bring an end to a ``limit``, or over it, it keeps more digits: what an end says about the limit can
    be read from what is shown.

    >>> outwards((0.2149, 0.6011)), outwards((0.0201, 0.0996), 0.02), outwards((-0.003, 0.0199), 0.02)
    (('21', '61'), ('2.01', '10'), ('−0.3', '1.99'))
    """
    low, high = interval
    border = round(100 * limit, 10)  # as it is printed
    return _outwards(100 * low, math.floor, border), _outwards(100 * high, math.ceil, border)


def _outwards(value: float, rounded: Callable[[float], int], limit: float) -> str:
    decimals = _decimals(value)
    inwards = 1e-9 if rounded is math.floor else -1e-9  # 7.000000000000001 is 7
    while True:
        scaled = value * 10**decimals
        end = rounded(scaled + inwards * max(1.0, abs(scaled))) / 10**decimals
        crosses = (end > limit) != (value > limit) or (end < limit) != (value < limit)
        if not crosses or math.isnan(limit) or decimals >= 10:
            return _decimal(end, decimals)
        decimals += 1


def change(value: float, interval: tuple[float, float] = (math.nan, math.nan), limit: float = math.nan) -> str:
    """A relative change with its 95 % interval, whose ends are rounded outwards and not over the ``limit``.

    >>> change(0.38, (0.21, 0.6)), change(0.021, (-0.003, 0.052)), change(0.05)
    ('+38 % (21 … 60)', '+2.1 % (−0.3 … 5.2)', '+5 %')
    >>> change(0.38, (0.017, 40.93)), change(0.38, (-0.2, 40.93))
    ('+38 % (at least 1.7, cannot be bounded)', '+38 % (cannot be bounded)')
    """
    text = percent(value, signed=True)
    if text == MISSING or not all(map(math.isfinite, interval)):
        return text
    low, high = outwards(interval, limit)
    if not bounded(interval):
        return f"{text} (at least {low}, {NO_BOUND})" if interval[0] > 0 else f"{text} ({NO_BOUND})"
    return f"{text} ({low} … {high})"


def between(interval: tuple[float, float], limit: float = math.nan, to: str = "–") -> str:
    """The same interval inside a sentence, or ("" where there is none) by itself.

    >>> between((0.21, 0.6)), between((-0.003, 0.052)), between((0.017, 40.93)), between((-0.2, 40.93))
    ('21–60 %', '−0.3 … 5.2 %', 'at least 1.7 %, cannot be bounded', 'cannot be bounded')
    """
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = outwards(interval, limit)
    if not bounded(interval):
        return f"at least {low} %, {NO_BOUND}" if interval[0] > 0 else NO_BOUND
    return f"{low} … {high} %" if low.startswith(MINUS) else f"{low}{to}{high} %"


def pvalue(p: float, draws: int | None = None) -> str:
    """A p-value, never zero; with the number of random ``draws`` behind it, it claims no more than they can show.

    >>> pvalue(0.001, 999), pvalue(0.0132, 999), pvalue(0.2314), pvalue(0.0001), pvalue(float("nan"))
    ('p ≤ 0.001', 'p = 0.013', 'p = 0.23', 'p < 0.001', 'p –')
    """
    if not math.isfinite(p):
        return f"p {MISSING}"
    if draws is None and p < 0.001:
        return "p < 0.001"
    if draws is not None and p <= 1.0 / (draws + 1):
        return f"p ≤ {p:.2g}"
    return f"p = {p:.1g}" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def count(value: float, noun: str) -> str:
    """A count with its noun.

    >>> count(1, "environment"), count(12000, "row")
    ('1 environment', '12,000 rows')
    """
    return f"{value:,.0f} {noun}{'' if value == 1 else 's'}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(0.4), duration(2.3), duration(3725)
    ('under 1 s', '0:00:02', '1:02:05')
    """
    if seconds < 1:
        return "under 1 s"
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def moment(stamp: str) -> str:
    """A date and time to the minute; what is not one stays as it is.

    >>> moment("2025-11-15T21:04:33+00:00"), moment("yesterday")
    ('2025-11-15 21:04 UTC', 'yesterday')
    """
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return clean(stamp)
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".rstrip()


def listed(items: Sequence[str]) -> str:
    """Items as a person would say them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def alternatives(items: Sequence[str]) -> str:
    """What can be done, one or the other.

    >>> alternatives(["drop it", "merge it", "wait"]), alternatives(["wait"])
    ('drop it, merge it, or wait', 'wait')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}, or {items[-1]}"


def quoted(label: Any) -> str:
    """A user's label inside a sentence: in quotes, unless it reads like a proper name, all words of it with capitals.

    What else it is may be taken for a word of the sentence, or its number for one of the sentence's.

    >>> quoted("Bern"), quoted("VA Long Beach"), quoted(2010), quoted("age (yrs) under 50"), quoted("no")
    ('Bern', 'VA Long Beach', '"2010"', '"age (yrs) under 50"', '"no"')
    """
    text = clean(label)
    proper = _PROPER_NAME.fullmatch(text) and text.lower() not in NO_NAMES
    return text if proper and not any(word[0].islower() for word in text.split()) else f'"{text}"'


def in_sentences(text: str) -> list[str]:
    """The sentences of a message of ours, without their full stops; names in quotes or brackets stay whole.

    >>> in_sentences('site "St. Olav" has 3 rows (too few also: St. Gallen). Drop it. Or merge it.')
    ['site "St. Olav" has 3 rows (too few also: St. Gallen)', 'Drop it', 'Or merge it']
    """
    return [part.strip().removesuffix(".") for part in _SENTENCE.findall(text)]


def plural(name: str) -> str:
    """The plural of a column's name where it reads like an English noun; else its values, whatever it is.

    >>> plural("site"), plural("Country"), plural("tax office"), plural("diagnosis"), plural("series")
    ('sites', 'Countries', 'tax offices', 'diagnoses', 'series')
    >>> plural("hospital_id"), plural("SITE"), plural("day of week"), plural("cohort2")
    ('values of hospital_id', 'values of SITE', 'values of day of week', 'values of cohort2')
    """
    words = name.split(" ")
    if not all(map(_NOUN.fullmatch, words)) or {word.lower() for word in words} & NO_NOUNS:
        return f"values of {name}"
    *before, last = words
    if last.lower() in IRREGULAR:
        return " ".join([*before, last[0] + IRREGULAR[last.lower()][1:]])
    if name.endswith("is"):
        return name[:-2] + "es"
    if name.endswith("s") and not name.endswith(("ss", "us")):
        return name  # species, or several already
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x", "z", "ch", "sh")) else "s")


def round_up(rows: float) -> int:
    """Two significant digits, upwards: no false precision in advice.

    >>> round_up(1234.5), round_up(7)
    (1300, 7)
    """
    step = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(math.ceil(rows / step) * step)
