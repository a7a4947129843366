"""Notifications that pages show in a browser, which tests see, and pages that are out of sight."""

from __future__ import annotations

import time
from collections.abc import Iterable

from patience import PATIENCE_S
from playwright.sync_api import Page

MORE_THAN_HIDDEN_MS = 31_000
"""Longer than a page that is out of sight follows all events, in milliseconds."""
KEEP_WHAT_IS_SHOWN = """
    const Real = Notification;
    window.Notification = class extends Real {
        constructor(title, options) {
            super(title, options);
            const shown = document.createElement("told-text");
            shown.textContent = `${title} ${options.body}`;
            shown.dataset.tag = options.tag;
            shown.dataset.at = Date.now();
            document.documentElement.append(shown);
            this.shown = shown;
        }
        close() {
            super.close();
            this.shown.remove();
        }
    };
"""
_ON_SCREEN = """[...document.querySelectorAll('told-text')].map(
    (shown) => [Number(shown.dataset.at), shown.dataset.tag, shown.textContent])"""
_HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def set_hidden(page: Page, *, hidden: bool) -> None:
    """Put a page out of sight, or into sight."""
    page.evaluate(_HIDE, hidden)


def on_screen(pages: Iterable[Page]) -> list[str]:
    """Return what a person sees: the latest notification with each tag, of whatever page."""
    shown = sorted(each for page in pages for each in page.evaluate(_ON_SCREEN))
    return list({tag: text for _, tag, text in shown}.values())


def until_on_screen(pages: list[Page], words: str) -> list[str]:
    """Wait for a notification with the words; return all that a person sees then."""
    deadline = time.monotonic() + PATIENCE_S
    shown = on_screen(pages)
    while not any(words in text for text in shown):
        assert time.monotonic() < deadline, shown
        pages[0].wait_for_timeout(100)
        shown = on_screen(pages)
    return shown
