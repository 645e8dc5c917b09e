"""Data, settings, seeds and versions: what is needed to repeat an audit."""

from __future__ import annotations

from collections.abc import Sequence

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.criteria.registry import CRITERIA
from invariscope.report.markup import Figure, escaped, section
from invariscope.shortening import distinct

#: Names listed in full before "and N more", and letters of each.
NAME_LIMIT, LETTERS = 24, 40


def provenance(audit: Audit) -> tuple[tuple[str, str], ...]:
    """(what, value) in the order in which they are shown."""
    data, settings = audit.data, audit.settings
    particulars = [
        ("target", data.target_name),
        ("task", data.task),
        ("environments by", data.env_name),
        ("rows", f"{data.rows:,}"),
        ("environments", f"{len(data.sizes)}, of {min(data.sizes):,} to {max(data.sizes):,} rows"),
        ("model", data.model),
        ("representation", data.representation),
        ("head", data.head),
        ("features", f"{len(data.columns):,}: {_some(data.columns)}"),
        ("density ratios by", _ratio(audit)),
        ("seed", f"{settings.seed}"),
        ("bootstrap and null draws", _draws(audit)),
        ("margin", wording.exactly(settings.margin)),
        ("significance level", f"{settings.alpha:g} for p-values; intervals are 95 %" if settings.n_boot else ""),
        ("versions", " · ".join(f"{name} {version}" for name, version in settings.versions.items())),
        ("time taken", wording.duration(settings.seconds)),
        ("made", wording.moment(settings.created)),
    ]
    return tuple((what, wording.clean(value)) for what, value in particulars if value)


def _ratio(audit: Audit) -> str:
    """The estimator of density ratios that was asked for, and what it made of it; empty if none was needed."""
    descriptions = [audit.results[name].ratio for name in ("dric", "transport_gap") if name in audit.results]
    if not descriptions:
        return ""
    return f"{audit.settings.ratio} ({wording.listed(list(dict.fromkeys(descriptions)))})"


def _draws(audit: Audit) -> str:
    """How many draws were made, and which criteria make fewer."""
    known = [CRITERIA[name] for name in audit.results if name in CRITERIA]
    fewer = [one for one in known if one.draws is not None and one.draws < audit.settings.n_boot]
    but = "; ".join(f"{one.title}: at most {one.draws:,}" for one in fewer)
    return f"{audit.settings.n_boot:,}" + (f" ({but})" if but else "")


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(distinct(names[:NAME_LIMIT], LETTERS))
    return listed if len(names) <= NAME_LIMIT else f"{listed} and {len(names) - NAME_LIMIT:,} more"


def markup(audit: Audit, figure: Figure) -> str:
    """A list of particulars."""
    pairs = "".join(f"<dt>{escaped(what)}</dt><dd>{escaped(value)}</dd>\n" for what, value in provenance(audit))
    return section("Data, settings, versions", "To repeat this audit", f'<dl class="particulars">\n{pairs}</dl>\n')
