/** Texts that were typed and not sent: they are kept in the browser's tab, over a reload of the page. */

const PREFIX = "springtide typed ";

/** The kept text of a field by its name; null for none, and where the browser keeps nothing. */
export function typedText(name) {
  try {
    return window.sessionStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Keeps a text as long as its tab is open; null forgets it. */
export function keepTyped(name, text) {
  try {
    if (text === null) window.sessionStorage.removeItem(PREFIX + name);
    else window.sessionStorage.setItem(PREFIX + name, text);
  } catch {
    // A browser that keeps nothing loses the text at a reload.
  }
}
