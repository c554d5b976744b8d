"""Turn TeX into MathML when the site is built: pages show formulas without any script."""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace each formula that arithmatex marked."""

    def replace(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return convert(html.unescape(match[3]), display=display)

    return _FORMULA.sub(replace, content)
