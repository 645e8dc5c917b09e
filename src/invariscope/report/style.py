"""The style of the page and of the notebook view; everything is kept under ``.invariscope``.

Colours follow the palette of Okabe and Ito, which people with any colour vision can tell apart; no meaning hangs on
colour alone. Widths are those of the report itself (container queries), so that a narrow notebook cell or a phone get
the narrow form.
"""

from __future__ import annotations

_LIGHT = """
  --paper: #ffffff; --ink: #1d2329; --muted: #5b6570; --line: #d5dae0; --soft: #f4f6f8;
  --over: #d55e00; --under: #009e73; --open: #7b8794; --calm: #0072b2; --cloud: #9fb4c7; --link: #0072b2;
  --heat-0: #f1f3f5; --heat-1: #fdead2; --heat-2: #fbd3a3; --heat-3: #f6b26f; --heat-4: #ec8a3c; --heat-5: #c65700;
  --heat-6: #8f3a00;
  --heat-ink-0: #5b6570; --heat-ink-1: #1d2329; --heat-ink-2: #1d2329; --heat-ink-3: #1d2329; --heat-ink-4: #1d2329;
  --heat-ink-5: #ffffff; --heat-ink-6: #ffffff;
  --tilt-0: #0072b2; --tilt-1: #7fb8de; --tilt-2: #dcebf6; --tilt-3: #f1f3f5; --tilt-4: #fdead2; --tilt-5: #f6b26f;
  --tilt-6: #c65700;
  --tilt-ink-0: #ffffff; --tilt-ink-1: #1d2329; --tilt-ink-2: #1d2329; --tilt-ink-3: #5b6570; --tilt-ink-4: #1d2329;
  --tilt-ink-5: #1d2329; --tilt-ink-6: #ffffff;
  --cover-0: #ffffff; --cover-1: #e3f1ec; --cover-2: #b7ddcf; --cover-3: #74c0a5; --cover-4: #00785a;
  --cover-ink-0: #5b6570; --cover-ink-1: #1d2329; --cover-ink-2: #1d2329; --cover-ink-3: #1d2329;
  --cover-ink-4: #ffffff;
"""

_DARK = """
  --paper: #14181d; --ink: #e8ecf0; --muted: #a3adb8; --line: #38424d; --soft: #1d232a;
  --over: #f07f2e; --under: #2fc796; --open: #96a1ad; --calm: #56b4e9; --cloud: #5a6b7d; --link: #56b4e9;
  --heat-0: #20272e; --heat-1: #3a2d1f; --heat-2: #573a1c; --heat-3: #7d4a18; --heat-4: #a85c16; --heat-5: #e58432;
  --heat-6: #ffbf85;
  --heat-ink-0: #a3adb8; --heat-ink-1: #e8ecf0; --heat-ink-2: #e8ecf0; --heat-ink-3: #ffffff; --heat-ink-4: #ffffff;
  --heat-ink-5: #14181d; --heat-ink-6: #14181d;
  --tilt-0: #56b4e9; --tilt-1: #24689a; --tilt-2: #1c3448; --tilt-3: #20272e; --tilt-4: #3a2d1f; --tilt-5: #7d4a18;
  --tilt-6: #e58432;
  --tilt-ink-0: #14181d; --tilt-ink-1: #ffffff; --tilt-ink-2: #e8ecf0; --tilt-ink-3: #a3adb8; --tilt-ink-4: #e8ecf0;
  --tilt-ink-5: #ffffff; --tilt-ink-6: #14181d;
  --cover-0: #14181d; --cover-1: #1b302a; --cover-2: #1c4a3d; --cover-3: #1b6e57; --cover-4: #2fc796;
  --cover-ink-0: #a3adb8; --cover-ink-1: #e8ecf0; --cover-ink-2: #e8ecf0; --cover-ink-3: #ffffff;
  --cover-ink-4: #14181d;
"""

