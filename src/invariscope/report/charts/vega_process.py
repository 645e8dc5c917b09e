"""Draws charts in a process of its own: a line with a chart comes in, a line with its SVG goes out.

:mod:`.renderer` starts this file by its path, so that the process imports what draws and nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def drawn(chart: dict[str, Any], version: str) -> str:
    """A Vega-Lite chart as SVG, by the Vega-Lite of this version ("6.4") or, without it, by the newest there is."""
    import vl_convert

    known: list[str] = vl_convert.get_vegalite_versions()
    svg: str = vl_convert.vegalite_to_svg(chart, vl_version=version if version in known else known[-1])
    return svg


def serve() -> None:
    """Answer line by line until nobody asks any more; the first line says where modules are found."""
    sys.path[:] = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(drawn(request["chart"], request["version"])), flush=True)


if __name__ == "__main__":
    serve()
