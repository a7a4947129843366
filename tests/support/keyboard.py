"""A user without a pointer."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

MOST_STEPS = 150
REACHED = """
(element) => {
  if (document.activeElement !== element) return "";
  const { outlineStyle, boxShadow } = getComputedStyle(element);
  return outlineStyle === "none" && boxShadow === "none" ? "without a sign of it" : "with a ring";
}
"""


class Keyboard:
    """The keyboard of a page: it goes from one control to the next, and presses the one that has the focus."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def reach(self, control: Locator) -> None:
        """Press the tabulator until the control has the focus; fail if it never does, or does not show it."""
        control.wait_for()
        for _ in range(MOST_STEPS):
            reached = control.evaluate(REACHED)
            if reached:
                assert reached == "with a ring", f"{control} has the focus {reached}"
                return
            self._page.keyboard.press("Tab")
        raise AssertionError(f"the tabulator does not reach {control}")

    def press(self, control: Locator, key: str = "Enter") -> None:
        """Go to the control, and press a key."""
        self.reach(control)
        self._page.keyboard.press(key)

    def write(self, control: Locator, text: str) -> None:
        """Go to the field, and write over what is in it."""
        self.press(control, "Control+a")
        self._page.keyboard.insert_text(text)