_BASE = """
.invariscope { color-scheme: light; container-type: inline-size; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; text-align: left; }
.invariscope * { box-sizing: border-box; }
.invariscope p { margin: 0 0 .5em; }
.invariscope h1, .invariscope h2, .invariscope h3 { margin: 0; line-height: 1.25; text-wrap: balance;
  color: var(--ink); }
.invariscope h1 { font-size: 1.45em; font-weight: 650; }
.invariscope h2 { font-size: 1.22em; font-weight: 650; margin-bottom: .5em; }
.invariscope .kicker { color: var(--muted); font-size: .82em; margin: 0 0 .15em; letter-spacing: .02em; }
.invariscope .note, .invariscope figcaption { color: var(--muted); font-size: .87em; margin: .6em 0 0;
  max-width: 72ch; }
.invariscope section { margin: 0 0 2.4em; }
.invariscope figure { margin: 0; }
.invariscope figure + figure, .invariscope figure + h3 { margin-top: 1.6em; }
.invariscope figure svg { display: block; max-width: 100%; height: auto; overflow: visible; }
.invariscope figure.beside { display: flex; gap: 2em; align-items: flex-start; }
.invariscope figure.beside .wide { flex: 0 1 auto; }
.invariscope figure.beside figcaption { flex: 1 1 14em; margin-top: 2.2em; }
.invariscope h3 { font-size: .95em; font-weight: 600; margin-bottom: .4em; }
.invariscope .pair { display: grid; grid-template-columns: 1fr 1fr; gap: .4em 2em; }
.invariscope .pair > div { display: grid; grid-row: span 2; grid-template-rows: subgrid; min-width: 0; }
.invariscope .pair h3 { align-self: end; }
.invariscope .pair.stacked { display: block; }
.invariscope .pair.stacked > div { display: block; margin-bottom: 1.6em; }
.invariscope figure text { pointer-events: none; }
.invariscope .narrow { display: none; }
.invariscope details { margin: .8em 0 0; }
.invariscope summary { cursor: pointer; color: var(--link); font-size: .93em; }
.invariscope details .scroll { margin-top: .5em; }
.invariscope ul { margin: .3em 0 0; padding-left: 1.2em; }
.invariscope li { margin: .15em 0; }
"""

_BANNER = """
.invariscope .top { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 2em; color: var(--muted);
  font-size: .87em; margin: 0 0 .7em; }
.invariscope .banner { border-left: 7px solid var(--state); background: var(--soft); padding: 1.1em 1.3em 1em;
  border-radius: 4px; margin: 0 0 1.6em; }
.invariscope .state { display: inline-block; background: var(--state); color: var(--on-state); font-weight: 700;
  font-size: .95em; letter-spacing: .04em; padding: .18em .75em; border-radius: 3px; margin: 0 0 .6em; }
.invariscope .banner h1 { margin: 0 0 .4em; }
.invariscope .banner p { max-width: 80ch; margin: 0 0 .3em; }
.invariscope .not-invariant { --state: #b84f00; --on-state: #ffffff; }
.invariscope .invariant { --state: #00785a; --on-state: #ffffff; }
.invariscope .different-but-negligible { --state: #0072b2; --on-state: #ffffff; }
.invariscope .cannot-tell-yet { --state: #e69f00; --on-state: #14181d; }
.invariscope .uninformative { --state: #5b6570; --on-state: #ffffff; }
.invariscope .facts { display: grid; grid-template-columns: repeat(4, 1fr); gap: .8em 1.6em; margin: 1em 0 0;
  border-top: 1px solid var(--line); padding-top: .8em; }
.invariscope .facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.invariscope .facts dt { color: var(--muted); font-size: .82em; line-height: 1.35; font-weight: normal; }
.invariscope .facts dd { margin: 0; font-size: 1.12em; font-weight: 600; font-variant-numeric: tabular-nums; }
"""

