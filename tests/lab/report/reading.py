"""What tests read of a page: its elements, texts and tables; and a README and explanations to make pages of."""

from __future__ import annotations

from html.parser import HTMLParser

from warpwise.lab.explain.model.explanation import Line
from warpwise.lab.report.explained import Advice, Explained, LaunchExplained

README = (
    "**Floor.** See [the paper](https://example.org/paper) & `copy`.\n\n<!-- measured: small float16 -->\n"
    "| rung | what changes | prediction | measured |\n|---|---|---|---|\n"
    "| `k02_wide` | 16-byte loads | 9 µs: `float4` | 10 µs |\n"
)


class Read(HTMLParser):
    """The elements of a page: attributes by tag, ids, the cells of its tables, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self._raw = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        self._raw = tag in ("script", "style")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.words.append(data)
            if self.rows and self.rows[-1]:
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def explained() -> dict[str, Explained]:
    """k01 limited by DRAM with two lines, k02 not to be explained."""
    lines = (
        Line("/x/k01_naive.cu", 3, "  int i = threadIdx.x;", counters={"stall_cycles": 25, "executed": 10}),
        Line(
            "/x/k01_naive.cu", 4, "", counters={"stall_cycles": 50, "executed": 40, "sectors": 64, "ideal_sectors": 8}
        ),
        Line("/x/pack.cuh", 9, "", counters={"stall_cycles": 25, "executed": 50}),
    )
    hint = Advice("OPT", "uncoalesced <loads>", "8 × the sectors", "Change the order.", 4.0, 4)
    launch = LaunchExplained(
        "affine",
        (4, 1, 1),
        (256, 1, 1),
        32,
        2048,
        0,
        0.5,
        ("registers",),
        "H200 SXM",
        42e-6,
        "DRAM",
        (("DRAM", 40e-6), ("L2", 9e-6)),
        "yes",
        "equal",
        "",
        "",
        (hint,),
        "/x/k01_naive.cu",
        lines,
    )
    at = {"case": "large", "sizes": {"n": 8192}, "dtype": "float32", "target": "sm_90"}
    return {"k01_naive": Explained(**at, launches=(launch,)), "k02_wide": Explained(**at, reason="OutOfBounds: y[<9>]")}
