"""The one page writer: the little of Markdown that a section's text may have."""

from bellman_diffusion.render.page import Section, write_page


def test_text_has_bold_code_and_lists_and_is_escaped(tmp_path):
    text = "**Look:** 1 < 2 and `x`.\n\n- first\n- **second**"
    page = write_page(tmp_path / "page.html", "T", "bellman", [Section("S", text)]).read_text()
    assert "<p><strong>Look:</strong> 1 &lt; 2 and <code>x</code>.</p>" in page
    assert "<ul><li>first</li><li><strong>second</strong></li></ul>" in page