_TABLES = """
.invariscope table { border-collapse: collapse; width: 100%; margin: 0; font-size: .93em; border: 0;
  color: var(--ink); background: none; }
.invariscope tr, .invariscope tbody tr:nth-child(even) { background: none; }
.invariscope th, .invariscope td { border: 0; border-bottom: 1px solid var(--line); padding: .42em .7em;
  text-align: left; vertical-align: middle; background: none; color: inherit; white-space: normal; max-width: none; }
.invariscope thead th { color: var(--muted); font-weight: 500; font-size: .9em; vertical-align: bottom; }
.invariscope th:first-child, .invariscope td:first-child { padding-left: 0; }
.invariscope th:last-child, .invariscope td:last-child { padding-right: 0; }
.invariscope tbody th { font-weight: 600; }
.invariscope .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.invariscope small { display: block; color: var(--muted); font-size: .84em; line-height: 1.3; font-weight: normal; }
.invariscope table { overflow-wrap: break-word; }
.invariscope .scroll { overflow-x: auto; }
.invariscope .name span { width: max-content; max-width: min(15em, 17cqi); overflow-wrap: break-word; overflow: hidden;
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; }
.invariscope .environments td:last-child, .invariscope .environments small { white-space: nowrap; }
.invariscope .environments .bar { width: 99%; min-width: 100px; padding: 0 .3em; }
.invariscope .bar svg { display: block; overflow: visible; }
.invariscope .bar text { fill: var(--muted); font-size: 11px; font-weight: 400; }
.invariscope .zero { stroke: var(--line); stroke-width: 1.5; }
.invariscope .margin { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 2 3; }
.invariscope .over { stroke: var(--over); fill: var(--over); }
.invariscope .under { stroke: var(--under); fill: var(--under); }
.invariscope .open, .invariscope .unknown { stroke: var(--open); fill: var(--open); }
.invariscope .range { stroke-width: 3; }
.invariscope circle.open, .invariscope circle.unknown { fill: var(--paper); stroke-width: 2; }
.invariscope .criteria { table-layout: fixed; }
.invariscope .criteria th, .invariscope .criteria td { vertical-align: top; }
.invariscope .criteria th:first-child { width: 19%; }
.invariscope .criteria .value { width: 33%; font-variant-numeric: tabular-nums; }
.invariscope .gap-list { font-size: .87em; }
.invariscope .gap-list th + th, .invariscope .gap-list th + td, .invariscope .gap-list td + td { padding-left: .5em; }
.invariscope .gap-list th, .invariscope .gap-list td { padding-right: .5em; }
.invariscope .gap-list .name span { max-width: min(15em, 14cqi); }
.invariscope .pairs { max-width: 44em; overflow-wrap: anywhere; }
.invariscope dl.particulars { display: grid; font-size: .93em; grid-template-columns: minmax(9em, max-content) 1fr;
  gap: .3em 1.4em; margin: 0; }
.invariscope dl.particulars dt { color: var(--muted); font-weight: normal; }
.invariscope dl.particulars dd { margin: 0; }
.invariscope dl.words { columns: 2; column-gap: 2.6em; margin: 0; font-size: .93em; }
.invariscope dl.words div { break-inside: avoid; margin: 0 0 .7em; }
.invariscope dl.words dt { font-weight: 600; }
.invariscope dl.words dd { margin: 0; color: var(--muted); }
"""

_MEDIUM = """
@container (max-width: 900px) {
  .invariscope .environments th, .invariscope .environments td { padding-left: .45em; padding-right: .45em; }
  .invariscope .environments th:first-child { padding-left: 0; }
  .invariscope .environments th:last-child, .invariscope .environments td:last-child { padding-right: 0; }
  .invariscope .facts dd { font-size: 1em; }
}
"""

#: Environments as cards, one below the other.
_CARDS = """
  .invariscope .environments thead { display: none; }
  .invariscope .environments, .invariscope .environments tbody { display: block; width: 100%; }
  .invariscope .environments tr { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1em; padding: .55em 0;
    border-bottom: 1px solid var(--line); }
  .invariscope .environments th, .invariscope .environments td { border: 0; padding: 0; font-size: .93em;
    text-align: left; }
  .invariscope .environments .name { flex: 1 1 0; font-size: 1em; }
  .invariscope .environments .name span { width: auto; max-width: none; }
  .invariscope .environments .regret { order: 1; font-weight: 600; }
  .invariscope .environments .bar { order: 2; flex: 1 0 100%; width: 100%; margin: .1em 0; }
  .invariscope .environments .other { order: 3; color: var(--muted); white-space: normal; }
  .invariscope .environments .other::before { content: attr(data-label) " "; }
  .invariscope .environments .other small { display: inline; font-size: 1em; }
  .invariscope .environments .other small::before { content: " ("; }
  .invariscope .environments .other small::after { content: ")"; }
"""

