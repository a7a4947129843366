"""A widget of a notebook on an empty page, without a kernel."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from springtide.widgets import browser_modules

SHOW = """
async ([source, name, traits]) => {
  const widgets = await import(`data:text/javascript;base64,${btoa(unescape(encodeURIComponent(source)))}`);
  const listeners = [];
  window.model = {
    get: (trait) => traits[trait],
    on: (event, listener) => listeners.push([event, listener]),
    off: () => {},
    send: () => {},
    tell: (event, content) => listeners.forEach(([name, listener]) => name === event && listener(content)),
  };
  widgets[name].render({ model: window.model, el: document.body });
}
"""


def show_widget(page: Page, module: str, name: str, traits: dict[str, Any]) -> None:
    """Draw the widget ``name`` of a module of the picture language; `window.model` plays its kernel."""
    page.evaluate(SHOW, [browser_modules.bundle(module), name, traits])
