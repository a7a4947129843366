"""A user without a pointer."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

TRIES = 5
MOST_PARTS = 8
"""The tabulator stops at most as often within one field: a date and time has its numbers and its calendar."""
AWAY = """
(wanted) => {
  const controls = "a[href], button, input, select, textarea, summary, [tabindex]";
  const isReached = (each) => each.tabIndex >= 0 && !each.matches(":disabled") && each.checkVisibility();
  const reached = [...document.querySelectorAll(controls)].filter(isReached);
  return reached.indexOf(wanted) - reached.indexOf(document.activeElement);
}
"""
"""Number of controls from the one with the focus to the wanted one, negative if that comes before it."""
HAS_FOCUS = """
(wanted) => {
  if (document.activeElement !== wanted) return "";
  const { outlineStyle, boxShadow } = getComputedStyle(wanted);
  return outlineStyle === "none" && boxShadow === "none" ? "without a sign of it" : "with a ring";
}
"""


class Keyboard:
    """The keyboard of a page: it goes from one control to the next, and presses the one that has the focus."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def reach(self, control: Locator) -> None:
        """Go to the control with the tabulator; fail if it never has the focus, or does not show it."""
        for _ in range(TRIES):
            expect(control).to_be_enabled()
            away = control.evaluate(AWAY)
            for _ in range(abs(away)):
                self._leave("Tab" if away > 0 else "Shift+Tab")
            if focus := control.evaluate(HAS_FOCUS):
                assert focus == "with a ring", f"{control} has the focus {focus}"
                return
        raise AssertionError(f"the tabulator does not reach {control}")

    def _leave(self, key: str) -> None:
        """Press the tabulator until another control has the focus."""
        left = self._page.evaluate_handle("document.activeElement")
        for _ in range(MOST_PARTS):
            self._page.keyboard.press(key)
            if not left.evaluate("(left) => left === document.activeElement"):
                return

    def press(self, control: Locator, key: str = "Enter") -> None:
        """Go to the control, and press a key."""
        self.reach(control)
        self._page.keyboard.press(key)

    def write(self, control: Locator, text: str) -> None:
        """Go to the field, and replace its text."""
        self.press(control, "Control+a")
        self._page.keyboard.insert_text(text)