_NARROW = f"""
@media screen {{ @container (max-width: 820px) {{ {_CARDS} }} }}
@container (max-width: 660px) {{ {_CARDS}
  .invariscope .wide {{ display: none; }}
  .invariscope .narrow {{ display: block; }}
  .invariscope .narrow svg {{ width: 100%; max-width: 480px; }}
  .invariscope .pair {{ display: block; }}
  .invariscope .pair .narrow svg {{ width: auto; }}
  .invariscope .pair > div {{ display: block; margin-bottom: 1.6em; }}
  .invariscope .stacked .narrow {{ overflow-x: auto; }}
  .invariscope .stacked .narrow svg {{ max-width: none; }}
  .invariscope figure.beside {{ display: block; }}
  .invariscope figure.beside figcaption {{ margin-top: .6em; }}
  .invariscope h1 {{ font-size: 1.25em; }}
  .invariscope .banner {{ padding: .9em 1em; }}
  .invariscope .facts {{ grid-template-columns: 1fr 1fr; }}
  .invariscope .pairs th, .invariscope .pairs td {{ padding-left: .3em; padding-right: .3em; }}
  .invariscope .pairs .name span {{ width: auto; }}
  .invariscope .gap-list .name span {{ max-width: 8em; -webkit-line-clamp: 4; }}
  .invariscope .criteria thead {{ display: none; }}
  .invariscope .criteria, .invariscope .criteria tbody, .invariscope .criteria tr, .invariscope .criteria th,
  .invariscope .criteria td {{ display: block; width: 100%; border: 0; padding: 0; }}
  .invariscope .criteria th:first-child {{ width: 100%; }}
  .invariscope .criteria tr {{ padding: .6em 0; border-bottom: 1px solid var(--line); }}
  .invariscope .criteria .value {{ width: 100%; margin-bottom: .25em; }}
  .invariscope dl.words {{ columns: 1; }}
  .invariscope dl.particulars {{ grid-template-columns: 1fr; gap: 0; }}
  .invariscope dl.particulars dd {{ margin: 0 0 .5em; }}
}}
"""

_PAGE = """
body { margin: 0; background: #ffffff; }
body > .invariscope { max-width: 960px; margin: 0 auto; padding: 0; }
.invariscope .sheet { padding: 26px 28px 10px; }
@container (max-width: 660px) { .invariscope .sheet { padding: 16px 16px 4px; } }
@media (prefers-color-scheme: dark) { body { background: #14181d; } }
@page { margin: 14mm; }
@media print {
  body { background: #ffffff; }
  .invariscope { font-size: 12.5px; }
  .invariscope .sheet { padding: 0; }
  .invariscope th, .invariscope td { padding: .3em .5em; }
  .invariscope section { margin-bottom: 1.6em; }
  .invariscope figure, .invariscope tr, .invariscope .banner { break-inside: avoid; }
  .invariscope h2, .invariscope .kicker { break-after: avoid; }
  .invariscope .scroll { overflow: visible; }
}
"""

#: For notebooks: without rules for the page around it.
FRAGMENT = (
    f".invariscope {{{_LIGHT}}}{_BASE}{_BANNER}{_TABLES}{_MEDIUM}{_NARROW}"
    ".invariscope .sheet { padding: 14px 16px 10px; }"
    f"@media screen and (prefers-color-scheme: dark) {{ .invariscope {{ color-scheme: dark; {_DARK} }} }}"
)
#: For the page. Dark is for screens only: paper is white.
PAGE = FRAGMENT + _PAGE
