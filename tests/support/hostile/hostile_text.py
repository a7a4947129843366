"""Text that attacks whoever shows it, and the search for what of it has arrived in a page."""

from __future__ import annotations

from playwright.sync_api import Page

MARKUP = '<img src=x onerror="window.hacked=1">'
"""A name that the pool accepts."""
HOSTILE = f"{MARKUP}\u202egpj.exe\x1b[31mred\x1b]8;;http://evil\x07link"
"""Markup, a change of direction, colours and a link of a terminal: for unchecked texts."""
SHOWN = f"{MARKUP}gpj.exeredlink"
"""What a page shows of `HOSTILE`."""

FIND = r"""
(within) => {
  const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/;
  const found = window.hacked ? ["a script ran"] : [];
  const shown = ({ name }) => name === "data-tip" || !name.startsWith("data-");
  const look = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.matches("img[src=x]")) found.push(`markup: ${node.outerHTML}`);
      const texts = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE);
      const said = [...[...node.attributes].filter(shown), ...texts];
      const bad = said.filter((part) => CONTROL.test(part.nodeValue));
      for (const part of bad) found.push(`${part.nodeName} of ${node.localName}: ${part.nodeValue}`);
      if (node.shadowRoot) look(node.shadowRoot);
    }
  };
  for (const root of document.querySelectorAll(within)) look(root);
  return found;
}
"""


def expect_only_text(page: Page, within: str = "html") -> None:
    """Check that hostile text below the elements ``within`` is text alone: no element, no script, no control.

    Attributes by which scripts find elements (``data-…``) are not shown to anybody, and have names as they are.
    """
    found = page.evaluate(FIND, within)
    assert found == [], found
