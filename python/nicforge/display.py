"""How notebooks show plans, support and comparisons: HTML in place of a line."""

from html import escape

_BAR = '<div style="background:#4c78a8;height:0.7em;width:{:.0f}%" title="{}"></div>'


def _table(head, rows, title):
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<p>{title}</p><table><tr>{cells}</tr>{lines}</table>"


def plan(own):
    """A plan as a table of stages, with a bar for how near each is to what limits the rate."""
    slowest = min((stage.rate_pps for stage in own.stages), default=1.0)
    rows = [
        (
            escape(stage.name),
            f"{stage.replicas} × {escape(stage.group)}",
            f"{stage.cycles:.0f}",
            f"{stage.rate_pps / 1e6:.2f}",
            _BAR.format(
                100 * slowest / max(stage.rate_pps, 1e-9), "share of the slowest stage's load"
            ),
            escape(", ".join(stage.tables)),
        )
        for stage in own.stages
    ]
    title = (
        f"<b>{escape(own.program)}</b> on {escape(own.target)}: {own.rate_pps / 1e6:.2f} Mpps of "
        f"{own.frame_bytes}-byte frames, limited by {escape(own.limit)}"
    )
    return _table(("stage", "units", "cycles", "Mpps", "load", "tables"), rows, title)


def comparison(own):
    """A comparison's verdict, and what differs."""
    list_ = "".join(f"<li>{escape(one)}</li>" for one in own.differences)
    return f"<p><b>{escape(own.target)}</b> {escape(own.verdict)}</p><ul>{list_}</ul>"


def support(own):
    """A target's answer, with what is missing and where."""
    if own.runs:
        return f"<p><b>{escape(own.target)}</b>: yes</p>"
    why = [f"{one.place}: lacks {one.what}" for one in own.missing]
    why += [text for text in (own.refused, own.remedy) if text]
    list_ = "".join(f"<li>{escape(one)}</li>" for one in why)
    return f"<p><b>{escape(own.target)}</b>: no</p><ul>{list_}</ul>"


def install(native):
    """Gives the compiled classes their form in notebooks."""
    native.Plan._repr_html_ = plan
    native.Comparison._repr_html_ = comparison
    native.Support._repr_html_ = support
