"""A Python-Markdown extension: formulas become MathML when the site is built, so pages need no script.

It replaces what `pymdownx.arithmatex` (generic) marks as TeX.
"""

import html
import re

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


class _MathML(Postprocessor):
    def run(self, text: str) -> str:
        return _FORMULA.sub(_converted, text)


class MathMLExtension(Extension):
    """Converts every formula of a page."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Python-Markdown's name)
        """Run after all other postprocessors, on finished HTML."""
        md.postprocessors.register(_MathML(md), "mathml", -10)


def makeExtension(**options: object) -> MathMLExtension:  # noqa: N802 (Python-Markdown's name)
    """What Python-Markdown calls."""
    return MathMLExtension(**options)


def _converted(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]), display=display)
