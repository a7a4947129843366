/** Notifications of the browser: one for each event over all open pages, and one for all events of a burst. */

import { burstWords, claimed, GATHERED_MS, MOST_KEPT, NOTHING } from "./visuals/base/bursts.js";
import { clean } from "./visuals/base/words.js";

/** Time in which a page that runs shows its notifications. */
const LONGEST_TURN_MS = 3000;
const EVENT_PAGES = { fault: "pool", workspace: "workspaces", needs: "home", report: "report?period=last-month" };
const JOBS = "?show=all&order=latest";

/** Shows a notification if the user allowed it. Returns it, or null; a later one with the same `tag` takes its place. */
export function notifyHere({ tag, title, text, address }) {
  if (!("Notification" in window) || Notification.permission !== "granted") return null;
  try {
    const notification = new Notification(clean(title), { body: clean(text), tag });
    notification.addEventListener("click", () => {
      window.focus();
      if (address) window.location.assign(address);
      notification.close();
    });
    return notification;
  } catch {
    return null; // browsers of telephones show none of pages
  }
}

/** The notifications of a page, which shares with the other pages of the pool in this browser what each has shown. */
export class BrowserNotices {
  /**
   * @param prefix the address of the pool's pages
   * @param isChosen whether the viewer has chosen events for the browser
   * @param changed called when `areWanted` may have changed, on whatever page
   */
  constructor(prefix, isChosen, changed) {
    Object.assign(this, { prefix, isChosen, changed });
    this.store = `springtide-notices ${prefix}`;
    this.waiting = [];
    this.timer = null;
    this.shown = new Map();
    this.pages = new BroadcastChannel(this.store);
    this.pages.addEventListener("message", ({ data: { replaced, isChosen } }) => {
      if (replaced) this.#close(replaced);
      else this.#take(Boolean(isChosen));
    });
    window.addEventListener("pagehide", () => this.waiting.length && this.#put(this.#taken()));
  }

  /** Whether the viewer has chosen notifications of this browser, and it shows them. */
  areWanted() {
    return this.isChosen && "Notification" in window && Notification.permission === "granted";
  }

  /** Takes a choice of the viewer, for all pages. */
  choose(isChosen) {
    this.#take(isChosen);
    this.pages.postMessage({ isChosen });
  }

  #take(isChosen) {
    this.isChosen = isChosen;
    this.changed();
  }

  hear(notice) {
    this.waiting = [...this.waiting, notice].slice(-MOST_KEPT);
    this.timer ??= setTimeout(() => this.#show(), GATHERED_MS);
  }

  /** Shows what no page has shown; one page at a time looks. */
  async #show() {
    this.timer = null;
    const put = () => this.#put(this.#taken());
    if (!navigator.locks) return put();
    try {
      await navigator.locks.request(this.store, { signal: AbortSignal.timeout(LONGEST_TURN_MS) }, put);
    } catch (error) {
      if (error.name !== "TimeoutError") throw error;
      put(); // the page whose turn it was is frozen
    }
  }

  /** Takes what this page is to show of the notices that it has heard. */
  #taken() {
    const { claim, state } = claimed(this.waiting, Date.now(), stateIn(this.store));
    this.waiting = [];
    try {
      localStorage.setItem(this.store, JSON.stringify(state));
    } catch {
      // without storage, tags alone keep a second page from showing the same notification
    }
    return claim;
  }

  #put({ notices, burst, replaced }) {
    if (burst) this.#showBurst(burst);
    for (const notice of notices) this.#showOne(notice);
    if (!replaced.length) return;
    this.pages.postMessage({ replaced });
    this.#close(replaced);
  }

  #showOne({ id, job, event, title, text }) {
    const page = job ? `jobs/${encodeURIComponent(job)}` : EVENT_PAGES[event];
    this.#keep(id, notifyHere({ tag: id, title, text, address: page && `${this.prefix}${page}` }));
  }

  #showBurst({ began, counts }) {
    const address = `${this.prefix}${pageOfBurst(counts)}`;
    const tag = `springtide-burst-${began}`;
    this.#keep(tag, notifyHere({ tag, title: burstWords(counts), text: "Click to see them.", address }));
  }

  #keep(tag, notification) {
    if (notification !== null) this.shown.set(tag, notification);
    while (this.shown.size > MOST_KEPT) this.shown.delete(this.shown.keys().next().value);
  }

  /** Takes notifications off the screen that a burst has counted. */
  #close(tags) {
    for (const tag of tags) {
      this.shown.get(tag)?.close();
      this.shown.delete(tag);
    }
  }
}

function stateIn(store) {
  try {
    return { ...NOTHING, ...JSON.parse(localStorage.getItem(store)) };
  } catch {
    return NOTHING;
  }
}

/** The page that has all events of a burst. */
function pageOfBurst(counts) {
  const [event, ...others] = Object.keys(counts);
  return (others.length === 0 && EVENT_PAGES[event]) || JOBS;
}
